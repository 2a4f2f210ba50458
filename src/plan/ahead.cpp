// What a later block will read is asked for ahead of time, so that memory reads while the blocks before compute and write. Called by rows.cpp when the
// grid is known; templates/ahead.cuh asks.
#include <algorithm>

#include "plan/row_planner.hpp"

namespace epifuse::plan {

// Elements of each operand that one block reads.
std::int64_t RowPlanner::elements_of_block() {
  if (!rows().along) return plan_.row_length * rows().columns * kernel_.elements;
  const std::int64_t held = std::int64_t{kernel_.threads} * kernel_.steps * kernel_.elements;
  const bool shares = shares_rows(kernel_.schedule) || rows().cluster > 1;
  return shares ? std::min(held, plan_.row_length) : plan_.row_length * (kernel_.threads / rows().team);
}

// That are asked for before the blocks that read them begin; 0: none. Only beside results as long as the rows: where nothing is written memory has no
// rest. Rows in pieces, and those across memory in f32 or at odd addresses, lose by it (docs/notes/reductions-2026-11.md).
std::int64_t RowPlanner::bytes_ahead() {
  const bool holds = kernel_.schedule == Schedule::team || kernel_.schedule == Schedule::kept;
  if (!holds || !structure().writes_walk() || structure().has_parts() || crosses()) return 0;
  if (rows().interleaved || rows().passes > 1) return 0;
  if (!rows().along && (rows().spread || rows().cluster > 1 || operands_.narrowest_bytes() >= 4)) return 0;
  if (kernel_.schedule == Schedule::kept) return kept_block_.ahead_bytes;
  return rows().staged ? kPolicy.staged_ahead_bytes : kPolicy.ahead_bytes;
}

void RowPlanner::choose_ahead() {
  std::int64_t of_block = 0;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    const OperandPlan& operand = kernel_.inputs[i];
    if (!rows().held[i] || operand.access != Access::linear) continue;
    rows().asks_ahead = bytes_ahead() > 0;
    of_block += elements_of_block() * size_in_bytes(operand);
  }
  if (!rows().asks_ahead) return;
  rows().streams = kernel_.schedule == Schedule::kept && kept_block_.streams;
  const std::int64_t blocks = (bytes_ahead() + of_block / 2) / std::max<std::int64_t>(of_block, 1);
  plan_.ahead = std::clamp<std::int64_t>(blocks / rows().cluster, 1, kPolicy.most_ahead) * rows().cluster;
}

}  // namespace epifuse::plan
