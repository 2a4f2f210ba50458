// Blocks prefetch what later blocks read, so that memory reads while the blocks before compute and write. Called by
// reduction.cpp when the grid is known; templates/reduction/prefetch.cuh has the code.
#include <algorithm>

#include "plan/reduction/planner.hpp"

namespace epifuse::plan {

// Elements of each operand that one block reads.
std::int64_t ReductionPlanner::elements_of_block() {
  if (!reduction().layout.inner_reduction) return plan_.row_length * reduction().threads.columns * kernel_.elements;
  const std::int64_t held = std::int64_t{reduction().threads.group} * kernel_.steps * kernel_.elements;
  return std::min(held, plan_.row_length) * (kernel_.threads / reduction().threads.group);
}

bool is_prefetched(const KernelClass& kernel_class, std::size_t input) {
  return kernel_class.reduction()->residency.held[input] && kernel_class.inputs[input].access == Access::linear;
}

int prefetched_element_bytes(const KernelClass& kernel_class) {
  int bytes = 0;
  for (std::size_t i = 0; i < kernel_class.inputs.size(); ++i)
    bytes += is_prefetched(kernel_class, i) ? size_in_bytes(kernel_class.inputs[i]) : 0;
  return bytes;
}

// Bytes that are prefetched before the blocks that read them begin; 0: none. Only beside results as long as the rows:
// where nothing is written memory has no rest. Rows of outer reductions in f32 gain nothing. Rows in runs, rows whose
// results are transposed, and norms in clusters whose weights come from the L2 cache lose by it
// (docs/measurements/notes/reductions.md).
std::int64_t ReductionPlanner::prefetch_bytes() {
  const bool holds = reduction().is_resident() || reduction().is<SplitResident>();
  if (!holds || !structure().has_write_pass() || structure().has_own_segments() || reduction().interleaves_rows() ||
      reduction().rows_per_group() > 1)
    return 0;
  if (!reduction().layout.inner_reduction &&
      (reduction().layout.striped || reduction().cluster() > 1 || operands_.narrowest_bytes() >= 4))
    return 0;
  if (reduction().is<SplitResident>()) return machine_.of_l2(resident_block_.prefetch_bytes);
  return reduction().is_in_shared_memory() && operands_.reads_lines() ? 0 : machine_.of_l2(kPolicy.prefetch_bytes);
}

void ReductionPlanner::choose_prefetch() {
  const int element_bytes = prefetched_element_bytes(kernel_);
  const std::int64_t held_bytes = std::int64_t{kernel_.threads} * kernel_.steps * kernel_.elements * element_bytes;
  const std::int64_t bytes = prefetch_bytes();
  if (bytes == 0 || element_bytes == 0 || held_bytes < kPolicy.least_prefetching_bytes) return;
  std::visit(
      [&](auto& driver) {
        if constexpr (requires { driver.prefetches; }) driver.prefetches = true;
        if constexpr (requires { driver.l2_evict_first; }) driver.l2_evict_first = resident_block_.l2_evict_first;
      },
      reduction().driver);
  const std::int64_t of_block = std::max<std::int64_t>(elements_of_block() * element_bytes, 1);
  const std::int64_t clusters = (bytes + of_block / 2) / of_block / reduction().cluster();
  // Of no rows at all results are made, too, by blocks that find nothing to prefetch.
  const bool is_little = combines_nothing() || of_block * plan_.blocks < machine_.of_l2(kPolicy.least_prefetched_bytes);
  plan_.prefetch_distance = is_little ? plan_.blocks : std::max<std::int64_t>(clusters, 1) * reduction().cluster();
}

}  // namespace epifuse::plan
