// From dimensions that are identified to the axes of a launch: subaxes of the table get numbers, in the order in which
// values first vary over them. For shapes.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"
#include "plan/bind/axes.hpp"
#include "plan/bind/shapes.hpp"

namespace epifuse::plan {

/// The shape of a value, and which entry of the table each dimension is.
struct Shaped {
  Dims shape;
  std::array<int, kMaxRank> axes{};  ///< by dimension

  void push_back(std::int64_t extent, int axis) {
    axes[static_cast<std::size_t>(shape.size())] = extent == 1 ? kNoAxis : axis;
    shape.push_back(extent);
  }
  int axis(int dimension) const { return axes[static_cast<std::size_t>(dimension)]; }
};

class AxisNumbers {
 public:
  /// Both must outlive it.
  AxisNumbers(const ir::Program& program, const AxisTable& table) : program_(program), table_(table) {}

  /// The axes that a value varies over, as bits. Throws Error(unsupported), naming it, if it has one of them twice.
  std::uint32_t span_of(ir::Value value, const Shaped& shaped);
  AxisPlaces places_of(const Shaped& shaped);
  /// Of the axes that have numbers, in that order. Throws Error(unsupported) if these are too many.
  Dims extents() const;

 private:
  int number(int subaxis);

  const ir::Program& program_;
  const AxisTable& table_;
  base::InlineVector<int, 32> numbered_;  // subaxes in the order of axes
};

}  // namespace epifuse::plan
