// Axes under identification: a union of axes with splits. Dimensions that were split differently by different values
// are refined to subaxes that all of them are made of. For shapes.cpp.
#pragma once

#include <cstdint>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"

namespace epifuse::plan {

inline constexpr int kNoAxis = -1;  ///< of a dimension of one element

using Subaxes = base::InlineVector<int, kMaxRank>;

/// An entry is a subaxis, two subaxes in a row, or another name for an entry.
class AxisTable {
 public:
  int fresh(std::int64_t extent);
  int joined(int outer, int inner);
  /// False if the two are split in ways that have no common refinement.
  bool identify(int a, int b);
  /// Outermost first.
  Subaxes subaxes(int axis) const;
  std::int64_t extent(int axis) const { return entry(find(axis)).extent; }

 private:
  struct Entry {
    std::int64_t extent;
    int same_as;
    int outer, inner;
  };

  bool identify_empty(int a, int b);
  const Entry& entry(int axis) const { return entries_[static_cast<std::size_t>(axis)]; }
  bool is_atomic(int axis) const { return entry(axis).outer == kNoAxis; }
  int find(int axis) const;
  bool alias(int axis, int of);
  void split(int subaxis, std::int64_t inner, Subaxes& list);

  base::InlineVector<Entry, 32> entries_;
};

}  // namespace epifuse::plan
