// The order of dimensions over which reductions iterate: parallel ones outside, those of the row, and, in outer
// reductions, parallel ones inside. Called by reduction.cpp.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {

void permute(Plan& plan, const Order& order) {
  Space& space = plan.space;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  Dims extents;
  for (const int d : order) extents.push_back(space.extents[d]);
  for (auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (StridedOperand& strided : *strided_operands) {
      Strides strides{};
      for (std::size_t i = 0; i < order.size(); ++i) strides[i] = strided.strides[static_cast<std::size_t>(order[i])];
      strided.strides = strides;
    }
  }
  const auto renumber = [&](std::uint32_t mask) {
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < order.size(); ++i) out |= (mask >> order[i] & 1U) << i;
    return out;
  };
  for (std::uint32_t& span : space.spans) span = renumber(span);
  reduction.structure.reduced = renumber(reduction.structure.reduced);
  reduction.structure.grid = renumber(reduction.structure.grid);
  reduction.structure.columns = renumber(reduction.structure.columns);
  reduction.structure.column_segment = renumber(reduction.structure.column_segment);
  reduction.structure.segment = renumber(reduction.structure.segment);
  reduction.structure.lane_segment = renumber(reduction.structure.lane_segment);
  space.extents = extents;
}

namespace {

// One dimension of one element, so that "which row" always is a coordinate.
void insert_outer(Plan& plan) {
  Space& space = plan.space;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  Dims extents = {1};
  for (const std::int64_t extent : space.extents) extents.push_back(extent);
  space.extents = extents;
  for (auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (StridedOperand& strided : *strided_operands) {
      std::shift_right(strided.strides.begin(), strided.strides.end(), 1);
      strided.strides[0] = 0;
    }
  }
  for (std::uint32_t& span : space.spans) span <<= 1;
  reduction.structure.reduced <<= 1;
  reduction.structure.grid <<= 1;
  reduction.structure.columns <<= 1;
  reduction.structure.column_segment <<= 1;
  reduction.structure.segment <<= 1;
  reduction.structure.lane_segment <<= 1;
  reduction.layout.outer = 1;
}

// Parallel dimensions outside, the row, and, in outer reductions, the parallel dimensions inside it.
void order_dimensions(Plan& plan) {
  Space& space = plan.space;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  const std::uint32_t reduced = reduction.structure.reduced;
  const auto is_reduced = [&](int d) { return (reduced >> d & 1U) != 0; };
  int last = space.rank() - 1;
  while (last >= 0 && !is_reduced(last)) --last;
  // A grid reduction that keeps a dimension inside: one row at a time, so that a block's rows belong to one result.
  for (int d = last + 1; d < space.rank(); ++d) {
    const bool is_parallel = (reduction.structure.grid >> d & 1U) == 0 && space.extents[d] > 1;
    if (reduction.structure.grid != 0 && is_parallel) last = space.rank() - 1;
  }
  reduction.layout.inner_reduction = last == space.rank() - 1;
  Order order;
  for (int d = 0; d <= last; ++d) {
    if (!is_reduced(d)) order.push_back(d);
  }
  // What grid reductions and column sums reduce runs fastest, so that the rows of one result are neighbours.
  // Of runs they may also be the outermost ones, so that the kernel iterates as the operands lie in memory.
  const auto is_across = [&](int d) { return (reduction.structure.across() >> d & 1U) != 0; };
  const bool stays = reduction.structure.has_column_runs() && std::ranges::is_partitioned(order, is_across);
  for (std::size_t i = 1; i < order.size() && !stays; ++i) {
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
  reduction.layout.outer = static_cast<int>(outer);
  reduction.layout.reduced = static_cast<int>(inner - outer);
  reduction.layout.inner = space.rank() - static_cast<int>(inner);
  if (reduction.structure.has_segments())
    reduction.segments = Segments{std::max(0, reduction.layout.reduced - std::popcount(reduction.structure.segment))};
  if (reduction.layout.outer == 0 && space.rank() == kMaxRank)
    base::fail(ErrorCode::unsupported, "the chain reduces {} dimensions that cannot be merged: split it", kMaxRank);
  if (reduction.layout.outer == 0) insert_outer(plan);
  plan.kernel_class.coordinates = space.rank();
}

void measure(Plan& plan) {
  const Space& space = plan.space;
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  const auto product = [&](int first, int count) {
    std::int64_t extent = 1;
    for (int d = first; d < first + count; ++d) extent *= space.extents[d];
    return extent;
  };
  plan.rows = product(0, reduction.layout.outer);
  plan.row_length = product(reduction.layout.outer, reduction.layout.reduced);
  if (reduction.structure.has_segments()) {
    plan.segments_per_row = product(reduction.layout.outer, reduction.segment_coordinates());
    plan.segment_length = product(reduction.layout.outer + reduction.segment_coordinates(),
                                  reduction.layout.reduced - reduction.segment_coordinates());
  }
  if (reduction.structure.has_lane_segments()) {
    const int dimensions = std::popcount(reduction.structure.lane_segment);
    plan.segment_length = product(reduction.layout.outer + reduction.layout.reduced - dimensions, dimensions);
    plan.segments_per_row = product(reduction.layout.outer, reduction.layout.reduced - dimensions);
  }
  for (int d = reduction.layout.outer; d < reduction.layout.outer + reduction.layout.reduced; ++d) {
    const bool is_summed = (reduction.structure.column_segment >> d & 1U) != 0;
    (is_summed ? plan.column_length : plan.columns_per_row) *= space.extents[d];
  }
  plan.row_columns = product(reduction.layout.outer + reduction.layout.reduced, reduction.layout.inner);
  for (int d = 0; d < reduction.layout.outer; ++d) {
    if ((reduction.structure.across() >> d & 1U) != 0) plan.rows_per_result *= space.extents[d];
  }
  const bool is_outermost = reduction.structure.has_column_runs() && (reduction.structure.across() & 1U) != 0;
  if (is_outermost) plan.row_step = plan.rows / std::max<std::int64_t>(plan.rows_per_result, 1);
}

}  // namespace

void arrange_rows(Plan& plan) {
  order_dimensions(plan);
  measure(plan);
}

}  // namespace epifuse::plan
