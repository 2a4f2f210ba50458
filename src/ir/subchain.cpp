// Nodes stand after their arguments, so one pass up the list finds what a part needs, and one down builds it.
#include "ir/subchain.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "ir/derivatives.hpp"

namespace epifuse::ir {
namespace {

std::size_t at(Value value) { return static_cast<std::size_t>(value); }

// What a value that is no operand is called where a part reads it.
std::string fresh_name(const Program& whole, std::size_t value) {
  std::string name = fmt::format("v{}", value);
  const auto is_taken = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  while (is_taken(whole.inputs()) || is_taken(whole.scalars())) name += '_';
  return name;
}

}  // namespace

std::vector<bool> needed_for(const Program& whole, std::span<const Value> writes, const std::vector<bool>& is_known) {
  std::vector<bool> is_needed(whole.nodes().size(), false);
  for (const Value value : writes) is_needed[at(value)] = true;
  for (std::size_t i = is_needed.size(); i-- > 0;) {
    if (!is_needed[i] || is_known[i]) continue;
    const Node& node = whole.nodes()[i];
    for (int k = 0; k < node.arity(); ++k) is_needed[at(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return is_needed;
}

std::string name_of_operand(const Program& whole, const Node& node) {
  if (node.op == Op::input) return whole.inputs()[static_cast<std::size_t>(node.ordinal)];
  return node.op == Op::scalar ? whole.scalars()[static_cast<std::size_t>(node.ordinal)] : std::string();
}

const Program& identity() {
  // Leaked: used during static destruction.
  static const Program& program = *new Program([] {
    Builder builder;
    builder.result("", builder.input("x"));
    return std::move(builder).finish();
  }());
  return program;
}

Subchain subchain_of(const Program& whole, std::span<const Value> writes, std::span<const Value> known, bool in_f64) {
  const std::size_t size = whole.nodes().size();
  std::vector<bool> is_known(size, false);
  for (const Value value : known) is_known[at(value)] = true;
  const std::vector<bool> is_needed = needed_for(whole, writes, is_known);

  Builder builder;
  std::vector<Value> copies(size, kNone), reads;
  for (std::size_t i = 0; i < size; ++i) {
    if (!is_needed[i]) continue;
    const Node& node = whole.nodes()[i];
    if (is_known[i] || node.op == Op::input) reads.push_back(static_cast<Value>(i));
    if (is_known[i] && node.op != Op::input) {
      copies[i] = builder.input(fresh_name(whole, i));
      continue;
    }
    std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
    for (std::size_t k = 0; k < static_cast<std::size_t>(node.arity()); ++k) args[k] = copies[at(node.args[k])];
    copies[i] = rebuilt(builder, node, args, name_of_operand(whole, node), whole.view_of(node));
  }
  for (const Value value : writes) {
    const bool is_cast = in_f64 && !gives_truth(whole.node(value));
    builder.result({}, is_cast ? builder.cast(copies[at(value)], DType::f64) : copies[at(value)]);
  }
  return {std::move(builder).finish().with(whole.math()), std::move(reads)};
}

}  // namespace epifuse::ir
