// A kernel iterates over one space: pieces of results need dimensions in common. Called by lower.cpp.
#include "plan/bind/joined_results.hpp"

#include <algorithm>
#include <set>

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;

// These values and all that they are computed from.
std::set<ir::Value> computed_from(const ir::Builder& builder, std::vector<ir::Value> open) {
  std::set<ir::Value> found;
  while (!open.empty()) {
    const ir::Value value = open.back();
    open.pop_back();
    if (!found.insert(value).second) continue;
    const Node& n = builder.node(value);
    open.insert(open.end(), n.args.begin(), n.args.begin() + n.arity());
  }
  return found;
}

// Whether only elementwise operations lead to them: then all operands broadcast to one shape.
bool have_one_space(const std::vector<ResultValue>& results, const ir::Builder& builder) {
  std::vector<ir::Value> values;
  for (const ResultValue& result : results) values.push_back(result.value);
  return std::ranges::all_of(computed_from(builder, std::move(values)), [&](ir::Value value) {
    const Op op = builder.node(value).op;
    return op < Op::count || op == Op::cast || ir::is_elementwise(op);
  });
}

bool repeats_number(ir::Value value, const ir::Builder& builder) {
  const Node& n = builder.node(value);
  return n.op == Op::expand_as && builder.node(n.args[0]).op == Op::constant;
}

bool share_operand(ir::Value one, ir::Value other, const ir::Builder& builder) {
  const std::set<ir::Value> others = computed_from(builder, {other});
  return std::ranges::any_of(computed_from(builder, {one}), [&](ir::Value value) {
    return builder.node(value).op == Op::input && others.contains(value);
  });
}

}  // namespace

void connect(std::vector<ResultValue>& results, ir::Builder& builder) {
  if (std::ranges::none_of(results, &ResultValue::is_cut)) return;
  const std::vector<ResultValue> as_built = results;
  const bool is_one_space = have_one_space(results, builder);
  for (ResultValue& result : results) {
    const bool is_number = repeats_number(result.value, builder);
    if (!result.is_cut || (is_one_space && !is_number)) continue;
    const auto like = std::ranges::find_if(as_built, [&](const ResultValue& other) {
      return other.shape == result.shape && !repeats_number(other.value, builder);
    });
    if (like == as_built.end() || (!is_number && share_operand(result.value, like->value, builder))) continue;
    const ir::Value own = is_number ? builder.node(result.value).args[0] : result.value;
    result.value = builder.expand_as(own, like->value);
  }
}

}  // namespace epifuse::plan
