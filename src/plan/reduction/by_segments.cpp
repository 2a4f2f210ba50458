// A thread group reads a row once, segment by segment, and goes on with the segments' means: when, with how many
// threads, and why. Called by reduction.cpp.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// Segments of a row whose means a thread group holds, each a word of every warp: as much as a block exchanges.
int most_slots(int threads) { return kPolicy.exchange_bytes / static_cast<int>(sizeof(float)) / (threads / kWarp); }

// So few rows leave no more than half of the multiprocessors idle. Then one pass takes no longer than two chains, which
// read their rows twice.
bool are_half_of_multiprocessors(std::int64_t rows, const Machine& machine) {
  return 2 * rows >= machine.multiprocessors;
}

}  // namespace

// The chain's own form, of a plan whose space is bound, reduces segments of rows that no blocks hold, and that are too
// few to be read again.
bool ReductionPlanner::has_no_other_form(const Plan& bound) const {
  const Structure structure = analyse(program_, bound.space);
  if (!structure.has_segments() || structure.has_column_sums()) return false;
  const auto applies = [&](const Structure& rows, bool (ReductionPlanner::*form)()) {
    Plan candidate = bound;
    return (ReductionPlanner(candidate, program_, rows, machine_).*form)();
  };
  if (applies(structure, &ReductionPlanner::run_segments)) return false;
  const auto runs = analyse_column_runs(program_, bound.space, structure);
  return !runs || !applies(*runs, &ReductionPlanner::run_column_runs);
}

// Segments one behind the other, each reduced as if it were a row, by as many thread groups as there are rows: small
// ones, or, of few rows that no other form takes, large ones. False where segments are short, or rows too few.
bool ReductionPlanner::run_by_segments() {
  const Plan bound = plan_;
  arrange_rows(plan_);
  if (!layout().inner_reduction || layout().reduced - reduction().segment_coordinates() != 1) return false;
  operands_.choose();
  take_rounds();
  const bool has_rows = has_rows_for_blocks();
  row_threads().group = kernel_.threads = has_rows ? kPolicy.small_block_threads : large_block_threads(machine_);
  const int most = most_slots(kernel_.threads);
  const std::int64_t step = std::int64_t{row_threads().group} * kernel_.elements;
  const int slots = power_of_two_above(
      std::clamp<std::int64_t>(plan_.segments_per_row, kPolicy.least_segment_slots, std::int64_t{2} * most));
  if (plan_.segment_length < step || slots > most) return false;
  if (!has_rows && !(are_half_of_multiprocessors(plan_.rows, machine_) && has_no_other_form(bound))) return false;
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
      together * std::get<BySegments>(reduction().driver).slots > most_slots(row_threads().group))
    return 1;
  const std::int64_t results = grid_results(plan_);
  const std::int64_t machine = machine_.multiprocessors;
  const bool is_one_wave = results <= machine * (row_threads_of(machine_) / threads);
  const bool is_busy = (machine - results) * kPolicy.idle_for_results <= machine;
  return is_busy && (is_one_wave || threads <= kPolicy.block_threads) ? static_cast<int>(together) : 1;
}

std::string why(const BySegments&, const Plan& plan, const ReductionSummary&, const Machine& machine) {
  const bool are_few = plan.kernel_class.reduction()->threads.group > kPolicy.small_block_threads;
  return "results need of each row's elements no more than segment means: one pass is enough, and " +
         (are_few
              ? fmt::format("large blocks read the {} rows on {} multiprocessors", plan.rows, machine.multiprocessors)
              : std::string("there are rows for all multiprocessors"));
}

}  // namespace epifuse::plan
