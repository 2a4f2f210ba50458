// The expansions. The order in which values are written down here is the one of the formulas in
// docs/guide/operations.md: who writes the formula gets an equal Program.
#include "ir/composites.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <vector>

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
  // Numbers are multiples of 2^-24. The rate is taken to the next one, which f32 and f64 both hold, so that both drop
  // the same elements.
  const Value least =
      is_constant ? b.constant(std::ldexp(std::ceil(std::ldexp(rate.constant, 24)), -24), category_of(rate.dtype)) : p;
  const Value draw = b.rand_like(x, seed, offset);
  // Everything is dropped at p = 1: without the condition the gradient would be 0 * Inf.
  const Value scale =
      c.op(Op::where, c.op(Op::lt, p, 1.0), c.op(Op::div, c.number(1), c.op(Op::sub, c.number(1), p)), c.number(0));
  return c.op(Op::where, c.op(Op::ge, draw, least), c.op(Op::mul, x, scale), c.number(0));
}

namespace {

// The numbers of a type that values are quantised to.
struct NarrowType {
  DType dtype;
  double largest;        // finite value
  double largest_power;  // of two
};
constexpr NarrowType kNarrowTypes[] = {{DType::f8e4m3, 448, 256},
                                       {DType::f8e5m2, 57344, 32768},
                                       {DType::i8, 127, 64},
                                       {DType::f4e2m1, 6, 4},
                                       {DType::i4, 7, 4}};

const NarrowType& narrow_type(DType dtype) {
  const auto* const found = std::ranges::find(kNarrowTypes, dtype, &NarrowType::dtype);
  if (found == std::end(kNarrowTypes)) {
    base::fail(ErrorCode::invalid_expression, "'dtype' of 'quantize' is f8e4m3, f8e5m2, f4e2m1, i8 or i4, found {}",
               to_string(dtype));
  }
  return *found;
}

void check_block(std::string_view function, std::int64_t block) {
  if (block >= 0 && block <= kMaxSize) return;
  base::fail(ErrorCode::invalid_expression,
             "'block' of '{}' is how many elements of the last dimension share a scale, or 0 for all of them; found {}",
             function, block);
}

constexpr double kLeastScale = 0x1p-127;  // of f8e8m0

// As f8e8m0 rounds, in f32.
Value nearest_power(const Chain& c, Value x) { return c.b.cast(c.b.cast(x, DType::f8e8m0), DType::f32); }

// The least power of two p from 2^-127 on with p * bound >= largest. The products are exact, so that the division need
// not be.
Value scale_above(const Chain& c, Value largest, double bound) {
  const Value p = nearest_power(c, c.op(Op::div, largest, bound));
  return c.op(Op::where, c.op(Op::lt, c.op(Op::mul, p, bound), largest), c.op(Op::mul, p, 2.0), p);
}

// The largest power of two p with p * bound <= largest, but at least 2^-127.
Value scale_below(const Chain& c, Value largest, double bound) {
  const Value p = nearest_power(c, c.op(Op::div, largest, bound));
  const Value half = c.b.apply(Op::mul, {p, c.b.constant(0.5), kNone});
  const Value less = c.b.apply(Op::maximum, {half, c.b.constant(kLeastScale), kNone});
  return c.op(Op::where, c.op(Op::gt, c.op(Op::mul, p, bound), largest), less, p);
}

// 1 / scale, exactly: a GPU's quick reciprocal is close to a power of two, and of a denormal number it may be infinite.
Value inverse_of_power(const Chain& c, Value scale) {
  const Value least = c.op(Op::lt, scale, c.b.constant(2 * kLeastScale));
  const Value inverse = nearest_power(c, c.op(Op::div, c.number(1), scale));
  return c.op(Op::where, least, c.b.constant(1 / kLeastScale), inverse);
}

constexpr Axes kLast = {{-1}, 1, false};

// Blocks of the last dimension, or all of it where `block` is 0.
struct Blocks {
  const Chain& c;
  std::int64_t block;
  Value elements;

  Blocks(const Chain& chain, Value x, std::int64_t size) : c(chain), block(size), elements(c.b.cast(x, DType::f32)) {
    if (block > 0) elements = c.b.unflatten(elements, -1, {-1, block});
  }

  Value largest() const { return c.amax(c.op(Op::abs, elements), kLast, true); }
  // `inverse`: once for each block, and a multiplication for each element.
  Quantized quantized(Value inverse, Value scale, DType dtype) const {
    const Value values = c.op(Op::mul, elements, inverse);
    if (block == 0) return {c.b.cast(values, dtype), scale};
    return {c.b.cast(c.b.flatten(values, -2, -1), dtype), c.b.flatten(scale, -2, -1)};
  }
};

}  // namespace

Quantized quantize(Builder& b, Value x, const Quantization& how) {
  const double bound = narrow_type(how.dtype).largest;
  check_block("quantize", how.block);
  if (!(how.eps > 0) || std::isinf(how.eps)) {
    base::fail(ErrorCode::invalid_expression, "'eps' of 'quantize' is a positive number, found {}",
               print_number(how.eps));
  }
  const Chain c{b};
  const Blocks blocks(c, x, how.block);
  const Value largest = b.apply(Op::maximum, {blocks.largest(), b.constant(how.eps), kNone});
  const Value scale = how.power_of_two ? scale_above(c, largest, bound) : c.op(Op::div, largest, bound);
  const Value inverse = how.power_of_two ? inverse_of_power(c, scale) : c.op(Op::div, c.number(1), scale);
  return blocks.quantized(inverse, scale, how.dtype);
}

Quantized mx_quantize(Builder& b, Value x, DType dtype, bool rounds_up) {
  if (dtype != DType::f8e4m3 && dtype != DType::f8e5m2 && dtype != DType::f4e2m1) {
    base::fail(ErrorCode::invalid_expression, "'dtype' of 'mx_quantize' is f8e4m3, f8e5m2 or f4e2m1, found {}",
               to_string(dtype));
  }
  const NarrowType& type = narrow_type(dtype);
  const Chain c{b};
  const Blocks blocks(c, x, kMxBlock);
  const Value largest = blocks.largest();
  const Value scale = rounds_up ? scale_above(c, largest, type.largest) : scale_below(c, largest, type.largest_power);
  Quantized both = blocks.quantized(inverse_of_power(c, scale), scale, dtype);
  both.scale = b.cast(both.scale, DType::f8e8m0);
  return both;
}

Quantized nv_quantize(Builder& b, Value x, Value global_scale) {
  const Chain c{b};
  const Blocks blocks(c, x, kNvBlock);
  const Value global = b.cast(global_scale, DType::f32);
  const Value scale = b.cast(c.op(Op::mul, c.op(Op::div, blocks.largest(), 6.0), global), DType::f8e4m3);
  // A block of zeros, or of numbers that are too small for a scale, is 0.
  const Value inverse =
      c.op(Op::where, c.op(Op::gt, scale, 0.0), c.op(Op::div, global, b.cast(scale, DType::f32)), c.number(0));
  return blocks.quantized(inverse, scale, DType::f4e2m1);
}

Value dequantize(Builder& b, Value values, Value scale, std::int64_t block) {
  check_block("dequantize", block);
  const Chain c{b};
  const Value numbers = b.cast(values, DType::f32);
  const Value factors = b.cast(scale, DType::f32);
  if (block == 0) return c.op(Op::mul, numbers, factors);
  const Value grouped = b.unflatten(numbers, -1, {-1, block});
  return b.flatten(c.op(Op::mul, grouped, b.view(factors, unsqueeze_view(-1))), -2, -1);
}

Value normalize(Builder& b, Value x, double p, const Axes& axes, double eps) {
  const Chain c{b};
  return c.op(Op::div, x, c.op(Op::maximum, norm(b, x, p, axes, true), eps));
}

Value batch_norm(Builder& b, Value x, Value weight, Value bias, double eps) {
  constexpr Axes kAllButChannels = {{0, 2}, 2, true};  // (0, 2, ...)
  const Chain c{b};
  return c.affine(c.standardised(x, kAllButChannels, eps), c.channels(weight, x), c.channels(bias, x));
}

Value var_mean(Builder& b, Value x, const Axes& axes, double correction, bool keepdim, std::int64_t which) {
  if (which != 0 && which != 1) {
    base::fail(ErrorCode::invalid_expression, "'var_mean' gives the variance as [0] and the mean as [1]; found [{}]",
               which);
  }
  return which == 0 ? b.reduce(Op::var, x, axes, keepdim, correction) : b.reduce(Op::mean, x, axes, keepdim);
}

Value count_nonzero(Builder& b, Value x, const Axes& axes) {
  const Chain c{b};
  return c.sum(c.op(Op::ne, x, 0.0), axes, false);
}

Value arg_extreme(Builder& b, Op op, Value x, const Axes& axes, bool keepdim) {
  const Chain c{b};
  const std::string_view name = op == Op::amax ? "argmax" : "argmin";
  if (axes.count > 1) {
    base::fail(ErrorCode::invalid_expression, "'{}' takes one axis, or none for all elements; found {}", name,
               print_axes(axes));
  }
  if (axes.count == 0) {
    constexpr Axes kFirst = {{0}, 1, false};
    const Value place = arg_extreme(b, op, b.flatten(x, 0, -1), kFirst, false);
    return keepdim ? b.unsqueeze_as(place, x, axes) : place;
  }
  const Value is_it = c.op(Op::logical_or, c.op(Op::eq, x, b.reduce(op, x, axes, true)), c.op(Op::isnan, x));
  const Value nowhere = b.constant(std::numeric_limits<double>::infinity());
  const Value position = c.op(Op::where, is_it, b.iota(x, axes.at[0]), nowhere);
  return b.cast(b.reduce(Op::amin, position, axes, keepdim), DType::i64);
}

Value triangle(Builder& b, Op compare, Value x, std::int64_t diagonal) {
  const Chain c{b};
  const Value row = b.iota(x, -2);
  const Value last = diagonal == 0 ? row : c.op(Op::add, row, static_cast<double>(diagonal));
  return c.op(Op::where, c.op(compare, b.iota(x, -1), last), x, c.number(0));
}

Value scaled_mm(Builder& b, Value left, Value right, Value left_scale, Value right_scale) {
  const Builder::Written as(b, "scaled_mm");
  return b.matmul(b.block_scaled(left, left_scale), b.block_scaled(right, right_scale));
}

Value linear(Builder& b, Value x, Value weight, Value bias, bool tf32) {
  Value product = kNone;
  {
    const Builder::Written as(b, "linear");
    product = b.matmul(x, b.view(weight, numbered_view(View::Kind::transpose, {-2, -1})), tf32);
  }
  return bias == kNone ? product : b.apply(Op::add, {product, bias, kNone});
}

namespace {

std::array<std::int32_t, 2> pair_of(std::string_view what, const std::vector<std::int64_t>& given, std::int64_t least) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (given.size() != 1 && given.size() != 2)
    base::fail(ErrorCode::invalid_expression,
               "'{}' of 'conv2d' is one number, or one for the height and one for the width; found {}", what,
               given.size());
  for (const std::int64_t number : given) {
    if (number < least || number > kMost)
      base::fail(ErrorCode::invalid_expression, "'{}' of 'conv2d' is {} to 2^20, found {}", what, least, number);
  }
  return {static_cast<std::int32_t>(given.front()), static_cast<std::int32_t>(given.back())};
}

}  // namespace

Value conv2d(Builder& b, Value images, Value filters, Value bias, const WindowLists& windows) {
  const Value product = b.conv2d(images, filters,
                                 {.stride = pair_of("stride", windows.stride, 1),
                                  .padding = pair_of("padding", windows.padding, 0),
                                  .dilation = pair_of("dilation", windows.dilation, 1)});
  if (bias == kNone) return product;
  const Index added{.kind = Index::Kind::added};
  return b.apply(Op::add, {product, b.view(bias, index_view({Index(), added, added})), kNone});
}

Value cat(Builder& b, std::span<const Value> values, std::int64_t dim) {
  if (values.empty()) base::fail(ErrorCode::invalid_expression, "'cat' takes one tensor or more, found none");
  Value all = values[0];
  for (const Value value : values.subspan(1)) all = b.cat(all, value, dimension_of("cat", dim));
  return all;
}

Value stack(Builder& b, std::span<const Value> values, std::int64_t dim) {
  if (values.empty()) base::fail(ErrorCode::invalid_expression, "'stack' takes one tensor or more, found none");
  std::vector<Value> planes;
  for (const Value value : values) planes.push_back(b.view(value, unsqueeze_view(dim)));
  return cat(b, planes, dim);
}

namespace {

void check_factor(std::string_view function, std::int64_t factor) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (factor < 1 || factor > kMost)
    base::fail(ErrorCode::invalid_expression, "'{}' takes a factor of 1 to 2^20, found {}", function, factor);
}

}  // namespace

Value pixel_shuffle(Builder& b, Value x, std::int64_t factor) {
  check_factor("pixel_shuffle", factor);
  const Value split = b.unflatten(b.unflatten(x, 1, {-1, factor * factor}), 2, {factor, factor});
  const Value ordered = b.view(split, numbered_view(View::Kind::permute, {0, 1, 4, 2, 5, 3}));
  return b.flatten(b.flatten(ordered, 4, 5), 2, 3);
}

Value pixel_unshuffle(Builder& b, Value x, std::int64_t factor) {
  check_factor("pixel_unshuffle", factor);
  const Value split = b.unflatten(b.unflatten(x, 3, {-1, factor}), 2, {-1, factor});
  const Value ordered = b.view(split, numbered_view(View::Kind::permute, {0, 1, 3, 5, 2, 4}));
  return b.flatten(ordered, 1, 3);
}

namespace {

bool has_reduction(const Builder& b, Value value) {
  std::vector<bool> needed(static_cast<std::size_t>(value) + 1);
  needed.back() = true;
  for (std::size_t i = needed.size(); i-- > 0;) {  // arguments stand before what is made of them
    if (!needed[i]) continue;
    const Node& n = b.node(static_cast<Value>(i));
    if (is_reduction(n.op)) return true;
    for (int k = 0; k < n.arity(); ++k) needed[static_cast<std::size_t>(n.args[static_cast<std::size_t>(k)])] = true;
  }
  return false;
}

// Of what was computed from whole rows: each element beside the other of its pair, so that all values have the row's
// elements.
Value rope_of_rows(Builder& b, Value x, Value cos, Value sin, bool interleaved) {
  const Chain c{b};
  const Value pairs =
      b.unflatten(x, -1, interleaved ? std::array<std::int64_t, 2>{-1, 2} : std::array<std::int64_t, 2>{2, -1});
  const int place = interleaved ? -1 : -2;  // the dimension of the two
  const auto of_pair = [&](Index index) {
    std::vector<Index> all = {{.kind = Index::Kind::rest}, index};
    if (!interleaved) all.push_back({});
    return index_view(all);
  };
  const Value other = b.view(pairs, of_pair({.step = -1}));
  const View added = of_pair({.kind = Index::Kind::added});
  const Value sign = c.op(Op::sub, c.op(Op::mul, b.iota(pairs, place), 2.0), 1.0);
  const Value across = c.op(Op::mul, c.op(Op::mul, other, b.view(sin, added)), sign);
  return b.flatten(b.apply(Op::fma, {pairs, b.view(cos, added), across}), -2, -1);
}

}  // namespace

Value rope(Builder& b, Value x, Value cos, Value sin, bool interleaved) {
  if (has_reduction(b, x)) return rope_of_rows(b, x, cos, sin, interleaved);
  const Chain c{b};
  const auto one = [&](std::int64_t which) {
    if (!interleaved) return b.view(x, numbered_view(View::Kind::chunk, {2, -1, which}));
    return b.view(x, index_view({{.kind = Index::Kind::rest}, {.start = which == 0 ? Index::kOpen : 1, .step = 2}}));
  };
  const Value first = one(0);
  const Value second = one(1);
  const std::array turned = {b.apply(Op::fma, {first, cos, c.op(Op::neg, c.op(Op::mul, second, sin))}),
                             b.apply(Op::fma, {second, cos, c.op(Op::mul, first, sin)})};
  return interleaved ? b.flatten(stack(b, turned, -1), -2, -1) : cat(b, turned, -1);
}

}  // namespace epifuse::ir
