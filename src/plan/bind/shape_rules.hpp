// What operations ask of the shapes of their arguments, and the shapes that they give: extents alone. shapes.cpp says
// which dimensions of two values are the same one. For the files of this folder that go through a program.
#pragma once

#include <array>
#include <cstdint>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"

namespace epifuse::plan {

/// The dimension that is named `axis`, from the front or (negative) from the back.
inline int from_front(std::int64_t axis, int rank) { return static_cast<int>(axis < 0 ? axis + rank : axis); }

// They throw Error(invalid_argument), naming the operation, for what does not fit.

/// The dimension that the operation names `axis`, of an argument of `rank` dimensions.
int resolve_axis(const ir::Node& node, int axis, int rank);

/// Bits of the dimensions that a reduction of a value of `rank` dimensions takes away.
std::uint32_t reduced_dimensions(const ir::Node& node, int rank);

/// Throws unless a launch may have so many elements. Operands within the bound may broadcast to what is not.
void check_elements(const ir::Node& node, const Dims& shape);

/// What 'unflatten' makes of a dimension of its argument: outer and inner extent.
std::array<std::int64_t, 2> split_extents(const ir::Node& node, const Dims& argument, int dimension);

/// Of 'cat'.
Dims joined_shape(const ir::Node& node, const Dims& first, const Dims& second);

/// Of 'scale_tiles'.
Dims tiled_shape(const Dims& scales);

/// Elements of a value.
std::int64_t element_count(const Dims& shape);

}  // namespace epifuse::plan
