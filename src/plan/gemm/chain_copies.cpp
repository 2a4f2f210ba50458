// Nodes stand after their arguments, so one pass down the list copies them.
#include "plan/gemm/chain_copies.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ir/derivatives.hpp"
#include "ir/subchain.hpp"

namespace epifuse::plan {

ir::Value copied(ir::Builder& builder, const ir::Program& chain, std::size_t i, const std::vector<ir::Value>& copies) {
  const ir::Node& n = chain.nodes()[i];
  const auto argument = [&](std::size_t k) { return copies[static_cast<std::size_t>(n.args[k])]; };
  if (n.op == ir::Op::unflatten || n.op == ir::Op::flatten) return argument(0);
  std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
  for (std::size_t k = 0; k < static_cast<std::size_t>(n.arity()); ++k) args[k] = argument(k);
  return rebuilt(builder, n, args, ir::name_of_operand(chain, n), nullptr);
}

WithoutProducts chain_of_elements(const WithoutProducts& split, std::span<const ir::Value> writes,
                                  const std::string& name, std::span<const ir::Value> beside) {
  const ir::Program& chain = split.chain;
  const std::size_t size = chain.nodes().size();
  std::vector<bool> needed = ir::needed_for(chain, writes, std::vector<bool>(size, false));
  for (const ir::Value operand : beside) needed[static_cast<std::size_t>(operand)] = true;
  ir::Builder builder;
  for (const std::string& scalar : chain.scalars()) builder.scalar(scalar);
  WithoutProducts made{{}, {}, split.products};
  std::vector<ir::Value> copies(size, ir::kNone);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < size; ++i) {
    if (!needed[i]) continue;
    copies[i] = copied(builder, chain, i, copies);
    const ir::Node& n = chain.nodes()[i];
    if (n.op != ir::Op::input) continue;
    made.reads.push_back(split.reads[static_cast<std::size_t>(n.ordinal)]);
    texts.push_back(chain.operand_text(static_cast<std::size_t>(n.ordinal)));
  }
  for (std::size_t i = 0; i < writes.size(); ++i)
    builder.result(i == 0 ? name : std::string(), copies[static_cast<std::size_t>(writes[i])]);
  made.chain = std::move(builder).finish().with(chain.math()).with_operand_texts(std::move(texts));
  return made;
}

std::string fresh_name(const ir::Program& chain, std::string name) {
  const auto is_among = [&](const std::vector<std::string>& names) {
    return std::ranges::find(names, name) != names.end();
  };
  const auto is_result = [&] {
    return std::ranges::find(chain.results(), name, &ir::Result::name) != chain.results().end();
  };
  while (is_among(chain.inputs()) || is_among(chain.scalars()) || is_result()) name += '_';
  return name;
}

}  // namespace epifuse::plan
