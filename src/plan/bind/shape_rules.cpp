// Refusals name the operation as the user called it, and the shapes that were found.
#include "plan/bind/shape_rules.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {

using base::fail;
using enum ErrorCode;
using ir::Node;

int resolve_axis(const Node& node, int axis, int rank) {
  if (axis < -rank || axis >= rank) {
    fail(invalid_argument, "axis {} of '{}' is out of range: its argument has {} dimension{}", axis,
         ir::written_name(node), rank, rank == 1 ? "" : "s");
  }
  return from_front(axis, rank);
}

std::uint32_t reduced_dimensions(const Node& node, int rank) {
  const ir::Axes& axes = node.shaping.axes;
  if (axes.count == 0) return (1U << rank) - 1;
  std::uint32_t mask = 0;
  for (int i = 0; i < axes.count; ++i) {
    const std::int8_t axis = axes.at[static_cast<std::size_t>(i)];
    // (0, 2, ...): all behind dimension 1, be there some or none.
    if (axes.rest && i > 0 && i + 1 == axes.count && axis == rank) continue;
    const int dimension = resolve_axis(node, axis, rank);
    if ((mask >> dimension & 1U) != 0)
      fail(invalid_argument, "'{}' names dimension {} of its {} twice", ir::written_name(node), dimension, rank);
    mask |= 1U << dimension;
    if (axes.rest && i + 1 == axes.count) mask |= ((1U << rank) - 1) & ~((1U << dimension) - 1);
  }
  return mask;
}

void check_elements(const Node& node, const Dims& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) {
    if (extent > 0 && elements > kMaxElements / extent) {
      fail(invalid_argument, "the value of '{}' has more than 2^40 elements, the most that one launch takes: shape {}",
           ir::written_name(node), to_string(shape));
    }
    elements *= std::max<std::int64_t>(extent, 1);
  }
}

std::array<std::int64_t, 2> split_extents(const Node& node, const Dims& argument, int dimension) {
  const std::int64_t extent = argument[dimension];
  auto [outer, inner] = node.shaping.sizes;
  if (outer == -1) outer = extent / inner;
  if (inner == -1) inner = extent / outer;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(outer, inner, &product) || product != extent) {
    fail(invalid_argument, "'{}' cannot split dimension {} of shape {} into ({}, {}): {} is not divisible so",
         ir::written_name(node), dimension, to_string(argument), node.shaping.sizes[0], node.shaping.sizes[1], extent);
  }
  if (argument.size() == kMaxRank)
    fail(unsupported, "'{}' would give a value of {} dimensions; at most {} are supported", ir::written_name(node),
         kMaxRank + 1, kMaxRank);
  return {outer, inner};
}

Dims joined_shape(const Node& node, const Dims& first, const Dims& second) {
  const int rank = first.size();
  const int dimension = rank == 0 ? -1 : resolve_axis(node, node.shaping.axes.at[0], rank);
  bool fits = rank > 0 && second.size() == rank;
  for (int d = 0; fits && d < rank; ++d) fits = d == dimension || first[d] == second[d];
  if (!fits) {
    fail(invalid_argument,
         "the arguments of '{}' have shapes {} and {}: they must have as many dimensions, one or more, and be equal "
         "in all but dimension {}",
         ir::written_name(node), to_string(first), to_string(second), node.shaping.axes.at[0]);
  }
  Dims joined = first;
  joined[dimension] += second[dimension];
  return joined;
}

Dims tiled_shape(const Dims& scales) {
  if (scales.size() == 2) return {(scales[0] + 127) / 128, (scales[1] + 3) / 4, 32, 4, 4};
  fail(invalid_argument, "'scale_tiles' takes scales of two dimensions, [rows, blocks]; its argument has shape {}",
       to_string(scales));
}

std::int64_t element_count(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

}  // namespace epifuse::plan
