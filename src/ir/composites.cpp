// The expansions. The order in which values are written down here is the one of the formulas in docs/guide/operations.md:
// who writes the formula gets an equal Program.
#include "ir/composites.hpp"

#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "ir/result_types.hpp"

namespace epifuse::ir {
namespace {

// Calls of the Builder that read like the formulas.
struct Chain {
  Builder& b;

  Value op(Op op, Value x, Value y = kNone, Value z = kNone) const { return b.apply(op, {x, y, z}); }
  Value op(Op op, Value x, double y) const { return b.apply(op, {x, number(y), kNone}); }
  // As one writes it: 1, not 1.0.
  Value number(double value) const { return b.constant(value, Category::integer); }
  Value sum(Value x, const Axes& axes, bool keepdim) const { return b.reduce(Op::sum, x, axes, keepdim); }
  Value amax(Value x, const Axes& axes, bool keepdim) const { return b.reduce(Op::amax, x, axes, keepdim); }

  // (x - mean) * rsqrt(var + eps): what the norms with a mean share.
  Value standardised(Value x, const Axes& axes, double eps) const {
    const Value centred = op(Op::sub, x, b.reduce(Op::mean, x, axes, true));
    const Value variance = b.reduce(Op::var, x, axes, true, 0);
    return op(Op::mul, centred, op(Op::rsqrt, op(Op::add, variance, eps)));
  }
  Value affine(Value x, Value weight, Value bias) const {
    if (weight != kNone) x = op(Op::mul, x, weight);
    return bias != kNone ? op(Op::add, x, bias) : x;
  }
  // A vector of the channels of `x`, where it is there.
  Value channels(Value vector, Value x) const { return vector == kNone ? kNone : b.along(vector, x, 1); }
};

constexpr Axes kSpatial = {{2}, 1, true};  // (2, ...): all behind batch and channel

// The largest, which exp() is shifted by; 0 where that is infinite, since Inf - Inf is NaN.
Value shift(const Chain& c, Value x, const Axes& axes, bool keepdim) {
  const Value largest = c.amax(x, axes, keepdim);
  return c.op(Op::where, c.op(Op::isinf, largest), c.number(0), largest);
}

}  // namespace

Value std_deviation(Builder& b, Value x, const Axes& axes, double correction, bool keepdim) {
  return Chain{b}.op(Op::sqrt, b.reduce(Op::var, x, axes, keepdim, correction));
}

Value norm(Builder& b, Value x, double p, const Axes& axes, bool keepdim) {
  const Chain c{b};
  if (std::isnan(p)) base::fail(ErrorCode::invalid_expression, "'p' of 'norm' is a number, found nan");
  if (p == 2) return c.op(Op::sqrt, c.sum(c.op(Op::square, x), axes, keepdim));
  if (p == 0) return c.sum(c.op(Op::ne, x, 0.0), axes, keepdim);
  const Value size = c.op(Op::abs, x);
  if (p == 1) return c.sum(size, axes, keepdim);
  if (std::isinf(p)) return b.reduce(p > 0 ? Op::amax : Op::amin, size, axes, keepdim);
  return c.op(Op::pow, c.sum(c.op(Op::pow, size, p), axes, keepdim), 1 / p);
}

Value logsumexp(Builder& b, Value x, const Axes& axes, bool keepdim) {
  const Chain c{b};
  const Value z = shift(c, x, axes, true);
  const Value total = c.sum(c.op(Op::exp, c.op(Op::sub, x, z)), axes, keepdim);
  // The maximum a second time for a result without the dimensions: the planner sees that both are one reduction.
  return c.op(Op::add, c.op(Op::log, total), keepdim ? z : shift(c, x, axes, false));
}

Value softmax(Builder& b, Value x, const Axes& axes) {
  const Chain c{b};
  const Value e = c.op(Op::exp, c.op(Op::sub, x, c.amax(x, axes, true)));
  return c.op(Op::div, e, c.sum(e, axes, true));
}

Value log_softmax(Builder& b, Value x, const Axes& axes) {
  const Chain c{b};
  const Value d = c.op(Op::sub, x, c.amax(x, axes, true));
  return c.op(Op::sub, d, c.op(Op::log, c.sum(c.op(Op::exp, d), axes, true)));
}

Value layer_norm(Builder& b, Value x, Value weight, Value bias, double eps, const Axes& axes) {
  const Chain c{b};
  return c.affine(c.standardised(x, axes, eps), weight, bias);
}

Value rms_norm(Builder& b, Value x, Value weight, double eps, const Axes& axes) {
  const Chain c{b};
  const Value mean = b.reduce(Op::mean, c.op(Op::square, x), axes, true);
  return c.affine(c.op(Op::mul, x, c.op(Op::rsqrt, c.op(Op::add, mean, eps))), weight, kNone);
}

Value group_norm(Builder& b, Value x, std::int64_t groups, Value weight, Value bias, double eps) {
  if (groups < 1) base::fail(ErrorCode::invalid_expression, "'groups' of 'group_norm' is at least 1, found {}", groups);
  const Chain c{b};
  const Value grouped = c.standardised(b.unflatten(x, 1, {groups, -1}), kSpatial, eps);
  return c.affine(b.flatten(grouped, 1, 2), c.channels(weight, x), c.channels(bias, x));
}

Value instance_norm(Builder& b, Value x, Value weight, Value bias, double eps) {
  const Chain c{b};
  return c.affine(c.standardised(x, kSpatial, eps), c.channels(weight, x), c.channels(bias, x));
}

Value dropout(Builder& b, Value x, Value p, Value seed, Value offset) {
  const Chain c{b};
  const Node& rate = b.node(p);
  const bool is_constant = rate.op == Op::constant;
  if (is_constant && !(rate.constant >= 0 && rate.constant <= 1)) {
    base::fail(ErrorCode::invalid_expression, "'p' of 'dropout' is a probability, from 0 to 1; found {}",
               print_number(rate.constant));
  }
  // Numbers are multiples of 2^-24. The rate is taken to the next one, which f32 and f64 both hold, so that both drop the same elements.
  const Value least =
      is_constant ? b.constant(std::ldexp(std::ceil(std::ldexp(rate.constant, 24)), -24), category_of(rate.dtype)) : p;
  const Value draw = b.rand_like(x, seed, offset);
  // Everything is dropped at p = 1: without the condition the gradient would be 0 * Inf.
  const Value scale =
      c.op(Op::where, c.op(Op::lt, p, 1.0), c.op(Op::div, c.number(1), c.op(Op::sub, c.number(1), p)), c.number(0));
  return c.op(Op::where, c.op(Op::ge, draw, least), c.op(Op::mul, x, scale), c.number(0));
}

Value normalize(Builder& b, Value x, double p, const Axes& axes, double eps) {
  const Chain c{b};
  return c.op(Op::div, x, c.op(Op::maximum, norm(b, x, p, axes, true), eps));
}

}  // namespace epifuse::ir
