// Runs of memory: views of one tensor, or slices of one result, whose elements take turns there are moved together, in
// wide accesses. Called by the planners of pointwise chains and of reductions.
#pragma once

#include <cstdint>
#include <functional>

#include "plan/bind/slices.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {

/// Of an access to a run: a word.
constexpr int kLeastRunBytes = 4;

/// The element at the coordinates 0, whether it exists or not.
std::intptr_t address_of_first(const StridedOperand& strided);
/// Of two operands of one tensor and equal strides: from an element of one to that of the other.
std::int64_t elements_between(const StridedOperand& base, const StridedOperand& strided);
bool have_equal_strides(const StridedOperand& a, const StridedOperand& b, const Space& space);
/// Elements of one access to the run of vectors of so many elements: as many as its address and its rows allow.
int width_of_run(StridedOperand run, const Space& space, int elements);

/// Operand `i` has its elements in that run, which its reader moves in accesses of that width.
void put_in_run(OperandPlan& operand, std::size_t i, const RunOfViews& run, int width);

/// Whether an operand may be moved in a run.
using MayShare = std::function<bool(std::size_t operand)>;
/// Of vectors of so many elements: slices of one result that together have all elements of its rows, as
/// stack((a, b), -1) has, are written in runs. Rows must be multiples of vectors.
void share_written_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements,
                        const MayShare& may_share);
/// The same of views of one tensor that are read, where nothing of a run is left over. For reductions: pointwise chains
/// also take what stands beside a run (share_runs of pointwise.hpp).
void share_read_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements,
                     const MayShare& may_share);

}  // namespace epifuse::plan
