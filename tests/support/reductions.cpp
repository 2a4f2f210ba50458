// Error bounds from the analysis of summation in any tree of moderate depth: u is the rounding unit of the compute
// type, n the count.
//   sum    depth * u * sum|x|, none where every partial sum is exact; the ends of the elements' ranges add up
//   prod   (n + 8) * u relative; over- and underflow of partial products let infinities, zeros and NaN in
//   var    of (n, mean, M2) merged by Chan's formula: means are off by a few u * |mean| and enter M2 squared, or
//          linearly times a deviation, so that sqrt(M2) is off by at most kappa * u * sqrt(sum(x^2)). Elements moved
//          by r_i move sqrt(M2) by at most sqrt(sum(r_i^2)). E[x^2] - E[x]^2 is off by u * E[x^2] without the square
//          root, which these bounds do not let pass.
#include "support/reductions.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

namespace epifuse::test {
namespace {

using Real = long double;
constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Arithmetic {
  explicit Arithmetic(Compute type) : compute(type) {}
  Compute compute;
  bool single() const { return compute == Compute::f32; }
  Real unit() const { return single() ? 0x1p-24L : 0x1p-53L; }
  Real tiny() const { return single() ? 0x1p-149L : 0x1p-1074L; }
  Real largest() const { return single() ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max(); }
  int digits() const { return single() ? 24 : 53; }
  // Roundings on the way of one element into a sum of n: of a tree whose leaves add some in a row. In f64 rows may be
  // added one by one: equal elements then round the same way each time.
  Real depth(std::size_t n) const {
    const Real count = static_cast<Real>(std::max<std::size_t>(n, 1));
    return 16 + (single() ? std::log2(count) : std::min<Real>(count, 4096));
  }

  double down(Real value) const {
    const double near = rounded(compute, value);
    return near > value ? step(near, -kInf) : near;
  }
  double up(Real value) const {
    const double near = rounded(compute, value);
    return near < value ? step(near, kInf) : near;
  }

 private:
  double step(double value, double toward) const {
    return single() ? std::nextafter(static_cast<float>(value), static_cast<float>(toward))
                    : std::nextafter(value, toward);
  }
};

// Both zeros where there is one: the sum of -0 starts from +0 in one kernel and not in the next.
Range with_both_zeros(Range range) {
  if (range.has_number() && range.contains_zero()) {
    range.include(-0.0);
    range.include(0.0);
  }
  return range;
}

Range interval(double low, double high, bool nan) {
  Range out;
  out.include(low);
  out.include(high);
  out.nan = nan;
  return out;
}

bool surely_nan(const Range& range) { return !range.has_number(); }

// The exponent of the lowest bit that is set.
int lowest_bit(double value) {
  const int exponent = std::ilogb(value);
  const auto mantissa = static_cast<std::uint64_t>(std::ldexp(std::fabs(value), 52 - exponent));
  return exponent - 52 + std::countr_zero(mantissa);
}

Real log2_of(std::size_t n) { return std::log2(static_cast<Real>(std::max<std::size_t>(n, 1))); }

// A sum before it is rounded to the compute type, and what partial sums may have become.
struct Sum {
  Real low = 0, high = 0;
  bool nan = false, surely_nan = false;
  bool up = false, down = false;                // may be +inf, -inf
  bool surely_up = false, surely_down = false;  // holds such an element
};

// `added`: by additions alone, which may be exact.
Sum sum_of(std::span<const Range> elements, const Arithmetic& arithmetic, bool added, bool rescaled) {
  Sum sum;
  Real positive = 0, negative = 0, slack = 0;
  bool points = added && !rescaled;
  int lowest = std::numeric_limits<int>::max();
  const Real n = static_cast<Real>(elements.size());
  const Real unit = arithmetic.unit();
  for (const Range& x : elements) {
    sum.nan |= x.nan;
    sum.surely_nan |= surely_nan(x);
    if (surely_nan(x)) continue;
    sum.up |= x.high == kInf;
    sum.down |= x.low == -kInf;
    sum.surely_up |= x.low == kInf;
    sum.surely_down |= x.high == -kInf;
    const Real low = std::isinf(x.low) ? 0 : x.low;
    const Real high = std::isinf(x.high) ? 0 : x.high;
    sum.low += low;
    sum.high += high;
    positive += std::max<Real>(high, 0);
    negative += std::max<Real>(-low, 0);
    points = points && x.low == x.high;
    if (points && low != 0) lowest = std::min(lowest, lowest_bit(x.low));
    if (rescaled && high > 0) slack += high * (3 * std::fabs(std::log(high)) + 5 * (8 + log2_of(elements.size())));
  }
  const Real absolute = positive + negative;
  // Multiples of one power of two that stay below its 2^24-fold: no order rounds.
  const bool exact =
      points && (absolute == 0 || absolute <= std::ldexp(1.0L, std::min(lowest, 5000) + arithmetic.digits()));
  const bool untouched = elements.size() < 2 && !rescaled;
  Real error = 0;
  if (!exact && !untouched) {
    error = arithmetic.depth(elements.size()) * unit * absolute + slack * unit + n * arithmetic.tiny();
  }
  sum.low -= error;
  sum.high += error;
  sum.up |= positive + error > arithmetic.largest();
  sum.down |= negative + error > arithmetic.largest();
  sum.nan |= sum.up && sum.down;
  sum.surely_nan |= sum.surely_up && sum.surely_down;
  return sum;
}

// `sum` divided by `divisor`, which is 1 for a sum.
Range quotient(const Sum& sum, Real divisor, Real slack, const Arithmetic& arithmetic) {
  if (sum.surely_nan) return Range::of(kNaN);
  if (sum.surely_up) return interval(kInf, kInf, sum.nan);
  if (sum.surely_down) return interval(-kInf, -kInf, sum.nan);
  const Real low = sum.low / divisor;
  const Real high = sum.high / divisor;
  const double rounded_low = sum.down ? -kInf : arithmetic.down(low - slack * std::fabs(low));
  const double rounded_high = sum.up ? kInf : arithmetic.up(high + slack * std::fabs(high));
  return with_both_zeros(interval(rounded_low, rounded_high, sum.nan));
}

Range mean_of(std::span<const Range> elements, const Arithmetic& arithmetic) {
  if (elements.empty()) return Range::of(kNaN);
  // Beside a variance the mean comes from its merges.
  const Sum sum = sum_of(elements, arithmetic, false, false);
  const Real n = static_cast<Real>(elements.size());
  const bool exact = elements.size() == 1;
  Range out = quotient(sum, n, exact ? 0 : 4 * arithmetic.unit(), arithmetic);
  // A quotient below the normal numbers: one step of the denormal ones.
  if (!exact && out.has_number() && std::fabs(out.low) < 0x1p-120)
    out.include(arithmetic.down(out.low - arithmetic.tiny()));
  if (!exact && out.has_number() && std::fabs(out.high) < 0x1p-120)
    out.include(arithmetic.up(out.high + arithmetic.tiny()));
  return out;
}

// A magnitude as mantissa and exponent, for products beyond every type.
struct Magnitude {
  Real mantissa = 1;
  long exponent = 0;
  void multiply(Real value) {
    int e = 0;
    mantissa = std::frexp(mantissa * value, &e);
    exponent += e;
  }
  Real value() const { return std::ldexp(mantissa, static_cast<int>(std::clamp(exponent, -16'000L, 16'000L))); }
};

Range product_of(std::span<const Range> elements, const Arithmetic& arithmetic) {
  if (elements.empty()) return Range::of(1);
  if (elements.size() == 1) return elements[0];
  Magnitude least, most, above, below;  // `above`: of the factors above 1; `below`: of those below
  bool nan = false, negative = false, unknown_sign = false, infinite = false, zero = false;
  for (const Range& x : elements) {
    if (surely_nan(x)) return Range::of(kNaN);
    nan |= x.nan;
    infinite |= std::isinf(x.low) || std::isinf(x.high);
    zero |= x.contains_zero();
    unknown_sign |= x.low < 0 && x.high > 0;
    negative ^= x.high < 0;
    const Real low = x.contains_zero() ? 0 : std::min(std::fabs(x.low), std::fabs(x.high));
    const Real high = std::max(std::fabs(x.low), std::fabs(x.high));
    least.multiply(std::isinf(low) ? arithmetic.largest() : low);
    most.multiply(std::isinf(high) ? arithmetic.largest() : high);
    above.multiply(std::max<Real>(1, std::isinf(high) ? arithmetic.largest() : high));
    if (low < 1 && low > 0) below.multiply(low);
  }
  const Real slack = static_cast<Real>(elements.size() + 8) * arithmetic.unit();
  const bool overflows = infinite || above.value() * (1 + slack) > arithmetic.largest();
  const bool underflows = below.value() * (1 - slack) < (arithmetic.single() ? 0x1p-126L : 0x1p-1022L);
  nan |= overflows && (zero || underflows);
  double low = arithmetic.down(least.value() * (1 - slack));
  double high = arithmetic.up(most.value() * (1 + slack));
  if (underflows) {
    low = 0;
    // Digits lost in a denormal partial product come back large.
    if (overflows || above.value() > 1) high = std::max(high, arithmetic.up(arithmetic.tiny() * above.value() * 4));
    high = std::max(high, arithmetic.up(arithmetic.tiny()));
  }
  if (overflows) high = kInf;
  Range out;
  out.nan = nan;
  if (unknown_sign || zero || !negative) {
    out.include(low);
    out.include(high);
  }
  if (unknown_sign || zero || negative) {
    out.include(-low);
    out.include(-high);
  }
  return with_both_zeros(out);
}

Range extreme_of(std::span<const Range> elements, bool largest) {
  Range out;
  bool positive = false, negative = false, nan = false;
  for (const Range& x : elements) {
    if (surely_nan(x)) return Range::of(kNaN);
    nan |= x.nan;
    negative |= x.contains_zero() && std::signbit(x.low);
    positive |= x.contains_zero() && !std::signbit(x.high);
    if (!out.has_number()) {
      out.include(x.low);
      out.include(x.high);
    } else {
      out.low = largest ? std::max(out.low, x.low) : std::min(out.low, x.low);
      out.high = largest ? std::max(out.high, x.high) : std::min(out.high, x.high);
    }
  }
  // Which of two zeros is the larger is nobody's promise.
  if ((out.low == 0 || out.high == 0) && positive && negative) out = with_both_zeros(out);
  out.nan = nan;
  return out;
}

Range variance_of(std::span<const Range> elements, double correction, const Arithmetic& arithmetic) {
  const Real n = static_cast<Real>(elements.size());
  const Real divisor = std::max<Real>(n - correction, 0);
  Real mean = 0, largest = 0, radii = 0, squares = 0;
  bool nan = false, infinite = false;
  for (const Range& x : elements) {
    if (surely_nan(x) || (std::isinf(x.low) && x.low == x.high)) return Range::of(kNaN);
    nan |= x.nan;
    infinite |= std::isinf(x.low) || std::isinf(x.high);
    mean += (static_cast<Real>(x.low) + x.high) / 2 / n;
    largest = std::max<Real>(largest, std::max(std::fabs(x.low), std::fabs(x.high)));
  }
  if (infinite) return interval(0, kInf, true);
  if (elements.empty()) return Range::of(kNaN);
  Real deviations = 0;
  for (const Range& x : elements) {
    const Real middle = (static_cast<Real>(x.low) + x.high) / 2;
    const Real radius = (static_cast<Real>(x.high) - x.low) / 2;
    deviations += (middle - mean) * (middle - mean);
    radii += radius * radius;
    squares += middle * middle;
  }
  Real low = 0, high = 0;
  if (elements.size() > 1) {
    const Real kappa = arithmetic.depth(elements.size()) * arithmetic.unit();
    const Real width = std::sqrt(radii) + kappa * std::sqrt(squares);
    const Real least = std::max<Real>(std::sqrt(deviations) - width, 0);
    const Real most = std::sqrt(deviations) + width;
    low = std::max<Real>(least * least * (1 - 4 * kappa) - 4 * n * arithmetic.tiny(), 0);
    high = most * most * (1 + 4 * kappa) + 4 * n * arithmetic.tiny();
  }
  // A mean that overflows makes deviations of infinity, or of NaN.
  const bool overflows = elements.size() > 1 && largest * n * 2 > arithmetic.largest();
  if (divisor == 0) {
    Range out;
    out.nan = nan || overflows || low == 0;
    if (high > 0) out.include(kInf);
    return out;
  }
  const bool too_large = overflows || high * 4 > arithmetic.largest();
  return interval(arithmetic.down(low / divisor),
                  too_large   ? kInf
                  : high == 0 ? 0
                              : arithmetic.up(high / divisor + arithmetic.tiny()),
                  nan || overflows);
}

// any of the elements, or (`all`) none that is false.
Range truth_of(std::span<const Range> elements, bool all) {
  bool surely = false, possibly = false;  // an element that decides
  for (const Range& x : elements) {
    const bool can_be_false = x.has_number() && x.contains_zero();
    const bool can_be_true = x.nan || (x.has_number() && !(x.low == 0 && x.high == 0));
    possibly |= all ? can_be_false : can_be_true;
    surely |= all ? !can_be_true : !can_be_false;
  }
  Range out;
  if (possibly) out.include(all ? 0 : 1);
  if (!surely) out.include(all ? 1 : 0);
  return out;
}

}  // namespace

Range reduce(Reduction reduction, std::span<const Range> elements, double correction, Compute compute, bool rescaled) {
  const Arithmetic arithmetic(compute);
  switch (reduction) {
    case Reduction::sum:
      return quotient(sum_of(elements, arithmetic, true, rescaled), 1, 0, arithmetic);
    case Reduction::mean:
      return mean_of(elements, arithmetic);
    case Reduction::prod:
      return product_of(elements, arithmetic);
    case Reduction::amax:
    case Reduction::amin:
      return extreme_of(elements, reduction == Reduction::amax);
    case Reduction::var:
      return variance_of(elements, correction, arithmetic);
    case Reduction::any:
    case Reduction::all:
      return truth_of(elements, reduction == Reduction::all);
  }
  return Range::anything();
}

}  // namespace epifuse::test
