// The order of dimensions over which reductions iterate: parallel ones outside, those of the row, and, in outer
// reductions, parallel ones inside. Called by reduction.cpp.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {

namespace {

constexpr int kOfOneElement = -1;

// Of a space the dimensions of `order`, among which there may be others of one element.
void take_dimensions(Space& space, const Order& order) {
  Dims extents;
  for (const int d : order) extents.push_back(d == kOfOneElement ? 1 : space.extents[d]);
  for (auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (StridedOperand& strided : *strided_operands) {
      Strides strides{};
      for (std::size_t i = 0; i < order.size(); ++i)
        strides[i] = order[i] == kOfOneElement ? 0 : strided.strides[static_cast<std::size_t>(order[i])];
      strided.strides = strides;
    }
  }
  space.extents = extents;
}

}  // namespace

void permute(Plan& plan, const Order& order) {
  Space& space = plan.space;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  take_dimensions(space, order);
  const auto renumber = [&](std::uint32_t mask) {
    std::uint32_t out = 0;
    for (std::size_t i = 0; i < order.size(); ++i) out |= order[i] == kOfOneElement ? 0 : (mask >> order[i] & 1U) << i;
    return out;
  };
  for (std::uint32_t& span : space.spans) span = renumber(span);
  reduction.structure.reduced = renumber(reduction.structure.reduced);
  reduction.structure.grid = renumber(reduction.structure.grid);
  reduction.structure.columns = renumber(reduction.structure.columns);
  reduction.structure.column_segment = renumber(reduction.structure.column_segment);
  reduction.structure.segment = renumber(reduction.structure.segment);
  reduction.structure.lane_segment = renumber(reduction.structure.lane_segment);
  reduction.structure.written = renumber(reduction.structure.written);
}

namespace {

// One dimension of one element, so that "which row" always is a coordinate.
void insert_outer(Plan& plan) {
  ReductionClass& reduction = *plan.kernel_class.reduction();
  for (Space* space : {&plan.space, &plan.written}) {
    Order order = {kOfOneElement};
    for (int d = 0; d < space->rank(); ++d) order.push_back(d);
    take_dimensions(*space, order);
  }
  for (std::uint32_t& span : plan.space.spans) span <<= 1;
  reduction.structure.reduced <<= 1;
  reduction.structure.grid <<= 1;
  reduction.structure.columns <<= 1;
  reduction.structure.column_segment <<= 1;
  reduction.structure.segment <<= 1;
  reduction.structure.lane_segment <<= 1;
  reduction.structure.written <<= 1;
  reduction.layout.outer = 1;
}

// What is written in place of rows' elements gets a space of its own, with as many dimensions. Its outer and inner ones
// are those of the rows. plan.space has them in sections: outer, reduced, inner, written.
void take_written_apart(Plan& plan) {
  ReductionClass& reduction = *plan.kernel_class.reduction();
  RowLayout& layout = reduction.layout;
  const int written = std::popcount(reduction.structure.written);
  const int middle = std::max(layout.reduced, written);
  const auto order_of = [&](int first, int count) {
    Order order;
    for (int d = 0; d < layout.outer; ++d) order.push_back(d);
    for (int d = count; d < middle; ++d) order.push_back(kOfOneElement);
    for (int d = first; d < first + count; ++d) order.push_back(d);
    for (int d = 0; d < layout.inner; ++d) order.push_back(layout.outer + layout.reduced + d);
    return order;
  };
  const Order rows = order_of(layout.outer, layout.reduced);
  const Order instead = order_of(layout.outer + layout.reduced + layout.inner, written);
  plan.written = plan.space;
  take_dimensions(plan.written, instead);
  permute(plan, rows);
  layout.reduced = middle;
  reduction.structure.written = ((1U << written) - 1) << (layout.outer + middle - written);
}

// Parallel dimensions outside, the row, and, in outer reductions, the parallel dimensions inside it.
void order_dimensions(Plan& plan) {
  Space& space = plan.space;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  const std::uint32_t reduced = reduction.structure.reduced;
  const auto is_reduced = [&](int d) { return (reduced >> d & 1U) != 0; };
  const auto is_written = [&](int d) { return (reduction.structure.written >> d & 1U) != 0; };
  int last = space.rank() - 1;
  while (last >= 0 && !is_reduced(last)) --last;
  // A grid reduction that keeps a dimension inside: one row at a time, so that a block's rows belong to one result.
  for (int d = last + 1; d < space.rank(); ++d) {
    const bool is_parallel = (reduction.structure.grid >> d & 1U) == 0 && space.extents[d] > 1;
    if (reduction.structure.grid != 0 && is_parallel) last = space.rank() - 1;
  }
  Order order;
  for (int d = 0; d <= last; ++d) {
    if (!is_reduced(d) && !is_written(d)) order.push_back(d);
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
  for (int d = last + 1; d < space.rank(); ++d) {
    if (!is_written(d)) order.push_back(d);
  }
  reduction.layout.outer = static_cast<int>(outer);
  reduction.layout.reduced = static_cast<int>(inner - outer);
  reduction.layout.inner = static_cast<int>(order.size() - inner);
  reduction.layout.inner_reduction = reduction.layout.inner == 0;
  for (int d = 0; d < space.rank(); ++d) {
    if (is_written(d)) order.push_back(d);
  }
  permute(plan, order);
  if (reduction.structure.has_written()) take_written_apart(plan);
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
  const auto product_in = [](const Space& of, int first, int count) {
    std::int64_t extent = 1;
    for (int d = first; d < first + count; ++d) extent *= of.extents[d];
    return extent;
  };
  const auto product = [&](int first, int count) { return product_in(space, first, count); };
  plan.rows = product(0, reduction.layout.outer);
  plan.row_length = product(reduction.layout.outer, reduction.layout.reduced);
  if (reduction.structure.has_written())
    plan.written_length = product_in(plan.written, reduction.layout.outer, reduction.layout.reduced);
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
