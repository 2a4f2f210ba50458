// one_hot compares with positions, which lie nowhere; rope reads its tables at positions; what is repeated is read at
// places that follow from positions.
#include "ir/indices.hpp"

#include <array>
#include <cstdlib>

#include "base/text.hpp"
#include "ir/composites.hpp"

namespace epifuse::ir {

Value one_hot(Builder& b, Value input, std::int64_t classes) {
  const Builder::Written as(b, "one_hot");
  if (classes < 1 || classes > kMaxSize)
    base::fail(ErrorCode::invalid_expression, "'one_hot' has one class or more, found num_classes={}", classes);
  const Value none = b.constant(0, Category::integer);
  const Value line = b.view(none, numbered_view(View::Kind::expand, {classes}));
  const Value column = b.view(input, unsqueeze_view(-1));
  return b.cast(b.apply(Op::eq, {column, b.iota(line, 0), kNone}), DType::i64);
}

Value rope_at(Builder& b, Value input, Value cos, Value sin, Value positions, bool interleaved) {
  const Builder::Written as(b, "rope");
  const auto at_positions = [&](Value table) { return b.indexed(Op::index_select, table, positions, 0); };
  const Value cosines = at_positions(cos);
  return rope(b, input, cosines, at_positions(sin), interleaved);
}

Value Builder::repeat_as(Value value, Value other, int dim, std::int64_t times, std::int64_t shift) {
  const Written as(*this, "repeat_as");
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  if (times < 1 || times > kMost || std::abs(shift) > kMost) {
    base::fail(ErrorCode::invalid_expression,
               "'{}' repeats each element 1 to 2^30 times, from a shift of at most 2^30 on; found {} and {}", written_,
               times, shift);
  }
  Node node;
  node.op = Op::repeat_as;
  node.args = {value, other, kNone};
  node.shaping = {axes_of("repeat_as", std::array{std::int64_t{dim}}, false), false, {times, shift}};
  return intern(node);
}

}  // namespace epifuse::ir
