// What a later block will read is asked for ahead of time, so that memory reads while the blocks before compute and write. Called by rows.cpp when the
// grid is known; templates/ahead.cuh asks.
#include <algorithm>

#include "plan/row_planner.hpp"

namespace epifuse::plan {

// Elements of each operand that one block reads.
std::int64_t RowPlanner::elements_of_block() {
  if (!rows().along) return plan_.row_length * rows().columns * kernel_.elements;
  const std::int64_t held = std::int64_t{rows().team} * kernel_.steps * kernel_.elements;
  return std::min(held, plan_.row_length) * (kernel_.threads / rows().team);
}

bool is_asked_for(const KernelClass& kernel_class, std::size_t input) {
  return kernel_class.rows->held[input] && kernel_class.inputs[input].access == Access::linear;
}

// That are asked for before the blocks that read them begin; 0: none. Only beside results as long as the rows: where nothing is written memory has no
// rest. Rows across memory in f32 gain nothing; those in pieces or whose results turn, and in clusters norms whose weights come from the L2 cache, lose by it
// (docs/measurements/notes/reductions.md).
std::int64_t RowPlanner::bytes_ahead() {
  const bool holds = kernel_.schedule == Schedule::team || kernel_.schedule == Schedule::kept;
  if (!holds || !structure().writes_walk() || structure().has_parts() || rows().interleaved || rows().passes > 1)
    return 0;
  if (!rows().along && (rows().spread || rows().cluster > 1 || operands_.narrowest_bytes() >= 4)) return 0;
  if (kernel_.schedule == Schedule::kept) return kept_block_.ahead_bytes;
  return rows().staged && operands_.reads_lines() ? 0 : kPolicy.ahead_bytes;
}

void RowPlanner::choose_ahead() {
  int element_bytes = 0;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    if (is_asked_for(kernel_, i)) element_bytes += size_in_bytes(kernel_.inputs[i]);
  const std::int64_t held_bytes = std::int64_t{kernel_.threads} * kernel_.steps * kernel_.elements * element_bytes;
  const std::int64_t bytes = bytes_ahead();
  rows().asks_ahead = bytes > 0 && element_bytes > 0 && held_bytes >= kPolicy.least_asking_bytes;
  if (!rows().asks_ahead) return;
  rows().streams = kept_block_.streams;
  const std::int64_t of_block = std::max<std::int64_t>(elements_of_block() * element_bytes, 1);
  const std::int64_t clusters = (bytes + of_block / 2) / of_block / rows().cluster;
  const bool is_little = of_block * plan_.blocks < kPolicy.least_asked_bytes;
  plan_.ahead = is_little ? plan_.blocks : std::max<std::int64_t>(clusters, 1) * rows().cluster;
}

}  // namespace epifuse::plan
