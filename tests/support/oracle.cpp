// Range arithmetic over the definitions: an operation is evaluated at the ends of its arguments, at zeros and turning
// points between them, and at NaN where an argument may be NaN; shapes that are not monotone in between have a bound of
// their own.
#include "support/oracle.hpp"

#include <algorithm>
#include <cstdio>
#include <numbers>

#include "support/storage.hpp"

namespace epifuse::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

double largest_finite(Compute compute) {
  return compute == Compute::f32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

double next(double value, double toward, Compute compute) {
  return compute == Compute::f32 ? std::nextafter(static_cast<float>(value), static_cast<float>(toward))
                                 : std::nextafter(value, toward);
}

long double unit(long double value, Compute compute) {
  return spacing(compute == Compute::f32 ? DType::f32 : DType::f64, value);
}

// All numbers of the compute type within `ulps` of the real value.
Range around(long double real, const Definition& definition, Compute compute) {
  if (std::isnan(real) || std::isinf(real) || real == 0) return Range::of(static_cast<double>(real));
  const long double width = ulps(definition, compute) * unit(real, compute);
  Range range;
  double low = rounded(compute, real - width);
  if (low < real - width) low = next(low, kInf, compute);
  double high = rounded(compute, real + width);
  if (high > real + width) high = next(high, -kInf, compute);
  // One step beyond the largest number is infinity.
  const long double overflow = largest_finite(compute) + unit(largest_finite(compute), compute);
  if (real + width >= overflow) high = kInf;
  if (real - width <= -overflow) low = -kInf;
  if (real > overflow + width) low = kInf;
  if (real < -overflow - width) high = -kInf;
  // No correct function leaves its range or changes its sign.
  if (real > 0) low = std::max(low, 0.0);
  if (real < 0) high = std::min(high, -0.0);
  if (real >= definition.lowest) low = std::max(low, definition.lowest);
  if (real <= definition.highest) high = std::min(high, definition.highest);
  range.include(low);
  range.include(high);
  return range;
}

Range at_point(const Definition& d, const std::array<double, 3>& a, Compute compute) {
  if (!d.is_exact()) {
    Range range = around(d.real(a[0], a[1], a[2]), d, compute);
    if (d.either_zero && range.contains_zero()) range.include(Range{-0.0, 0.0, false});
    return range;
  }
  const double value =
      compute == Compute::f32
          ? static_cast<double>(d.exact32(static_cast<float>(a[0]), static_cast<float>(a[1]), static_cast<float>(a[2])))
          : d.exact64(a[0], a[1], a[2]);
  Range range = Range::of(value);
  if (d.either_zero && value == 0) {
    bool negative = false;
    bool positive = d.zero_operand;
    for (int i = 0; i < d.arity; ++i) {
      if (a[static_cast<std::size_t>(i)] != 0) continue;
      (std::signbit(a[static_cast<std::size_t>(i)]) ? negative : positive) = true;
    }
    if (negative && positive) range.include(Range{-0.0, 0.0, false});
  }
  return range;
}

// The points of one argument at which an operation that is monotone in between takes its extremes.
class Corners {
 public:
  Corners(const Range& range, std::span<const double> turning, Compute compute) {
    if (range.nan) add(std::numeric_limits<double>::quiet_NaN());
    if (!range.has_number()) return;
    add(range.low);
    if (range.is_point() && !range.nan) return;
    add(range.high);
    // Beside an infinite end, where the function may be NaN: its limit.
    if (range.low == -kInf && range.high > -kInf) add(std::max(-largest_finite(compute), -kInf));
    if (range.high == kInf && range.low < kInf) add(largest_finite(compute));
    if (range.low < range.high && range.contains_zero()) {
      add(-0.0);
      add(0.0);
      // Beside zero, where the function may be NaN or jump: leaky_relu with an infinite slope.
      if (range.low < 0) add(next(-0.0, -kInf, compute));
      if (range.high > 0) add(next(0.0, kInf, compute));
    }
    for (const double transpose : turning) {
      if (transpose > range.low && transpose < range.high) add(transpose);
    }
  }
  const double* begin() const { return points_.data(); }
  const double* end() const { return points_.data() + size_; }

 private:
  void add(double point) { points_[size_++] = point; }
  std::array<double, 16> points_{};
  std::size_t size_ = 0;
};

using Args = std::array<Range, 3>;

bool all_points(const Definition& d, const Args& args) {
  return std::all_of(args.begin(), args.begin() + d.arity, [](const Range& range) { return range.is_point(); });
}

Range over_corners(const Definition& d, const Args& args, std::span<const double> turning, Compute compute) {
  const auto corners = [&](int i) {
    return Corners(i < d.arity ? args[static_cast<std::size_t>(i)] : Range::of(0),
                   i == 0 ? turning : std::span<const double>(), compute);
  };
  const Corners first = corners(0), second = corners(1), third = corners(2);
  Range out;
  for (const double a : first) {
    for (const double b : second) {
      for (const double c : third) out.include(at_point(d, {a, b, c}, compute));
    }
  }
  return out;
}

Range bound_wave(const Definition& d, const Args& args, Compute compute) {
  Range out = over_corners(d, args, {}, compute);
  const Range& x = args[0];
  if (x.is_point() || !x.has_number()) return out;
  if (!(x.high - x.low < 3) || std::fabs(x.low) > 1e6) {
    out.include(-1);
    out.include(1);
    return out;
  }
  // Extremes at multiples of pi (cos) or half a period beside them (sin).
  constexpr long double kPi = std::numbers::pi_v<long double>;
  const long double shift = d.name == "sin" ? 0.5L : 0;
  const auto first = static_cast<long>(std::ceil(x.low / kPi - shift - 1e-9L));
  const auto last = static_cast<long>(std::floor(x.high / kPi - shift + 1e-9L));
  for (long k = first; k <= last; ++k) out.include(k % 2 == 0 ? 1 : -1);
  return out;
}

Range bound_power(const Definition& d, const Args& args, Compute compute) {
  const Range& base = args[0];
  const Range& exponent = args[1];
  const bool whole = exponent.is_point() && exponent.has_number() && std::nearbyint(exponent.low) == exponent.low;
  const bool simple = (!base.nan && !exponent.nan && base.low > 0) || (whole && !base.nan);
  return simple ? over_corners(d, args, {}, compute) : Range::anything();
}

Range bound_modulo(const Definition& d, const Args& args, Compute compute) {
  const Range& a = args[0];
  const Range& b = args[1];
  Range out;
  out.nan = a.nan || b.nan || !a.has_number() || !b.has_number() || std::isinf(a.low) || std::isinf(a.high) ||
            b.contains_zero();
  if (!a.has_number() || !b.has_number()) return out;
  if (b.is_point() && !out.nan && a.high - a.low < std::fabs(b.low)) {
    const Range low = at_point(d, {a.low, b.low, 0}, compute);
    const Range high = at_point(d, {a.high, b.low, 0}, compute);
    // Less than one period, and the ends in order: no jump lies between (and none at a change of sign).
    if (low.low <= high.low && !a.contains_zero()) {
      out.include(low);
      out.include(high);
      return out;
    }
  }
  const double most = std::max(std::fabs(b.low), std::fabs(b.high));
  out.include(-most);
  out.include(most);
  return out;
}

Range bound_equality(const Definition& d, const Args& args, Compute compute) {
  Range out = over_corners(d, args, {}, compute);
  const bool meet =
      args[0].has_number() && args[1].has_number() && args[0].low <= args[1].high && args[1].low <= args[0].high;
  if (meet && !all_points(d, args)) {
    out.include(0);
    out.include(1);
  }
  return out;
}

Range bound_threshold(const Definition& d, const Args& args, Compute compute) {
  // Right above the threshold the result jumps from `value` to the input.
  const std::array<double, 1> jump = {args[1].has_number() ? next(args[1].low, kInf, compute) : kInf};
  return over_corners(d, args, jump, compute);
}

Range bound_softplus(const Definition& d, Args args, Compute compute) {
  // Where beta * input may be on either side of the threshold (also by the rounding of the product), both formulas may
  // apply.
  const auto has = [](const Range& r) { return r.has_number() && !r.nan; };
  // An infinite beta is 0 * inf or inf / inf somewhere; below 2^-30 the library promises nothing
  // (docs/guide/accuracy.md).
  const auto strange = [](double beta) { return std::isinf(beta) || std::fabs(beta) < 0x1p-30; };
  if (!has(args[1]) || strange(args[1].low) || strange(args[1].high) || (args[1].contains_zero()))
    return Range::anything();
  Range product;
  if (has(args[0])) {
    for (const double x : {args[0].low, args[0].high}) {
      for (const double beta : {args[1].low, args[1].high}) product.include(x * beta);
    }
    if (args[0].contains_zero() || args[1].contains_zero()) product.include(0);
  }
  if (!has(product) || !has(args[2]))
    return all_points(d, args) ? over_corners(d, args, {}, compute) : Range::anything();
  const auto slack = [&](double v) { return std::isinf(v) ? 0 : static_cast<double>(unit(v, compute)); };
  const bool formula = product.low - slack(product.low) <= args[2].high;
  const bool identity = product.high + slack(product.high) > args[2].low;
  const bool overflows = std::max(std::fabs(product.low), std::fabs(product.high)) > largest_finite(compute);
  const bool close = !all_points(d, args) || overflows || std::fabs(product.low - args[2].low) <= slack(product.low);
  if ((formula && identity && close) || (overflows && std::isinf(args[2].low))) {
    args[2].include(-kInf);
    args[2].include(kInf);
  }
  Range out = over_corners(d, args, {}, compute);
  // PyTorch's formula overflows where exp does, which a large threshold lets happen.
  const double edge = compute == Compute::f32 ? 88 : 709;
  if (formula && product.high > edge) out.include(args[1].high < 0 ? -kInf : kInf);
  return out;
}

Range bound_celu(const Definition& d, const Args& args, Compute compute) {
  const Range& alpha = args[1];
  // PyTorch refuses 0; the library promises nothing for negative numbers (docs/guide/accuracy.md).
  const bool usual = alpha.has_number() && !alpha.nan && alpha.low > 0 && !std::isinf(alpha.high);
  if (!usual) return Range::anything();
  Range out = over_corners(d, args, {}, compute);
  // In f64, where nothing is promised: input / alpha below the normal numbers loses digits that alpha does not bring
  // back.
  const double x = args[0].low;
  if (compute == Compute::f64 && x < 0 && -x < std::numeric_limits<double>::min() * alpha.high) {
    out.include(-0.0);
    out.include(2 * x);
  }
  return out;
}

// 0 * inf between the ends of two ranges.
bool product_may_be_nan(const Args& args) {
  const auto infinite = [](const Range& r) { return r.has_number() && (std::isinf(r.low) || std::isinf(r.high)); };
  return (args[0].contains_zero() && infinite(args[1])) || (args[1].contains_zero() && infinite(args[0]));
}

Range bound_monotone(const Definition& d, const Args& args, Compute compute) {
  Range out = over_corners(d, args, d.turning, compute);
  if ((d.name == "mul" || d.name == "fma") && product_may_be_nan(args)) out.nan = true;
  if (d.name == "leaky_relu" && product_may_be_nan(args)) out.nan = true;
  // elu(0, alpha=inf) is inf * 0 in the formula and 0 in PyTorch.
  if (d.name == "elu" && args[0].contains_zero() &&
      (args[1].nan || std::isinf(args[1].low) || std::isinf(args[1].high))) {
    out.nan = true;
    out.include(-0.0);
    out.include(0.0);
  }
  return out;
}

}  // namespace

Slack slack_of(DType result, Compute compute) noexcept {
  if (compute == Compute::f64) return {};
  switch (result) {
    case DType::f16:
      return {0x1p-13, 0x1p-36};
    case DType::bf16:
      return {0x1p-10, 0x1p-117};
    case DType::f8e4m3:
      return {0x1p-6, 0x1p-21};
    case DType::f8e5m2:
      return {0x1p-5, 0x1p-28};
    case DType::i8:
    case DType::u8:
      return {0x1p-10, 0x1p-12};  // what the coarsest formula errs: a quarter of 1 in all
    default:
      return {};
  }
}

bool has_cheaper_form(const Definition& definition) {
  return !definition.is_exact() || definition.name == "div" || definition.name == "sqrt" ||
         definition.name == "reciprocal";
}

namespace {
Range loosened(Range range, const Slack& slack) {
  if (slack.relative == 0 || !range.has_number()) return range;
  const auto moved = [&](double value, double sign) {
    if (std::isinf(value)) return value;
    const double by = slack.relative * std::max(std::fabs(value), slack.floor);
    return static_cast<double>(static_cast<float>(value + sign * by));
  };
  const Range given = range;
  range.include(moved(given.low, -1));
  range.include(moved(given.high, 1));
  const double zeroed = std::max(slack.floor, 0x1p-117);
  if (given.low < zeroed && given.high > -zeroed) {
    range.include(0.0);
    range.include(-0.0);
  }
  return range;
}
}  // namespace

Compute compute_type(const Chain& chain, std::span<const DType> inputs, std::span<const DType> outputs) noexcept {
  const auto is_wide_integer = [](DType type) {
    return type == DType::i32 || type == DType::u32 || type == DType::i64;
  };
  bool wide_in = false;
  std::vector<char> constant;  // by step: what the chain's author computed, which no kernel does
  for (const Step& step : chain.steps) {
    const bool folded = !step.is_shaping() && std::ranges::all_of(step.args, [&](int arg) {
      return constant[static_cast<std::size_t>(arg)] != 0;
    });
    constant.push_back(step.kind == Step::Kind::constant || (folded && !step.args.empty()) ? 1 : 0);
    if (step.kind == Step::Kind::cast && step.dtype == DType::f64 && constant.back() == 0) return Compute::f64;
    if (step.kind != Step::Kind::input) continue;
    const DType type = inputs[static_cast<std::size_t>(step.ordinal)];
    if (type == DType::f64) return Compute::f64;
    wide_in = wide_in || is_wide_integer(type);
  }
  return wide_in && std::ranges::any_of(outputs, is_wide_integer) ? Compute::f64 : Compute::f32;
}

double load(DType type, const void* element, Compute compute) noexcept {
  return rounded(compute, decode(type, element));
}

namespace {
Range apply_exactly(const Definition& definition, std::span<const Range> given, Compute compute) {
  Args args;
  std::copy(given.begin(), given.end(), args.begin());
  if (definition.shape != Shape::softplus && definition.shape != Shape::celu && all_points(definition, args)) {
    if (definition.name == "elu") return bound_monotone(definition, args, compute);
    return over_corners(definition, args, {}, compute);
  }
  switch (definition.shape) {
    case Shape::wave:
      return bound_wave(definition, args, compute);
    case Shape::power:
      return bound_power(definition, args, compute);
    case Shape::modulo:
      return bound_modulo(definition, args, compute);
    case Shape::equality:
      return bound_equality(definition, args, compute);
    case Shape::threshold:
      return bound_threshold(definition, args, compute);
    case Shape::softplus:
      return bound_softplus(definition, args, compute);
    case Shape::celu:
      return bound_celu(definition, args, compute);
    case Shape::monotone:
      break;
  }
  return bound_monotone(definition, args, compute);
}
}  // namespace

Range apply(const Definition& definition, std::span<const Range> given, Compute compute, const Slack& slack) {
  const Range range = apply_exactly(definition, given, compute);
  return has_cheaper_form(definition) ? loosened(range, slack) : range;
}

Oracle::Oracle(const Chain& chain, Compute compute, std::span<const double> scalars, const Slack& slack)
    : chain_(chain),
      compute_(compute),
      slack_(slack),
      is_constant_(chain.steps.size(), 0),
      values_(chain.steps.size()),
      results_(chain.results.size()) {
  for (const double scalar : scalars) scalars_.push_back(rounded(compute, scalar));
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Step& step = chain.steps[i];
    const bool leaf = step.args.empty();
    const bool constant_args =
        std::ranges::all_of(step.args, [&](int arg) { return is_constant_[static_cast<std::size_t>(arg)] != 0; });
    is_constant_[i] = leaf ? step.kind == Step::Kind::constant : constant_args;
    if (is_constant_[i] != 0) values_[i] = step_value(step, {}, Compute::f64);
  }
}

std::span<const Range> Oracle::evaluate(std::span<const double> inputs) {
  for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
    if (is_constant_[i] == 0) values_[i] = step_value(chain_.steps[i], inputs, compute_);
  }
  for (std::size_t i = 0; i < results_.size(); ++i) {
    results_[i] = value_as(chain_.results[i], compute_);
  }
  return results_;
}

bool Oracle::has_function_below(double size) const {
  for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
    const Step& step = chain_.steps[i];
    const bool is_function = step.kind == Step::Kind::op && has_cheaper_form(*step.definition);
    if (is_function && values_[i].is_below(size) && !(values_[i].low == 0 && values_[i].high == 0)) return true;
  }
  return false;
}

namespace {
// A monotone function of a range.
template <class F>
Range mapped(const Range& range, F f) {
  Range out;
  if (range.nan) out.include(f(std::numeric_limits<double>::quiet_NaN()));
  if (range.has_number()) {
    out.include(f(range.low));
    out.include(f(range.high));
  }
  return out;
}

// A truth value between two numbers of which neither is zero may still be false.
Range truth_of(const Range& range) {
  Range out = mapped(range, [](double v) { return v != 0 ? 1.0 : 0.0; });
  if (range.has_number() && range.contains_zero()) out.include(0);
  if (range.has_number() && range.low < range.high && range.contains_zero()) out.include(1);
  return out;
}

// Of f8e8m0, which has NaN for negative numbers and for what rounds beyond 2^127.
Range scale_of(const Range& range) {
  Range out;
  out.nan = range.nan || (range.has_number() && (range.low < 0 || range.high >= 0x1.8p127));
  if (!range.has_number() || range.high < 0 || range.low >= 0x1.8p127) return out;
  out.include(static_cast<double>(stored(DType::f8e8m0, std::max(range.low, 0.0))));
  out.include(static_cast<double>(stored(DType::f8e8m0, std::min(range.high, 0x1p127))));
  return out;
}
}  // namespace

Range cast_to(DType dtype, const Range& value, Compute compute) {
  if (dtype == DType::boolean) return truth_of(value);
  if (dtype == DType::f8e8m0) return scale_of(value);
  return mapped(value, [&](double v) { return rounded(compute, stored(dtype, v)); });
}

Range truth_of_constant(const Range& value) { return truth_of(value); }

// A constant is rounded where it meets anything that is none.
Range Oracle::value_as(int step, Compute compute) const {
  const Range& value = values_[static_cast<std::size_t>(step)];
  if (is_constant_[static_cast<std::size_t>(step)] == 0) return value;
  return mapped(value, [&](double v) { return rounded(compute, v); });
}

Range Oracle::step_value(const Step& step, std::span<const double> inputs, Compute compute) const {
  switch (step.kind) {
    case Step::Kind::input:
      return Range::of(inputs[static_cast<std::size_t>(step.ordinal)]);
    case Step::Kind::scalar:
      return Range::of(scalars_[static_cast<std::size_t>(step.ordinal)]);
    case Step::Kind::constant:
      return Range::of(step.constant);
    case Step::Kind::cast:
      return cast_to(step.dtype, value_as(step.args[0], compute), compute);
    default:
      break;
  }
  std::array<Range, 3> args;
  for (std::size_t i = 0; i < step.args.size(); ++i) {
    const auto arg = static_cast<std::size_t>(step.args[i]);
    const bool truth = step.definition->kinds[i] == 'b' && is_constant_[arg] != 0;
    args[i] = truth ? truth_of_constant(values_[arg]) : value_as(step.args[i], compute);
  }
  return apply(*step.definition, std::span(args.data(), step.args.size()), compute,
               compute == compute_ ? slack_ : Slack{});
}

bool accepts(const Range& range, DType type, const void* element, int ulps) noexcept {
  const long double found = decode(type, element);
  if (type == DType::f8e8m0) {
    const Range scale = scale_of(range);
    if (std::isnan(found)) return scale.nan;
    return scale.has_number() && std::ldexp(scale.low, -ulps) <= found && found <= std::ldexp(scale.high, ulps);
  }
  bool good = false;
  if (range.nan) {
    const long double expected = stored(type, std::numeric_limits<double>::quiet_NaN());
    good = std::isnan(expected) ? std::isnan(found) : found == expected;
  }
  if (good || !range.has_number()) return good;
  const long double low = stored(type, range.low);
  const long double high = stored(type, range.high);
  if (ulps > 0 && std::isfinite(found)) {
    const auto width = [&](long double value) { return ulps * (is_floating(type) ? spacing(type, value) : 1); };
    if (low - width(low) <= found && found <= high + width(high)) return true;
  }
  if (range.is_point()) return found == low && std::signbit(found) == std::signbit(low);
  // Between two numbers that are true may lie one that is false, and beside a false one one that is true.
  if (type == DType::boolean) return found == (range.contains_zero() ? 0 : 1) || found == low || found == high;
  return low <= found && found <= high;
}

std::string describe(const Range& range, DType type) {
  char text[160];
  std::string out;
  if (range.has_number() && range.is_point()) {
    std::snprintf(text, sizeof text, "%.21Lg", stored(type, range.low));
    out = text;
  } else if (range.has_number()) {
    std::snprintf(text, sizeof text, "[%.21Lg, %.21Lg]", stored(type, range.low), stored(type, range.high));
    out = text;
  }
  if (range.nan) out += out.empty() ? "nan" : " or nan";
  return out;
}

std::string describe_element(DType type, const void* element) {
  char text[64];
  std::snprintf(text, sizeof text, "%.21Lg", decode(type, element));
  return text;
}

}  // namespace epifuse::test
