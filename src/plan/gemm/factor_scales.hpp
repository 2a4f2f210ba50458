// Scales of a product's factors, by which the kernel multiplies sums of 128 numbers of the depth. For gemm.cpp.
#pragma once

#include "plan/gemm/gemm.hpp"

namespace epifuse::plan {

/// Sets what the class and the plan have of scales. Throws Error(unsupported) where two products have different ones.
void place_scales(GemmPlan& plan, const GemmScaling& scaling);

/// Of the same scales in other memory.
void move_scales(GemmPlan& plan, const GemmScaling& scaling);

/// Throws Error(invalid_argument) where the result overlaps scales.
void check_scales_apart(const OutputView& output, const GemmScaling& scaling);

}  // namespace epifuse::plan
