// one_hot compares with positions, which lie nowhere; rope reads its tables at positions.
#include "ir/indices.hpp"

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

}  // namespace epifuse::ir
