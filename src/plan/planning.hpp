// What planners of pointwise kernels (pointwise/) and of reductions (reduction/) share. For these and what explains
// them.
#pragma once

#include "plan/analysis/vectors.hpp"
#include "plan/plan.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {

using Strides = std::array<std::int64_t, kMaxRank>;

/// Strides of a dense tensor in the order of the space.
Strides dense_strides(const Space& space);
Access classify(const StridedOperand& strided, const Space& space, const Strides& dense, bool linear_allowed);
/// The same of a result, of which an index says where the vectors of a row of the innermost dimension are written.
Access classify_result(const StridedOperand& strided, const Space& space, const Strides& dense, bool linear_allowed);
/// What an operand's offset grows by when the quotient of dimension d does (Flat::by_quotients).
inline std::int64_t stride_of_quotient(const StridedOperand& strided, const Space& space, int d) {
  const auto at = static_cast<std::size_t>(d);
  const bool is_last = d + 1 == space.rank();
  return strided.strides[at] - (is_last ? 0 : space.extents[d + 1] * strided.strides[at + 1]);
}
/// The dimensions along which that stride is not 0, for OperandPlan::moves.
template <class StrideOf>
std::uint16_t moves_of(const Space& space, const StrideOf& stride_of) {
  unsigned moves = OperandPlan::kKnown;
  for (int d = 0; d < space.rank(); ++d) moves |= stride_of(d) != 0 ? 1U << d : 0;
  return static_cast<std::uint16_t>(moves);
}
/// Whether an index says where some result is written.
bool writes_at_indices(const Space& space);
/// Has an element of its own for every element of the space: what comes from memory rather than from a cache.
bool is_full(const StridedOperand& strided, const Space& space);
bool needs_wide_index(const Space& space);
/// Neighbouring rows that move together, where results are transposed in shared memory: an access of words.
constexpr int kRowsTogether = kAccessBytes / 4;

/// Of a block's shared memory without an opt-in, what tiles and accumulators may take: kernels declare less than 2 KiB
/// besides.
constexpr int kTileShared = kStaticShared - 2048;

/// Bytes of a value of the compute type.
inline int word_bytes(const KernelClass& kernel) { return kernel.f64 ? 8 : 4; }
/// Whether two elements of an operand share a byte.
inline bool has_packed(const KernelClass& kernel) {
  const auto is_one = [](const OperandPlan& operand) {
    return is_packed(operand.dtype) && operand.access != Access::unused;
  };
  return std::ranges::any_of(kernel.inputs, is_one) || std::ranges::any_of(kernel.outputs, is_one);
}

inline int size_in_bytes(const OperandPlan& operand) { return static_cast<int>(size_of(operand.dtype)); }
/// Bytes that are read or written for an element of a vector: of a run those of all views that take theirs of it.
inline int moved_bytes(const OperandPlan& operand) {
  if (operand.access == Access::of_run) return 0;
  return size_in_bytes(operand) * (operand.run ? operand.run->step : 1);
}
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Of a chain with reductions whose operands have their neighbours along one dimension and results along another: the
/// dimensions as the operands lie in memory, the widest step outermost. Empty for others.
using Order = base::InlineVector<int, kMaxRank>;
Order order_of_operands(const Space& space, const ir::Program& program, const Structure& structure);
/// Puts the dimensions of plan.space into that order.
void permute(Plan& plan, const Order& order);
/// How results are transposed; plan.space is arranged, and operands are contiguous along the innermost dimension.
/// Nothing: in no way that kernels know.
std::optional<TransposedStore> transposed_store_of(const Plan& plan, const ir::Program& program);
/// Bytes of all transposed results, of one element.
int transposed_bytes(const KernelClass& kernel, const ir::Program& program);
/// How many neighbours of such results one instruction writes.
void choose_line_widths(Plan& plan, const ir::Program& program);
/// The first step of plan_reduction: orders the dimensions of plan.space, and says which of them make rows and how many
/// rows there are.
void arrange_rows(Plan& plan);
/// Results that grid reductions give, each; sets of columns of column sums.
std::int64_t grid_results(const Plan& plan);
/// Shared memory of one block for rows, in bytes: 0 where nothing is copied there without registers.
std::int64_t most_shared(const Machine& machine);
/// What each of so many blocks of a multiprocessor has of it for rows.
std::int64_t shared_for_rows(const Machine& machine, int blocks);
/// Blocks that hold chunks of rows, each with so many bytes of shared memory: as many as a multiprocessor has space
/// for.
int resident_blocks_that_fit(const Machine& machine, int threads, std::int64_t bytes);
/// Whether a few lanes reduce each segment of a row, and how many; called when the threads are chosen.
void choose_segment_lanes(Plan& plan, const ir::Program& program, const Machine& machine);
/// Sums of each column of a row.
int column_sums_of(const Structure& structure);
/// Of one kernel: columns that a vector has elements of, each of which has a sum.
int columns_of_vector(const KernelClass& kernel);
/// Whether all of them are sums; else some are products, maxima and the like.
bool are_column_sums(const Structure& structure);
/// Whether several operands are held for a pass that writes, as in backward passes: it works on a vector of each, in
/// twice the registers.
bool holds_several(const ReductionClass& reduction);
/// Columns that a block sums up at a time of what the others left: one for a lane or, of runs, for a warp.
std::int64_t columns_at_once(const KernelClass& kernel);
/// Of column sums in runs: elements of the run of a row that a warp holds, runs of a row, and how many of them touch
/// one segment at most. What a run has of a segment lies in one of so many slots of the row.
std::int64_t run_elements(const KernelClass& kernel);
std::int64_t runs_per_row(const Plan& plan);
std::int64_t runs_per_segment(const Plan& plan);
std::int64_t slots_per_row(const Plan& plan);
/// Blocks that do, each every so many columns.
std::int64_t summing_blocks(const Plan& plan);
/// The last step of plan_reduction.
void lay_out_workspace(Plan& plan);
/// Schedule, class and sizes of a chain with reductions; plan.space is bound.
void plan_reduction(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine);

}  // namespace epifuse::plan
