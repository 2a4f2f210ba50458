// Rows that a thread group holds from the first pass to the last: threads of a warp, a block or a cluster, in registers
// or in shared memory. Called by reduction.cpp; which drivers they have, how many threads, and why.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// Threads of a multiprocessor whose blocks hold several operands of rows in shared memory: the backward pass of
// batch_norm in bf16 took 1.57 of a copy with 384 of them, and 1.40 with 672 (an H100, rows of 50176 elements).
constexpr int kFewestStagedThreads = 768;

}  // namespace

// Rows that lie side by side in runs shorter than what memory moves at once: how many of them are read together.
int ReductionPlanner::neighbours() {
  if (!layout().inner_reduction || layout().reduced < 2 || structure().has_segments() || has_lane_segments()) return 1;
  const int innermost = space_.rank() - 1;
  const auto outermost = static_cast<std::size_t>(layout().outer) - 1;
  const std::int64_t run = space_.extents[innermost];
  std::int64_t bytes = 0;
  for (const auto& [operand, strided] : operands_.streamed()) {
    if (!is_full(*strided, space_)) continue;
    if (strided->strides[outermost] != run || strided->strides[static_cast<std::size_t>(innermost)] != 1) return 1;
    bytes = std::max(bytes, run * size_in_bytes(*operand));
  }
  int together = 1;
  while (bytes > 0 && bytes * together < kLineBytes && std::int64_t{2} * together <= space_.extents[layout().outer - 1])
    together *= 2;
  return together;
}

// In registers. Rows in short runs are read together only where they lie in shared memory.
int ReductionPlanner::most_steps() {
  const int bytes = neighbours() > 1 ? kPolicy.bytes_in_flight : kPolicy.held_bytes;
  const int sums = layout().inner_reduction ? 0 : column_sums_of(structure()) * word_bytes(kernel_);
  return std::clamp(bytes / (operands_.held_bytes() + sums), 1, kPolicy.most_short_steps);
}

// Of a lane, where one warp or less holds a row.
int ReductionPlanner::most_lane_steps() {
  return std::clamp(kPolicy.held_bytes / operands_.held_bytes(), 1, kPolicy.lane_steps);
}

// A short row of which much is computed, as the scale of 32 elements that are quantised. Each lane computes it: half as
// many do so half as often, and each of their two steps still moves whole sectors. Gate to MXFP8 in bf16 took 54
// instructions per element with 4 lanes, and 1.149 of a copy on an H100; it takes 46 with 2.
bool ReductionPlanner::has_costly_block(std::int64_t vectors) {
  constexpr int kCostly = 40;  // instructions
  constexpr int kCast = 10;    // of them, to 8 bits or fewer
  const bool quantises = std::ranges::any_of(kernel_.outputs, [](const OperandPlan& output) {
    return size_of(output.dtype) == 1 && output.dtype != DType::boolean;
  });
  if (!quantises || vectors < 4 || vectors >= kLineBytes / kAccessBytes) return false;
  int sum = 0;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const ir::Node& node = program_.nodes()[i];
    if (structure().nodes[i].scope != Scope::row) continue;
    sum += ir::is_elementwise(node.op) ? ir::row(node.op).cost : node.op == ir::Op::cast ? kCast : 0;
  }
  return sum > kCostly;
}

// Preferred steps per thread while the thread group may still grow.
int ReductionPlanner::few_steps(int most) {
  const int held_elements = kPolicy.held_bytes / 4;  // a register each where they are used
  return std::clamp(held_elements / kernel_.elements, 1, most);
}

// Rows that take a lane more than a few steps have a block, if its warps are all busy.
int ReductionPlanner::lane_steps_of(std::int64_t vectors) {
  const int most = most_lane_steps();
  if (structure().has_segments()) return most;
  const int few = few_steps(most);
  return vectors > std::int64_t{kWarp} * few && vectors % (std::int64_t{2} * kWarp) != 0 ? most : few;
}

// More lanes of a warp with fewer steps wait less, unless two steps leave more than a few of them idle.
bool ReductionPlanner::fills_lanes(std::int64_t vectors, int lanes) {
  const std::int64_t steps = divide_up(vectors, lanes);
  const std::int64_t idle = steps * lanes - vectors;
  return !structure().has_segments() && lanes <= kWarp &&
         (steps > 2 || (steps == 2 && idle * kPolicy.few_idle <= lanes));
}

// Of a block's threads that hold `own` vectors in registers.
int ReductionPlanner::group_steps(std::int64_t own, int most) {
  const bool below_f32 = operands_.narrowest_bytes() < 4 && structure().has_write_pass() &&
                         !structure().has_segments() && neighbours() == 1;
  const int threads = below_f32 ? kPolicy.block_threads : kPolicy.small_block_threads;
  // Half as many where passes work on vectors of several operands, in twice the registers. Rows of a warp keep theirs:
  // x + r, its norm and a grid maximum in rows of 1024 took 0.935 of a copy, and 1.204 with a block to a row.
  const int share = holds_several(reduction()) ? 2 : 1;
  const int few = below_f32 ? std::max(few_steps(most) / share, 1) : most;
  int steps = std::min(below_f32 ? 2 : 1, few);
  while (steps < few && divide_up(own, steps) > threads) ++steps;
  while (steps < most && divide_up(own, steps) > large_block_threads(machine_)) ++steps;
  return steps;
}

// Threads of one thread group, and blocks of one cluster, for `vectors` vectors; false if they are too many.
bool ReductionPlanner::choose_inner_group() {
  const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
  const int most = most_steps();
  const int lane_steps = lane_steps_of(vectors);
  if (vectors <= std::int64_t{kWarp} * lane_steps) {
    // Whole cache lines in one instruction, where the row has as many vectors.
    const int lanes_of_line = kLineBytes / kAccessBytes;
    row_threads().group =
        std::max(power_of_two_above(divide_up(vectors, lane_steps)),
                 std::min(power_of_two_above(vectors), lanes_of_line) / (has_costly_block(vectors) ? 2 : 1));
    if (has_lane_segments()) row_threads().group = std::max(row_threads().group, reduction().lane_segments->lanes);
    while (fills_lanes(vectors, 2 * row_threads().group)) row_threads().group *= 2;
    kernel_.threads = kPolicy.small_block_threads;
    hold_result_rows(vectors, lane_steps);
  } else if ((passes() > 1 || reads_rows_again()) && vectors > std::int64_t{large_block_threads(machine_)} * most &&
             !has_lane_segments()) {
    // Saved values have 32 bits: where formulas are cheap, computing them again leaves space for twice as many
    // elements. If that takes many blocks still, splitting rows is faster, which has more registers.
    const bool again = rounds_to_few_bits(kernel_) && !reduction().residency.saved.empty() &&
                       vectors * staged_bytes(program_, kernel_) > shared_for_rows(machine_, kPolicy.staged_blocks);
    if (again) reduction().residency.saved.clear();
    return stage_inner(vectors, again ? std::max(machine_.cluster_blocks / 2, 1) : machine_.cluster_blocks);
  } else {
    // Lane segments need their rows in registers: of more blocks, where one does not hold a row.
    int cluster = 1;
    const auto fits = [&] { return vectors <= std::int64_t{large_block_threads(machine_)} * most * cluster; };
    while (has_lane_segments() && cluster < machine_.cluster_blocks && !fits()) cluster *= 2;
    // One pass needs nothing held: a long row is read in rounds.
    if (!fits()) {
      plan_.unheld.why = Unheld::Why::registers;
      return false;
    }
    // Few rows: more blocks for each.
    while (cluster < machine_.cluster_blocks && plan_.rows * cluster < machine_.multiprocessors &&
           vectors > std::int64_t{kWarp} * 4 * most * cluster) {
      cluster *= 2;
    }
    reduction().driver = Resident{.cluster = cluster};
    const std::int64_t own = divide_up(vectors, cluster);
    const int steps = group_steps(own, most);
    row_threads().group = kWarp * static_cast<int>(divide_up(own, std::int64_t{kWarp} * steps));
    kernel_.threads =
        row_threads().group * std::max(1, cluster == 1 ? kPolicy.small_block_threads / row_threads().group : 1);
  }
  kernel_.steps = static_cast<int>(divide_up(vectors, std::int64_t{row_threads().group} * reduction().cluster()));
  return true;
}

// One block for all rows of a grid reduction, where it can hold them: then nothing is left in memory for other blocks.
void ReductionPlanner::hold_result_rows(std::int64_t vectors, int lane_steps) {
  const bool is_bucket =
      std::has_single_bit(static_cast<std::uint64_t>(plan_.rows_per_result));  // few kernels for all shapes
  if (structure().grid == 0 || !is_bucket || has_lane_segments() || grid_results(plan_) < machine_.multiprocessors)
    return;
  // Lanes side by side read whole lines of memory: rather several rows one after the other than fewer lanes
  // (KernelBench L2 #75).
  const int most_rows_per_group =
      structure().has_segments() || rounds_to_few_bits(kernel_) ? 1 : kPolicy.most_rows_per_group;
  int group_threads = row_threads().group;
  const auto rows_per_group = [&] {
    return divide_up(plan_.rows_per_result * group_threads, large_block_threads(machine_));
  };
  while (group_threads > 1 && rows_per_group() > most_rows_per_group) group_threads /= 2;
  const std::int64_t threads = plan_.rows_per_result * group_threads / rows_per_group();
  const bool is_held =
      rows_per_group() <= most_rows_per_group && rows_per_group() * divide_up(vectors, group_threads) <= lane_steps;
  if (!is_held || threads < kPolicy.fewest_threads || threads % kWarp != 0) return;
  row_threads().group = group_threads;
  if (rows_per_group() > 1) reduction().driver = RowsPerGroup{static_cast<int>(rows_per_group())};
  kernel_.threads = static_cast<int>(threads);
}

// Short rows side by side, of which there are enough for all multiprocessors: a thread has all elements of its own, and
// none meets another. The sum over 8 experts in bf16 took 1.453 of a copy on an H100 with 8 threads for each.
bool ReductionPlanner::holds_rows_alone(std::int64_t length, int most) {
  const bool is_plain = structure().across() == 0 && !structure().has_segments() && !reduction().store;
  return is_plain && length <= most &&
         plan_.row_columns >= std::int64_t{kPolicy.small_block_threads} * kernel_.elements &&
         plan_.rows * plan_.row_columns / kernel_.elements >= std::int64_t{machine_.multiprocessors} * machine_.threads;
}

bool ReductionPlanner::choose_outer_group() {
  const std::int64_t length = std::max<std::int64_t>(plan_.row_length, 1);
  const int most = most_steps();
  if (holds_rows_alone(length, most)) {
    reduction().driver = Resident{.cluster = 1};
    kernel_.threads = row_threads().columns = kPolicy.small_block_threads;
    row_threads().group = 1;
    kernel_.steps = static_cast<int>(length);
    return true;
  }
  int columns = power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
  while (columns > 1 && exchange_bytes(columns, large_block_threads(machine_)) > kStaticShared - kPolicy.exchange_bytes)
    columns /= 2;
  const auto capacity = [&](int width) { return std::int64_t{large_block_threads(machine_) / width} * most; };
  // Narrower tiles hold longer rows, down to a sector.
  const auto tile_bytes = [&] { return columns * kernel_.elements * operands_.narrowest_bytes(); };
  while (columns > 1 && length > capacity(columns) && tile_bytes() > kSectorBytes) columns /= 2;
  int cluster = 1;
  while (cluster <= machine_.cluster_blocks && length > capacity(columns) * cluster) cluster *= 2;
  if (cluster > machine_.cluster_blocks && stage_outer(length)) return true;
  if (cluster > machine_.cluster_blocks) {
    plan_.unheld = {.why = Unheld::Why::cluster, .blocks = machine_.cluster_blocks};
    return false;
  }
  reduction().driver = Resident{.cluster = cluster};
  row_threads().columns = columns;
  const std::int64_t own = divide_up(length, cluster);
  int steps = 1;
  while (steps < most && divide_up(own, steps) * columns > kPolicy.block_threads) ++steps;
  row_threads().group = static_cast<int>(divide_up(own, steps));
  round_to_warps();
  kernel_.steps = static_cast<int>(divide_up(length, std::int64_t{row_threads().group} * cluster));
  return true;
}

// A row in shared memory: the blocks of a cluster are as many as it takes to have several of them on a multiprocessor,
// where a cluster can have that many; at least as many as it takes to hold the row at all.
bool ReductionPlanner::stage_inner(std::int64_t vectors, int most) {
  const std::int64_t bytes = staged_bytes(program_, kernel_);
  if (bytes == 0) {
    plan_.unheld.why = Unheld::Why::not_copied;
    return false;
  }
  const int together = neighbours();
  const std::int64_t row_bytes = vectors * bytes * together;
  int cluster = 1;
  while (cluster < most && row_bytes > shared_for_rows(machine_, kPolicy.staged_blocks) * cluster) cluster *= 2;
  while (cluster < most && plan_.rows * cluster < machine_.multiprocessors &&
         row_bytes > std::int64_t{tile_bytes_of(kPolicy.block_threads)} * cluster)
    cluster *= 2;
  const std::int64_t own = divide_up(vectors, cluster);
  int threads = kPolicy.small_block_threads;
  // Several operands leave space for few blocks.
  const std::int64_t fitting =
      std::max(machine_.shared_bytes / std::max(own * together * bytes, std::int64_t{1}), std::int64_t{1});
  while (holds_several(reduction()) && threads < large_block_threads(machine_) &&
         threads * fitting < kFewestStagedThreads)
    threads *= 2;
  // Where later passes read operands as long as the row: the more threads, the more of those loads are under way.
  // Rows that are read together need the registers more.
  const int most_steps = operands_.reads_lines() && together == 1 ? kPolicy.lane_steps : kPolicy.most_short_steps;
  while (threads < large_block_threads(machine_) && own * together > std::int64_t{threads} * most_steps) threads *= 2;
  const std::int64_t steps = whole_batches(divide_up(own * together, threads));
  threads = kWarp * static_cast<int>(divide_up(own * together, steps * kWarp));
  if (steps * threads * bytes > most_shared(machine_)) {
    plan_.unheld = {Unheld::Why::shared_memory, steps * threads * bytes, cluster, together};
    return false;
  }
  plan_.shared_bytes = steps * threads * bytes;
  ResidentShared driver;
  driver.cluster = cluster;
  if (together > 1) driver.interleaved.emplace();
  reduction().driver = driver;
  row_threads().group = threads / together;
  kernel_.threads = threads;
  kernel_.steps = static_cast<int>(steps);
  return true;
}

// So that passes may take two or four steps at once.
std::int64_t ReductionPlanner::whole_batches(std::int64_t steps) {
  return steps > 6 ? (steps + 3) / 4 * 4 : steps > 1 ? (steps + 1) / 2 * 2 : 1;
}

// Rows side by side in the shared memory of a cluster, where its registers do not hold them: of several operands, which
// all would be read again. Tiles of rows are as wide as memory leaves space for, down to a sector.
bool ReductionPlanner::stage_outer(std::int64_t length) {
  const std::int64_t e = kernel_.elements;
  if (most_shared(machine_) == 0 || layout().striped || passes() == 1 || structure().grid != 0 ||
      std::ranges::count(reduction().residency.held, true) < 2)
    return false;
  reduction().residency.saved.clear();  // saved values have 32 bits, and leave no space for long rows
  const std::int64_t bytes = staged_bytes(program_, kernel_);
  const std::int64_t sector = std::max<std::int64_t>(kSectorBytes / (e * operands_.narrowest_bytes()), 1);
  int columns = power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, e)));
  const auto fits = [&](int blocks, int cluster) {
    return divide_up(length, cluster) * columns * bytes <= shared_for_rows(machine_, blocks);
  };
  while (columns > sector && !fits(1, machine_.cluster_blocks)) columns /= 2;
  // Two blocks of a multiprocessor where a cluster may have as many.
  int cluster = 1;
  while (cluster < machine_.cluster_blocks && !fits(2, cluster)) cluster *= 2;
  const std::int64_t own = divide_up(length, cluster);
  const int threads = 2 * kPolicy.block_threads;
  const std::int64_t steps = whole_batches(divide_up(own * columns, threads));
  row_threads().columns = columns;
  row_threads().group = static_cast<int>(divide_up(own, steps));
  round_to_warps();
  plan_.shared_bytes = steps * kernel_.threads * bytes;
  if (plan_.shared_bytes > shared_for_rows(machine_, 1)) {
    plan_.shared_bytes = 0;
    return false;
  }
  reduction().driver = ResidentShared{.cluster = cluster, .prefetches = false, .interleaved = {}};
  kernel_.steps = static_cast<int>(steps);
  return true;
}

// Lanes beside each other read what lies beside each other: of a sector whose halves two lanes far apart copy to shared
// memory each half is a request.
void ReductionPlanner::choose_vectors_per_run() {
  auto* driver = std::get_if<ResidentShared>(&reduction().driver);
  if (driver == nullptr || !driver->interleaved) return;
  const std::int64_t run = space_.extents[space_.rank() - 1];
  const std::int64_t vectors = run / kernel_.elements;
  const std::int64_t together = kernel_.threads / row_threads().group;
  if (run % kernel_.elements == 0 && std::has_single_bit(static_cast<std::uint64_t>(vectors)) &&
      vectors * together <= kWarp && row_threads().group % vectors == 0)
    driver->interleaved->vectors_per_run = static_cast<int>(vectors);
}

void ReductionPlanner::round_to_warps() {
  const int per_warp = kWarp / row_threads().columns;
  row_threads().group = (row_threads().group + per_warp - 1) / per_warp * per_warp;
  kernel_.threads = row_threads().group * row_threads().columns;
}

// What a block of an outer reduction exchanges: accumulators of at most three words per warp and column.
int ReductionPlanner::exchange_bytes(int columns, int threads) {
  const int words = 3 * static_cast<int>(structure().accumulators.size());
  return threads / kWarp * columns * kernel_.elements * words * word_bytes(kernel_);
}

namespace {

std::string why_held(const ReductionSummary& reduction) {
  return fmt::format("a row of {} element{} fits the {} of those who share it, so memory is read once",
                     reduction.row_length, reduction.row_length == 1 ? "" : "s", reduction.held_in);
}

}  // namespace

std::string why(const Resident&, const Plan&, const ReductionSummary& reduction, const Machine&) {
  return why_held(reduction);
}

std::string why(const RowsPerGroup&, const Plan&, const ReductionSummary& reduction, const Machine&) {
  return why_held(reduction);
}

std::string why(const ResidentShared&, const Plan&, const ReductionSummary& reduction, const Machine&) {
  return why_held(reduction);
}

}  // namespace epifuse::plan
