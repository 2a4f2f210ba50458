// Shape inference for chains with reductions or shape operations: the shape of every value, and which dimensions of
// which values are the same one. Called by space.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"

namespace epifuse::plan {

/// Where a tensor keeps an axis: `factor` times the stride of its dimension `dimension`.
struct AxisPlace {
  int axis = 0;
  int dimension = 0;
  std::int64_t factor = 1;
};

/// Of one tensor; no more than there are axes.
struct AxisPlaces {
  std::array<AxisPlace, kMaxRank> places;
  std::size_t count = 0;
  const AxisPlace* begin() const noexcept { return places.data(); }
  const AxisPlace* end() const noexcept { return places.data() + count; }
};

/// An axis is a dimension that all values of the chain agree on: broadcasting identifies dimensions, unflatten splits
/// them. Axes of one element do not exist.
struct Shapes {
  Dims axes;                                    ///< extents
  base::InlineVector<Dims, 32> values;          ///< shape of each node
  base::InlineVector<std::uint32_t, 32> spans;  ///< axes that each node varies over, as bits
  base::InlineVector<std::int64_t, 32>
      counts;  ///< of reductions: how many elements become one; of iota: how many it counts
  base::InlineVector<AxisPlaces, 8> inputs;  ///< by operand, generated ones too; empty for one that no result uses
  base::InlineVector<AxisPlaces, 8> results;
};

/// Throws Error(invalid_argument) naming the operation for shapes that do not fit, Error(unsupported) for chains that
/// one pass over the axes cannot compute.
/// For chains without views, but for those that only order the dimensions of a value.
Shapes infer_shapes(const ir::Program& program, std::span<const TensorView> inputs);

/// The shape of each value alone, of any chain. Throws Error(invalid_argument) naming the operation for shapes that do
/// not fit.
std::vector<Dims> value_shapes(const ir::Program& program, std::span<const TensorView> inputs);

/// A value for errors: "x", "x[0]" or "exp(…)".
std::string text_of(const ir::Program& program, const ir::Node& node);
inline std::string text_of(const ir::Program& program, ir::Value value) {
  return text_of(program, program.node(value));
}

}  // namespace epifuse::plan
