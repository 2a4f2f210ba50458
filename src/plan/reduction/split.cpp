// Many blocks share a row and read it once per pass: how long their chunks are, how far a pass is behind the one
// before, and why. Called by looped.cpp and transposed_store_blocks.cpp.
#include <algorithm>

#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {

// Many blocks share a row, each a chunk of it.
void ReductionPlanner::split() {
  reduction().driver = Split{};
  const std::int64_t all_rounds = plan_.chunks;
  const std::int64_t together = layout().inner_reduction ? kernel_.threads / row_threads().group : 1;
  const std::int64_t tiles = divide_up(plan_.rows, together) *
                             divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements);
  const std::int64_t round_bytes =
      std::int64_t{kernel_.threads} * kernel_.steps * std::max(operands_.loaded_bytes(), 1);
  const std::int64_t cached_bytes =
      machine_.of_l2(reduction().store ? kPolicy.transposed_store_cached_bytes : kPolicy.cached_bytes);
  // Of rows of outer reductions a block merges as many as a line has: in f32 32, in 16 bits 64.
  const bool many_merge = reduction().store && (layout().inner_reduction || operands_.narrowest_bytes() < 4);
  const bool is_long = all_rounds * round_bytes > cached_bytes;
  const int chunk_bytes = passes() == 1           ? kPolicy.chunk_bytes
                          : many_merge || is_long ? kPolicy.long_chunk_bytes
                                                  : kPolicy.reread_chunk_bytes;
  const std::int64_t wanted = std::max<std::int64_t>(chunk_bytes / round_bytes, 1);
  const std::int64_t resident = std::int64_t{machine_.multiprocessors} * (row_threads_of(machine_) / kernel_.threads);
  plan_.rounds = std::clamp<std::int64_t>(all_rounds * tiles / (2 * resident), 1, wanted);
  plan_.chunks = divide_up(all_rounds, plan_.rounds);
  // Far enough behind that a pass seldom waits for the one before, near enough that its rows are still in the L2 cache.
  const std::int64_t row_bytes = plan_.chunks * plan_.rounds * round_bytes;
  plan_.lag = std::clamp<std::int64_t>(divide_up(resident * 3 / 2, plan_.chunks * passes()), 1,
                                       std::max<std::int64_t>(cached_bytes / row_bytes, 1));
}

std::string why(const Split&, const Plan& plan, const ReductionSummary& reduction, const Machine& machine) {
  return why_unheld(plan, reduction, machine) + ": many blocks share each";
}

}  // namespace epifuse::plan
