// Rows that somebody holds from the first walk to the last: threads of a warp, a block or a cluster in registers or shared memory, or blocks that meet in
// the workspace.
#include <algorithm>
#include <bit>

#include "plan/row_planner.hpp"

namespace epifuse::plan {

// Rows that lie side by side in pieces shorter than what memory moves at once: how many of them are read together.
int RowPlanner::neighbours() {
  if (!rows().along || rows().reduced < 2 || structure().has_parts()) return 1;
  const int innermost = space_.rank() - 1;
  const auto kept = static_cast<std::size_t>(rows().outer) - 1;
  const std::int64_t piece = space_.extents[innermost];
  std::int64_t bytes = 0;
  for (const auto& [operand, walk] : operands_.streamed()) {
    if (!is_full(*walk, space_)) continue;
    if (walk->strides[kept] != piece || walk->strides[static_cast<std::size_t>(innermost)] != 1) return 1;
    bytes = std::max(bytes, piece * size_in_bytes(*operand));
  }
  int together = 1;
  while (bytes > 0 && bytes * together < kPolicy.piece_bytes &&
         std::int64_t{2} * together <= space_.extents[rows().outer - 1])
    together *= 2;
  return together;
}

// In registers. Rows in short pieces are read together only where they lie in shared memory.
int RowPlanner::most_steps() {
  const int bytes = neighbours() > 1 ? kPolicy.held_bytes_of_pieces : kPolicy.held_bytes;
  return std::clamp(bytes / operands_.held_bytes(), 1, kPolicy.most_row_steps);
}

// Of a lane, where one warp or less holds a row.
int RowPlanner::most_lane_steps() {
  return std::clamp(kPolicy.lane_held_bytes / operands_.held_bytes(), 1, kPolicy.lane_steps);
}

// That a thread had better have, if threads suffice.
int RowPlanner::few_steps(int most) { return std::clamp(kPolicy.held_elements / kernel_.elements, 1, most); }

// Rows that take a lane more than a few steps have a block, if its warps are all busy.
int RowPlanner::lane_steps_of(std::int64_t vectors) {
  const int most = most_lane_steps();
  if (structure().has_parts()) return most;
  const int few = few_steps(most);
  return vectors > std::int64_t{kWarp} * few && vectors % (std::int64_t{2} * kWarp) != 0 ? most : few;
}

// More lanes of a warp with fewer steps wait less, unless two steps leave more than a few of them idle.
bool RowPlanner::spreads_well(std::int64_t vectors, int team) {
  const std::int64_t steps = divide_up(vectors, team);
  const std::int64_t idle = steps * team - vectors;
  return !structure().has_parts() && team <= kWarp && (steps > 2 || (steps == 2 && idle * kPolicy.few_idle <= team));
}

// Of a block's threads that hold `own` groups in registers.
int RowPlanner::team_steps(std::int64_t own, int most) {
  const bool narrow =
      operands_.narrowest_bytes() < 4 && structure().writes_walk() && !structure().has_parts() && neighbours() == 1;
  const int threads = narrow ? kPolicy.narrow_team_threads : kPolicy.team_threads;
  const int few = narrow ? few_steps(most) : most;
  int steps = std::min(narrow ? 2 : 1, few);
  while (steps < few && divide_up(own, steps) > threads) ++steps;
  while (steps < most && divide_up(own, steps) > kPolicy.most_team) ++steps;
  return steps;
}

// Threads of one team, and blocks of one cluster, for `vectors` groups; false if they are too many.
bool RowPlanner::team_along() {
  const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
  const int most = most_steps();
  const int lane_steps = lane_steps_of(vectors);
  if (vectors <= std::int64_t{kWarp} * lane_steps) {
    // At least eight lanes side by side, where the row has as many groups: whole cache lines in one instruction.
    rows().team =
        std::max(power_of_two_above(divide_up(vectors, lane_steps)), std::min(power_of_two_above(vectors), 8));
    while (spreads_well(vectors, 2 * rows().team)) rows().team *= 2;
    kernel_.threads = kPolicy.lane_threads;
    hold_group(vectors, lane_steps);
  } else if (walks() > 1 && vectors > std::int64_t{kPolicy.most_team} * most) {
    // Carried values have 32 bits: where formulas are cheap, computing them again leaves room for twice as many elements. If that takes many
    // blocks still, splitting rows is faster, which has more registers.
    const bool again = rounds_to_few_bits(kernel_) && !rows().carried.empty() &&
                       vectors * staged_bytes(program_, kernel_) > kPolicy.staged_bytes;
    if (again) rows().carried.clear();
    return stage_along(vectors,
                       again ? std::min(most_cluster(machine_), kPolicy.most_cluster_again) : most_cluster(machine_));
  } else {
    // One walk needs nothing held: a long row is walked in rounds.
    if (vectors > std::int64_t{kPolicy.most_team} * most) {
      plan_.unheld.why = Unheld::Why::registers;
      return false;
    }
    // Few rows: more blocks for each.
    int cluster = 1;
    while (cluster < most_cluster(machine_) && plan_.rows * cluster < machine_.multiprocessors &&
           vectors > std::int64_t{kWarp} * 4 * most * cluster) {
      cluster *= 2;
    }
    rows().cluster = cluster;
    const std::int64_t own = divide_up(vectors, cluster);
    const int steps = team_steps(own, most);
    rows().team = kWarp * static_cast<int>(divide_up(own, std::int64_t{kWarp} * steps));
    kernel_.threads = rows().team * std::max(1, cluster == 1 ? kPolicy.team_threads / rows().team : 1);
  }
  kernel_.steps = static_cast<int>(divide_up(vectors, std::int64_t{rows().team} * rows().cluster));
  return true;
}

// One block for all rows of a result across rows, where it can hold them: then nothing is left in memory for other blocks.
void RowPlanner::hold_group(std::int64_t vectors, int lane_steps) {
  const bool is_bucket =
      std::has_single_bit(static_cast<std::uint64_t>(plan_.rows_per_group));  // few kernels for all shapes
  if (structure().across == 0 || !is_bucket || results_across(plan_) < machine_.multiprocessors) return;
  // Lanes side by side read whole lines of memory: rather passes over several rows than fewer lanes (level2 75).
  const int most_passes = structure().has_parts() || rounds_to_few_bits(kernel_) ? 1 : kPolicy.most_passes;
  int team = rows().team;
  const auto passes = [&] { return divide_up(plan_.rows_per_group * team, kPolicy.most_team); };
  while (team > 1 && passes() > most_passes) team /= 2;
  const std::int64_t threads = plan_.rows_per_group * team / passes();
  const bool is_held = passes() <= most_passes && passes() * divide_up(vectors, team) <= lane_steps;
  if (!is_held || threads < kPolicy.fewest_threads || threads % kWarp != 0) return;
  rows().team = team;
  rows().passes = static_cast<int>(passes());
  kernel_.threads = static_cast<int>(threads);
}

bool RowPlanner::team_across() {
  const std::int64_t length = std::max<std::int64_t>(plan_.row_length, 1);
  const int most = most_steps();
  int columns = power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
  while (columns > 1 && exchange_bytes(columns, kPolicy.most_team) > kPolicy.shared_bytes) columns /= 2;
  const auto capacity = [&](int width) { return std::int64_t{kPolicy.most_team / width} * most; };
  // Narrower tiles hold longer rows, down to a sector's 32 bytes.
  while (columns > 1 && length > capacity(columns) && columns * kernel_.elements * operands_.narrowest_bytes() > 32)
    columns /= 2;
  int cluster = 1;
  while (cluster <= most_cluster(machine_) && length > capacity(columns) * cluster) cluster *= 2;
  if (cluster > most_cluster(machine_)) {
    plan_.unheld = {.why = Unheld::Why::cluster, .blocks = most_cluster(machine_)};
    return false;
  }
  rows().cluster = cluster;
  rows().columns = columns;
  const std::int64_t own = divide_up(length, cluster);
  int steps = 1;
  while (steps < most && divide_up(own, steps) * columns > kPolicy.row_threads) ++steps;
  rows().team = static_cast<int>(divide_up(own, steps));
  round_to_warps();
  kernel_.steps = static_cast<int>(divide_up(length, std::int64_t{rows().team} * cluster));
  return true;
}

// A row in shared memory: the blocks of a cluster are as many as it takes to have several of them on a multiprocessor, where a
// cluster can have that many; at least as many as it takes to hold the row at all.
bool RowPlanner::stage_along(std::int64_t vectors, int most) {
  const std::int64_t bytes = staged_bytes(program_, kernel_);
  if (bytes == 0) {
    plan_.unheld.why = Unheld::Why::not_copied;
    return false;
  }
  const int together = neighbours();
  const std::int64_t row_bytes = vectors * bytes * together;
  int cluster = 1;
  while (cluster < most && row_bytes > std::int64_t{kPolicy.staged_bytes} * cluster) cluster *= 2;
  while (cluster < most && plan_.rows * cluster < machine_.multiprocessors &&
         row_bytes > std::int64_t{kPolicy.least_staged_bytes} * cluster)
    cluster *= 2;
  const std::int64_t own = divide_up(vectors, cluster);
  int threads = kPolicy.team_threads;
  // Where later walks read operands as long as the row: the more threads, the more of those loads are under way.
  // Rows that are read together need the registers more.
  const int most_steps = operands_.reads_lines() && together == 1 ? kPolicy.staged_steps : kPolicy.staged_steps_alone;
  while (threads < kPolicy.most_team && own * together > std::int64_t{threads} * most_steps) threads *= 2;
  // So that walks may take two or four at once.
  std::int64_t steps = divide_up(own * together, threads);
  steps = steps > 6 ? (steps + 3) / 4 * 4 : steps > 1 ? (steps + 1) / 2 * 2 : 1;
  threads = kWarp * static_cast<int>(divide_up(own * together, steps * kWarp));
  if (steps * threads * bytes > most_shared(machine_)) {
    plan_.unheld = {Unheld::Why::shared_memory, steps * threads * bytes, cluster, together};
    return false;
  }
  plan_.shared_bytes = steps * threads * bytes;
  rows().staged = true;
  rows().cluster = cluster;
  rows().team = threads / together;
  rows().interleaved = together > 1;
  kernel_.threads = threads;
  kernel_.steps = static_cast<int>(steps);
  return true;
}

// Lanes beside each other read what lies beside each other: of a sector whose halves two lanes far apart copy to shared memory each half is a request.
void RowPlanner::choose_pieces() {
  if (!rows().interleaved) return;
  const std::int64_t piece = space_.extents[space_.rank() - 1];
  const std::int64_t groups = piece / kernel_.elements;
  const std::int64_t together = kernel_.threads / rows().team;
  if (piece % kernel_.elements == 0 && std::has_single_bit(static_cast<std::uint64_t>(groups)) &&
      groups * together <= kWarp && rows().team % groups == 0)
    rows().pieces = static_cast<int>(groups);
}

// A row in the shared memory of blocks that meet in the workspace. What a thread keeps of a step must be 16 bytes: more, and neighbouring
// threads meet in the same banks of shared memory (level2 19 in f16, 32 bytes: 1.49 of the copy, split 1.30).
bool RowPlanner::keep_along() {
  // Carried values have 32 bits: where formulas are cheap, computing them again leaves room for twice as many elements (level2 19 in f16: 1.04
  // of the copy, carried 1.28).
  if (rounds_to_few_bits(kernel_) && !rows().carried.empty()) {
    const Arithmetic arithmetic = choose_arithmetic(program_, kernel_);
    const auto is_cheap = [&](ir::Value value) {
      return operands_.cost_of(value, &arithmetic) <= kPolicy.again_instructions;
    };
    if (std::ranges::all_of(rows().carried, is_cheap)) rows().carried.clear();
  }
  const int bytes = staged_bytes(program_, kernel_);
  if (bytes == 0 || walks() != 2 || structure().levels != 1 || most_shared(machine_) < kPolicy.staged_bytes)
    return false;
  const std::optional<KeptParts> parts = keep_parts(plan_, bytes, machine_);
  if (!parts) return false;
  kernel_.schedule = Schedule::kept;
  kept_block_ = parts->block;
  kernel_.threads = parts->block.threads;
  kernel_.steps = parts->steps;
  rows().staged = true;
  rows().interleaved = false;
  rows().cluster = 1;
  rows().team = kernel_.threads;
  plan_.shared_bytes = std::int64_t{parts->steps} * parts->block.threads * bytes;
  plan_.chunks = parts->parts;
  return true;
}

void RowPlanner::round_to_warps() {
  const int per_warp = kWarp / rows().columns;
  rows().team = (rows().team + per_warp - 1) / per_warp * per_warp;
  kernel_.threads = rows().team * rows().columns;
}

// What a block across memory exchanges: accumulators of at most three words per warp and column.
int RowPlanner::exchange_bytes(int columns, int threads) {
  const int words = 3 * static_cast<int>(structure().accumulators.size());
  return threads / kWarp * columns * kernel_.elements * words * word_bytes(kernel_);
}

}  // namespace epifuse::plan
