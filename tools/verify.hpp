// Compares results with the CPU device on samples: boxes of the output, computed again from the operands' matching
// parts.
#pragma once

#include <cstdint>

#include "execute.hpp"

namespace epifuse::tool {

struct Verification {
  std::uint64_t checked = 0;    ///< elements, all results together
  std::uint64_t different = 0;  ///< of these, further from the CPU device's value than rounding explains
  double worst = 0;             ///< the largest difference, relative to the largest value nearby

  /// A few elements may lie on different sides of a comparison or a rounding boundary.
  bool passed() const noexcept { return different * 10'000 <= checked; }
};

/// Checks the first, the last and random boxes (everything, if it is small enough).
Verification verify(const Task& task, const HostData& data, std::uint64_t seed);

}  // namespace epifuse::tool
