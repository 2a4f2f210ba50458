// The analysis is one pass over the nodes: stages grow along reductions, reductions of the same value over the same
// dimensions share one accumulator, and a sum of exp(v - amax(v)) joins the accumulator of its amax (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax"), so that softmax is two passes and logsumexp one.
#include "plan/analysis/structure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/text.hpp"
#include "ir/marks.hpp"
#include "plan/analysis/segment_means.hpp"
#include "plan/bind/spans.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using enum ErrorCode;

constexpr std::array<std::string_view, 8> kKindNames = {"sum", "product", "maximum", "minimum",
                                                        "any", "all",     "moments", "max_sumexp"};

class ReductionAnalysis {
 public:
  ReductionAnalysis(const Program& program, const Space& space)
      : program_(program), space_(space), spans_(program, space.spans) {}

  Structure run() {
    structure_.nodes.resize(program_.nodes().size());
    choose_rows();
    choose_segments();
    choose_written();
    assign_all();
    return std::move(structure_);
  }

  Structure run(std::uint32_t rows) {
    structure_.nodes.resize(program_.nodes().size());
    structure_.reduced = rows;
    assign_all();
    return std::move(structure_);
  }

  Structure run_in_runs(std::uint32_t rows, std::uint32_t segment) {
    structure_.nodes.resize(program_.nodes().size());
    structure_.reduced = rows;
    structure_.segment = segment;
    in_runs_ = true;
    assign_all();
    return std::move(structure_);
  }

  Structure run(const SegmentMeans& means, std::uint32_t rows) {
    structure_.nodes.resize(program_.nodes().size());
    structure_.reduced = rows;
    structure_.segment = means.segment;
    structure_.segment_mean_of = means.of;
    segment_means_ = &means;
    assign_all();
    structure_.accumulators.push_back(
        {.kind = AccumulatorKind::sum, .argument = means.of, .stage = structure_.stages, .segment = true});
    return std::move(structure_);
  }

 private:
  void assign_all() {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) assign(static_cast<Value>(i));
    for (const Accumulator& accumulator : structure_.accumulators) {
      if (accumulator.has_stage()) structure_.stages = std::max(structure_.stages, accumulator.stage);
    }
    for (Accumulator& accumulator : structure_.accumulators) {
      if (accumulator.segment) accumulator.stage = structure_.stages + 1;
    }
    // Segments have a pass of their own behind all stages, and results that vary within rows another one.
    structure_.output_pass = structure_.has_segments() ? structure_.stages : std::max(structure_.stages - 1, 0);
    const auto wait_for = [&](Value value) {
      if (!is_computed_in_passes(role(value).scope)) return;
      const int known = structure_.has_segments() ? structure_.stages + 1 : role(value).stage;
      structure_.output_pass = std::max(structure_.output_pass, known);
    };
    for (const ir::Result& result : program_.results()) wait_for(result.value);
    for (const Accumulator& accumulator : structure_.accumulators) {
      if (accumulator.ends_with_grid()) wait_for(accumulator.argument);
    }
    // Column sums are taken in the pass that writes, of what threads hold.
    if (structure_.has_column_sums()) structure_.output_pass = std::max(structure_.output_pass, structure_.stages);
    check_results();
  }

  const Node& node(Value value) const { return program_.node(value); }
  std::uint32_t span(Value value) const { return spans_.of(value); }
  NodeRole& role(Value value) { return structure_.nodes[static_cast<std::size_t>(value)]; }
  std::string_view name(Value value) const { return ir::written_name(node(value)); }

  std::uint32_t mask(Value value) const { return spans_.reduced_by(value); }

  // ---- rows

  void choose_rows() {
    std::optional<Value> chosen;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (mask(value) == 0 || !spans_.is_broadcast_back(value)) continue;
      if (!chosen) {
        chosen = value;
      } else if (mask(*chosen) != mask(value)) {
        chosen = row_of_two(*chosen, value);
      }
    }
    // Nothing is needed again: the fewest dimensions make the row, the other reductions go on as grid reductions.
    for (std::size_t i = 0; i < program_.nodes().size() && !(chosen && spans_.is_broadcast_back(*chosen)); ++i) {
      const auto value = static_cast<Value>(i);
      if (mask(value) == 0) continue;
      // What is left of the rows is reduced across them.
      if (chosen && (span(node(value).args[0]) & mask(*chosen)) == 0) continue;
      const bool is_inner = chosen && (mask(value) & mask(*chosen)) == 0 && mask(value) > mask(*chosen);
      const int fewer = chosen ? std::popcount(mask(*chosen)) - std::popcount(mask(value)) : 1;
      // Of two that have no dimension in common one becomes column sums: rather not that of the innermost dimensions.
      if (fewer > 0 || (fewer == 0 && is_inner)) chosen = value;
    }
    if (chosen) structure_.reduced = mask(*chosen);
  }

  // Of two reductions that are broadcast back: the one over the row. The other one is over lane segments of it.
  Value row_of_two(Value a, Value b) {
    const bool is_first = std::popcount(mask(a)) > std::popcount(mask(b));
    const Value row = is_first ? a : b;
    const Value segment = is_first ? b : a;
    if (!is_segment_of(mask(row), mask(segment), space_.rank())) refuse_two_rows(a, b);
    if (lane_segment_ && mask(*lane_segment_) != mask(segment)) refuse_two_segmentations(*lane_segment_, segment);
    lane_segment_ = segment;
    structure_.lane_segment = mask(segment);
    return row;
  }

  [[noreturn]] void refuse_two_rows(Value a, Value b) const {
    // Two calls of one function differ in what they reduce.
    const auto shown = [&](Value value) {
      const std::string axes =
          name(a) == name(b) ? fmt::format(" (axis={})", ir::print_axes(node(value).shaping.axes)) : std::string();
      return fmt::format("'{}'{}", name(value), axes);
    };
    fail(unsupported,
         "the chain cannot be one kernel: the results of {} and {} are both broadcast back, but they reduce different "
         "dimensions, so no block of threads holds all that both need. Make it two chains: the first ends with what {} "
         "is taken of",
         shown(a), shown(b), shown(b));
  }

  // ---- segments of rows

  // Reductions that take some of a row's dimensions: the innermost ones, so that each takes a run of the row's
  // elements.
  void choose_segments() {
    std::optional<Value> chosen = lane_segment_;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_segment(mask(value))) continue;
      if (chosen && mask(*chosen) != mask(value)) refuse_two_segmentations(*chosen, value);
      chosen = value;
    }
    if (chosen && !lane_segment_) structure_.segment = mask(*chosen);
  }

  bool is_segment(std::uint32_t reduces) const { return is_segment_of(structure_.reduced, reduces, space_.rank()); }

  [[noreturn]] void refuse_two_segmentations(Value a, Value b) const {
    fail(
        unsupported,
        "the chain cannot be one kernel: '{}' and '{}' reduce different segments of the chain's rows, and a row is cut "
        "into segments in one way only. Give '{}' a chain of its own",
        name(a), name(b), name(b));
  }
  [[noreturn]] void refuse_of_segment(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces what other reductions make of segments of the chain's rows, "
         "which "
         "different threads know at different times. Make it two chains: the second begins with '{}'",
         name(value), name(value));
  }

  // ---- what is written in place of rows' elements

  void choose_written() {
    structure_.written = spans_.written();
    if (!structure_.has_written()) return;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (mask(value) != 0 && mask(value) != structure_.reduced) refuse_two_reductions(value);
    }
  }

  [[noreturn]] void refuse_two_reductions(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: results take some elements of rows behind their statistics, and '{}' reduces "
         "other dimensions than these rows have. Make it two chains: the first ends with what '{}' is taken of",
         name(value), name(value));
  }

  // ---- nodes

  void assign(Value value) {
    const Node& n = node(value);
    NodeRole& r = role(value);
    bool is_of_grid = false;
    bool is_of_segment = false;
    bool is_of_columns = false;
    bool is_of_lanes = false;
    bool is_of_pass = false;  // of a row's reductions
    for (int k = 0; k < n.computed_arity(); ++k) {
      const NodeRole& arg = role(n.args[static_cast<std::size_t>(k)]);
      r.stage = std::max(r.stage, arg.stage);
      if (is_computed_in_passes(arg.scope)) r.phase = std::max(r.phase, arg.phase);
      is_of_pass = is_of_pass || (arg.scope == Scope::row && arg.stage > 0);
      is_of_grid = is_of_grid || arg.scope == Scope::grid;
      is_of_segment = is_of_segment || arg.scope == Scope::segment;
      is_of_columns = is_of_columns || arg.scope == Scope::column;
      is_of_lanes = is_of_lanes || arg.scope == Scope::lane_segment;
    }
    r.scope = (span(value) & structure_.written) != 0                                        ? Scope::written
              : (span(value) & structure_.reduced) == 0                                      ? Scope::row
              : structure_.lane_segment != 0 && (span(value) & structure_.lane_segment) == 0 ? Scope::lane_segment
                                                                                             : Scope::element;
    // All segments of a row have the same number: it is computed where each is reduced.
    if (is_of_lanes && r.scope == Scope::row) r.scope = Scope::lane_segment;
    r.per_segment = structure_.segment != 0 && r.scope == Scope::element && (span(value) & structure_.segment) == 0;
    if (segment_means_ != nullptr && segment_means_->within[static_cast<std::size_t>(value)]) is_of_segment = true;
    if (ir::is_reduction(n.op) && mask(value) != 0) {
      const bool is_mean = segment_means_ != nullptr && segment_means_->means[static_cast<std::size_t>(value)];
      if (is_mean && mask(value) == structure_.segment) {  // that of its argument, which is computed of segment means
        r = {.scope = Scope::segment, .stage = r.stage};
        return;
      }
      if (is_of_segment && !is_mean) refuse_of_segment(value);
      return reduce(value, is_of_grid || is_of_columns);
    }
    if (is_of_columns) return assign_column(value, is_of_grid || is_of_segment);
    if (is_of_grid) {
      if (is_of_segment || is_of_pass || (span(value) & (structure_.reduced | structure_.grid)) != 0)
        refuse_after_grid(value);
      r.scope = Scope::grid;
    }
    if (is_of_segment) r = {.scope = Scope::segment, .stage = r.stage};
  }

  [[noreturn]] void refuse_after_grid(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' uses a statistic over many rows together with values of single rows, "
         "which are "
         "written before the statistic is known. Make it two chains",
         name(value));
  }

  void reduce(Value value, bool of_grid) {
    const std::uint32_t rows = structure_.reduced;
    const std::uint32_t reduces = mask(value);
    if (of_grid) refuse_after_grid(value);
    if (role(node(value).args[0]).scope == Scope::lane_segment) refuse_of_segment(value);
    if (structure_.lane_segment != 0 && reduces == structure_.lane_segment) return reduce_lane_segments(value);
    if (structure_.segment != 0 && reduces == structure_.segment && !in_runs_) return reduce_segments(value);
    const bool is_of_whole_rows = (reduces & rows) == rows || (span(node(value).args[0]) & rows) == 0;
    if (!is_of_whole_rows && (reduces & ~rows) == 0 && !in_runs_) refuse_scattered(value);
    if (!is_of_whole_rows) return sum_columns(value);
    const bool is_grid = reduces != rows;
    if (is_grid) {
      const std::uint32_t further = reduces & ~rows;
      if (structure_.across() != 0 && structure_.grid != further) refuse_two_grid_reductions(value);
      structure_.grid = further;
    }
    NodeRole& r = role(value);
    r.accumulator = accumulator_for(value, is_grid ? Scope::grid : Scope::row, r.second);
    r.scope = is_grid ? Scope::grid : Scope::row;
    r.stage = is_grid ? r.stage : structure_.accumulators[static_cast<std::size_t>(r.accumulator)].stage;
    r.phase = 0;
  }

  void reduce_lane_segments(Value value) {
    NodeRole& r = role(value);
    r.scope = Scope::lane_segment;
    r.accumulator = accumulator_for(value, Scope::lane_segment, r.second);
    ++r.phase;
  }

  void reduce_segments(Value value) {
    NodeRole& r = role(value);
    r = {.scope = Scope::segment, .stage = r.stage};
    r.accumulator = accumulator_for(value, Scope::segment, r.second);
  }

  // ---- column sums

  std::uint32_t all_dimensions() const {
    std::uint32_t all = 0;
    for (const std::uint32_t span : space_.spans) all |= span;
    return all;
  }

  // Rows are summed up, or their largest taken, element by element or by segments of them.
  void sum_columns(Value value) {
    const std::uint32_t reduces = mask(value);
    const Value argument = node(value).args[0];
    const std::uint32_t inner = reduces & structure_.reduced;
    if (lane_segment_ && inner != 0) refuse_beside_lane_segments(value);
    const bool is_of_all = span(argument) == all_dimensions() && (inner == 0 || is_segment(inner));
    const bool has_other_segments = structure_.segment != 0 && !in_runs_;
    if (!is_of_all || has_other_segments || structure_.grid != 0) refuse_partial_row(value);
    const AccumulatorKind kind = kind_of(node(value).op);
    if (kind == AccumulatorKind::moments && !in_runs_) refuse_no_column(value);
    if (structure_.columns != 0 && (structure_.columns | structure_.column_segment) != reduces)
      refuse_two_grid_reductions(value);
    structure_.columns = reduces & ~inner;
    structure_.column_segment = inner;
    auto& all = structure_.accumulators;
    const auto is_same = [&](const Accumulator& a) { return a.columns && a.kind == kind && a.argument == argument; };
    auto found = std::ranges::find_if(all, is_same);
    if (found == all.end()) {
      all.push_back(
          {.kind = kind, .argument = argument, .stage = role(argument).stage, .segment = in_runs_, .columns = true});
      found = all.end() - 1;
    }
    role(value) = {.scope = Scope::column,
                   .accumulator = static_cast<int>(found - all.begin()),
                   .second = kind == AccumulatorKind::moments};
  }

  // What follows column sums is computed by those who finish them, from operands alone.
  void assign_column(Value value, bool is_of_others) {
    bool is_of_pass = is_of_others;
    const Node& n = node(value);
    for (int k = 0; k < n.computed_arity(); ++k)
      is_of_pass = is_of_pass || role(n.args[static_cast<std::size_t>(k)]).stage > 0;
    if (is_of_pass || (span(value) & (structure_.columns | structure_.column_segment)) != 0) refuse_after_grid(value);
    role(value) = {.scope = Scope::column};
  }

  [[noreturn]] void refuse_beside_lane_segments(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' combines the chain's rows segment by segment, and '{}' reduces segments "
         "of them, whose results are needed with the rows' elements again. Give '{}' a chain of its own",
         name(value), name(*lane_segment_), name(value));
  }
  [[noreturn]] void refuse_no_column(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' takes a variance over the chain's rows element by element, and threads "
         "that go from row to row keep one number of each element. Make it two chains: the first ends with what '{}' "
         "is taken of",
         name(value), name(value));
  }
  [[noreturn]] void refuse_partial_row(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces other dimensions than the chain's rows have, and not all of "
         "theirs: its "
         "elements belong to different rows. Make it two chains: the first ends with what '{}' is taken of",
         name(value), name(value));
  }
  [[noreturn]] void refuse_scattered(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces some of the dimensions that the chain's rows have, and they are "
         "not the innermost ones in memory: its elements are no run of a row's. Make it two chains: the first ends "
         "with what '{}' is taken of",
         name(value), name(value));
  }
  [[noreturn]] void refuse_two_grid_reductions(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' combines rows over other dimensions than a reduction before it. Give it "
         "a chain "
         "of its own",
         name(value));
  }

  // ---- accumulators

  static AccumulatorKind kind_of(Op op) {
    switch (op) {
      case Op::prod:
        return AccumulatorKind::product;
      case Op::amax:
        return AccumulatorKind::maximum;
      case Op::amin:
        return AccumulatorKind::minimum;
      case Op::any:
        return AccumulatorKind::any;
      case Op::all:
        return AccumulatorKind::all;
      case Op::var:
        return AccumulatorKind::moments;
      default:
        return AccumulatorKind::sum;
    }
  }

  // Another reduction of the same value over the same dimensions, of that operation.
  std::optional<Value> sibling(Value value, Op op) const {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto other = static_cast<Value>(i);
      const Node& n = node(other);
      if (n.op == op && n.args[0] == node(value).args[0] && mask(other) == mask(value)) return other;
    }
    return std::nullopt;
  }

  // `of`: row, segment, lane segment or grid.
  int accumulator_for(Value value, Scope of, bool& second) {
    const Node& n = node(value);
    AccumulatorKind kind = kind_of(n.op);
    Value argument = n.args[0];
    second = n.op == Op::var;
    if (n.op == Op::mean && sibling(value, Op::var)) kind = AccumulatorKind::moments;
    if (n.op == Op::amax && has_sumexp(value)) kind = AccumulatorKind::max_sumexp;
    if (const auto largest = largest_of_sumexp(value)) {
      kind = AccumulatorKind::max_sumexp;
      argument = node(*largest).args[0];
      second = true;
    }
    const bool is_grid = of == Scope::grid;
    const bool is_segment = of == Scope::segment;
    const bool is_lane_segment = of == Scope::lane_segment;
    // Of segments: when all stages are known.
    const int stage = is_segment || is_lane_segment ? 0 : role(argument).stage + (is_grid ? 0 : 1);
    auto& all = structure_.accumulators;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind == kind && all[i].argument == argument && all[i].grid == is_grid && !all[i].columns &&
          all[i].segment == is_segment && all[i].lane_segment == is_lane_segment)
        return static_cast<int>(i);
    }
    all.push_back({kind, argument, stage, is_grid, is_segment, false, is_lane_segment,
                   space_.counts[static_cast<std::size_t>(value)]});
    return static_cast<int>(all.size()) - 1;
  }

  // The amax M if `value` is sum(exp(v - M)) or sum(exp(v - where(isinf(M), 0, M))) with M = amax(v) over the same
  // dimensions.
  std::optional<Value> largest_of_sumexp(Value value) const {
    const Node& sum = node(value);
    if (sum.op != Op::sum) return std::nullopt;
    const Node& exponential = node(sum.args[0]);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& difference = node(exponential.args[0]);
    if (difference.op != Op::sub) return std::nullopt;
    const Value largest = unguarded(difference.args[1]);
    const Node& m = node(largest);
    const bool matches = m.op == Op::amax && m.args[0] == difference.args[0] && mask(largest) == mask(value);
    return matches ? std::optional(largest) : std::nullopt;
  }

  // M of where(isinf(M), 0, M), else the value itself.
  Value unguarded(Value value) const {
    const Node& n = node(value);
    if (n.op != Op::where) return value;
    const Node& condition = node(n.args[0]);
    const Node& zero = node(n.args[1]);
    const bool guard =
        condition.op == Op::isinf && condition.args[0] == n.args[2] && zero.op == Op::constant && zero.constant == 0;
    return guard ? n.args[2] : value;
  }

  bool has_sumexp(Value amax) const {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto largest = largest_of_sumexp(static_cast<Value>(i));
      if (largest && node(*largest).args[0] == node(amax).args[0] && mask(*largest) == mask(amax)) return true;
    }
    return false;
  }

  // ---- results

  void check_results() const {
    std::uint32_t all = 0;
    for (const std::uint32_t s : space_.spans) all |= s;
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const Value value = program_.results()[i].value;
      const Scope scope = structure_.nodes[static_cast<std::size_t>(value)].scope;
      const bool within = scope == Scope::element || scope == Scope::written || !structure_.has_reductions();
      const std::uint32_t others = scope == Scope::written ? structure_.reduced : structure_.written;
      if (within && span(value) != (all & ~others)) {
        fail(unsupported,
             "output '{}' has some, but not all of the dimensions that the chain's rows have: compute it in a chain of "
             "its own",
             program_.result_name(i));
      }
    }
  }

  const Program& program_;
  const Space& space_;
  const Spans spans_;
  const SegmentMeans* segment_means_ = nullptr;
  std::optional<Value> lane_segment_;  // a reduction of lane segments
  bool in_runs_ = false;               // column sums are accumulated segment by segment
  Structure structure_;
};

}  // namespace

std::string_view to_string(AccumulatorKind kind) noexcept { return kKindNames[static_cast<std::size_t>(kind)]; }

int words_of(AccumulatorKind kind) noexcept {
  return kind == AccumulatorKind::moments ? 4 : kind == AccumulatorKind::max_sumexp ? 2 : 1;
}

Value unshaped(const Program& program, Value value) noexcept {
  while (ir::is_shape(program.node(value).op)) value = program.node(value).args[0];
  return value;
}

Structure analyse(const Program& program, const Space& space) { return ReductionAnalysis(program, space).run(); }
std::optional<Structure> analyse_segment_means(const Program& program, const Space& space, std::uint32_t rows) {
  const std::optional<SegmentMeans> means = find_segment_means(program, space, rows);
  if (!means) return std::nullopt;
  return ReductionAnalysis(program, space).run(*means, rows);
}

std::optional<Structure> analyse_column_sums(const Program& program, const Space& space, const Structure& structure) {
  const auto is_sum = [](const Accumulator& a) {
    return a.kind == AccumulatorKind::sum && a.stage == 1 && !a.segment && a.has_stage();
  };
  const auto is_of_elements = [&](const ir::Result& result) {
    return structure.nodes[static_cast<std::size_t>(result.value)].scope == Scope::element;
  };
  const bool is_one_pass =
      structure.stages == 1 && structure.output_pass == 0 && structure.across() == 0 && !structure.has_written();
  if (!is_one_pass || !std::ranges::all_of(structure.accumulators, is_sum) ||
      std::ranges::none_of(program.results(), is_of_elements))
    return std::nullopt;
  const int after_summed = std::bit_width(structure.reduced);
  if (after_summed >= space.rank()) return std::nullopt;
  const std::uint32_t all = (1U << space.rank()) - 1;
  return ReductionAnalysis(program, space).run(all & ~((1U << after_summed) - 1));
}

std::optional<Structure> analyse_column_runs(const Program& program, const Space& space, const Structure& structure) {
  const bool are_columns = structure.column_segment != 0;
  const bool are_segments = structure.has_segments() && structure.grid == 0 && !structure.has_segment_means();
  if ((!are_columns && !are_segments) || structure.has_written()) return std::nullopt;
  const std::uint32_t segment = are_columns ? structure.column_segment : structure.segment;
  try {
    return ReductionAnalysis(program, space).run_in_runs(structure.reduced, segment);
  } catch (const Error& error) {
    // What is made of segments needs them while rows are known. The chain is refused in the words for its own form.
    if (error.code() != unsupported) throw;
    return std::nullopt;
  }
}

bool is_segment_of(std::uint32_t rows, std::uint32_t segment, int rank) noexcept {
  const std::uint32_t others = rows & ~segment;
  if (segment == 0 || others == 0 || (segment & ~rows) != 0) return false;
  return rank == 0 || ((segment >> (rank - 1) & 1U) != 0 && others < (segment & -segment));
}

int accumulator_of_exponential(const Program& program, const Structure& structure, Value value) {
  const Node& exponential = program.node(value);
  if (exponential.op != Op::exp) return -1;
  const Node& difference = program.node(exponential.args[0]);
  if (difference.op != Op::sub || program.node(difference.args[1]).op != Op::amax) return -1;
  const int accumulator = structure.nodes[static_cast<std::size_t>(difference.args[1])].accumulator;
  if (accumulator < 0) return -1;
  const Accumulator& a = structure.accumulators[static_cast<std::size_t>(accumulator)];
  const bool is_term = a.kind == AccumulatorKind::max_sumexp && a.argument == difference.args[0] && a.has_stage();
  return is_term ? accumulator : -1;
}

NodeRole role_of_input(const Program& program, const Structure& structure, std::size_t input) {
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (ir::is_operand(node.op) && static_cast<std::size_t>(node.ordinal) == input) return structure.nodes[i];
  }
  return {};
}

std::string Structure::text() const {
  std::string text = fmt::format("passes{}", output_pass + 1);
  if (has_segment_means()) text += fmt::format(" segment_means({})", segment_mean_of);
  for (const Accumulator& a : accumulators)
    text += fmt::format(" {}({}){}{}", to_string(a.kind), a.argument,
                        a.grid           ? "grid"
                        : a.in_runs()    ? "runs"
                        : a.columns      ? "columns"
                        : a.lane_segment ? "lanes"
                                         : "@",
                        a.stage);
  text += ' ';
  for (const NodeRole& node : nodes) {
    text += node.per_segment ? 'w' : "regsclv"[static_cast<std::size_t>(node.scope)];
    if (node.accumulator >= 0) text += fmt::format("{}{}", node.accumulator, node.second ? "'" : "");
  }
  return text;
}

}  // namespace epifuse::plan
