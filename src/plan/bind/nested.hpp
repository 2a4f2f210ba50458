// Reductions inside of reductions: those whose results make rows of their own, of few elements, become views. Called by
// lower.cpp.
#pragma once

#include <span>

#include <epifuse/tensor.hpp>

#include "plan/bind/views.hpp"

namespace epifuse::plan {

/// `lowered` with each reduction taken apart that only a later one over other dimensions needs, and whose elements
/// nothing else does: softmax(mean(x, 2), 1) has rows of the softmax, and each of their elements is a mean. The same
/// where there is no such reduction, or it has too many elements. `lower` pushes views down to the operands.
Lowered without_nested_reductions(Lowered lowered, std::span<const TensorView> inputs,
                                  Lowered (*lower)(const ir::Program& program, std::span<const TensorView> inputs));

}  // namespace epifuse::plan
