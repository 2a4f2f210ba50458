// What is written in place of rows' elements: which of its operands have their elements in a row that a block holds in
// shared memory, and what their offsets are made of. Called by reduction.cpp.
#include "plan/pointwise/pointwise.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// A row lies in shared memory as in memory: its elements are dense, in the order of its dimensions.
bool has_dense_rows(const Plan& plan, std::size_t input) {
  const RowLayout& layout = plan.kernel_class.reduction()->layout;
  const Strides& strides = plan.space.inputs[input].strides;
  std::int64_t step = 1;
  for (int d = layout.outer + layout.reduced; d-- > layout.outer;) {
    if (plan.space.extents[d] == 1) continue;
    if (strides[static_cast<std::size_t>(d)] != step) return false;
    step *= plan.space.extents[d];
  }
  return layout.inner_reduction && !is_packed(plan.kernel_class.inputs[input].dtype);
}

// Whether all elements that are read of `input` for a row are elements of that row of `held`.
bool lies_in_row(const Plan& plan, const ir::Program& program, std::size_t input, std::size_t held) {
  const StridedOperand& strided = plan.written.inputs[input];
  const StridedOperand& row = plan.space.inputs[held];
  const bool is_strided = strided.used && !strided.bounded && strided.gathers.empty() && !strided.is_generated();
  const ir::Viewed own = program.viewed(input), of_row = program.viewed(held);
  if (!is_strided || own.tensor == ir::kNone || own.tensor != of_row.tensor || !row.gathers.empty() || row.bounded)
    return false;
  const RowLayout& layout = plan.kernel_class.reduction()->layout;
  const std::int64_t bytes = own.offset - of_row.offset;
  const auto size = static_cast<std::int64_t>(size_of(strided.dtype));
  if (bytes % size != 0) return false;
  std::int64_t first = bytes / size;
  std::int64_t last = first;
  for (int d = 0; d < plan.written.rank(); ++d) {
    const std::int64_t stride = strided.strides[static_cast<std::size_t>(d)];
    if (d < layout.outer) {
      if (plan.space.extents[d] > 1 && stride != row.strides[static_cast<std::size_t>(d)]) return false;
    } else {
      (stride < 0 ? first : last) += stride * (plan.written.extents[d] - 1);
    }
  }
  return first >= 0 && last < plan.row_length;
}

}  // namespace

// The input whose row, held from pass to pass, has the elements of a written operand.
std::optional<int> ReductionPlanner::held_row_of(std::size_t input) {
  for (std::size_t held = 0; kernel_.inputs[input].written && held < kernel_.inputs.size(); ++held) {
    if (reduction().residency.held[held] && has_dense_rows(plan_, held) && lies_in_row(plan_, program_, input, held))
      return static_cast<int>(held);
  }
  return std::nullopt;
}

bool ReductionPlanner::reads_rows_again() {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (held_row_of(i)) return true;
  }
  return false;
}

void ReductionPlanner::find_written_operands() {
  if (!structure().has_written()) return;
  const bool is_staged =
      reduction().is<ResidentShared>() && !reduction().interleaves_rows() && reduction().residency.saved.empty();
  const std::uint32_t row = ((1U << layout().reduced) - 1) << layout().outer;
  const auto find_moves = [&](OperandPlan& operand, const StridedOperand& strided) {
    if (operand.written && operand.is_gathered())
      operand.moves = moves_of(plan_.written, [&](int d) { return strided.strides[static_cast<std::size_t>(d)]; });
  };
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    OperandPlan& input = kernel_.inputs[i];
    find_moves(input, plan_.written.inputs[i]);
    const auto held = is_staged ? held_row_of(i) : std::nullopt;
    if (!held) continue;
    input.staged_row = *held;
    input.moves &= static_cast<std::uint16_t>(row | OperandPlan::kKnown);
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) find_moves(kernel_.outputs[i], plan_.written.outputs[i]);
  share_strides(kernel_, plan_.written, [](const OperandPlan& operand) { return operand.written; });
}

}  // namespace epifuse::plan
