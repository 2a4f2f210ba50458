// The order of dimensions that kernels with rows walk: kept ones outside, those of the row, and, where rows lie across memory, kept ones inside.
// Called by rows.cpp.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/parts.hpp"

namespace epifuse::plan {

void permute(Plan& plan, const Order& order) {
  Space& space = plan.space;
  RowClass& rows = *plan.kernel_class.rows;
  Dims extents;
  for (const int d : order) extents.push_back(space.extents[d]);
  for (auto* walks : {&space.inputs, &space.outputs}) {
    for (Walk& walk : *walks) {
      Strides strides{};
      for (std::size_t i = 0; i < order.size(); ++i) strides[i] = walk.strides[static_cast<std::size_t>(order[i])];
      walk.strides = strides;
    }
  }
  const auto renumber = [&](std::uint32_t mask) {
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < order.size(); ++i) out |= (mask >> order[i] & 1U) << i;
    return out;
  };
  for (std::uint32_t& span : space.spans) span = renumber(span);
  rows.structure.reduced = renumber(rows.structure.reduced);
  rows.structure.across = renumber(rows.structure.across);
  rows.structure.part = renumber(rows.structure.part);
  space.extents = extents;
}

namespace {

// One dimension of one element, so that "which row" always is a coordinate.
void insert_outer(Plan& plan) {
  Space& space = plan.space;
  RowClass& rows = *plan.kernel_class.rows;
  Dims extents = {1};
  for (const std::int64_t extent : space.extents) extents.push_back(extent);
  space.extents = extents;
  for (auto* walks : {&space.inputs, &space.outputs}) {
    for (Walk& walk : *walks) {
      std::shift_right(walk.strides.begin(), walk.strides.end(), 1);
      walk.strides[0] = 0;
    }
  }
  for (std::uint32_t& span : space.spans) span <<= 1;
  rows.structure.reduced <<= 1;
  rows.structure.across <<= 1;
  rows.structure.part <<= 1;
  rows.outer = 1;
}

// Kept dimensions outside, the row, and, if the row lies across memory, the kept dimensions inside it.
void order_dimensions(Plan& plan) {
  Space& space = plan.space;
  RowClass& rows = *plan.kernel_class.rows;
  const std::uint32_t reduced = rows.structure.reduced;
  const auto is_reduced = [&](int d) { return (reduced >> d & 1U) != 0; };
  int last = space.rank() - 1;
  while (last >= 0 && !is_reduced(last)) --last;
  // A statistic across rows that keeps a dimension inside: one row at a time, so that a block's rows belong to one result.
  for (int d = last + 1; d < space.rank(); ++d) {
    const bool kept = (rows.structure.across >> d & 1U) == 0 && space.extents[d] > 1;
    if (rows.structure.across != 0 && kept) last = space.rank() - 1;
  }
  rows.along = last == space.rank() - 1;
  Order order;
  for (int d = 0; d <= last; ++d) {
    if (!is_reduced(d)) order.push_back(d);
  }
  // What reductions across rows reduce runs fastest, so that the rows of one result are neighbours.
  const auto is_across = [&](int d) { return (rows.structure.across >> d & 1U) != 0; };
  for (std::size_t i = 1; i < order.size(); ++i) {
    for (std::size_t k = i; k > 0 && is_across(order[k - 1]) && !is_across(order[k]); --k)
      std::swap(order[k], order[k - 1]);
  }
  const auto outer = order.size();
  for (int d = 0; d <= last; ++d) {
    if (is_reduced(d)) order.push_back(d);
  }
  const auto inner = order.size();
  for (int d = last + 1; d < space.rank(); ++d) order.push_back(d);
  permute(plan, order);
  rows.outer = static_cast<int>(outer);
  rows.reduced = static_cast<int>(inner - outer);
  rows.inner = space.rank() - static_cast<int>(inner);
  if (rows.structure.has_parts())
    rows.part_coordinates = std::max(0, rows.reduced - std::popcount(rows.structure.part));
  if (rows.outer == 0 && space.rank() == kMaxRank)
    base::fail(ErrorCode::unsupported, "the chain reduces {} dimensions that cannot be merged: split it", kMaxRank);
  if (rows.outer == 0) insert_outer(plan);
  plan.kernel_class.coordinates = space.rank();
}

void measure(Plan& plan) {
  const Space& space = plan.space;
  const RowClass& rows = *plan.kernel_class.rows;
  const auto product = [&](int first, int count) {
    std::int64_t extent = 1;
    for (int d = first; d < first + count; ++d) extent *= space.extents[d];
    return extent;
  };
  plan.rows = product(0, rows.outer);
  plan.row_length = product(rows.outer, rows.reduced);
  if (rows.structure.has_parts()) {
    plan.row_parts = product(rows.outer, rows.part_coordinates);
    plan.part_length = product(rows.outer + rows.part_coordinates, rows.reduced - rows.part_coordinates);
  }
  plan.row_columns = product(rows.outer + rows.reduced, rows.inner);
  for (int d = 0; d < rows.outer; ++d) {
    if ((rows.structure.across >> d & 1U) != 0) plan.rows_per_group *= space.extents[d];
  }
}

}  // namespace

void arrange_rows(Plan& plan) {
  order_dimensions(plan);
  measure(plan);
}

}  // namespace epifuse::plan
