// f32 holds integers up to 2^24. A chain computes in f64 where an integer that may be larger decides a result of
// integers, a comparison or a truth value: i32, u32 and i64 operands, and what sums and products of smaller ones can
// come to. Integers that only become floats are rounded to f32 as they are read, as PyTorch rounds them.
#include "plan/bind/compute_type.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;

constexpr double kAnyMagnitude = std::numeric_limits<double>::infinity();
constexpr double kExact = 0x1p24;  // f32 holds all integers up to here

bool is_wide_integer(DType type) { return type == DType::i32 || type == DType::i64 || type == DType::u32; }

// The largest magnitude of a value of that type.
double largest_of(DType type) {
  switch (type) {
    case DType::boolean:
      return 1;
    case DType::i8:
      return 128;
    case DType::u8:
      return 255;
    case DType::i16:
      return 32768;
    case DType::u16:
      return 65535;
    default:
      return kAnyMagnitude;
  }
}

// An argument that says which of the others the result is.
bool only_says_which(const Node& node, std::size_t argument) {
  return (node.op == Op::where && argument == 0) || (ir::has_index(node.op) && argument == 1);
}

// Bounds on the magnitudes of values, as far as integers and truth values need them.
class Magnitudes {
 public:
  Magnitudes(const ir::Program& program, std::span<const TensorView> inputs,
             const base::InlineVector<std::int64_t, 32>& counts)
      : program_(program), types_(ir::value_types(program, operand_types(inputs))) {
    for (std::size_t i = 0; i < program.nodes().size(); ++i) {
      const std::int64_t count = i < counts.size() ? counts[i] : 1;
      bounds_.push_back(bound(program.nodes()[i], types_[i], static_cast<double>(count)));
    }
  }

  // Whether f32 may not hold an integer that the chain computes. A cast takes integers from what f32 holds.
  bool exceed_f32() const {
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      const bool is_computed = program_.nodes()[i].op != Op::cast && program_.nodes()[i].op != Op::input;
      if (is_computed && is_whole(i) && bounds_[i] > kExact) return true;
    }
    return false;
  }

  // A value of integers or truth values, by PyTorch's types.
  bool is_whole(std::size_t value) const { return ir::category_of(types_[value]) != ir::Category::floating; }
  double bound_of(std::size_t value) const { return bounds_[value]; }

 private:
  double of(const Node& node, std::size_t k) const { return bounds_[static_cast<std::size_t>(node.args[k])]; }

  double bound(const Node& node, DType type, double count) const {
    switch (node.op) {
      case Op::input:
      case Op::cast:
        return largest_of(type);
      case Op::constant:  // an infinite one bounds nothing where it is an argument of an integer: clamp(x, 0)
        return std::isfinite(node.constant) ? std::abs(node.constant) : 0;
      case Op::add:
      case Op::sub:
        return of(node, 0) + of(node, 1);
      case Op::mul:
        return product(of(node, 0), of(node, 1));
      case Op::square:
        return product(of(node, 0), of(node, 0));
      case Op::sum:
        return product(of(node, 0), count);
      case Op::iota:
      case Op::count:
        return count;
      case Op::clamp:
      case Op::hardtanh:
        return std::min(chosen(node), largest_bound(node));
      case Op::relu6:
        return std::min(of(node, 0), 6.0);
      case Op::sign:
        return 1;
      case Op::pow:
      case Op::prod:
        return kAnyMagnitude;
      default:
        return ir::gives_truth(node) ? 1 : chosen(node);
    }
  }

  static double product(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

  // Of what gives one of its arguments, or something between them.
  double chosen(const Node& node) const {
    double largest = 0;
    for (std::size_t k = 0; k < static_cast<std::size_t>(node.computed_arity()); ++k) {
      // A float among them, as 'threshold' may have, is no integer that must be exact.
      const bool is_given = !only_says_which(node, k) && is_whole(static_cast<std::size_t>(node.args[k]));
      if (is_given) largest = std::max(largest, of(node, k));
    }
    return largest;
  }

  // Of what lies between two numbers of the chain.
  double largest_bound(const Node& node) const {
    double largest = 0;
    for (const std::size_t k : {1, 2}) {
      const Node& limit = program_.node(node.args[k]);
      if (limit.op != Op::constant || !std::isfinite(limit.constant)) return kAnyMagnitude;
      largest = std::max(largest, std::abs(limit.constant));
    }
    return largest;
  }

  const ir::Program& program_;
  std::vector<DType> types_;
  std::vector<double> bounds_;
};

// How good a value of integers must be for what reads it. What f32 rounds an integer to lies on the same side of every
// number below 2^24.
enum class Need : std::uint8_t { none, rounded, exact };

bool compares(Op op) { return op >= Op::eq && op <= Op::ge; }

// Gives one of its arguments, its negative, its sign or a bound: rounded before it is rounded behind.
bool selects(Op op) {
  constexpr std::array kOps = {Op::neg,  Op::abs,   Op::sign,  Op::minimum, Op::maximum, Op::clamp,
                               Op::relu, Op::relu6, Op::floor, Op::ceil,    Op::round,   Op::trunc,
                               Op::cast, Op::where, Op::amax,  Op::amin,    Op::cat,     Op::hardtanh};
  return ir::is_movement(op) || ir::has_index(op) || ir::is_placed(op) || std::ranges::find(kOps, op) != kOps.end();
}

// Asks, from the results back to the operands, which integers must be exact.
class Needs {
 public:
  Needs(const ir::Program& program, std::span<const OutputView> outputs, const Magnitudes& magnitudes)
      : program_(program), magnitudes_(magnitudes), needs_(program.nodes().size(), Need::none) {
    // Also asked of launches whose number of results nobody has checked.
    const std::size_t count = std::min(outputs.size(), program.results().size());
    for (std::size_t i = 0; i < count; ++i) {
      if (!is_floating(outputs[i].dtype)) ask(program.results()[i].value, Need::rounded);
    }
    for (std::size_t i = needs_.size(); i-- > 0;) visit(i);
  }

  bool exceed_f32() const { return exceeds_; }

 private:
  // Floats are what they are; an integer that f32 holds is exact where it is rounded.
  void ask(ir::Value value, Need need) {
    const auto at = static_cast<std::size_t>(value);
    if (!magnitudes_.is_whole(at)) return;
    if (magnitudes_.bound_of(at) <= kExact) need = std::min(need, Need::rounded);
    needs_[at] = std::max(needs_[at], need);
  }

  void visit(std::size_t i) {
    const Node& node = program_.nodes()[i];
    if (compares(node.op)) return visit_comparison(node);
    for (std::size_t k = 0; k < static_cast<std::size_t>(node.computed_arity()); ++k)
      ask(node.args[k], only_says_which(node, k) ? Need::rounded : std::max(needed_always(i), passed_on(node, i)));
    exceeds_ = exceeds_ || is_beyond_f32(node, i);
  }

  // Two integers that both may be large are compared as they are. Where one is small, or a float, as PyTorch rounds.
  void visit_comparison(const Node& node) {
    const auto is_large = [&](ir::Value value) {
      const auto at = static_cast<std::size_t>(value);
      return magnitudes_.is_whole(at) && magnitudes_.bound_of(at) >= kExact;
    };
    const Need need = is_large(node.args[0]) && is_large(node.args[1]) ? Need::exact : Need::rounded;
    ask(node.args[0], need);
    ask(node.args[1], need);
  }

  // What decides something, whatever becomes of that.
  Need needed_always(std::size_t i) const {
    const Node& node = program_.nodes()[i];
    // With a float, PyTorch rounds the integer first.
    if (node.op == Op::fmod || node.op == Op::remainder) return magnitudes_.is_whole(i) ? Need::exact : Need::none;
    const bool saturates = node.op == Op::cast && !is_floating(node.dtype) && !is_wide_integer(node.dtype);
    return ir::gives_truth(node) || saturates || node.op == Op::sign ? Need::rounded : Need::none;
  }

  Need passed_on(const Node& node, std::size_t i) const {
    if (needs_[i] == Need::none || ir::gives_truth(node)) return Need::none;
    return selects(node.op) ? needs_[i] : Need::exact;
  }

  bool is_beyond_f32(const Node& node, std::size_t i) const {
    if (node.op == Op::constant) return needs_[i] == Need::exact && static_cast<float>(node.constant) != node.constant;
    if (node.op == Op::input) return needs_[i] == Need::exact;
    return needs_[i] != Need::none && !selects(node.op) && magnitudes_.bound_of(i) > kExact;
  }

  const ir::Program& program_;
  const Magnitudes& magnitudes_;
  std::vector<Need> needs_;
  bool exceeds_ = false;
};

// Whether a chain has values of integers or truth values at all.
bool has_whole_values(const ir::Program& program, std::span<const TensorView> inputs) {
  return std::ranges::any_of(inputs, [](const TensorView& input) { return !is_floating(input.dtype); }) ||
         std::ranges::any_of(program.nodes(), [](const Node& node) {
           return node.op == Op::iota || ir::gives_truth(node) || (node.op == Op::cast && !is_floating(node.dtype));
         });
}

}  // namespace

std::vector<ir::OperandType> operand_types(std::span<const TensorView> inputs) {
  std::vector<ir::OperandType> types;
  for (const TensorView& input : inputs) types.push_back({input.dtype, input.shape.size()});
  return types;
}

bool computes_in_f64(const ir::Program& program, std::span<const OutputView> outputs,
                     std::span<const TensorView> inputs, const base::InlineVector<std::int64_t, 32>& counts) {
  // Operands that simplification left unused count too: what a chain computes in must not depend on how it was
  // simplified.
  bool has_wide_integers = false;
  for (const TensorView& input : inputs) {
    if (input.dtype == DType::f64) return true;
    has_wide_integers = has_wide_integers || is_wide_integer(input.dtype);
  }
  for (const Node& node : program.nodes()) {
    if (node.op == Op::cast && node.dtype == DType::f64) return true;
  }
  const bool gives_wide =
      std::ranges::any_of(outputs, [](const OutputView& out) { return is_wide_integer(out.dtype); });
  if (gives_wide && has_wide_integers) return true;
  if (!gives_wide && !has_whole_values(program, inputs)) return false;
  const Magnitudes magnitudes(program, inputs, counts);
  return (gives_wide && magnitudes.exceed_f32()) || Needs(program, outputs, magnitudes).exceed_f32();
}

}  // namespace epifuse::plan
