// One pass over the program, in interval arithmetic. Softmax is recognised: its terms are at most 1, their sum at least
// 1.
#include "plan/analysis/intervals.hpp"

#include "plan/analysis/structure.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

Interval interval_of_type(DType type) {
  switch (type) {
    case DType::f16:
      return {-65504, 65504};
    case DType::f8e4m3:
      return {-448, 448};
    case DType::f8e5m2:
      return {-57344, 57344};
    case DType::i8:
      return {-128, 127};
    case DType::u8:
      return {0, 255};
    case DType::f8e8m0:
      return {0x1p-127, 0x1p127};
    case DType::i16:
      return {-32768, 32767};
    case DType::u16:
      return {0, 65535};
    case DType::u32:
      return {0, 4294967295.0};
    case DType::f4e2m1:
      return {-6, 6};
    case DType::i4:
      return {-8, 7};
    case DType::u4:
      return {0, 15};
    case DType::boolean:
      return {0, 1};
    default:
      return {};
  }
}

Interval product(const Interval& a, const Interval& b) {
  const double size = times(a.size(), b.size());
  return {a.low >= 0 && b.low >= 0 ? 0 : -size, size};
}

}  // namespace

Intervals::Intervals(const ir::Program& program, const KernelClass& kernel)
    : program_(program), kernel_(kernel), intervals_(program.nodes().size()) {
  for (std::size_t i = 0; i < intervals_.size(); ++i) intervals_[i] = interval_of(program.nodes()[i]);
}

const Interval& Intervals::of(Value value) const {
  return intervals_[static_cast<std::size_t>(unshaped(program_, value))];
}

Interval Intervals::interval_of(const Node& node) const {
  const auto at = [&](int i) { return of(node.args[static_cast<std::size_t>(i)]); };
  switch (node.op) {
    case Op::input:
      return interval_of_type(kernel_.inputs[static_cast<std::size_t>(node.ordinal)].dtype);
    case Op::rand_like:
      return {0, 1};
    case Op::iota:
      return {0, 1 << 24};
    case Op::constant:
      return {node.constant, node.constant};
    case Op::cast:
      return at(0);
    case Op::tanh:
    case Op::erf:
    case Op::sin:
    case Op::cos:
      return {-1, 1};
    case Op::sigmoid:
    case Op::hardsigmoid:
      return {0, 1};
    case Op::relu6:
      return {0, 6};
    case Op::exp:
    case Op::exp2:
      return {0, at(0).high <= 0 ? 1 : kUnbounded};
    case Op::square:
      return {0, kUnbounded};
    case Op::rsqrt:
      return {0, at(0).low > 0 ? 1 / std::sqrt(at(0).low) : kUnbounded};
    case Op::softplus:  // a negative beta makes it negative; above a negative threshold it is its argument
      return at(1).low > 0 && at(2).low >= 0 ? Interval{0, kUnbounded} : Interval{};
    case Op::relu:
      return {std::max(at(0).low, 0.0), std::max(at(0).high, 0.0)};
    case Op::abs:
      return {0, at(0).size()};
    case Op::neg:
      return {-at(0).high, -at(0).low};
    case Op::silu:
    case Op::mish:
    case Op::gelu:
    case Op::gelu_tanh:
      return {-0.32, std::max(at(0).high, 0.0)};
    case Op::minimum:
      return {std::min(at(0).low, at(1).low), std::min(at(0).high, at(1).high)};
    case Op::maximum:
      return {std::max(at(0).low, at(1).low), std::max(at(0).high, at(1).high)};
    case Op::clamp:
    case Op::hardtanh:
      return {std::min(std::max(at(0).low, at(1).low), at(2).low),
              std::min(std::max(at(0).high, at(1).high), at(2).high)};
    case Op::where:
      return {std::min(at(1).low, at(2).low), std::max(at(1).high, at(2).high)};
    case Op::add:
      return {at(0).low + at(1).low, at(0).high + at(1).high};
    case Op::sub:
      return {at(0).low - at(1).high, is_below_maximum(node) ? 0 : at(0).high - at(1).low};
    case Op::div: {  // of softmax
      const Node& by = program_.node(unshaped(program_, node.args[1]));
      return is_softmax_sum(node.args[1]) && same(by.args[0], node.args[0]) ? Interval{0, 1} : Interval{};
    }
    case Op::mul:
      return product(at(0), at(1));
    case Op::fma: {
      const Interval terms = product(at(0), at(1));
      return {terms.low + at(2).low, terms.high + at(2).high};
    }
    case Op::mean:
    case Op::amax:
    case Op::amin:
      return at(0);
    case Op::var:
      return {0, kUnbounded};
    case Op::sum:
      return is_softmax_sum(node) ? Interval{1, kUnbounded} : at(0).low >= 0 ? Interval{0, kUnbounded} : Interval{};
    default:
      return ir::is_movement(node.op) ? at(0) : Interval{};
  }
}

bool Intervals::same(Value a, Value b) const { return unshaped(program_, a) == unshaped(program_, b); }

// x - amax(x), or x - 0 where that is infinite
bool Intervals::is_below_maximum(const Node& below) const {
  const Node* top = &program_.node(unshaped(program_, below.args[1]));
  if (top->op == Op::where) top = &program_.node(unshaped(program_, top->args[2]));
  return top->op == Op::amax && same(top->args[0], below.args[0]);
}

bool Intervals::is_softmax_sum(Value value) const { return is_softmax_sum(program_.node(unshaped(program_, value))); }

bool Intervals::is_softmax_sum(const Node& total) const {
  if (total.op != Op::sum) return false;
  const Node& exp = program_.node(unshaped(program_, total.args[0]));
  if (exp.op != Op::exp) return false;
  const Node& below = program_.node(unshaped(program_, exp.args[0]));
  return below.op == Op::sub && is_below_maximum(below);
}

}  // namespace epifuse::plan
