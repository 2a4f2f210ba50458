// A thread group reads a row once, segment by segment, and goes on with the segments' means: when, with how many
// threads, and why. Called by reduction.cpp.
#include <algorithm>
#include <bit>

#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// Segments of a row whose means a thread group holds, each four words at most: as much as a block exchanges.
int most_slots() { return kPolicy.exchange_bytes / kAccessBytes; }

}  // namespace

// Segments one behind the other, each reduced as if it were a row, by as many thread groups as there are rows; false
// where segments are short, or rows too few.
bool ReductionPlanner::run_by_segments() {
  arrange_rows(plan_);
  if (!layout().inner_reduction || layout().reduced - reduction().segment_coordinates() != 1) return false;
  operands_.choose();
  take_rounds();
  row_threads().group = kernel_.threads = kPolicy.small_block_threads;
  const std::int64_t step = std::int64_t{row_threads().group} * kernel_.elements;
  const int slots = power_of_two_above(
      std::clamp<std::int64_t>(plan_.segments_per_row, kPolicy.least_segment_slots, std::int64_t{2} * most_slots()));
  if (plan_.segment_length < step || slots > most_slots() || !has_rows_for_blocks()) return false;
  reduction().driver = BySegments{slots};
  const std::int64_t before = layout().tensor_aligned ? kernel_.elements - 1 : 0;
  plan_.chunks = divide_up(plan_.segment_length + before, step * kernel_.steps);
  kernel_.threads *= rows_of_result();
  size_grid();
  operands_.find_hoisted();
  return true;
}

// All rows of a grid reduction, if one block's thread groups can reduce them side by side: then nothing is left in
// memory, nor cleared there before the kernel. A large block's multiprocessor has nothing to do while it ends and the
// next begins, so all large ones begin at once, or there are none.
int ReductionPlanner::rows_of_result() {
  const std::int64_t together = plan_.rows_per_result;
  const std::int64_t threads = together * row_threads().group;
  const bool is_bucket = std::has_single_bit(static_cast<std::uint64_t>(together));  // few kernels for all shapes
  if (structure().grid == 0 || !is_bucket || threads > row_threads_of(machine_) ||
      together * std::get<BySegments>(reduction().driver).slots > most_slots())
    return 1;
  const std::int64_t results = grid_results(plan_);
  const std::int64_t machine = machine_.multiprocessors;
  const bool is_one_wave = results <= machine * (row_threads_of(machine_) / threads);
  const bool is_busy = (machine - results) * kPolicy.idle_for_results <= machine;
  return is_busy && (is_one_wave || threads <= kPolicy.block_threads) ? static_cast<int>(together) : 1;
}

std::string why(const BySegments&, const Plan&, const ReductionSummary&, const Machine&) {
  return "results need of each row's elements no more than segment means: one pass is enough, and there are rows for "
         "all "
         "multiprocessors";
}

}  // namespace epifuse::plan
