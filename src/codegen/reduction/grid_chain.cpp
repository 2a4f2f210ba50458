// Each value is a constant of the function, in the order of the program.
#include "codegen/reduction/grid_chain.hpp"

#include <spdlog/fmt/fmt.h>

#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "ir/marks.hpp"

namespace epifuse::codegen {

using ir::Node;
using ir::Value;
using plan::NodeRole;
using plan::Scope;

std::string GridChain::input(std::size_t i) const {
  return kernel_.inputs[i].access == plan::Access::uniform ? ReductionChain::input(i) : ChainWriter::input(i);
}

// What the results are computed from: their accumulators, operands, and what is known before any row.
plan::Marks GridChain::needed_by(Scope scope) const {
  plan::Marks needed(program_.nodes().size(), false);
  for (const ir::Result& result : program_.results())
    needed[static_cast<std::size_t>(result.value)] = role(result.value).scope == scope;
  ir::mark_arguments(program_.nodes(), needed,
                     [&](std::size_t i) { return kernel_.reduction()->structure.nodes[i].accumulator >= 0; });
  return needed;
}

std::string GridChain::results(Scope scope, std::string_view at, const std::function<bool(std::size_t)>& reads,
                               const std::function<std::string(const Node&, const NodeRole&)>& reduced) {
  const OffsetText offset = offset_at(program_, kernel_, at);
  const plan::Marks needed = needed_by(scope);
  std::string lines;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!needed[i]) continue;
    if (ir::is_operand(node.op)) {
      const auto input = static_cast<std::size_t>(node.ordinal);
      if (!reads(input)) continue;
      lines += fmt::format("  const {0} {1} = to_real<{0}>({2});\n", type_of(input_kinds_[input]),
                           input_name(program_, input), element_of(program_, kernel_, input, offset));
    }
    if (!ir::is_computed(node.op)) continue;
    const NodeRole& role = kernel_.reduction()->structure.nodes[i];
    const auto value = static_cast<Value>(i);
    lines += fmt::format("  const {} t{} = {};\n", type_of(kind(value)), i,
                         role.accumulator >= 0 ? reduced(node, role) : computation(value));
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (role(value).scope == scope) lines += write_one(program_, kernel_, i, offset, at, 0, "  ", reference(value));
  }
  return lines;
}

}  // namespace epifuse::codegen
