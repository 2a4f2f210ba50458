// Statistics beside what is known before any row, and tensors without elements, as chains of text. Run wherever
// reduction_cases() are.
#pragma once

#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// Expressions of scalars, of operands of one element and of operands of whole groups of rows, combined with grid
/// reductions, of rows and of segments; and operands that are results as they are.
std::vector<Case> scope_cases();
/// Means of normalised rows whose factors and summands are infinite here and there: for a device with few
/// multiprocessors, which computes them of segment means.
std::vector<Case> infinite_segment_mean_cases();
/// Tensors of which some have no elements: every result that has some is written.
std::vector<Case> empty_cases();

}  // namespace epifuse::test
