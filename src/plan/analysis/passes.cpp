// Which values and operands each pass over the rows needs: what its accumulators and results are computed from. For the
// planner and codegen.
#include <algorithm>

#include "ir/marks.hpp"
#include "plan/analysis/structure.hpp"

namespace epifuse::plan {

using ir::Node;
using ir::Program;
using ir::Value;

Values targets_of_pass(const Program& program, const Structure& structure, int pass) {
  Values targets;
  const auto add = [&](Value value) {
    if (is_computed_in_passes(structure.nodes[static_cast<std::size_t>(value)].scope)) targets.push_back(value);
  };
  for (const Accumulator& a : structure.accumulators) {
    if (a.ends_with_grid() ? pass == structure.output_pass : a.has_stage() && pass + 1 == a.stage) add(a.argument);
  }
  if (pass == structure.output_pass) {
    for (const ir::Result& result : program.results()) add(result.value);
  }
  return targets;
}

namespace {

// The first that can compute it; exponentials of a softmax are taken by the first of all, below what a thread has seen.
int pass_that_saves(const Program& program, const Structure& structure, Value value) {
  if (accumulator_of_exponential(program, structure, value) >= 0) return 0;
  return structure.nodes[static_cast<std::size_t>(value)].stage;
}

}  // namespace

Marks computed_in_pass(const Program& program, const Structure& structure, int pass, const Values& saved) {
  Marks needed(program.nodes().size(), false);
  for (const Value target : targets_of_pass(program, structure, pass)) needed[static_cast<std::size_t>(target)] = true;
  const auto is_known = [&](std::size_t i) {
    const auto value = static_cast<Value>(i);
    const bool is_saved =
        std::ranges::find(saved, value) != saved.end() && pass > pass_that_saves(program, structure, value);
    return !is_computed_in_passes(structure.nodes[i].scope) || is_saved;
  };
  ir::mark_arguments(program.nodes(), needed, is_known);
  for (std::size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] && !is_known(i);
  return needed;
}

Marks computed_when_written(const Program& program, const Structure& structure) {
  const auto is_known = [&](std::size_t i) { return structure.nodes[i].scope != Scope::written; };
  Marks needed(program.nodes().size(), false);
  for (const ir::Result& result : program.results()) needed[static_cast<std::size_t>(result.value)] = true;
  ir::mark_arguments(program.nodes(), needed, is_known);
  for (std::size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] && !is_known(i);
  return needed;
}

Marks inputs_of_pass(const Program& program, const Structure& structure, int pass, const Values& saved) {
  const Marks computed = computed_in_pass(program, structure, pass, saved);
  Marks read(program.operand_count(), false);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program.nodes()[i];
    if (computed[i] && ir::is_operand(node.op)) read[static_cast<std::size_t>(node.ordinal)] = true;
  }
  return read;
}

// As computed_in_pass(), a bit for each pass: chains may have thousands of both nodes and passes.
std::vector<std::vector<int>> passes_of_inputs(const Program& program, const Structure& structure,
                                               const Values& saved) {
  using Word = std::uint64_t;
  constexpr std::size_t kBits = 64;
  const std::size_t count = program.nodes().size();
  const auto passes = static_cast<std::size_t>(structure.output_pass) + 1;
  const std::size_t words = (passes + kBits - 1) / kBits;
  std::vector<Word> needed(count * words, 0);
  const auto of = [&](Value value) {
    return needed.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(value) * words);
  };
  const auto need = [&](Value value, int pass) {
    of(value)[pass / static_cast<int>(kBits)] |= Word{1} << (static_cast<std::size_t>(pass) % kBits);
  };
  for (const Accumulator& a : structure.accumulators) {
    if (a.lane_segment) continue;  // needed where its results are
    const int pass = a.ends_with_grid() ? structure.output_pass : a.stage - 1;
    if (pass <= structure.output_pass) need(a.argument, pass);
  }
  for (const ir::Result& result : program.results()) need(result.value, structure.output_pass);
  std::vector<std::vector<int>> passes_of(program.operand_count());
  for (std::size_t i = count; i-- > 0;) {
    if (!is_computed_in_passes(structure.nodes[i].scope)) continue;
    const auto own = of(static_cast<Value>(i));
    if (std::ranges::find(saved, static_cast<Value>(i)) != saved.end()) {
      const auto first = static_cast<std::size_t>(pass_that_saves(program, structure, static_cast<Value>(i)));
      for (std::size_t pass = first + 1; pass < passes; ++pass)
        own[static_cast<std::ptrdiff_t>(pass / kBits)] &= ~(Word{1} << (pass % kBits));
    }
    const Node& node = program.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k) {
      const auto argument = of(node.args[static_cast<std::size_t>(k)]);
      for (std::size_t w = 0; w < words; ++w)
        argument[static_cast<std::ptrdiff_t>(w)] |= own[static_cast<std::ptrdiff_t>(w)];
    }
    if (!ir::is_operand(node.op)) continue;
    for (std::size_t pass = 0; pass < passes; ++pass) {
      if ((own[static_cast<std::ptrdiff_t>(pass / kBits)] >> (pass % kBits) & 1U) != 0)
        passes_of[static_cast<std::size_t>(node.ordinal)].push_back(static_cast<int>(pass));
    }
  }
  return passes_of;
}

}  // namespace epifuse::plan
