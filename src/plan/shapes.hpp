// Shape inference for chains with reductions or shape operations: the shape of every value, and which dimensions of which values are
// the same one. Called by space.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"

namespace epifuse::plan {

/// Where a tensor keeps an axis: `factor` times the stride of its dimension `dimension`.
struct AxisPlace {
  int axis = 0;
  int dimension = 0;
  std::int64_t factor = 1;
};

/// An axis is a dimension that all values of the chain agree on: broadcasting identifies dimensions, unflatten splits them. Axes of one
/// element do not exist.
struct Shapes {
  Dims axes;                                   ///< extents
  std::vector<Dims> values;                    ///< shape of each node
  std::vector<std::uint32_t> spans;            ///< axes that each node varies over, as bits
  std::vector<std::int64_t> counts;            ///< of reductions: how many elements become one
  std::vector<std::vector<AxisPlace>> inputs;  ///< by operand; empty for one that no result uses
  std::vector<std::vector<AxisPlace>> results;
};

/// Throws Error(invalid_argument) naming the operation for shapes that do not fit, Error(unsupported) for chains that one pass over the
/// axes cannot compute.
Shapes infer_shapes(const ir::Program& program, std::span<const TensorView> inputs);

}  // namespace epifuse::plan
