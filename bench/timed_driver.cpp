// NVIDIA's driver with a clock around cuLaunchKernel: what of a call is the driver's launch, and what is not.
// bench/python_overhead.py builds it and names it in EPIFUSE_LIBCUDA; all other functions are found in libcuda.so.1,
// which it needs.
#include <dlfcn.h>

#include <chrono>
#include <cstddef>

namespace {

using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                       void**);

// Of the thread that measures, the only one.
double spent_us = 0;
std::size_t launches = 0;

}  // namespace

extern "C" int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                              unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream,
                              void** parameters, void** extra) {
  static const auto launch = reinterpret_cast<Launch>(::dlsym(RTLD_NEXT, "cuLaunchKernel"));
  const auto begin = std::chrono::steady_clock::now();
  const int result =
      launch(function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra);
  spent_us += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
  ++launches;
  return result;
}

/// Microseconds inside cuLaunchKernel since the last question, and how often it was called.
extern "C" double timed_driver_spent_us(std::size_t* count) {
  const double spent = spent_us;
  *count = launches;
  spent_us = 0;
  launches = 0;
  return spent;
}
