// Reductions whose operands are contiguous along another dimension than the results, as the norms of a channels-last
// tensor into a row-major one: in which order the kernel iterates, and how results are transposed in shared memory.
// Called by reduction.cpp and transposed_store_blocks.cpp.
#include <algorithm>

#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// The dimension along which the operand is contiguous, or -1.
int contiguous_dimension(const StridedOperand& strided, const Space& space) {
  for (int d = 0; d < space.rank(); ++d) {
    if (space.extents[d] > 1 && strided.strides[static_cast<std::size_t>(d)] == 1) return d;
  }
  return -1;
}

// The dimension along which all operands that come from memory are contiguous, or -1.
int find_inner(const Space& space) {
  int inner = -1;
  for (const StridedOperand& strided : space.inputs) {
    if (!strided.used || strided.is_generated() || !is_full(strided, space)) continue;
    const int own = contiguous_dimension(strided, space);
    if (own < 0 || (inner >= 0 && own != inner)) return -1;
    inner = own;
  }
  return inner;
}

// The dimension along which those results are contiguous that are not along `inner`, or -1: there are none, they
// differ, or a pass that also accumulates writes them, one step at a time.
int find_line(const Space& space, const ir::Program& program, const Structure& structure, int inner) {
  if (structure.output_pass < structure.stages) return -1;
  int line = -1;
  for (std::size_t i = 0; i < space.outputs.size(); ++i) {
    const StridedOperand& strided = space.outputs[i];
    if (scope_of_result(program, structure, i) != Scope::element) continue;
    const int own = contiguous_dimension(strided, space);
    if (!is_full(strided, space) || own < 0 || (own != inner && line >= 0 && own != line)) return -1;
    if (own == inner) continue;
    const std::int64_t step = std::abs(strided.strides[static_cast<std::size_t>(inner)]);
    if (step * static_cast<std::int64_t>(size_of(strided.dtype)) < kSectorBytes) return -1;
    line = own;
  }
  return line;
}

}  // namespace

Order order_of_operands(const Space& space, const ir::Program& program, const Structure& structure) {
  if (space.elements == 0 || structure.grid != 0 || space.rank() < 2) return {};
  const int inner = find_inner(space);
  if (inner < 0) return {};
  const int line = find_line(space, program, structure, inner);
  if (line < 0 || space.extents[line] < kWarp || space.extents[inner] < kPolicy.least_tiled_extent) return {};
  const auto first = std::ranges::find_if(space.inputs, [&](const StridedOperand& strided) {
    return strided.used && !strided.is_generated() && is_full(strided, space);
  });
  Order order;
  for (int d = 0; d < space.rank(); ++d) order.push_back(d);
  const auto step = [&](int d) { return std::abs(first->strides[static_cast<std::size_t>(d)]); };
  std::ranges::sort(order, [&](int a, int b) { return step(a) != step(b) ? step(a) > step(b) : a < b; });
  return order;
}

int transposed_bytes(const KernelClass& kernel, const ir::Program& program) {
  int bytes = 0;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    if (is_transposed(kernel, program, i)) bytes += size_in_bytes(kernel.outputs[i]);
  }
  return bytes;
}

bool is_transposed(const KernelClass& kernel, const ir::Program& program, std::size_t output) {
  return kernel.reduction() != nullptr && kernel.reduction()->store &&
         kernel.outputs[output].access == Access::strided &&
         scope_of_result(program, kernel.reduction()->structure, output) == Scope::element;
}

std::optional<TransposedStore> transposed_store_of(const Plan& plan, const ir::Program& program) {
  const Space& space = plan.space;
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  const int line = find_line(space, program, reduction.structure, space.rank() - 1);
  const int row_end = reduction.layout.outer + reduction.layout.reduced;
  if (reduction.layout.inner_reduction && line == reduction.layout.outer - 1 && reduction.layout.reduced == 1)
    return TransposedStore{TransposedStore::Lines::rows};
  if (reduction.layout.inner_reduction && reduction.layout.reduced > 1 && line == row_end - 2)
    return TransposedStore{TransposedStore::Lines::elements};
  if (!reduction.layout.inner_reduction && reduction.layout.inner == 1 && line == row_end - 1)
    return TransposedStore{TransposedStore::Lines::elements};
  return std::nullopt;
}

void choose_line_widths(Plan& plan, const ir::Program& program) {
  KernelClass& kernel = plan.kernel_class;
  const ReductionClass& reduction = *kernel.reduction();
  const Space& space = plan.space;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    if (!is_transposed(kernel, program, i)) continue;
    OperandPlan& output = kernel.outputs[i];
    const StridedOperand& strided = space.outputs[i];
    const int line = contiguous_dimension(strided, space);
    const int most =
        reduction.stores_lines_of(TransposedStore::Lines::elements) ? reduction.store->batch : kRowsTogether;
    output.width =
        access_width(output.dtype, most, [&](int width) { return has_aligned_lines(strided, space, line, width); });
  }
}

}  // namespace epifuse::plan
