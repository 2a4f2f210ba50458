// Which values each loop of a pass computes. A value's phase counts the reductions of lane segments that come before
// it.
#include "codegen/reduction/loops.hpp"

#include <algorithm>

namespace epifuse::codegen {
namespace {

using ir::Node;
using ir::Program;
using ir::Value;
using plan::NodeRole;
using plan::ReductionClass;
using plan::Scope;

class LoopSplitter {
 public:
  LoopSplitter(const Program& program, const ReductionClass& reduction, const PassNeeds& needs)
      : program_(program), structure_(reduction.structure), saved_(reduction.residency.saved), needs_(needs) {
    for (std::size_t i = 0; i < needs.computed.size(); ++i) {
      if (!reduces_lanes(i)) continue;
      const int phase = role(accumulator_of(i).argument).phase;
      if (std::ranges::find(phases_, phase) == phases_.end()) phases_.push_back(phase);
    }
    std::ranges::sort(phases_);
  }

  std::vector<ElementLoop> split() const {
    std::vector<ElementLoop> loops(phases_.size() + 1);
    for (ElementLoop& loop : loops) loop.computed = plan::Marks(needs_.computed.size(), false);
    for (std::size_t i = 0; i < needs_.computed.size(); ++i) {
      if (needs_.computed[i]) place(i, loops);
    }
    for (const std::size_t i : needs_.fed) loops[loop_of(structure_.accumulators[i].argument)].fed.push_back(i);
    for (const std::size_t i : needs_.outputs) loops[loop_of(program_.results()[i].value)].outputs.push_back(i);
    for (std::size_t k = 0; k < loops.size(); ++k) connect(k, loops);
    return loops;
  }

 private:
  const NodeRole& role(Value value) const {
    return structure_.nodes[static_cast<std::size_t>(plan::unshaped(program_, value))];
  }
  const plan::Accumulator& accumulator_of(std::size_t i) const {
    return structure_.accumulators[static_cast<std::size_t>(structure_.nodes[i].accumulator)];
  }
  bool reduces_lanes(std::size_t i) const {
    const NodeRole& r = structure_.nodes[i];
    return needs_.computed[i] && r.scope == Scope::lane_segment && r.accumulator >= 0;
  }

  // The first loop in which a value can be computed.
  std::size_t loop_of(Value value) const {
    const int phase = role(value).phase;
    return static_cast<std::size_t>(std::ranges::count_if(phases_, [&](int before) { return before < phase; }));
  }

  void place(std::size_t i, std::vector<ElementLoop>& loops) const {
    const auto value = static_cast<Value>(i);
    ElementLoop& loop = loops[loop_of(value)];
    if (structure_.nodes[i].scope == Scope::lane_segment) {
      loop.segments.push_back(value);
    } else {
      loop.computed[i] = true;
    }
    if (!reduces_lanes(i)) return;
    const auto accumulator = static_cast<std::size_t>(structure_.nodes[i].accumulator);
    std::vector<std::size_t>& lanes = loops[loop_of(accumulator_of(i).argument)].lanes;
    if (std::ranges::find(lanes, accumulator) == lanes.end()) lanes.push_back(accumulator);
  }

  // What the loop takes of operands and of loops before it.
  void connect(std::size_t k, std::vector<ElementLoop>& loops) const {
    plan::Marks used(needs_.computed.size(), false);
    const auto use = [&](Value value) { used[static_cast<std::size_t>(plan::unshaped(program_, value))] = true; };
    for (std::size_t i = 0; i < used.size(); ++i) {
      const Node& node = program_.nodes()[i];
      if (!loops[k].computed[i] || !ir::is_computed(node.op)) continue;
      for (int a = 0; a < node.computed_arity(); ++a) use(node.args[static_cast<std::size_t>(a)]);
    }
    for (const std::size_t i : loops[k].fed) use(structure_.accumulators[i].argument);
    for (const std::size_t i : loops[k].lanes) use(structure_.accumulators[i].argument);
    for (const std::size_t i : loops[k].outputs) use(program_.results()[i].value);
    plan::Marks read(program_.operand_count(), false);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const Node& node = program_.nodes()[i];
      if (used[i] && ir::is_operand(node.op)) read[static_cast<std::size_t>(node.ordinal)] = true;
    }
    for (const std::size_t i : needs_.inputs) {
      if (read[i]) loops[k].inputs.push_back(i);
    }
    for (std::size_t before = 0; before < k; ++before) {
      for (std::size_t i = 0; i < used.size(); ++i) {
        const auto value = static_cast<Value>(i);
        if (!used[i] || !loops[before].computed[i] || !ir::is_computed(program_.nodes()[i].op) || is_saved(value))
          continue;
        loops[k].taken.push_back(value);
        std::vector<Value>& given = loops[before].given;
        if (std::ranges::find(given, value) == given.end()) given.push_back(value);
      }
    }
  }

  bool is_saved(Value value) const { return std::ranges::find(saved_, value) != saved_.end(); }

  const Program& program_;
  const plan::Structure& structure_;
  const plan::Values& saved_;
  const PassNeeds& needs_;
  std::vector<int> phases_;  // of the pass, behind each of which lanes agree
};

}  // namespace

bool knows_segments(const std::vector<ElementLoop>& loops) {
  return std::ranges::any_of(loops, [](const ElementLoop& loop) { return !loop.segments.empty(); });
}

std::vector<ElementLoop> loops_of(const Program& program, const ReductionClass& reduction, const PassNeeds& needs) {
  if (reduction.lane_segments) return LoopSplitter(program, reduction, needs).split();
  return {{.computed = needs.computed,
           .segments = {},
           .taken = {},
           .given = {},
           .inputs = needs.inputs,
           .fed = needs.fed,
           .outputs = needs.outputs,
           .lanes = {}}};
}

}  // namespace epifuse::codegen
