// Means of values that follow from others by factors and summands which all elements of a segment of a row share.
// Called by structure.cpp.
#pragma once

#include <optional>

#include "plan/analysis/structure.hpp"

namespace epifuse::plan {

/// mean(v * a + b) is mean(v) * a + b where a and b do not vary: the chain from v to the mean is computed once per
/// segment, of v's segment mean.
struct SegmentMeans {
  ir::Value of = ir::kNone;   ///< v: known from operands alone
  std::uint32_t segment = 0;  ///< dimensions of a row that its segment means are taken over, the innermost ones
  Marks within;               ///< by node: computed of segment means, v itself excepted
  Marks means;                ///< by node: a mean over a segment, or over segments and rows, of one of those
};

/// None where some reduction is neither of operands over `rows`, the dimensions of a row, nor such a mean, or where
/// something else needs the elements.
std::optional<SegmentMeans> find_segment_means(const ir::Program& program, const Space& space, std::uint32_t rows);

}  // namespace epifuse::plan
