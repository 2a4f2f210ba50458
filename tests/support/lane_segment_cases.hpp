// Chains whose rows are reduced, and segments of them too, whose results are needed again with the elements: a norm,
// then scales of blocks. Fixed ones and random ones.
#pragma once

#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// Segments of all lengths, one vector of a lane to a warp's; rows of lanes, warps, blocks and clusters; every
/// reduction, one behind the other; in place; beside results of rows and of the grid.
std::vector<Case> lane_segment_cases();

/// A chain of both kinds of reductions, in any order; shapes are drawn for each case.
class LaneSegmentFamily {
 public:
  explicit LaneSegmentFamily(std::uint64_t seed);
  /// Rows of at most about `elements` elements.
  Case next(int elements);

 private:
  struct Source {
    DType dtype = DType::f32;
    unsigned repeated = 0;  ///< dimensions in which it has one element
    bool padded = false;    ///< gaps between its lines
  };

  int draw_operand(unsigned repeated);
  int pointwise(int value);
  int with_row(int value);
  int with_segment(int value);
  unsigned draw_subset(unsigned dimensions) { return static_cast<unsigned>(random_.bits()) & dimensions; }

  Random random_;
  Chain chain_;
  bool is_split_ = false;  // a segment has two dimensions
  std::vector<Source> sources_;
  std::vector<DType> output_types_;
  int in_place_ = -1;
};

/// Random cases from a seed, `per_family` of each chain.
std::vector<Case> random_lane_segment_cases(std::uint64_t seed, std::size_t count, int per_family, int elements);

}  // namespace epifuse::test
