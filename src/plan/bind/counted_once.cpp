// The gradient of `softmax(mean(x, 2, keepdim=true) + bias, 1)` has a row for each element of dimension 2, since each
// element of x gets one; what the bias gets is a sum over the rows' elements, which are the same for all of them. A
// kernel that goes through all rows adds up those of the first. Chains for which this is done would be refused
// otherwise: no other kernel changes.
#include "plan/bind/counted_once.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "ir/derivatives.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/spans.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

bool is_sum_to(const Node& node) { return node.op == Op::sum && node.arity() == 2; }

class CountingOnce {
 public:
  CountingOnce(const ir::Program& program, std::span<const TensorView> inputs)
      : program_(program), shapes_(infer_shapes(program, inputs)), spans_(program, shapes_.spans) {
    for (std::size_t i = 0; i < program.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      all_ |= spans_.of(value);
      if (spans_.is_broadcast_back(value)) rows_ |= spans_.reduced_by(value);
    }
  }

  // Nothing where each sum has its dimensions.
  std::optional<ir::Program> run() {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) likes_.push_back(like_of_sum(static_cast<Value>(i)));
    if (std::ranges::all_of(likes_, [](Value like) { return like == ir::kNone; })) return std::nullopt;
    for (const std::string& name : program_.inputs()) builder_.input(name);
    for (const std::string& name : program_.scalars()) builder_.scalar(name);
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const Node& n = program_.nodes()[i];
      std::array<Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
      for (std::size_t k = 0; k < static_cast<std::size_t>(n.arity()); ++k)
        args[k] = copies_[static_cast<std::size_t>(n.args[k])];
      if (likes_[i] != ir::kNone) args[0] = at_first_places(args[0], n.args[0], likes_[i]);
      copies_.push_back(ir::rebuilt(builder_, n, args, ir::name_of_operand(program_, n), program_.view_of(n)));
    }
    for (const ir::Result& result : program_.results())
      builder_.result(result.name, copies_[static_cast<std::size_t>(result.value)]);
    return std::move(builder_).finish().with(program_.math());
  }

 private:
  const Dims& shape(Value value) const { return shapes_.values[static_cast<std::size_t>(value)]; }

  // The operand that has all dimensions, of a sum that is to count its values once; else kNone. Its second argument
  // says what is left, so that it takes away what comes to it.
  Value like_of_sum(Value value) const {
    const Node& n = program_.node(value);
    const std::uint32_t reduces = spans_.reduced_by(value);
    if (!is_sum_to(n) || rows_ == 0 || reduces == 0) return ir::kNone;
    const std::uint32_t of = spans_.of(n.args[0]);
    const bool is_over_rows = (reduces & rows_) == rows_ || (of & rows_) == 0;
    if (of == all_ || is_over_rows || (reduces & ~rows_) == 0) return ir::kNone;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto like = static_cast<Value>(i);
      if (program_.node(like).op == Op::input && has_all(shape(like)) && fits(shape(n.args[0]), shape(like)))
        return like;
    }
    return ir::kNone;
  }

  // An operand of which only the shape counts varies over nothing.
  bool has_all(const Dims& shape) const {
    std::int64_t elements = 1;
    for (int axis = 0; axis < shapes_.axes.size(); ++axis)
      elements *= (all_ >> axis & 1U) != 0 ? shapes_.axes[axis] : 1;
    return element_count(shape) == elements;
  }

  static bool fits(const Dims& own, const Dims& all) {
    bool is_so = own.size() == all.size();
    for (int d = 0; is_so && d < own.size(); ++d) is_so = own[d] == all[d] || own[d] == 1;
    return is_so;
  }

  Value at_first_places(Value made, Value argument, Value like) {
    const Value number = builder_.constant(0, ir::Category::integer);
    for (int d = 0; d < shape(like).size(); ++d) {
      if (shape(argument)[d] == shape(like)[d]) continue;
      const Value place = builder_.iota(copies_[static_cast<std::size_t>(like)], d);
      made = builder_.apply(Op::where, {builder_.apply(Op::eq, {place, number, ir::kNone}), made, number});
    }
    return made;
  }

  const ir::Program& program_;
  const Shapes shapes_;
  const Spans spans_;
  std::uint32_t all_ = 0;   // dimensions of the iteration space
  std::uint32_t rows_ = 0;  // those of rows whose elements are needed again
  std::vector<Value> likes_;
  std::vector<Value> copies_;
  ir::Builder builder_;
};

}  // namespace

Lowered with_values_counted_once(Lowered lowered, std::span<const TensorView> inputs) {
  if (!lowered.program.is_lowered_first() || !lowered.program.bounds().empty() || !lowered.program.scatters().empty())
    return lowered;
  if (std::ranges::none_of(lowered.program.nodes(), is_sum_to)) return lowered;  // shapes are inferred for these alone
  std::optional<ir::Program> counted = CountingOnce(lowered.program, lowered.views(inputs)).run();
  if (!counted) return lowered;
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) texts.push_back(lowered.program.operand_text(i));
  lowered.program =
      std::move(*counted).with_operand_texts(std::move(texts)).with_viewed(std::vector(lowered.program.viewed()));
  return lowered;
}

}  // namespace epifuse::plan
