// Checks of CUDA runtime calls, and the description of device 0.
#include "common/gpu.hpp"

#include <cstring>

namespace examples {
namespace {

/// 13000 is CUDA 13.0.
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

/// CUDA's words, asked for once; empty where there is a GPU.
const std::string& why_no_gpu() {
  static const std::string words = [] {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) return std::string(cudaGetErrorString(status));
    return std::string(count == 0 ? "no device" : "");
  }();
  return words;
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Failure(std::string(what) + " failed: CUDA reports \"" + cudaGetErrorString(status) + "\" (" +
                cudaGetErrorName(status) + ")");
}

bool has_gpu() { return why_no_gpu().empty(); }

Gpu no_gpu() {
  int runtime = 0;
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  return {.name = "CPU device (" + why_no_gpu() + ")", .driver = "none", .runtime = cuda_version(runtime)};
}

void copy(void* to, const void* from, std::size_t bytes, const char* what) {
  if (!has_gpu()) {
    std::memcpy(to, from, bytes);
  } else {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), what);
  }
}

Gpu require_gpu() {
  if (!has_gpu()) {
    throw Failure("this example needs an NVIDIA GPU, and CUDA reports \"" + why_no_gpu() +
                  "\"; the quickstart runs without one");
  }
  check(cudaSetDevice(0), "making device 0 current");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the properties of device 0");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "reading the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  return {properties.name, cuda_version(driver), cuda_version(runtime),
          static_cast<std::size_t>(properties.l2CacheSize)};
}

}  // namespace examples
