// Results that turn in shared memory: which rows, or parts of rows, a block takes so that lines of the operands and of the results are long.
#include <algorithm>
#include <bit>
#include <numeric>

#include "plan/row_planner.hpp"

namespace epifuse::plan {

bool RowPlanner::choose_crossed_threads() {
  plan_.row_vectors = rows().along ? plan_.row_length / kernel_.elements : plan_.row_length;
  kernel_.schedule = Schedule::team;
  if (rows().crossing == Crossing::rows) return cross_neighbours();
  if (rows().along) rows().pieces = static_cast<int>(space_.extents[space_.rank() - 1] / kernel_.elements);
  if (!rows().along && team_across() && round_steps() && fits_tile() && !is_starved()) return true;
  return cross_chunks();
}

// Steps of rows in registers in twos or fours, which move together in shared memory; not where it takes a cluster to hold a row, or many
// registers.
bool RowPlanner::round_steps() {
  if (rows().cluster > 1) return false;
  const int batch = kernel_.steps > 2 ? 4 : kernel_.steps;
  kernel_.steps = (kernel_.steps + batch - 1) / batch * batch;
  if (kernel_.steps * operands_.held_bytes() > kPolicy.crossed_held_bytes) return false;
  rows().team = static_cast<int>(divide_up(plan_.row_length, kernel_.steps));
  round_to_warps();
  return true;
}

// The largest part of `steps` whose results fit a tile in shared memory; of a walk, a power of two.
int RowPlanner::batch_of(int steps) {
  const int bytes = kernel_.threads * kernel_.elements * crossed_bytes(kernel_, program_);
  const int tile_bytes = crossed_tile().tile_bytes;
  int batch = 1;
  for (int part = 1; part <= steps; ++part) {
    const bool is_usable = rows().crossing == Crossing::rows || std::has_single_bit(static_cast<unsigned>(part));
    if (steps % part == 0 && is_usable && part * bytes <= tile_bytes) batch = part;
  }
  return batch;
}

// What blocks exchange and turn fits the shared memory that needs no asking.
bool RowPlanner::fits_tile() {
  rows().batch = batch_of(kernel_.steps);
  int tile = kernel_.threads * kernel_.elements * rows().batch * crossed_bytes(kernel_, program_);
  const int length = kernel_.threads / rows().team;
  if (rows().crossing == Crossing::rows)
    tile = tile / length * (length + kPolicy.row_unit);  // with what lies between lines
  const int exchange = rows().along ? kPolicy.exchange_bytes : exchange_bytes(rows().columns, kernel_.threads) * 9 / 8;
  return tile + exchange <= kPolicy.static_shared_bytes;
}

// By where the results' lines begin, of rows that are neighbours in them.
const CrossedTile& RowPlanner::crossed_tile() {
  for (std::size_t i = 0; i < kernel_.outputs.size() && rows().crossing == Crossing::rows; ++i) {
    const bool turns = is_crossed(kernel_, program_, i);
    if (turns && !begins_at(space_.outputs[i], space_, rows().outer - 1, kPolicy.sector_bytes))
      return kPolicy.crossed_anywhere;
  }
  return kPolicy.crossed_at_sectors;
}

// Rows of a warp or less: a block's are neighbours in the results.
bool RowPlanner::cross_neighbours() {
  const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
  const int lane_steps = most_lane_steps();
  if (vectors > std::int64_t{kWarp} * lane_steps) return false;
  const CrossedTile& tile = crossed_tile();
  rows().team =
      std::max(power_of_two_above(divide_up(vectors, lane_steps)), std::min(power_of_two_above(vectors), tile.lanes));
  const int bytes = crossed_bytes(kernel_, program_);
  const auto line_bytes = [&] { return kernel_.threads / rows().team * bytes; };
  kernel_.threads = kPolicy.row_threads;
  if (line_bytes() < tile.line_bytes) kernel_.threads *= 2;
  kernel_.steps = static_cast<int>(divide_up(vectors, rows().team));
  return line_bytes() >= kPolicy.sector_bytes && fits_tile();
}

// Many blocks share rows, each a chunk of them; those that lie side by side are read together.
bool RowPlanner::cross_chunks() {
  if (plan_.row_length < kPolicy.sum_elements) return false;  // too short to be shared
  if (!rows().along) operands_.take_fewer(kPolicy.most_crossed_rows);
  walk_in_rounds(kPolicy.most_crossed_steps);
  kernel_.steps = static_cast<int>(std::bit_floor(static_cast<unsigned>(kernel_.steps)));
  if (rows().along) {
    if (!share_lines(kPolicy.row_threads)) return false;
  } else {
    while (rows().columns > 1 && rows().columns * kernel_.elements * operands_.narrowest_bytes() > kPolicy.line_bytes)
      rows().columns /= 2;
    rows().team = kPolicy.row_threads / rows().columns;
    round_to_warps();
  }
  while (kernel_.steps > 1 && batch_of(kernel_.steps) < kernel_.steps) kernel_.steps /= 2;
  plan_.chunks = std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{rows().team} * kernel_.steps), 1);
  if (!fits_tile() || rows().batch != kernel_.steps) return false;
  split();
  return true;
}

// Rows in pieces that lie side by side: as many together as make a line of memory, or 0 if they are too narrow.
int RowPlanner::rows_together() {
  const auto outer = static_cast<std::size_t>(rows().outer) - 1;
  const std::int64_t piece = space_.extents[space_.rank() - 1];
  const auto lie_beside = [&](const RowOperands::Streamed& s) {
    return !is_full(*s.walk, space_) || s.walk->strides[outer] == piece;
  };
  int together = 1;
  if (std::ranges::all_of(operands_.streamed(), lie_beside)) {
    while (together < kWarp && piece * together * operands_.narrowest_bytes() < kPolicy.line_bytes &&
           space_.extents[rows().outer - 1] % (std::int64_t{2} * together) == 0)
      together *= 2;
  }
  return piece * together * operands_.narrowest_bytes() < kPolicy.sector_bytes ? 0 : together;
}

// A thread works for one place in all pieces, so that its steps are neighbours in the results: about `threads` of a block do. False if it
// takes too many.
bool RowPlanner::share_lines(int threads) {
  const int together = rows_together();
  if (together == 0) return false;
  const int unit = std::lcm(rows().pieces, kWarp / together);
  if (unit * together > kPolicy.most_team) return false;
  rows().team = unit * std::max(1, threads / together / unit);
  rows().interleaved = together > 1;
  kernel_.threads = rows().team * together;
  return true;
}

}  // namespace epifuse::plan
