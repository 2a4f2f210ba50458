// What all reductions have in common, said in a sentence: what a pass is for, who shares a row, what is held, and why
// nobody holds a row. Why a driver has the rows stands beside its planner.
#include "plan/reduction/explain.hpp"

#include <algorithm>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

class ReductionExplainer {
 public:
  ReductionExplainer(const ir::Program& program, const Plan& plan)
      : program_(program),
        plan_(plan),
        kernel_(plan.kernel_class),
        reduction_(*kernel_.reduction()),
        passes_of_(passes_of_inputs(program, reduction_.structure, reduction_.residency.saved)) {}

  ReductionSummary summary() const {
    ReductionSummary s;
    s.rows = plan_.rows * plan_.row_columns;
    s.row_length = plan_.row_length;
    s.inner_reduction = reduction_.layout.inner_reduction;
    s.rows_side_by_side = plan_.row_columns;
    s.segments_per_row = plan_.segments_per_row;
    s.segment_length = plan_.segment_length;
    s.lane_segments = reduction_.lane_segments.has_value();
    s.segment_lanes = s.lane_segments ? reduction_.lane_segments->lanes : plan_.segment_lanes;
    s.group_threads = reduction_.threads.group;
    s.cluster_blocks = reduction_.cluster();
    s.blocks_per_row = reduction_.shares_rows() ? plan_.chunks : reduction_.cluster();
    s.rows_per_block = rows_per_block();
    s.rounds = rounds();
    s.lag = plan_.lag;
    s.prefetch_distance = plan_.prefetch_distance < plan_.blocks ? plan_.prefetch_distance : 0;
    s.prefetch_bytes = s.prefetch_distance > 0 ? prefetch_bytes() : 0;
    s.next_rows_bytes = reduction_.columns && reduction_.prefetches() ? next_rows_bytes() : 0;
    s.shared_by = shared_by();
    for (int pass = 0; pass < passes(); ++pass) s.passes.push_back(pass_summary(pass));
    if (reduction_.structure.has_written()) s.passes.push_back(written_summary());
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (is_needed_again(i)) s.held.push_back(program_.operand_text(i));
    }
    for (const ir::Value value : reduction_.residency.saved) s.saved.push_back(name(value));
    s.held_in = reduction_.is_in_shared_memory() ? "shared memory" : "registers";
    s.staged_bytes = static_cast<std::uint64_t>(plan_.shared_bytes);
    s.bytes_under_way = reduction_.is<Split>() ? bytes_under_way() : 0;
    return s;
  }

  // Of one block over its rows, or its chunk of a row.
  std::int64_t rounds() const {
    if (reduction_.is<Split>()) return plan_.rounds;
    return reduction_.is<Looped>() || reduction_.is<BySegments>() ? plan_.chunks : 1;
  }
  int passes() const { return reduction_.structure.output_pass + 1; }

  Scope scope_of_input(std::size_t input) const { return plan::scope_of_input(program_, reduction_.structure, input); }
  Scope scope_of_result(std::size_t output) const {
    return reduction_.structure.nodes[static_cast<std::size_t>(program_.results()[output].value)].scope;
  }

  // Passes that compute something from the operand's elements.
  const std::vector<int>& passes_with(std::size_t input) const { return passes_of_[input]; }

  // In registers or shared memory from the first pass on; a block that reads its rows again holds nothing.
  bool is_held(std::size_t input) const {
    return (reduction_.is_resident() || reduction_.is<SplitResident>()) && reduction_.residency.held[input];
  }

  bool is_needed_again(std::size_t input) const {
    return is_held(input) && std::ranges::any_of(passes_with(input), [](int pass) { return pass > 0; });
  }

  // The same for all elements of a segment, and needed where segments are reduced or after that.
  bool is_read_by_segments(std::size_t input) const {
    return role_of_input(program_, reduction_.structure, input).per_segment &&
           std::ranges::all_of(passes_with(input),
                               [&](int pass) { return reduction_.structure.is_segment_pass(pass); });
  }

  int reads(std::size_t input) const {
    const bool again = scope_of_input(input) == Scope::element && kernel_.inputs[input].access != Access::uniform;
    return is_held(input) || !again ? 1 : std::max(1, static_cast<int>(passes_with(input).size()));
  }

 private:
  // An operand by its name, another value by its number in the SSA list and what computes it.
  std::string name(ir::Value value) const {
    const ir::Node& node = program_.node(value);
    if (ir::is_operand(node.op)) return program_.operand_text(static_cast<std::size_t>(node.ordinal));
    if (ir::is_elementwise(node.op) || ir::is_reduction(node.op))
      return fmt::format("%{} ({})", value, ir::name_of(node.op));
    return fmt::format("%{}", value);
  }
  PassSummary pass_summary(int pass) const {
    PassSummary s;
    for (const Accumulator& a : reduction_.structure.accumulators) {
      if (a.ends_with_grid() ? pass == reduction_.structure.output_pass : a.has_stage() && pass + 1 == a.stage) {
        s.accumulates.push_back(fmt::format("{} of {}{}", to_string(a.kind), name(unshaped(program_, a.argument)),
                                            a.grid        ? " over the grid"
                                            : a.in_runs() ? " by segment, over rows"
                                            : a.columns   ? " over rows"
                                            : a.segment   ? " by segment"
                                                          : ""));
      }
    }
    add_lane_segments(s, pass);
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (!is_computed_in_passes(scope_of_input(i)) || kernel_.inputs[i].access == Access::uniform) continue;
      const std::vector<int>& users = passes_with(i);
      const bool ends = reduction_.structure.has_segment_means() && users.empty();  // what follows the segment means
      const bool reads = ends || (is_held(i) ? pass == 0 : std::ranges::find(users, pass) != users.end());
      if (reads) s.reads.push_back(program_.operand_text(i));
    }
    for (std::size_t i = 0; i < kernel_.outputs.size() && pass == reduction_.structure.output_pass; ++i) {
      if (is_computed_in_passes(scope_of_result(i))) s.writes.push_back(program_.result_name(i));
    }
    const bool ends_segments = reduction_.structure.is_segment_pass(pass) || reduction_.structure.has_segment_means();
    for (std::size_t i = 0; i < kernel_.outputs.size() && ends_segments; ++i) {
      if (scope_of_result(i) == Scope::segment) s.writes.push_back(program_.result_name(i));
    }
    return s;
  }

  // What is written in place of rows' elements, behind all passes.
  PassSummary written_summary() const {
    PassSummary s;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (scope_of_input(i) == Scope::written && kernel_.inputs[i].access != Access::uniform)
        s.reads.push_back(program_.operand_text(i));
    }
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (kernel_.outputs[i].written) s.writes.push_back(program_.result_name(i));
    }
    return s;
  }

  // Reductions of lane segments that the pass takes on its way.
  void add_lane_segments(PassSummary& s, int pass) const {
    if (!reduction_.lane_segments) return;
    const Marks computed = computed_in_pass(program_, reduction_.structure, pass, reduction_.residency.saved);
    Marks is_listed(reduction_.structure.accumulators.size(), false);
    for (std::size_t i = 0; i < computed.size(); ++i) {
      const NodeRole& role = reduction_.structure.nodes[i];
      if (!computed[i] || role.scope != Scope::lane_segment || role.accumulator < 0) continue;
      const auto index = static_cast<std::size_t>(role.accumulator);
      const Accumulator& a = reduction_.structure.accumulators[index];
      if (!is_listed[index])
        s.accumulates.push_back(
            fmt::format("{} of {} by segment", to_string(a.kind), name(unshaped(program_, a.argument))));
      is_listed[index] = true;
    }
  }

  std::int64_t rows_per_block() const {
    if (!reduction_.layout.inner_reduction)
      return std::min<std::int64_t>(plan_.row_columns, std::int64_t{reduction_.threads.columns} * kernel_.elements);
    return reduction_.shares_rows()
               ? 1
               : std::max(1, plan_.threads / reduction_.threads.group) * reduction_.rows_per_group();
  }

  std::string shared_by() const {
    std::string who = threads_text();
    if (reduction_.cluster() > 1) return fmt::format("a cluster of {} blocks, {} of each", reduction_.cluster(), who);
    if (reduction_.shares_rows() && plan_.chunks > 1) return fmt::format("{} blocks, {} of each", plan_.chunks, who);
    return who;
  }
  std::string threads_text() const {
    if (!reduction_.layout.inner_reduction) {
      return fmt::format("{} thread{} of an outer reduction, each for {} row{} side by side", reduction_.threads.group,
                         reduction_.threads.group == 1 ? "" : "s", kernel_.elements, kernel_.elements == 1 ? "" : "s");
    }
    if (reduction_.threads.group == 1) return "one thread";
    if (reduction_.threads.group < kWarp) return fmt::format("{} lanes of a warp", reduction_.threads.group);
    if (reduction_.threads.group == kWarp) return "one warp";
    return fmt::format("{} warps", reduction_.threads.group / kWarp);
  }

  template <class Which>
  std::uint64_t bytes_of_inputs(const Which& which) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (which(i)) bytes += bytes_of(plan_.space.inputs[i], plan_.space);
    }
    return bytes;
  }

  // Of a split row between two passes: what was read by the first and not yet by the last.
  std::uint64_t bytes_under_way() const {
    const std::uint64_t bytes =
        bytes_of_inputs([&](std::size_t i) { return reduction_.residency.held[i] && reads(i) > 1; });
    const auto tiles = static_cast<std::uint64_t>(std::max<std::int64_t>(plan_.tiles, 1));
    const auto under_way = std::min(tiles, static_cast<std::uint64_t>(plan_.lag * (passes() - 1) + 1));
    return bytes / tiles * under_way;
  }

  // Of the rows that a block with column sums comes to next.
  std::uint64_t next_rows_bytes() const {
    return static_cast<std::uint64_t>(prefetched_element_bytes(kernel_) * plan_.row_length * rows_per_block());
  }
  // Of the blocks between one and that for which it prefetches.
  std::uint64_t prefetch_bytes() const {
    const std::uint64_t bytes = bytes_of_inputs([&](std::size_t i) { return is_prefetched(kernel_, i); });
    return bytes / plan_.blocks * static_cast<std::uint64_t>(plan_.prefetch_distance);
  }

  const ir::Program& program_;
  const Plan& plan_;
  const KernelClass& kernel_;
  const ReductionClass& reduction_;
  const std::vector<std::vector<int>> passes_of_;
};

// "a, b and c"
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

std::string pass_text(const PassSummary& pass) {
  std::vector<std::string> clauses;
  if (!pass.reads.empty()) clauses.push_back("reads " + listed(pass.reads));
  if (!pass.accumulates.empty()) clauses.push_back("accumulates " + listed(pass.accumulates));
  if (!pass.writes.empty()) clauses.push_back("writes " + listed(pass.writes));
  return fmt::to_string(fmt::join(clauses, "; "));
}

}  // namespace

ReductionSummary summarise_reduction(const ir::Program& program, const Plan& plan) {
  return ReductionExplainer(program, plan).summary();
}

int reads_of(const ir::Program& program, const Plan& plan, std::size_t input) {
  return ReductionExplainer(program, plan).reads(input);
}

std::string why_unheld(const Plan& plan, const ReductionSummary& reduction, const Machine& machine) {
  const std::string row =
      fmt::format("a row of {} element{}", reduction.row_length, reduction.row_length == 1 ? "" : "s");
  const std::string_view who = machine.cluster_blocks > 1 ? "cluster of blocks" : "block";
  const Unheld& unheld = plan.unheld;
  switch (unheld.why) {
    case Unheld::Why::few_rows:
      return fmt::format("{} for {} multiprocessors",
                         reduction.inner_reduction
                             ? fmt::format("{} row{}", plan.rows, plan.rows == 1 ? "" : "s")
                             : fmt::format("{} tile{} of rows", plan.tiles, plan.tiles == 1 ? "" : "s"),
                         machine.multiprocessors);
    case Unheld::Why::registers:
      return row + " is more than the registers of a block hold";
    case Unheld::Why::cluster:
      return fmt::format("{} is more than the registers of a {} hold", row, who);
    case Unheld::Why::not_copied:
      return row + " is more than the registers of a block hold, and is not copied to shared memory";
    case Unheld::Why::shared_memory: {
      const auto kilobytes = [](std::int64_t bytes) { return base::format_bytes(static_cast<double>(bytes)); };
      const std::string where = unheld.blocks > 1 ? fmt::format("in each of {} blocks of a cluster", unheld.blocks)
                                                  : std::string("of a block");
      const std::string takes = fmt::format("{} of shared memory {}, more than the {} that rows may have",
                                            kilobytes(unheld.bytes), where, kilobytes(most_shared(machine)));
      if (unheld.together == 1) return fmt::format("{} takes {}", row, takes);
      return fmt::format("{} rows of {} elements, which lie side by side in runs of {}, are read together and take {}",
                         unheld.together, reduction.row_length, plan.space.extents[plan.space.rank() - 1], takes);
    }
    case Unheld::Why::none:
      break;
  }
  return fmt::format("{} is more than a {} holds", row, who);
}

std::string why_reduction(const Plan& plan, const ReductionSummary& reduction, const Machine& machine) {
  return std::visit([&](const auto& driver) { return why(driver, plan, reduction, machine); },
                    plan.kernel_class.reduction()->driver);
}

std::string why_reduction_operand(const ir::Program& program, const Plan& plan, std::size_t input) {
  const ReductionExplainer reduction(program, plan);
  const Access access = plan.kernel_class.inputs[input].access;
  if (access == Access::uniform || !is_value(access)) return "";
  if (plan.kernel_class.inputs[input].written)
    return fmt::format("for {} elements in place of each row's: one by one", plan.written_length);
  if (reduction.scope_of_input(input) == Scope::lane_segment)
    return "one element per segment of a row: read once by each of its lanes";
  if (reduction.scope_of_input(input) != Scope::element) return "one element per row: read once by each of its threads";
  if (reduction.is_needed_again(input)) return "; held for all passes";
  const int reads = reduction.reads(input);
  if (reduction.is_read_by_segments(input)) return "one element per segment of a row: read once for it, not per vector";
  if (reads < 2) return "";
  return plan.kernel_class.reduction()->residency.held[input]
             ? fmt::format("; read in {} passes", reads)
             : fmt::format("; the same for many rows: read in {} passes, from cache", reads);
}

std::string why_reduction_result(const ir::Program& program, const Plan& plan, std::size_t output) {
  const Scope scope = ReductionExplainer(program, plan).scope_of_result(output);
  if (is_transposed(plan.kernel_class, program, output)) {
    const OperandPlan& operand = plan.kernel_class.outputs[output];
    return fmt::format(
        "it is contiguous along another dimension than the operands: transposed in shared memory, and written {} "
        "byte{} at a "
        "time",
        operand.width * size_in_bytes(operand), operand.width * size_in_bytes(operand) == 1 ? "" : "s");
  }
  if (scope == Scope::written)
    return fmt::format("{} elements in place of each row's: written one by one", plan.written_length);
  if (scope == Scope::row) return "one element per row: written by one of its threads";
  if (scope == Scope::lane_segment) return "one element per segment of a row: written by one of the lanes that hold it";
  if (scope == Scope::segment) return "one element per segment of a row: written by one of the threads that reduce it";
  if (scope == Scope::column) {
    const Structure& structure = plan.kernel_class.reduction()->structure;
    const bool is_sum = are_column_sums(structure);
    if (structure.has_column_runs())
      return fmt::format(
          "{} over rows: warps leave theirs of each segment in the workspace, and the last {} block{} {}",
          is_sum ? "a sum" : "combined", summing_blocks(plan), summing_blocks(plan) == 1 ? "" : "s",
          is_sum ? "sum them up" : "combine them");
    const int of_columns = plan.kernel_class.reduction()->columns->cluster;
    return plan.blocks_per_result > 1
               ? fmt::format("{} over rows: {} blocks leave theirs in the workspace{}, and the last {} {}",
                             is_sum ? "a sum" : "combined",
                             plan.blocks_per_result * plan.kernel_class.reduction()->cluster(),
                             of_columns > 1 ? fmt::format(", {} of a cluster together", of_columns) : std::string(),
                             summing_blocks(plan), is_sum ? "sum them up" : "combine them")
               : fmt::format("{} over the rows of one block, which writes it", is_sum ? "a sum" : "combined");
  }
  if (scope == Scope::grid)
    return plan.blocks_per_result > 1
               ? fmt::format("combines {} blocks: written by the last of them", plan.blocks_per_result)
               : "combines rows of one block: written by one of its threads";
  return "";
}

std::string to_text(const ReductionSummary& reduction) {
  std::string out = fmt::format("rows             {} of {} element{}, {}\n", reduction.rows, reduction.row_length,
                                reduction.row_length == 1 ? "" : "s",
                                reduction.inner_reduction
                                    ? std::string("inner reduction")
                                    : fmt::format("outer reduction: {} side by side", reduction.rows_side_by_side));
  if (reduction.segments_per_row > 0)
    out += fmt::format(
        "segments         {} of {} element{} in each row, reduced on their own{}\n", reduction.segments_per_row,
        reduction.segment_length, reduction.segment_length == 1 ? "" : "s",
        reduction.lane_segments
            ? fmt::format(": {} hold{} each in one step, and need no pass for it",
                          reduction.segment_lanes == 1 ? std::string("one lane")
                                                       : fmt::format("{} lanes", reduction.segment_lanes),
                          reduction.segment_lanes == 1 ? "s" : "")
        : reduction.segment_lanes > 0 ? fmt::format(": {} lane{} for each, from shared memory", reduction.segment_lanes,
                                                    reduction.segment_lanes == 1 ? "" : "s")
                                      : "");
  out += fmt::format("shared by        {}; {} row{} per block\n", reduction.shared_by, reduction.rows_per_block,
                     reduction.rows_per_block == 1 ? "" : "s");
  for (std::size_t i = 0; i < reduction.passes.size(); ++i)
    out += fmt::format("{:<16} {}: {}\n", i == 0 ? "passes" : "", i, pass_text(reduction.passes[i]));
  if (!reduction.held.empty())
    out += fmt::format("held             {} in {}, from the first pass to the last\n", listed(reduction.held),
                       reduction.held_in);
  const bool holds_rows_there = reduction.held_in == "shared memory" || reduction.segment_lanes > 0;
  if (reduction.staged_bytes > 0)
    out += fmt::format("{:<16} {} of shared memory per block{}\n", holds_rows_there ? "staged" : "exchange",
                       base::format_bytes(static_cast<double>(reduction.staged_bytes)),
                       holds_rows_there ? "" : ", for what others of its cluster have of the sums that it leaves");
  if (reduction.prefetch_distance > 0)
    out += fmt::format("prefetch         {}, read {} block{} later: memory reads while blocks write\n",
                       base::format_bytes(static_cast<double>(reduction.prefetch_bytes)), reduction.prefetch_distance,
                       reduction.prefetch_distance == 1 ? "" : "s");
  if (reduction.next_rows_bytes > 0)
    out +=
        fmt::format("prefetch         {}, read by the block itself for its next rows: memory reads while it writes\n",
                    base::format_bytes(static_cast<double>(reduction.next_rows_bytes)));
  if (!reduction.saved.empty())
    out += fmt::format("saved            {}: computed once and held\n", listed(reduction.saved));
  if (reduction.rounds > 1)
    out += fmt::format("rounds           {} of a {} over its chunk of a row\n", reduction.rounds,
                       reduction.segments_per_row > 0 && reduction.rows_per_block > 1 ? "thread group" : "block");
  if (reduction.bytes_under_way > 0 && reduction.passes.size() > 1) {
    out += fmt::format(
        "lag              {} tile{} between passes: {} are under way and come from the L2 cache if it holds "
        "them\n",
        reduction.lag, reduction.lag == 1 ? "" : "s",
        base::format_bytes(static_cast<double>(reduction.bytes_under_way)));
  }
  return out;
}

}  // namespace epifuse::plan
