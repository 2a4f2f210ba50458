// Pieces of planning that pointwise kernels (plan.cpp) and kernels with rows (rows.cpp) share. For these and what explains them.
#pragma once

#include "plan/plan.hpp"

namespace epifuse::plan {

constexpr int kWarp = 32;  // threads

using Strides = std::array<std::int64_t, kMaxRank>;

/// Strides of a dense tensor in the order of the space.
Strides dense_strides(const Space& space);
Access classify(const Walk& walk, const Space& space, const Strides& dense, bool linear_allowed);
/// Has an element of its own for every element of the space: what comes from memory rather than from a cache.
bool is_full(const Walk& walk, const Space& space);
bool needs_wide_index(const Space& space);
inline int size_in_bytes(const OperandPlan& operand) { return static_cast<int>(size_of(operand.dtype)); }
inline std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Whether operands run across the outputs. If so the dimension that they run along becomes the last but one of the space.
bool cross(Space& space);
/// `elements`, or fewer: as many as every row of every operand that runs along the innermost dimension holds aligned.
int aligned_elements(const KernelClass& kernel, const Space& space, int elements);
/// How many lanes and threads work side by side across: whole sectors and lines of the crossed operands.
void choose_lanes(KernelClass& kernel, const Space& space);

/// The first step of plan_rows: orders the dimensions of plan.space, and says which of them make rows and how many rows there are.
void arrange_rows(Plan& plan);
/// Results that reductions across rows give, each.
std::int64_t results_across(const Plan& plan);
/// The last step of plan_rows.
void lay_out_workspace(Plan& plan);
/// Schedule, class and sizes of a chain with reductions; plan.space is bound.
void plan_rows(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine);

}  // namespace epifuse::plan
