// Rows that nobody holds, read in rounds: one block for each row where that is enough (the driver Looped), else many
// (split.cpp). Called by reduction.cpp.
#include <algorithm>

#include "base/text.hpp"
#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {

// What is read again for segments must not have been written over.
bool ReductionPlanner::may_read_in_rounds() {
  return !structure().has_segments() || (has_rows_for_blocks() && !structure().has_write_pass());
}

// Read again, a row is found in the L2 cache only if few rows are under way at a time.
void ReductionPlanner::read_in_rounds() {
  const bool is_enough = has_rows_for_blocks();
  if (!may_read_in_rounds()) refuse_long_segments();
  if (structure().has_written() && !is_enough) refuse_few_written();
  take_rounds();
  if ((passes() == 1 || structure().has_segments() || structure().has_written()) && is_enough) {
    reduction().driver = Looped{};
  } else {
    split();
  }
}

// Blocks that each read rows of their own are enough for all multiprocessors.
bool ReductionPlanner::has_rows_for_blocks() {
  const std::int64_t tiles = plan_.rows * divide_up(plan_.row_columns, std::int64_t{kWarp} * kernel_.elements);
  return tiles >= std::int64_t{machine_.multiprocessors} * kPolicy.least_blocks;
}

void ReductionPlanner::refuse_long_segments() const {
  const Structure& structure = kernel_.reduction()->structure;
  const bool is_of_lanes = structure.has_lane_segments();
  const std::string_view name = ir::written_name(*reduction_of(is_of_lanes ? Scope::lane_segment : Scope::segment));
  base::fail(
      ErrorCode::unsupported,
      "the chain cannot be one kernel: '{}' reduces segments of rows of {} elements, more than {} of this device "
      "holds, and {}. Make it two chains: the first ends with what '{}' is taken of",
      name, plan_.row_length, machine_.cluster_blocks > 1 ? "a cluster of blocks" : "a block",
      is_of_lanes                  ? std::string("these elements are needed again with its result")
      : structure.has_write_pass() ? std::string("other results need their elements, too")
                                   : fmt::format("there are too few of them ({}) for a block each", plan_.rows),
      is_of_lanes ? name_of_second() : name);
}

void ReductionPlanner::refuse_few_written() const {
  const std::string_view name = ir::written_name(*reduction_of(Scope::row));
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: results take some elements of rows of {} elements behind '{}', a {} of "
             "this device does not hold such a row, and there are too few rows ({}) for a block each. Make it two "
             "chains: the first ends with '{}'",
             plan_.row_length, name, machine_.cluster_blocks > 1 ? "cluster of blocks" : "block", plan_.rows, name);
}

// Threads of a block that reads rows in rounds of a few steps.
void ReductionPlanner::take_rounds(int most_steps) {
  reduction().residency.saved.clear();  // registers do not last from pass to pass
  kernel_.steps = std::clamp(kPolicy.bytes_in_flight / std::max(operands_.loaded_bytes(), 1), 1, most_steps);
  if (layout().inner_reduction) {
    row_threads().group = kernel_.threads = kPolicy.block_threads;
  } else {
    row_threads().columns =
        power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
    const int all = passes() == 1 ? large_block_threads(machine_) : kPolicy.block_threads;
    while (row_threads().columns > 1 &&
           exchange_bytes(row_threads().columns, all) > kStaticShared - kPolicy.exchange_bytes)
      row_threads().columns /= 2;
    row_threads().group = all / row_threads().columns;
    round_to_warps();
  }
  plan_.chunks =
      std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{row_threads().group} * kernel_.steps), 1);
}

std::string why(const Looped&, const Plan& plan, const ReductionSummary& reduction, const Machine& machine) {
  return why_unheld(plan, reduction, machine) +
         (reduction.segments_per_row > 0
              ? ", but there are blocks for all multiprocessors: each reads its row again for the segments"
              : ", but one pass is enough and there are blocks for all multiprocessors");
}

}  // namespace epifuse::plan
