// Results that are transposed in shared memory: which rows, or chunks of rows, a block takes so that lines of the
// operands and of the results are long.
#include <algorithm>
#include <bit>
#include <numeric>

#include "plan/reduction/planner.hpp"

namespace epifuse::plan {

bool ReductionPlanner::choose_transposing_driver() {
  plan_.row_vectors = layout().inner_reduction ? plan_.row_length / kernel_.elements : plan_.row_length;
  if (reduction().stores_lines_of(TransposedStore::Lines::rows)) return transpose_rows();
  if (layout().inner_reduction)
    reduction().store->vectors_per_run = static_cast<int>(space_.extents[space_.rank() - 1] / kernel_.elements);
  return (!layout().inner_reduction && attempt(&ReductionPlanner::transpose_columns)) || transpose_chunks();
}

// Rows of an outer reduction that a block holds.
bool ReductionPlanner::transpose_columns() {
  return choose_outer_group() && round_steps() && fits_tile() && !is_starved();
}

// Steps of rows in registers in twos or fours, which move together in shared memory; not where it takes a cluster to
// hold a row, or many registers.
bool ReductionPlanner::round_steps() {
  if (reduction().cluster() > 1) return false;
  const int batch = kernel_.steps > 2 ? 4 : kernel_.steps;
  kernel_.steps = (kernel_.steps + batch - 1) / batch * batch;
  if (kernel_.steps * operands_.held_bytes() > kPolicy.bytes_in_flight) return false;
  row_threads().group = static_cast<int>(divide_up(plan_.row_length, kernel_.steps));
  round_to_warps();
  return true;
}

// The largest divisor of `steps` whose results fit a tile in shared memory; of a pass, a power of two.
int ReductionPlanner::batch_of(int steps) {
  const int bytes = kernel_.threads * kernel_.elements * transposed_bytes(kernel_, program_);
  const int tile_bytes = transposed_store_tile().tile_bytes;
  int batch = 1;
  for (int count = 1; count <= steps; ++count) {
    const bool is_usable =
        reduction().stores_lines_of(TransposedStore::Lines::rows) || std::has_single_bit(static_cast<unsigned>(count));
    if (steps % count == 0 && is_usable && count * bytes <= tile_bytes) batch = count;
  }
  return batch;
}

// What blocks exchange and transpose fits the shared memory that needs no opt-in.
bool ReductionPlanner::fits_tile() {
  reduction().store->batch = batch_of(kernel_.steps);
  int tile = kernel_.threads * kernel_.elements * reduction().store->batch * transposed_bytes(kernel_, program_);
  const int length = kernel_.threads / row_threads().group;
  if (reduction().stores_lines_of(TransposedStore::Lines::rows))
    tile = tile / length * (length + kRowsTogether);  // with what lies between lines
  const int exchange = layout().inner_reduction ? kPolicy.exchange_bytes
                                                : exchange_bytes(row_threads().columns, kernel_.threads) * 9 / 8;
  return tile + exchange <= kTileShared;
}

// By where the results' lines begin, of rows that are neighbours in them. Of lines that begin inside sectors the longer
// a block's run, the fewer sectors are written in parts.
TransposedStoreTile ReductionPlanner::transposed_store_tile() {
  for (std::size_t i = 0; i < kernel_.outputs.size() && reduction().stores_lines_of(TransposedStore::Lines::rows);
       ++i) {
    const bool turns = is_transposed(kernel_, program_, i);
    if (turns && !begins_at(space_.outputs[i], space_, layout().outer - 1, kSectorBytes))
      return {kPolicy.run_bytes / kAccessBytes, kPolicy.cut_line_bytes, tile_bytes_of(large_block_threads(machine_))};
  }
  return {kLineBytes / kAccessBytes, kPolicy.run_bytes, tile_bytes_of(kPolicy.block_threads)};
}

// Rows of a warp or less: a block's are neighbours in the results.
bool ReductionPlanner::transpose_rows() {
  const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
  const int lane_steps = most_lane_steps();
  if (vectors > std::int64_t{kWarp} * lane_steps) return false;
  const TransposedStoreTile tile = transposed_store_tile();
  row_threads().group =
      std::max(power_of_two_above(divide_up(vectors, lane_steps)), std::min(power_of_two_above(vectors), tile.lanes));
  const int bytes = transposed_bytes(kernel_, program_);
  const auto line_bytes = [&] { return kernel_.threads / row_threads().group * bytes; };
  kernel_.threads = kPolicy.block_threads;
  if (line_bytes() < tile.line_bytes) kernel_.threads *= 2;
  kernel_.steps = static_cast<int>(divide_up(vectors, row_threads().group));
  return line_bytes() >= kSectorBytes && fits_tile();
}

// Many blocks share rows, each a chunk of them; those that lie side by side are read together.
bool ReductionPlanner::transpose_chunks() {
  if (plan_.row_length < kPolicy.sum_elements) return false;  // too short to be shared
  if (!layout().inner_reduction) operands_.take_fewer(kPolicy.outer_elements);
  take_rounds(kPolicy.most_short_steps);
  kernel_.steps = static_cast<int>(std::bit_floor(static_cast<unsigned>(kernel_.steps)));
  if (layout().inner_reduction) {
    if (!share_lines(kPolicy.block_threads)) return false;
  } else {
    while (row_threads().columns > 1 &&
           row_threads().columns * kernel_.elements * operands_.narrowest_bytes() > kLineBytes)
      row_threads().columns /= 2;
    row_threads().group = kPolicy.block_threads / row_threads().columns;
    round_to_warps();
  }
  while (kernel_.steps > 1 && batch_of(kernel_.steps) < kernel_.steps) kernel_.steps /= 2;
  plan_.chunks =
      std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{row_threads().group} * kernel_.steps), 1);
  if (!fits_tile() || reduction().store->batch != kernel_.steps) return false;
  split();
  return true;
}

// Rows in runs that lie side by side: as many together as make a line of memory, or 0 if they are too short.
int ReductionPlanner::rows_together() {
  const auto outer = static_cast<std::size_t>(layout().outer) - 1;
  const std::int64_t run = space_.extents[space_.rank() - 1];
  const auto lie_beside = [&](const ReductionOperands::Streamed& s) {
    return !is_full(*s.strided, space_) || s.strided->strides[outer] == run;
  };
  int together = 1;
  if (std::ranges::all_of(operands_.streamed(), lie_beside)) {
    while (together < kWarp && run * together * operands_.narrowest_bytes() < kLineBytes &&
           space_.extents[layout().outer - 1] % (std::int64_t{2} * together) == 0)
      together *= 2;
  }
  return run * together * operands_.narrowest_bytes() < kSectorBytes ? 0 : together;
}

// A thread works for one place in all runs, so that its steps are neighbours in the results: about `threads` of a block
// do. False if it takes too many.
bool ReductionPlanner::share_lines(int threads) {
  const int together = rows_together();
  if (together == 0) return false;
  const int unit = std::lcm(reduction().vectors_per_run(), kWarp / together);
  if (unit * together > large_block_threads(machine_)) return false;
  row_threads().group = unit * std::max(1, threads / together / unit);
  reduction().store->interleaved_rows = together > 1;
  kernel_.threads = row_threads().group * together;
  return true;
}

}  // namespace epifuse::plan
