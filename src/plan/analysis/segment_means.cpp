// From each mean back through the chain, until there is a value that no reduction is needed for. On the way only sums,
// differences, products with and quotients by what does not vary along the innermost dimension: their summands and
// factors say which dimensions the segment means may be taken over.
#include "plan/analysis/segment_means.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;

class SegmentMeanFinder {
 public:
  SegmentMeanFinder(const Program& program, const Space& space, std::uint32_t rows)
      : program_(program), space_(space), rows_(rows), waits_(program.nodes().size(), false) {
    found_.within.assign(waits_.size(), false);
    found_.means.assign(waits_.size(), false);
  }

  std::optional<SegmentMeans> run() {
    if (rows_ == 0 || space_.rank() == 0) return std::nullopt;
    for (std::size_t i = 0; i < waits_.size(); ++i) waits_[i] = waits_for_reductions(static_cast<Value>(i));
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const auto value = static_cast<Value>(i);
      const std::uint32_t reduces = mask(value);
      const bool is_of_operands = reduces == rows_ && !waits(node(value).args[0]);
      if (reduces != 0 && !is_of_operands && !follow_mean(value)) return std::nullopt;
    }
    if (found_.of == ir::kNone || !choose_segment() || are_needed()) return std::nullopt;
    return found_;
  }

 private:
  const Node& node(Value value) const { return program_.node(value); }
  std::uint32_t span(Value value) const { return space_.spans[static_cast<std::size_t>(value)]; }
  std::uint32_t mask(Value value) const {
    return ir::is_reduction(node(value).op) ? span(node(value).args[0]) & ~span(value) : 0;
  }
  bool varies(Value value) const { return (span(value) >> (space_.rank() - 1) & 1U) != 0; }
  bool waits(Value value) const { return waits_[static_cast<std::size_t>(value)]; }

  bool waits_for_reductions(Value value) const {
    const Node& n = node(value);
    bool any = mask(value) != 0;
    for (int k = 0; k < n.computed_arity(); ++k) any = any || waits(n.args[static_cast<std::size_t>(k)]);
    return any;
  }

  bool follow_mean(Value mean) {
    const std::uint32_t reduces = mask(mean);
    const bool is_of_rows = (reduces & rows_) == rows_;
    if (node(mean).op != Op::mean || !varies(node(mean).args[0]) || !follow(node(mean).args[0])) return false;
    found_.means[static_cast<std::size_t>(mean)] = true;
    if (is_of_rows) return reduces != rows_;
    const bool is_the_segment = found_.segment == 0 || found_.segment == reduces;
    found_.segment = reduces;
    return is_the_segment;
  }

  // That of the means over segments; if all are over rows, the most that factors and summands allow.
  bool choose_segment() {
    if (found_.segment == 0) found_.segment = rows_ & ~shares_;
    if (found_.segment == rows_) found_.segment = 1U << (space_.rank() - 1);
    return (found_.segment & shares_) == 0 && is_segment_of(rows_, found_.segment, space_.rank());
  }

  bool follow(Value top) {
    Marks open(waits_.size(), false);
    open[static_cast<std::size_t>(top)] = true;
    for (std::size_t i = static_cast<std::size_t>(top) + 1; i-- > 0;) {
      if (!open[i]) continue;
      if (!waits_[i]) {
        if (!take(static_cast<Value>(i))) return false;
        continue;
      }
      const Node& n = program_.nodes()[i];
      if (!is_affine(n)) return false;
      found_.within[i] = true;
      for (int k = 0; k < n.computed_arity(); ++k) {
        const Value argument = n.args[static_cast<std::size_t>(k)];
        if (varies(argument)) {
          open[static_cast<std::size_t>(argument)] = true;
        } else {
          shares_ |= span(argument);
        }
      }
    }
    return true;
  }

  bool is_affine(const Node& n) const {
    switch (n.op) {
      case Op::unflatten:
      case Op::flatten:
      case Op::neg:
      case Op::add:
      case Op::sub:
        return true;
      case Op::mul:
        return !varies(n.args[0]) || !varies(n.args[1]);
      case Op::div:
        return !varies(n.args[1]);
      default:
        return false;
    }
  }

  // One value, and a number, for all means.
  bool take(Value value) {
    value = unshaped(program_, value);
    const Node& n = node(value);
    const bool is_truth = n.op == Op::input ? space_.inputs[static_cast<std::size_t>(n.ordinal)].dtype == DType::boolean
                                            : ir::gives_truth(n);
    if (is_truth || (found_.of != ir::kNone && found_.of != value)) return false;
    found_.of = value;
    return true;
  }

  // Elements of what is computed of segment means.
  bool are_needed() const {
    const auto is_within = [&](Value value) { return found_.within[static_cast<std::size_t>(value)]; };
    for (std::size_t i = 0; i < waits_.size(); ++i) {
      const Node& n = program_.nodes()[i];
      if (found_.within[i] || found_.means[i]) continue;
      for (int k = 0; k < n.computed_arity(); ++k) {
        if (is_within(n.args[static_cast<std::size_t>(k)])) return true;
      }
    }
    return std::ranges::any_of(program_.results(), [&](const ir::Result& result) {
      return is_within(result.value) ||
             (varies(result.value) && (span(result.value) & rows_) != 0);  // elements are written besides
    });
  }

  const Program& program_;
  const Space& space_;
  const std::uint32_t rows_;
  Marks waits_;               // by node: needs a reduction's result
  std::uint32_t shares_ = 0;  // dimensions over which factors and summands vary
  SegmentMeans found_;
};

}  // namespace

std::optional<SegmentMeans> find_segment_means(const Program& program, const Space& space, std::uint32_t rows) {
  return SegmentMeanFinder(program, space, rows).run();
}

}  // namespace epifuse::plan
