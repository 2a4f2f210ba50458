// Chains that reduce segments of the rows which they pass: the mean of every channel of a group norm. Fixed ones and
// random ones.
#pragma once

#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// Parts of all lengths in rows held by lanes, warps, blocks and clusters; every reduction; beside other results; of no
/// elements; in place.
std::vector<Case> segment_cases();
/// Rows that a device without clusters and copies to shared memory cannot hold: more of them than that has
/// multiprocessors, read in rounds.
std::vector<Case> long_segment_cases();
/// Means of normalised rows, for which segment means of segments suffice where there are rows for all multiprocessors;
/// `batch` of the first dimension.
std::vector<Case> segment_mean_cases(std::int64_t batch);
/// The same of two to four rows that no block holds.
std::vector<Case> few_segment_mean_cases();

/// A chain whose segments are contiguous, so that one kernel can do it; shapes are drawn for each case.
class SegmentFamily {
 public:
  explicit SegmentFamily(std::uint64_t seed);
  /// Rows of at most about `elements` elements.
  Case next(int elements);

 private:
  struct Source {
    DType dtype = DType::f32;
    unsigned repeated = 0;  ///< dimensions in which it has one element
    bool padded = false;    ///< gaps between its lines
    bool aligned = true;
    bool of_segment = false;  ///< used beside results of segments: has none of the dimensions that a segment reduces
  };

  int draw_operand(unsigned repeated, bool of_segment);
  int value_of_rows();
  int segment_result(int value);
  unsigned draw_subset(unsigned dimensions);
  unsigned all() const { return (1u << rank_) - 1; }
  unsigned inner() const { return all() & ~((1u << segment_) - 1); }

  Random random_;
  Chain chain_;
  int rank_ = 0;
  int row_ = 0;      // the first dimension of a row; of a group norm, of its channels
  int segment_ = 0;  // the first dimension that a segment reduces
  int groups_ = 0;   // of a group norm; else 0
  bool keepdim_ = false;
  std::vector<Source> sources_;
  std::vector<DType> output_types_;
  int in_place_ = -1;
};

/// A chain whose means need segment means only: a norm of rows, then factors and summands that segments share.
class SegmentMeanFamily {
 public:
  explicit SegmentMeanFamily(std::uint64_t seed);
  /// Parts of at most about `elements` elements, but of 2048 at least.
  Case next(int elements);

 private:
  struct Source {
    DType dtype = DType::f32;
    bool per_sample = false;  ///< varies over the first dimension, too
  };

  int draw_operand(bool per_sample);
  int value_of_rows();
  int mean_of(int value, bool over_segments);

  Random random_;
  Chain chain_;
  bool is_image_ = false;  // four dimensions; else three
  bool is_padded_ = false;
  int groups_ = 1;
  std::vector<Source> sources_;
  std::vector<DType> output_types_;
};

/// Random cases from a seed, `per_family` of each chain.
std::vector<Case> random_segment_mean_cases(std::uint64_t seed, std::size_t count, int per_family, int elements);
std::vector<Case> random_segment_cases(std::uint64_t seed, std::size_t count, int per_family, int elements);

}  // namespace epifuse::test
