// Scales of blocks of a product's factors: which shapes they have, and who may read a factor that has them. Called by
// shapes.cpp and products.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"

namespace epifuse::plan {

/// Numbers of the depth, and lines of a factor, that a block has. Lines are rows of a left factor and columns of a
/// right one.
inline constexpr std::int64_t kScaledBlock = 128;

/// Scales as [lines, depth] of what they are for.
struct ScaledExtents {
  std::int64_t lines, depth;

  /// Of the argument `side` of a product: 0 is left, 1 is right.
  ScaledExtents(const Dims& shape, std::size_t side);
};

/// How the scales of a factor vary.
struct ScaleShape {
  bool is_of_each;    ///< line; else of blocks of lines, or of all
  bool is_of_blocks;  ///< of lines or of the depth: then the product's kernel multiplies by them, else the chain behind
};
ScaleShape shape_of_scale(const Dims& factor, const Dims& scale, std::size_t side);

/// Throws Error(invalid_argument) unless the scale of the argument `side` of `product` fits the shape of that argument.
void check_scale(const ir::Node& product, std::size_t side, const Dims& factor, const Dims& scale);

/// Throws Error(unsupported) where something but a product reads a factor with scales.
void check_scaled_factors(const ir::Program& program);

}  // namespace epifuse::plan
