// libFuzzer's entry: one executable per target, chosen when it is built.
#include "fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(  // NOLINT(readability-identifier-naming): libFuzzer's name
    const std::uint8_t* data, std::size_t size) {
  epifuse::fuzz::EPIFUSE_FUZZ_TARGET({data, size});
  return 0;
}
