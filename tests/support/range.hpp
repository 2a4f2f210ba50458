// What a correct kernel may hold for one value: an interval of numbers of the compute type, NaN, or both.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace epifuse::test {

/// The type in which a chain is computed.
enum class Compute : std::uint8_t { f32, f64 };

/// `value` rounded to the compute type.
inline double rounded(Compute compute, long double value) noexcept {
  return compute == Compute::f32 ? static_cast<double>(static_cast<float>(value)) : static_cast<double>(value);
}

/// Zeros are told apart: a range of one number has both ends equal to the bit, [-0, +0] holds both zeros.
struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool nan = false;

  static Range of(double value) noexcept {
    Range range;
    range.include(value);
    return range;
  }
  static Range anything() noexcept {
    return {-std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), true};
  }

  bool has_number() const noexcept { return low <= high; }
  bool is_point() const noexcept {
    return !has_number() || (!nan && std::bit_cast<std::uint64_t>(low) == std::bit_cast<std::uint64_t>(high));
  }
  /// Of a point: its value, NaN included.
  double value() const noexcept { return has_number() ? low : std::numeric_limits<double>::quiet_NaN(); }
  bool contains_zero() const noexcept { return low <= 0 && high >= 0; }
  /// Numbers, and all nearer to 0 than `size`.
  bool is_below(double size) const noexcept { return has_number() && low > -size && high < size; }
  bool is_anything() const noexcept { return nan && std::isinf(low) && std::isinf(high) && low < high; }

  static bool below(double a, double b) noexcept { return a < b || (a == b && std::signbit(a) && !std::signbit(b)); }

  void include(double value) noexcept {
    if (std::isnan(value)) {
      nan = true;
      return;
    }
    if (!has_number()) {
      low = high = value;
      return;
    }
    if (below(value, low)) low = value;
    if (below(high, value)) high = value;
  }
  void include(const Range& other) noexcept {
    nan |= other.nan;
    if (!other.has_number()) return;
    include(other.low);
    include(other.high);
  }
};

}  // namespace epifuse::test
