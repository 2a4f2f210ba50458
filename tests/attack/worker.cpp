// The process under attack: it gets kernels through jit::Compiler, checks every image, and prints one line of JSON.
// attack.py starts it, many at once, with the fake NVRTC and the layer of interpose.cpp. EPIFUSE_CACHE_DIR says where.
//   worker get FIRST COUNT        the kernels FIRST … FIRST+COUNT-1, once standard input ends: all processes start at
//                                 once
//   worker faults ERRNOS          every call of a miss, a store and a hit is struck with each deed: kill, tear, short
//                                 or an errno
//   worker kills COUNT SEED       a process that stores and evicts is killed at COUNT random instants
//   worker corrupt COUNT SEED     COUNT damaged entries of all kinds: each must be noticed and replaced
//   worker bound SECONDS          eight processes store more than the limit; hits list no directory
#include "worker.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>

#include "jit/nvrtc.hpp"

namespace attack {

namespace {

// As many as there are, from one file to another: the start of all processes at once.
void wait_for_start() {
  char byte = 0;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
}

Json get(unsigned first, unsigned count) {
  epifuse::jit::locate_nvrtc();
  wait_for_start();
  const auto start = std::chrono::steady_clock::now();
  epifuse::jit::Compiler compiler;
  std::uint64_t wrong = 0;
  std::string images;
  const bool fake = std::getenv("ATTACK_REAL") == nullptr;
  for (unsigned kernel = first; kernel < first + count; ++kernel) {
    const auto image = compiler.get_for_device(kernel_source(kernel), "attack", kArchitecture);
    wrong += fake && image->bytes != fake_image(kernel_source(kernel), kFakeTarget);
    images += image->bytes;
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const epifuse::jit::CompilerStats stats = compiler.stats();
  return {{"wrong", wrong},
          {"images", to_string(epifuse::jit::digest_of({images}))},
          {"compiles", stats.compiles},
          {"disk_hits", stats.disk_hits},
          {"rejected", stats.rejected},
          {"vain_waits", stats.vain_waits},
          {"saved_ms", stats.saved_ms},
          {"seconds", spent.count()}};
}

unsigned number(const char* text) { return static_cast<unsigned>(std::strtoul(text, nullptr, 10)); }

Json perform(const std::string& what, const std::vector<const char*>& arguments) {
  if (what == "get" && arguments.size() == 2) return get(number(arguments[0]), number(arguments[1]));
  if (what == "faults") {
    std::vector<int> errors;
    for (const char* error : arguments) errors.push_back(static_cast<int>(number(error)));
    return faults(errors);
  }
  if (what == "kills" && arguments.size() == 2) return kills(number(arguments[0]), number(arguments[1]));
  if (what == "corrupt" && arguments.size() == 2) return corrupt(number(arguments[0]), number(arguments[1]));
  if (what == "bound" && arguments.size() == 1) return bound(number(arguments[0]));
  throw std::runtime_error("worker: unknown attack " + what);
}

}  // namespace
}  // namespace attack

int main(int argc, char** argv) {
  try {
    if (argc < 2) throw std::runtime_error("worker: no attack named");
    std::cout << attack::perform(argv[1], {argv + 2, argv + argc}).dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
