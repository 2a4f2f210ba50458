// How exactly an epilogue is computed.
#pragma once

#include <cstdint>
#include <string_view>

namespace epifuse {

/// What a kernel may compute with (docs/guide/accuracy.md has every operation's error). The CPU device always computes
/// as `precise`.
enum class Math : std::uint8_t {
  precise,  ///< every operation within 2 ulp of f32, whatever a result is stored as
  standard,  ///< cheaper formulas where a result is stored in 16 or 8 bits and stays within 1 ulp of that type; the default
  fast,      ///< the same with 4 ulp of the result's type
};
/// "precise", "standard", "fast"
std::string_view to_string(Math math) noexcept;

}  // namespace epifuse
