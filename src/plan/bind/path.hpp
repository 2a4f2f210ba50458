// What a value is read through: views one after the other, their memory and their text. For lower.cpp and slices.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/bind/views.hpp"

namespace epifuse::plan {

/// `first` of a value, `second` of what that gives.
DimensionMap composed(const DimensionMap& first, const DimensionMap& second);

/// A value of shape `from` where an operation broadcasts it to the shape `to`.
DimensionMap broadcast_map(const Dims& from, const Dims& to, bool by_another);

/// The shape to which a value of shape `all` and another broadcast.
void join(Dims& all, const Dims& other);

/// Of views without permutations: what is taken of each dimension, in dimensions that stay where they are.
DimensionMap taking(const std::vector<DimensionMap::Taken>& taken);

/// Views of a value, one after the other; neighbouring maps are one.
using Steps = std::vector<ViewStep>;

/// `first` of a value of that shape, and then the others.
Steps joined(ViewStep first, const Dims& shape, const Steps& then);

/// Numbers that tell paths apart.
std::vector<std::int64_t> key_of(const Steps& steps);

/// An operand through views. Counted in elements.
struct Strided {
  struct Dimension {
    std::int64_t extent, stride;
    bool broadcast;        ///< one element of it will do
    bool bounded = false;  ///< only `count` elements, from `first` on, lie in memory
    std::int64_t first = 0;
    std::int64_t count = 0;
    bool indexed = false;            ///< an index says where it is read: the stride is 0
    std::int64_t period = 0;         ///< of a rolled dimension its elements, which all lie in memory; else 0
    std::int64_t before = 0;         ///< of a rolled dimension: elements before the one that is read first
    ir::Bounds::Repeat repeat = {};  ///< of a dimension that is read at places that follow from positions: its row
    std::int64_t rows = 0;           ///< of these, that lie in memory
    std::int64_t row_stride = 0;
    int windows = kNone;     ///< which of `windows` the dimension belongs to
    std::int64_t pitch = 0;  ///< of these: positions from one element to the next
    static constexpr int kNone = -1;
    bool is_plain() const { return !bounded && period == 0 && !repeat.exists() && windows == kNone; }
    /// Of a rolled dimension: the coordinate at which its elements begin again.
    std::int64_t wraps_at() const { return (bounded ? first : 0) + period - before; }
  };
  /// What indices say where to read.
  struct Gather {
    std::size_t step = 0;  ///< which of the path
    std::int64_t stride = 0;
    std::int64_t extent = 0;
  };
  /// Windows that step outside, or of what is read at places that follow from positions, along two dimensions: an
  /// element stands at the sum of `pitch * coordinate`, and lies in memory from position `first` on, for `count`
  /// positions.
  struct Windows {
    std::int64_t first = 0;
    std::int64_t count = 0;
    std::int64_t stride = 0;         ///< elements from one position to the next
    ir::Bounds::Repeat repeat = {};  ///< of places that follow from positions: the row
    std::int64_t rows = 0;           ///< of these, that lie in memory
    std::int64_t row_stride = 0;
    bool is_settled = false;  ///< no two dimensions are bound by it any more
  };
  std::int64_t offset = 0;      ///< of the element at the coordinates 0, which need not lie in memory
  bool is_all_outside = false;  ///< no element lies in memory
  /// The same, and no dimension says so: one that went had another element.
  bool is_elsewhere() const {
    return is_all_outside &&
           std::ranges::none_of(dimensions, [](const Dimension& d) { return d.bounded && d.count == 0; });
  }
  std::vector<Dimension> dimensions;
  std::vector<Gather> gathers = {};
  std::vector<Windows> windows = {};

  /// Which elements of windows exist, for each two dimensions.
  struct WithinWindows {
    Lowered::Operand::Within within;
    bool are_all = false;  ///< every element exists
    const Windows* windows = nullptr;
  };
  std::vector<WithinWindows> within_windows() const;
  /// With the dimensions of which one element will do.
  Dims extents() const;

  void apply(const DimensionMap& map);
  /// False for a dimension of which some elements do not exist. `step`: which of the path it is.
  bool apply(const Indexed& indexed, std::size_t step);
  /// False for a dimension that is rolled, read at indices, or repeated at steps of more than one.
  bool apply(const Repeated& repeated);
  /// False for a dimension that belongs to windows already, or is rolled or read at indices.
  bool apply(const Unfolded& unfolded);
  /// In row-major order. False where that would take a copy, or would split or merge a dimension that is bounded.
  bool apply(const Dims& shape);

 private:
  void settle_windows();
};

/// Whether strides describe what is read through a path, which they then do.
bool follow(Strided& strided, const Steps& steps);

/// What a value of shape `own` is read through where an operation broadcasts it to the shape `all`, which is read
/// through `steps`. With `as_it_stands` one map where the steps touch no dimension that the value has: it only says
/// where these go.
Steps broadcast_through(const Dims& own, const Dims& all, const Steps& steps, bool as_it_stands);

/// As people write it: "x[..., :128]"; broadcasting goes unsaid.
std::string text_of(const std::string& name, const Dims& shape, const Steps& steps);

}  // namespace epifuse::plan
