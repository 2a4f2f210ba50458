// Chains with reductions whose operands run across the results, as the norms of a channels-last tensor into a row-major one: in which order
// they are walked, and how results turn in shared memory. Called by rows.cpp and crossed_blocks.cpp.
#include <algorithm>

#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// The dimension along which the walk's elements are neighbours, or -1.
int runs_along(const Walk& walk, const Space& space) {
  for (int d = 0; d < space.rank(); ++d) {
    if (space.extents[d] > 1 && walk.strides[static_cast<std::size_t>(d)] == 1) return d;
  }
  return -1;
}

bool is_of_elements(const ir::Program& program, const Structure& structure, std::size_t output) {
  return structure.nodes[static_cast<std::size_t>(program.results()[output].value)].extent == Extent::element;
}

// The dimension along which all operands that come from memory run, or -1.
int find_inner(const Space& space) {
  int inner = -1;
  for (const Walk& walk : space.inputs) {
    if (!walk.used || !is_full(walk, space)) continue;
    const int own = runs_along(walk, space);
    if (own < 0 || (inner >= 0 && own != inner)) return -1;
    inner = own;
  }
  return inner;
}

// The dimension along which those results run that do not run along `inner`, or -1: there are none, they differ, or a walk that also accumulates
// writes them, one step at a time.
int find_line(const Space& space, const ir::Program& program, const Structure& structure, int inner) {
  if (structure.output_walk < structure.levels) return -1;
  int line = -1;
  for (std::size_t i = 0; i < space.outputs.size(); ++i) {
    const Walk& walk = space.outputs[i];
    if (!is_of_elements(program, structure, i)) continue;
    const int own = runs_along(walk, space);
    if (!is_full(walk, space) || own < 0 || (own != inner && line >= 0 && own != line)) return -1;
    if (own == inner) continue;
    const std::int64_t step = std::abs(walk.strides[static_cast<std::size_t>(inner)]);
    if (step * static_cast<std::int64_t>(size_of(walk.dtype)) < kPolicy.sector_bytes) return -1;
    line = own;
  }
  return line;
}

}  // namespace

Order order_of_operands(const Space& space, const ir::Program& program, const Structure& structure) {
  if (space.elements == 0 || structure.across != 0 || space.rank() < 2) return {};
  const int inner = find_inner(space);
  if (inner < 0) return {};
  const int line = find_line(space, program, structure, inner);
  if (line < 0 || space.extents[line] < kPolicy.least_line || space.extents[inner] < kPolicy.least_crossed) return {};
  const auto first =
      std::ranges::find_if(space.inputs, [&](const Walk& walk) { return walk.used && is_full(walk, space); });
  Order order;
  for (int d = 0; d < space.rank(); ++d) order.push_back(d);
  const auto step = [&](int d) { return std::abs(first->strides[static_cast<std::size_t>(d)]); };
  std::ranges::sort(order, [&](int a, int b) { return step(a) != step(b) ? step(a) > step(b) : a < b; });
  return order;
}

int crossed_bytes(const KernelClass& kernel, const ir::Program& program) {
  int bytes = 0;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    if (is_crossed(kernel, program, i)) bytes += size_in_bytes(kernel.outputs[i]);
  }
  return bytes;
}

bool is_crossed(const KernelClass& kernel, const ir::Program& program, std::size_t output) {
  return kernel.rows && kernel.rows->crossing != Crossing::none && kernel.outputs[output].access == Access::strided &&
         is_of_elements(program, kernel.rows->structure, output);
}

Crossing crossing_of(const Plan& plan, const ir::Program& program) {
  const Space& space = plan.space;
  const RowClass& rows = *plan.kernel_class.rows;
  const int line = find_line(space, program, rows.structure, space.rank() - 1);
  const int row_end = rows.outer + rows.reduced;
  if (rows.along && line == rows.outer - 1 && rows.reduced == 1) return Crossing::rows;
  if (rows.along && rows.reduced > 1 && line == row_end - 2) return Crossing::walk;
  if (!rows.along && rows.inner == 1 && line == row_end - 1) return Crossing::walk;
  return Crossing::none;
}

void choose_line_widths(Plan& plan, const ir::Program& program) {
  KernelClass& kernel = plan.kernel_class;
  const RowClass& rows = *kernel.rows;
  const Space& space = plan.space;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    if (!is_crossed(kernel, program, i)) continue;
    OperandPlan& output = kernel.outputs[i];
    const Walk& walk = space.outputs[i];
    const int line = runs_along(walk, space);
    output.width = std::min(rows.crossing == Crossing::walk ? rows.batch : kPolicy.row_unit,
                            kPolicy.bytes_per_access / size_in_bytes(output));
    while (output.width > 1 && !has_whole_lines(walk, space, line, output.width)) output.width /= 2;
  }
}

}  // namespace epifuse::plan
