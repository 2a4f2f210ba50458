// Simplification, one value at a time as it is built. A rule may stand here only if no bit of any result can change,
// and no result's default type, whatever the operands are and hold (NaN payloads aside): x*0 stays, x+0 stays (it turns
// -0 into +0). The powers 2 and -1 are defined as a product and a quotient, as in PyTorch, rather than simplified to
// them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "host_prelude.hpp"
#include "ir/program.hpp"
#include "ir/result_types.hpp"

namespace epifuse::ir {
namespace {

bool is_exactly(const Node& node, double value) {
  return node.op == Op::constant && std::bit_cast<std::uint64_t>(node.constant) == std::bit_cast<std::uint64_t>(value);
}

// Functions for which f(f(x)) is f(x), to the bit.
bool is_idempotent(Op op) {
  switch (op) {
    case Op::abs:
    case Op::sign:
    case Op::relu:
    case Op::relu6:
    case Op::floor:
    case Op::ceil:
    case Op::round:
    case Op::trunc:
      return true;
    default:
      return false;
  }
}

// `cast` of a constant, in f64 as all constant arithmetic.
double fold_cast(double value, DType dtype) {
  using namespace prelude;
  switch (dtype) {
    case DType::f64:
      return value;
    case DType::f32:
      return static_cast<double>(static_cast<float>(value));
    case DType::f16:
      return round_to<f16>(value);
    case DType::bf16:
      return round_to<bf16>(value);
    case DType::f8e4m3:
      return round_to<f8e4m3>(value);
    case DType::f8e5m2:
      return round_to<f8e5m2>(value);
    case DType::i8:
      return round_to<i8>(value);
    case DType::u8:
      return round_to<u8>(value);
    case DType::i32:
      return round_to<i32>(value);
    case DType::i64:
      return round_to<i64>(value);
    case DType::boolean:
      return value != 0 ? 1 : 0;
    case DType::f8e8m0:
      return round_to<f8e8m0>(value);
    case DType::i16:
      return round_to<i16>(value);
    case DType::u16:
      return round_to<u16>(value);
    case DType::u32:
      return round_to<u32>(value);
    case DType::f4e2m1:
      return round_to<f4e2m1>(value);
    case DType::i4:
      return round_to<i4>(value);
    case DType::u4:
      return round_to<u4>(value);
  }
  return value;
}

// What `where` does not choose may go only if it has no dimensions: a tensor's shape is part of the result's, and a
// reduction over it counts every element.
bool has_no_dimensions(const Node& node) { return node.op == Op::constant || node.op == Op::scalar; }

// Its values are 0 and above, or NaN.
bool is_never_negative(Op op) {
  switch (op) {
    case Op::abs:
    case Op::relu:
    case Op::relu6:
    case Op::square:
    case Op::exp:
    case Op::sigmoid:
      return true;
    default:
      return false;
  }
}

// An operation that returns one of its arguments unchanged: the position of that argument.
std::optional<std::size_t> neutral(const Builder& builder, const Node& node) {
  const Node& a = builder.node(node.args[0]);
  const Node& b = builder.node(node.args[1]);
  switch (node.op) {
    case Op::mul:
      if (is_exactly(b, 1)) return 0;
      if (is_exactly(a, 1)) return 1;
      break;
    case Op::div:
    case Op::pow:
      if (is_exactly(b, 1)) return 0;
      break;
    case Op::add:
      if (is_exactly(b, -0.0)) return 0;
      if (is_exactly(a, -0.0)) return 1;
      break;
    case Op::sub:
      if (is_exactly(b, 0.0)) return 0;
      break;
    case Op::minimum:
    case Op::maximum:
      if (node.args[0] == node.args[1]) return 0;
      break;
    case Op::leaky_relu:  // a slope of +0 and above, but not infinity, keeps zeros and their signs
      if (is_never_negative(a.op) && b.op == Op::constant && std::isfinite(b.constant) && !std::signbit(b.constant))
        return 0;
      break;
    case Op::where:
      if (node.args[1] == node.args[2] && has_no_dimensions(a)) return 1;
      if (a.op == Op::constant) {
        const std::size_t chosen = a.constant != 0 ? 1 : 2;
        if (has_no_dimensions(builder.node(node.args[3 - chosen]))) return chosen;
      }
      break;
    default:
      break;
  }
  return std::nullopt;
}

}  // namespace

Value Builder::as_floats(Value value) {
  if (categories_[static_cast<std::size_t>(value)] == Category::floating) return value;
  return apply(Op::mul, {value, constant(1), kNone});
}

Value Builder::simplified(const Node& original) {
  Node node = original;
  const auto arg = [&](std::size_t i) -> const Node& { return this->node(node.args[i]); };
  const int arity = node.arity();
  // What a constant is as a truth value is computed from a constant alone, so in f64: 1e-300 is true, and stays true in
  // f32.
  for (int i = 0; i < arity && is_elementwise(node.op); ++i) {
    const Node& given = arg(static_cast<std::size_t>(i));
    if (given.op == Op::constant && row(node.op).parameters[static_cast<std::size_t>(i)].kind == Kind::truth)
      node.args[static_cast<std::size_t>(i)] = constant(given.constant != 0 ? 1 : 0, Category::truth);
  }

  // Where the category of a number plays no part, one that is written 2.0 is the same number as one that is written 2.
  for (int i = 0; i < arity && is_elementwise(node.op); ++i) {
    const TypeRule rule = row(node.op).type;
    const bool is_free = rule == TypeRule::truth || rule == TypeRule::floating || (rule == TypeRule::first && i > 0);
    const Node& given = arg(static_cast<std::size_t>(i));
    if (is_free && given.op == Op::constant && category_of(given.dtype) == Category::floating)
      node.args[static_cast<std::size_t>(i)] = constant(given.constant, Category::integer);
  }

  const auto all_constant = [&] {
    for (int i = 0; i < arity; ++i) {
      if (arg(static_cast<std::size_t>(i)).op != Op::constant) return false;
    }
    return true;
  };
  if (all_constant()) {
    const auto value = [&](int i) { return i < arity ? arg(static_cast<std::size_t>(i)).constant : 0; };
    return constant(
        node.op == Op::cast ? fold_cast(value(0), node.dtype) : row(node.op).fold(value(0), value(1), value(2)),
        least_category(node));
  }

  if (node.op == Op::pow && arg(1).op == Op::constant) {
    // As Python's: integers to a negative power are floats.
    if (arg(1).constant < 0 && category_of(arg(1).dtype) == Category::integer)
      node.args[1] = constant(arg(1).constant, Category::floating);
    // The exponents that PyTorch computes by multiplication and division, exactly rounded. 2.0 makes floats of
    // integers, 2 does not.
    const bool makes_floats = category_of(arg(1).dtype) == Category::floating;
    if (is_exactly(arg(1), 2))
      return apply(Op::square, {makes_floats ? as_floats(node.args[0]) : node.args[0], kNone, kNone});
    if (is_exactly(arg(1), -1)) return apply(Op::reciprocal, {node.args[0], kNone, kNone});
  }

  if (arity > 1) {
    const auto kept = neutral(*this, node);
    // A truth value or an integer that becomes a number of another type has changed, though no bit has: x * 1.0 may be
    // what makes floats of integers, and operations that refuse truth values take numbers. And a
    // constant that `where` chooses is a number of the compute type; on its own it would take part in f64 arithmetic.
    const auto stays = [&](Value value) {
      // PyTorch has no leaky_relu of integers: those that it would not change may stay what they are.
      const bool is_raised = categories_[static_cast<std::size_t>(value)] < least_category(node);
      if (is_raised && node.op != Op::leaky_relu) return false;
      while (is_movement(this->node(value).op)) value = this->node(value).args[0];  // as true as what it holds
      return !gives_truth(this->node(value)) && this->node(value).op != Op::constant;
    };
    if (kept && stays(node.args[*kept])) return node.args[*kept];
  } else {
    const Node& inner = arg(0);
    if (node.op == Op::neg && inner.op == Op::neg) return inner.args[0];
    if (node.op == Op::abs && inner.op == Op::neg) return apply(Op::abs, {inner.args[0], kNone, kNone});
    if (node.op == inner.op && is_idempotent(node.op)) return node.args[0];
    if (node.op == Op::cast && inner.op == Op::cast && node.dtype == inner.dtype) return node.args[0];
  }
  return intern(node);
}

}  // namespace epifuse::ir
