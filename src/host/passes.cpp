// Which pass computes what. A reduction is one stage above its argument; stage by stage come the values worth holding,
// then the reductions, and after the last stage the passes that write.
#include "host/passes.hpp"

#include <algorithm>
#include <bit>

namespace epifuse::host {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using plan::Space;

// A value that varies over fewer dimensions than its user is computed on its own, and not again for each element of the
// user, if it has this many times fewer elements: the memory is small then.
constexpr std::int64_t kWorthHolding = 8;

// A value that passes of later stages need is held, too, if they would compute it in so many operations one behind the
// other: passes of a long chain then begin where one before them ended, not at the operands.
constexpr int kDeep = 24;

class Analysis {
 public:
  Analysis(const Program& program, const Space& space, const std::vector<Value>& roots)
      : program_(program),
        space_(space),
        roots_(roots),
        computed_(plan::computed_values(program)),
        is_held_(program.nodes().size(), false) {}

  std::vector<Pass> run() {
    find_stages();
    find_held();
    find_deep();
    const int last = *std::ranges::max_element(stages_);
    for (int stage = 0; stage <= last; ++stage) {
      add_holds(stage);
      add_reductions(stage);
    }
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (is_reduced(i)) is_held_[i] = true;
    }
    std::vector<Pass> writes = write_passes();
    save_inputs(writes);
    passes_.insert(passes_.end(), writes.begin(), writes.end());
    return passes_;
  }

 private:
  const std::vector<Node>& nodes() const { return program_.nodes(); }
  std::uint32_t span(Value value) const { return space_.spans[index(value)]; }
  static bool is_computed(const Node& node) { return node.op >= Op::cast && node.op < Op::sum; }
  bool is_reduced(std::size_t i) const { return computed_[i] && ir::is_reduction(nodes()[i].op); }

  void find_stages() {
    for (const Node& node : nodes()) {
      int stage = 0;
      for (int k = 0; k < node.computed_arity(); ++k)
        stage = std::max(stage, stages_[index(node.args[static_cast<std::size_t>(k)])]);
      stages_.push_back(stage + (ir::is_reduction(node.op) ? 1 : 0));
    }
  }

  void find_held() {
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (!computed_[i] || !is_computed(nodes()[i])) continue;
      for (int k = 0; k < nodes()[i].arity(); ++k) {
        const Value arg = roots_[index(nodes()[i].args[static_cast<std::size_t>(k)])];
        const bool is_smaller = span(arg) != space_.spans[i] &&
                                elements_of(space_, span(arg)) <= elements_of(space_, space_.spans[i]) / kWorthHolding;
        if (is_smaller && is_computed(program_.node(arg))) is_held_[index(arg)] = true;
      }
    }
  }

  void find_deep() {
    std::vector<bool> is_needed_later(nodes().size(), false);
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (!computed_[i] || !is_computed(nodes()[i])) continue;
      for (int k = 0; k < nodes()[i].arity(); ++k) {
        const Value arg = roots_[index(nodes()[i].args[static_cast<std::size_t>(k)])];
        if (stages_[index(arg)] < stages_[i]) is_needed_later[index(arg)] = true;
      }
    }
    std::vector<int> depths(nodes().size(), 0);
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (!is_computed(nodes()[i]) || is_held_[i]) continue;
      for (int k = 0; k < nodes()[i].arity(); ++k)
        depths[i] = std::max(depths[i], depths[index(roots_[index(nodes()[i].args[static_cast<std::size_t>(k)])])] + 1);
      if (depths[i] < kDeep || !is_needed_later[i]) continue;
      is_held_[i] = true;
      depths[i] = 0;
    }
  }

  // Values of fewer dimensions first: those of more may need them.
  void add_holds(int stage) {
    std::vector<Pass> holds;
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (is_held_[i] && stages_[i] == stage) add(holds, Purpose::hold, space_.spans[i], 0, static_cast<int>(i));
    }
    std::ranges::stable_sort(holds, {}, [](const Pass& pass) { return std::popcount(pass.span); });
    passes_.insert(passes_.end(), holds.begin(), holds.end());
  }

  void add_reductions(int stage) {
    for (std::size_t i = 0; i < nodes().size(); ++i) {
      if (!is_reduced(i) || stages_[i] != stage + 1) continue;
      add(passes_, Purpose::reduce, span(nodes()[i].args[0]), space_.spans[i], static_cast<int>(i), stage);
    }
  }

  // One pass takes all that is alike.
  void add(std::vector<Pass>& passes, Purpose purpose, std::uint32_t span, std::uint32_t parallel, int member,
           int stage = 0) {
    const auto alike = [&](const Pass& pass) {
      if (pass.purpose != purpose || pass.span != span || pass.parallel != parallel) return false;
      return purpose != Purpose::reduce || stages_[static_cast<std::size_t>(pass.members[0])] == stage + 1;
    };
    const auto it = std::ranges::find_if(passes, alike);
    if (it != passes.end()) return it->members.push_back(member);
    passes.push_back({purpose, span, parallel, {member}});
  }

  // Outputs of more dimensions first: those of fewer may lie over operands that the others still read.
  std::vector<Pass> write_passes() {
    std::vector<Pass> writes;
    for (std::size_t i = 0; i < program_.results().size(); ++i)
      add(writes, Purpose::write, span(program_.results()[i].value), 0, static_cast<int>(i));
    std::ranges::stable_sort(writes, std::greater<>(), [](const Pass& pass) { return std::popcount(pass.span); });
    return writes;
  }

  // In place, an operand must be read before it is written over: its own element by the same pass, or all of it by an
  // earlier one. Where that does not hold (an operand that another pass reads too, or along another dimension), it is
  // copied first.
  void save_inputs(const std::vector<Pass>& writes) {
    std::vector<bool> is_saved(nodes().size(), false);
    for (std::size_t reader = 0; reader < writes.size(); ++reader) {
      std::vector<Value> targets;
      for (const int member : writes[reader].members)
        targets.push_back(program_.results()[static_cast<std::size_t>(member)].value);
      const std::vector<bool> needed = needed_for(program_, roots_, targets, is_held_);
      for (std::size_t i = 0; i < nodes().size(); ++i) {
        if (!needed[i] || is_saved[i] || nodes()[i].op != Op::input) continue;
        is_saved[i] = is_overwritten(nodes()[i], writes, reader);
        if (is_saved[i]) add(passes_, Purpose::hold, space_.spans[i], 0, static_cast<int>(i));
      }
    }
  }

  bool is_overwritten(const Node& input, const std::vector<Pass>& writes, std::size_t reader) const {
    const plan::StridedOperand& read = space_.inputs[static_cast<std::size_t>(input.ordinal)];
    for (std::size_t writer = 0; writer <= reader; ++writer) {
      for (const int member : writes[writer].members) {
        const plan::StridedOperand& written = space_.outputs[static_cast<std::size_t>(member)];
        const bool in_step = writer == reader && written.strides == read.strides;
        if (written.data == read.data && !in_step) return true;
      }
    }
    return false;
  }

  const Program& program_;
  const Space& space_;
  const std::vector<Value>& roots_;
  const base::InlineVector<bool, 64> computed_;  // by node
  std::vector<int> stages_;
  std::vector<bool> is_held_;
  std::vector<Pass> passes_;
};

}  // namespace

std::vector<Value> roots_of(const Program& program) {
  std::vector<Value> roots;
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    roots.push_back(ir::is_movement(node.op) ? roots[index(node.args[0])] : static_cast<Value>(i));
  }
  return roots;
}

std::vector<Pass> passes_of(const Program& program, const Space& space, const std::vector<Value>& roots) {
  return Analysis(program, space, roots).run();
}

std::vector<bool> needed_for(const Program& program, const std::vector<Value>& roots, const std::vector<Value>& targets,
                             const std::vector<bool>& held) {
  std::vector<bool> needed(program.nodes().size(), false);
  for (const Value target : targets) needed[index(roots[index(target)])] = true;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i] || held[i]) continue;
    const Node& node = program.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[index(roots[index(node.args[static_cast<std::size_t>(k)])])] = true;
  }
  return needed;
}

std::int64_t elements_of(const Space& space, std::uint32_t dimensions) {
  std::int64_t elements = 1;
  for (int d = 0; d < space.rank(); ++d) elements *= (dimensions >> d & 1U) != 0 ? space.extents[d] : 1;
  return elements;
}

}  // namespace epifuse::host
