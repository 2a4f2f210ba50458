// f32 holds integers up to 2^24. A chain with an integer result computes in f64 where what it carries may be larger:
// i32, u32 and i64 operands, and what sums and products of smaller ones can come to.
#include "plan/bind/compute_type.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;

constexpr double kAnyMagnitude = std::numeric_limits<double>::infinity();

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
    constexpr double kExact = 0x1p24;
    for (std::size_t i = 0; i < bounds_.size(); ++i) {
      const bool is_computed = program_.nodes()[i].op != Op::cast && program_.nodes()[i].op != Op::input;
      if (is_computed && ir::category_of(types_[i]) != ir::Category::floating && bounds_[i] > kExact) return true;
    }
    return false;
  }

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
        return count;
      case Op::count:
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
    for (int k = 0; k < node.computed_arity(); ++k) largest = std::max(largest, of(node, static_cast<std::size_t>(k)));
    return largest;
  }

  const ir::Program& program_;
  std::vector<DType> types_;
  std::vector<double> bounds_;
};

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
  if (std::ranges::none_of(outputs, [](const OutputView& out) { return is_wide_integer(out.dtype); })) return false;
  return has_wide_integers || Magnitudes(program, inputs, counts).exceed_f32();
}

}  // namespace epifuse::plan
