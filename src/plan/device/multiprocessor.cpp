// The table: CUDA C++ Programming Guide, technical specifications per compute capability.
#include "plan/device/multiprocessor.hpp"

#include <array>

namespace epifuse::plan {
namespace {

constexpr std::array<Multiprocessor, 8> kMultiprocessors = {{{75, 1024, 16, 65'536},
                                                             {80, 2048, 32, 167'936},
                                                             {86, 1536, 16, 102'400},
                                                             {87, 1536, 16, 167'936},
                                                             {89, 1536, 24, 102'400},
                                                             {90, 2048, 32, 233'472},
                                                             {110, 1536, 24, 233'472},
                                                             {120, 1536, 24, 102'400}}};

}  // namespace

const Multiprocessor& multiprocessor_of(int architecture) noexcept {
  const Multiprocessor* found = kMultiprocessors.data();
  for (const Multiprocessor& row : kMultiprocessors) {
    if (row.architecture <= architecture) found = &row;
  }
  return *found;
}

}  // namespace epifuse::plan
