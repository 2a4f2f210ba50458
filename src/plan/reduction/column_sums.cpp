// Sums over rows that keep a row's elements, as the gradients of a norm's weights beside that of its operand, and
// maxima and the like, as the largest over channels behind a norm of each: a thread group holds one row after the
// other, and each thread the sums of its elements, which are the same ones of every row.
// Called by reduction.cpp. templates/reduction/column_sums.cuh has the code.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/text.hpp"
#include "plan/reduction/planner.hpp"
#include "plan/reduction/tuning.hpp"

namespace epifuse::plan {
namespace {

constexpr int kMostBlockThreads = 1024;
constexpr int kMostThreadRegisters = 255;
// Of a block, where rows have no reduction of their own. With two, the gradients of gelu(x + b) took 11.7 µs for 528
// rows of 4096 in bf16, and clusters that hold columns 8.0; with four, for 1056 rows, 14.9 and 15.1 (an H100).
constexpr int kFewestTiles = 4;

}  // namespace

// Of a block, if each has so many steps: what it holds of them, their sums, and the numbers of the vector at hand.
int ReductionPlanner::column_threads(int steps) {
  const int word = word_bytes(kernel_);
  const int vector = kernel_.elements * word;
  const int sums = column_sums_of(structure()) * (structure().column_segment != 0 ? word : vector);
  const int held = steps * (operands_.held_bytes() + operands_.common_bytes() + sums);
  const Residency& residency = reduction().residency;
  const auto at_hand = std::ranges::count(residency.held, true) + std::ranges::count(residency.hoisted, true);
  const int registers = registers_for((held + std::max(static_cast<int>(at_hand), 1) * vector) * (word / 4));
  return registers > kMostThreadRegisters ? 0 : std::min(kMostBlockThreads, machine_.threads_with(registers));
}

bool ReductionPlanner::choose_column_group(int cluster, int steps) {
  const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
  const std::int64_t own = divide_up(vectors, std::int64_t{cluster} * steps);
  if (own > kMostBlockThreads) return false;
  const std::int64_t lanes = has_lane_segments() ? reduction().lane_segments->lanes : 1;
  const std::int64_t group =
      own <= kWarp ? std::max<std::int64_t>(power_of_two_above(own), lanes) : round_up(static_cast<int>(own), kWarp);
  if (group > column_threads(steps)) return false;
  reduction().driver = Resident{.cluster = cluster};
  row_threads().group = static_cast<int>(group);
  kernel_.steps = static_cast<int>(divide_up(vectors, group * cluster));
  return true;
}

// Blocks of a multiprocessor. A sum of segments takes a register for each vector, not for each element: that leaves
// space for two, of which one reads while the other computes. group_norm's gradients in bf16 took 1.755 of a copy with
// one block, and 1.320 with two (an H100, 2048 rows of 6272 elements).
int ReductionPlanner::column_residents() {
  const bool is_of_segments = structure().column_segment != 0;
  return is_of_segments && 2 * row_threads().group <= column_threads(kernel_.steps) ? 2 : 1;
}

// Thread groups of a block: as many as its registers allow, but fewer where most multiprocessors would idle; a power of
// two, so that shapes have few kernels. Those of a block work for one result. 0: they would be no warp.
int ReductionPlanner::column_groups() {
  const int most = std::max(column_threads(kernel_.steps) / (column_residents() * row_threads().group), 1);
  const std::int64_t results = std::max<std::int64_t>(grid_results(plan_), 1);
  int groups = static_cast<int>(std::bit_floor(static_cast<unsigned>(most)));
  while (results > 1 && plan_.rows_per_result % groups != 0) groups /= 2;
  const auto blocks = [&] { return divide_up(plan_.rows_per_result, groups) * results * reduction().cluster(); };
  while (groups > 1 && groups / 2 * row_threads().group % kWarp == 0 && 2 * blocks() < machine_.multiprocessors)
    groups /= 2;
  return groups * row_threads().group % kWarp == 0 ? groups : 0;
}

bool ReductionPlanner::run_column_sums() {
  arrange_rows(plan_);
  operands_.choose();
  return layout().inner_reduction && hold_columns() && plan_.tiles >= kFewestTiles * plan_.blocks_per_result;
}

bool ReductionPlanner::run_held_columns() {
  arrange_rows(plan_);
  if (structure().has_lane_segments()) check_lane_segments();
  operands_.choose();
  if (structure().has_lane_segments()) choose_lanes();
  if (layout().inner_reduction) return hold_columns();
  return !has_lane_segments() && hold_outer_columns();
}

// Of rows side by side a step of a thread has elements of one column, whose sum takes one register. False where rows
// side by side belong to several results, or no cluster holds them.
bool ReductionPlanner::hold_outer_columns() {
  const auto is_combined = [&](int d) { return (structure().across() >> d & 1U) != 0 || space_.extents[d] == 1; };
  for (int d = layout().outer + layout().reduced; d < space_.rank(); ++d)
    if (!is_combined(d)) return false;
  plan_.row_vectors = plan_.row_length;
  if (structure().column_segment != 0 || !choose_outer_group() || !reduction().is<Resident>()) return false;
  operands_.find_hoisted();
  size_outer_columns();
  return true;
}

// False where no block or cluster holds a row with its sums.
bool ReductionPlanner::hold_columns() {
  const std::int64_t e = kernel_.elements;
  plan_.row_vectors = divide_up(plan_.row_length, e);
  operands_.find_common();
  bool is_held = false;
  // Vectors of one column meet in a block's shared memory.
  const bool is_of_segments = structure().column_segment != 0;
  // What a row costs its threads is shared among more elements: layer_norm of rows of 4096 took 1.96 of a copy with one
  // vector of f32 in a thread, 1.67 with two and 1.53 with four (an H200, both gradients; in bf16 2.68, 2.56 and 2.54).
  // Rows without a reduction of their own cost nothing: then more threads hide more of what they wait for.
  const int most_steps = structure().stages == 0 ? kPolicy.most_steps / 2 : kPolicy.most_steps;
  for (int steps = most_steps; steps > 1 && !is_of_segments && !is_held; steps /= 2)
    is_held = column_threads(steps) > 0 && choose_column_group(1, steps);
  for (int steps = 1; steps <= most_steps && is_of_segments && column_threads(steps) > 0 && !is_held; ++steps)
    is_held = choose_column_group(1, steps) && column_residents() > 1;
  for (int cluster = 1; cluster <= most_column_cluster() && !is_held; cluster *= 2)
    for (int steps = 1; column_threads(steps) > 0 && !is_held; ++steps) is_held = choose_column_group(cluster, steps);
  if (!is_held) return false;
  size_column_grid();
  // Rows that a block comes to next are read while it works on those at hand.
  std::get<Resident>(reduction().driver).prefetches = prefetched_element_bytes(kernel_) > 0;
  return true;
}

// Blocks that may share a row: none where vectors of one column meet in a block's shared memory, and 0 where that is
// too small for them.
int ReductionPlanner::most_column_cluster() {
  if (structure().column_segment == 0) return machine_.cluster_blocks;
  const int vector_bytes = column_sums_of(structure()) * word_bytes(kernel_);
  return plan_.row_vectors <= kStaticShared / 2 / vector_bytes ? 1 : 0;
}

void ReductionPlanner::refuse_columns() {
  const bool are_sums = are_column_sums(structure());
  const char* const does = are_sums ? "sums" : "combines";
  const char* const what = are_sums ? "sums" : "reductions";
  if (!layout().inner_reduction) {
    base::fail(ErrorCode::unsupported,
               "the chain cannot be one kernel: it {} its rows element by element, and their elements are not the "
               "innermost ones in memory. That takes rows of which those side by side are combined, and which the "
               "registers of a cluster of blocks hold. Give the {} over rows a chain of their own",
               does, what);
  }
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: it {} its rows {}, and the registers of a {} hold no "
             "row of {} elements with {} {}{} of each. Give the {} over rows a chain of their own",
             does, structure().column_segment != 0 ? "segment by segment" : "element by element",
             most_column_cluster() > 1 ? "cluster of blocks" : "block", plan_.row_length, column_sums_of(structure()),
             are_sums ? "sum" : "number", column_sums_of(structure()) == 1 ? "" : "s", what);
}

// Where what blocks leave, and read again, is more than a twentieth of what the kernel moves beside it, blocks of a
// cluster add theirs before: two, or as many as it takes.
void ReductionPlanner::add_in_clusters() {
  constexpr int kFewestMoved = 20;
  const std::int64_t most_exchanged = shared_for_rows(machine_, kPolicy.least_blocks);
  const std::int64_t held = std::int64_t{row_threads().group} * kernel_.steps * kernel_.elements;
  if (!reduction().columns->several_blocks || reduction().cluster() > 1 || structure().column_segment != 0 ||
      plan_.row_length != held)
    return;
  std::int64_t element_bytes = operands_.loaded_bytes() / kernel_.elements;
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Scope scope = structure().nodes[static_cast<std::size_t>(program_.results()[i].value)].scope;
    element_bytes += scope == Scope::element ? size_in_bytes(kernel_.outputs[i]) : 0;
  }
  const std::int64_t moved = plan_.rows * plan_.row_length * element_bytes;
  const std::int64_t row_bytes = plan_.columns_per_row * column_sums_of(structure()) * word_bytes(kernel_);
  int& cluster = reduction().columns->cluster;
  const auto is_much = [&] {
    return 2 * grid_results(plan_) * plan_.blocks_per_result / cluster * row_bytes * kFewestMoved > moved;
  };
  const int warp = std::min(row_threads().group, kWarp);
  const std::int64_t shares = std::int64_t{kernel_.steps} * column_sums_of(structure()) * row_threads().group / warp;
  const auto exchanged = [&](int blocks) {
    return (blocks - 1) * divide_up(shares, blocks) * warp * kernel_.elements * word_bytes(kernel_);
  };
  while (is_much() && 2 * cluster <= machine_.cluster_blocks && 2 * cluster <= plan_.blocks_per_result &&
         exchanged(2 * cluster) <= most_exchanged)
    cluster *= 2;
  plan_.shared_bytes = exchanged(cluster);
  // Larger clusters leave some multiprocessors alone: 30 of four blocks run at a time on an H100, and 33 would not.
  const std::int64_t blocks = cluster > 2 ? plan_.blocks_per_result * 10 / 11 : plan_.blocks_per_result;
  plan_.blocks_per_result = std::max<std::int64_t>(blocks / cluster, 1) * cluster;
}

// Reductions of no rows make results, too: as many as the other dimensions have.
void ReductionPlanner::count_results_of_nothing() {
  plan_.rows_per_result = 1;
  for (int d = 0; d < space_.rank(); ++d)
    if ((structure().across() >> d & 1U) != 0) space_.extents[d] = 1;
}

void ReductionPlanner::size_column_grid() {
  if (combines_nothing()) count_results_of_nothing();
  int groups = column_groups();
  if (groups == 0) {  // less than a warp, of which none divides the rows of a result
    row_threads().group = kWarp;
    kernel_.steps = static_cast<int>(divide_up(std::max<std::int64_t>(plan_.row_vectors, 1), kWarp));
    groups = column_groups();
  }
  kernel_.threads = row_threads().group * groups;
  plan_.tiles = plan_.rows > 0 ? divide_up(plan_.rows_per_result, groups) : 0;
  plan_.column_residents = column_residents();
  share_tiles(plan_.column_residents);
  add_in_clusters();
  finish_column_grid();
}

void ReductionPlanner::size_outer_columns() {
  const bool is_of_nothing = combines_nothing();
  if (is_of_nothing) count_results_of_nothing();
  plan_.column_tiles =
      std::max<std::int64_t>(divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements), 1);
  plan_.tiles = is_of_nothing ? 0 : plan_.rows_per_result * plan_.column_tiles;
  share_tiles(std::max(resident_blocks(plan_, program_, machine_), 1));
  finish_column_grid();
}

// Blocks for each result, of which so many are on a multiprocessor at a time.
void ReductionPlanner::share_tiles(int resident) {
  plan_.threads = kernel_.threads;
  const std::int64_t results = std::max<std::int64_t>(grid_results(plan_), 1);
  plan_.blocks_per_result =
      std::clamp<std::int64_t>(std::int64_t{machine_.multiprocessors} * resident / (reduction().cluster() * results), 1,
                               std::max<std::int64_t>(plan_.tiles, 1));
  const bool is_of_segments = structure().column_segment != 0;
  reduction().columns = ColumnSums{is_of_segments ? layout().reduced - std::popcount(structure().column_segment) : 0,
                                   plan_.blocks_per_result > 1};
}

void ReductionPlanner::finish_column_grid() {
  const std::int64_t blocks = grid_results(plan_) * plan_.blocks_per_result * reduction().cluster();
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    base::fail(ErrorCode::unsupported, "the chain's {} rows need more than 2^31 blocks: launch fewer rows at a time",
               plan_.rows * plan_.row_columns);
  }
  plan_.blocks = static_cast<std::uint32_t>(blocks);
  lay_out_workspace(plan_);
}

}  // namespace epifuse::plan
