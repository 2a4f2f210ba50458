// A block holds the rows of one reduction. Where each element of such a row is the result of another one, a thread
// reduces it on its own: as the elements of a window, those of the inner reduction are strided views of its argument,
// so that no schedule knows it. Chains for which this is done would be refused otherwise: no other kernel changes.
#include "plan/bind/nested.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "ir/pooling.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/space.hpp"
#include "plan/bind/spans.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

constexpr std::int64_t kMostViews =
    64;  // of one reduction's argument, as of a window: each is an operand of the kernel

// What combines two elements, and what people are told of it; nothing where more than two numbers are needed.
struct Combining {
  Op op;
  std::string_view does;
};
std::optional<Combining> combining_of(Op op) {
  switch (op) {
    case Op::sum:
    case Op::mean:
      return Combining{Op::add, "adds up"};
    case Op::prod:
      return Combining{Op::mul, "multiplies"};
    case Op::amax:
      return Combining{Op::maximum, "takes the largest of"};
    case Op::amin:
      return Combining{Op::minimum, "takes the least of"};
    default:
      return std::nullopt;
  }
}

// A chain that computes the same, and what people are told of each reduction that was taken apart.
struct TakenApart {
  ir::Program program;
  std::vector<std::string> tells;
};

class NestedReductions {
 public:
  NestedReductions(const ir::Program& program, std::span<const TensorView> inputs)
      : program_(program), shapes_(infer_shapes(program, inputs)), spans_(program, shapes_.spans) {
    for (const TensorView& input : inputs)
      kinds_.push_back(input.dtype == DType::boolean ? ir::Kind::truth : ir::Kind::real);
    kinds_.resize(program.operand_count(), ir::Kind::real);
    find_reducing();
  }

  // Nothing where no reduction is to be taken apart.
  std::optional<TakenApart> run() {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) nested_.push_back(is_nested(static_cast<Value>(i)));
    if (std::ranges::find(nested_, true) == nested_.end()) return std::nullopt;
    for (const std::string& name : program_.inputs()) builder_.input(name);
    for (const std::string& name : program_.scalars()) builder_.scalar(name);
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) copies_.push_back(copy(i));
    for (const ir::Result& result : program_.results())
      builder_.result(result.name, copies_[static_cast<std::size_t>(result.value)]);
    return TakenApart{std::move(builder_).finish().with(program_.math()), std::move(tells_)};
  }

 private:
  const Node& node(Value value) const { return program_.node(value); }
  const Dims& shape(Value value) const { return shapes_.values[static_cast<std::size_t>(value)]; }

  std::uint32_t mask(Value value) const { return spans_.reduced_by(value); }

  // By node: whether it is a reduction's result, or computed from one.
  void find_reducing() {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      bool reduces = mask(static_cast<Value>(i)) != 0;
      each_argument(program_.nodes()[i], [&](std::size_t argument) { reduces = reduces || reducing_[argument]; });
      reducing_.push_back(reduces);
    }
  }

  template <class Visit>
  static void each_argument(const Node& node, const Visit& visit) {
    for (int k = 0; k < node.computed_arity(); ++k)
      visit(static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)]));
  }

  bool is_nested(Value value) const {
    const Node& n = node(value);
    if (mask(value) == 0 || n.arity() != 1 || !combining_of(n.op) || spans_.is_broadcast_back(value)) return false;
    const Value argument = n.args[0];
    if (reducing_[static_cast<std::size_t>(argument)] || program_.kind(argument, kinds_) == ir::Kind::truth)
      return false;
    const std::int64_t count = shapes_.counts[static_cast<std::size_t>(value)];
    return count > 0 && count <= kMostViews && count * operands_below(argument) <= kMostViews && makes_rows_of(value);
  }

  // A reduction over other axes takes what is computed from it, and its elements are needed again: these make the rows.
  bool makes_rows_of(Value inner) const {
    std::vector<bool> depends(program_.nodes().size(), false);
    depends[static_cast<std::size_t>(inner)] = true;
    for (std::size_t i = static_cast<std::size_t>(inner) + 1; i < depends.size(); ++i) {
      each_argument(program_.nodes()[i], [&](std::size_t argument) { depends[i] = depends[i] || depends[argument]; });
      const auto outer = static_cast<Value>(i);
      if (depends[i] && mask(outer) != 0 && (mask(outer) & mask(inner)) == 0 && spans_.is_broadcast_back(outer))
        return true;
    }
    return false;
  }

  // Each is read through all of the views.
  std::int64_t operands_below(Value value) const {
    std::vector<bool> below(static_cast<std::size_t>(value) + 1, false);
    below.back() = true;
    std::int64_t operands = 0;
    for (std::size_t i = below.size(); i-- > 0;) {
      if (!below[i]) continue;
      if (ir::is_operand(program_.nodes()[i].op)) ++operands;
      each_argument(program_.nodes()[i], [&](std::size_t argument) { below[argument] = true; });
    }
    return operands;
  }

  Value copy(std::size_t i) {
    const Node& n = program_.nodes()[i];
    std::array<Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
    for (std::size_t k = 0; k < static_cast<std::size_t>(n.arity()); ++k)
      args[k] = copies_[static_cast<std::size_t>(n.args[k])];
    return nested_[i] ? apart(static_cast<Value>(i), args[0])
                      : ir::rebuilt(builder_, n, args, ir::name_of_operand(program_, n), program_.view_of(n));
  }

  // Of all elements that become one, each as a value; the reduction itself then has one element, and gives the result
  // its shape and its type.
  Value apart(Value value, Value argument) {
    const Node& n = node(value);
    const ir::Builder::Written as(builder_, ir::written_name(n));
    const Dims& own = shape(n.args[0]);
    std::vector<Value> elements = {argument};
    for (int d = 0; d < own.size(); ++d) {
      if ((reduced_dimensions(n, own.size()) >> d & 1U) == 0 || own[d] == 1) continue;
      const ir::Windows whole{.size = {own[d]}, .stride = {own[d]}};
      std::vector<Value> next;
      for (const Value one : elements) {
        for (std::int64_t at = 0; at < own[d]; ++at) next.push_back(ir::window(builder_, one, d, whole, at, 0));
      }
      elements = std::move(next);
    }
    const Combining combining = *combining_of(n.op);
    tells_.push_back(
        fmt::format("'{}' {} {} views of its argument", ir::written_name(n), combining.does, elements.size()));
    const auto count = static_cast<double>(elements.size());
    const Value all = ir::combined(builder_, combining.op, std::move(elements));
    const Value reduced = builder_.reduce(n.op, all, n.shaping.axes, n.shaping.keepdim);
    if (n.op != Op::mean) return reduced;
    return builder_.apply(Op::div, {reduced, builder_.constant(count, ir::Category::integer), ir::kNone});
  }

  const ir::Program& program_;
  const Shapes shapes_;
  const Spans spans_;
  std::vector<ir::Kind> kinds_;  // by input
  std::vector<bool> reducing_;
  std::vector<bool> nested_;
  std::vector<Value> copies_;
  std::vector<std::string> tells_;
  ir::Builder builder_;
};

// Views of the operands of `first`, as views of what these are views of.
Lowered composed(const Lowered& first, Lowered second) {
  std::vector<std::string> texts;
  std::vector<ir::Viewed> viewed;
  for (std::size_t i = 0; i < second.operands.size(); ++i) {
    Lowered::Operand& operand = second.operands[i];
    const std::string& name = first.program.inputs()[operand.input];
    const Lowered::Operand& of = first.operands[operand.input];
    operand.text = of.text + operand.text.substr(name.size());
    operand.input = of.input;
    operand.offset += of.offset;
    texts.push_back(operand.text);
    viewed.push_back({static_cast<int>(operand.input), operand.offset});
  }
  second.program = std::move(second.program).with_operand_texts(std::move(texts)).with_viewed(std::move(viewed));
  second.results = first.results;
  second.repeated.insert(second.repeated.begin(), first.repeated.begin(), first.repeated.end());
  return second;
}

}  // namespace

Lowered without_nested_reductions(Lowered lowered, std::span<const TensorView> inputs,
                                  Lowered (*lower)(const ir::Program& program, std::span<const TensorView> inputs)) {
  // What exists in part, or is found by an index, has operands beside it that say so.
  if (!lowered.program.is_lowered_first() || !lowered.program.bounds().empty() || !lowered.program.scatters().empty())
    return lowered;
  const auto views = lowered.views(inputs);
  std::optional<TakenApart> apart = NestedReductions(lowered.program, views).run();
  if (!apart) return lowered;
  Lowered made = composed(lowered, lower(apart->program, views));
  made.taken_apart = std::move(apart->tells);
  return made;
}

}  // namespace epifuse::plan
