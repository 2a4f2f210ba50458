// Column sums of segments of rows that no block holds, as the gradients of a GroupNorm's weights beside that of its
// operand, where groups are large: the blocks that hold a row reduce its segments warp by warp, and what they leave in
// the workspace is summed over rows at the end. Called by reduction.cpp; templates/reduction/column_runs.cuh has the
// code.
#include <algorithm>

#include "plan/reduction/planner.hpp"

namespace epifuse::plan {

bool ReductionPlanner::run_column_runs() {
  arrange_rows(plan_);
  if (!layout().inner_reduction) return false;
  operands_.choose();
  if (!hold_rows()) return false;
  choose_rest();
  return true;
}

std::int64_t run_elements(const KernelClass& kernel) {
  return std::int64_t{kernel.steps} * std::min(kernel.reduction()->threads.group, kWarp) * kernel.elements;
}

std::int64_t runs_per_row(const Plan& plan) {
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  const std::int64_t blocks = reduction.shares_rows() ? plan.chunks : reduction.cluster();
  return blocks * std::max(reduction.threads.group / kWarp, 1);
}

// Wherever it begins. Where vectors are aligned to the tensor, a row's first run begins before the row.
std::int64_t runs_per_segment(const Plan& plan) {
  const std::int64_t elements = plan.segment_length + plan.kernel_class.elements;
  return elements / run_elements(plan.kernel_class) + 2;
}

std::int64_t slots_per_row(const Plan& plan) { return runs_per_row(plan) + plan.segments_per_row; }

}  // namespace epifuse::plan
