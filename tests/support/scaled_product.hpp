// Products of float8 factors with scales of blocks: random tensors, and their elements as sums in f64 that share
// nothing with the library. For tests of the CPU device, of emitted kernels and of GPUs.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "plan/bind/products.hpp"
#include "support/gemm_problem.hpp"

namespace epifuse::test {

/// Which lines of a factor have a scale of their own: its rows, or a right one's columns. `all`: one scale for all of
/// them, for each 128 numbers of the depth.
enum class ScaledLines { each, blocks, all };

struct ScaledExtents {
  std::int64_t rows, columns, depth;
  ScaledLines left = ScaledLines::each, right = ScaledLines::blocks;
  DType factor = DType::f8e4m3;
  std::int64_t padding = 0;           ///< between rows of factors
  bool lines_are_neighbours = false;  ///< scales of one block of the depth stand beside each other
};

/// f32 [lines, blocks of the depth].
struct ScaleMatrix {
  ScaleMatrix(std::mt19937& random, std::int64_t extent, std::int64_t depth, ScaledLines how, bool lines_are_neighbours)
      : lines(how == ScaledLines::each     ? extent
              : how == ScaledLines::blocks ? (extent + 127) / 128
                                           : 1),
        blocks((depth + 127) / 128),
        step(how == ScaledLines::each     ? 1
             : how == ScaledLines::blocks ? 128
                                          : extent),
        // Rows or columns of four numbers more than there are, which are NaN: nobody reads them.
        strides(lines_are_neighbours ? Dims{1, lines + 4} : Dims{blocks + 4, 1}),
        memory(static_cast<std::size_t>((lines + 4) * (blocks + 4)), std::nanf("")) {
    std::uniform_int_distribution<int> mantissa(8, 15), exponent(-5, -1);
    for (std::int64_t line = 0; line < lines; ++line) {
      for (std::int64_t block = 0; block < blocks; ++block)
        memory[at(line, block)] = std::ldexp(static_cast<float>(mantissa(random)), exponent(random));
    }
  }
  std::size_t at(std::int64_t line, std::int64_t block) const {
    return static_cast<std::size_t>(line * strides[0] + block * strides[1]);
  }
  double value(std::int64_t line, std::int64_t depth) const {
    return static_cast<double>(memory[at(line / step, depth / 128)]);
  }
  /// [lines, blocks], or the other way around as a right factor has it.
  TensorView view(bool is_right) const {
    if (is_right) return {memory.data(), DType::f32, {blocks, lines}, {strides[1], strides[0]}};
    return {memory.data(), DType::f32, {lines, blocks}, strides};
  }
  /// As plan/ has it.
  plan::ScaleView of_plan() const {
    return {{memory.data(), DType::f32, {lines, blocks}, {lines == 1 ? 0 : strides[0], blocks == 1 ? 0 : strides[1]}},
            step == 1};
  }

  std::int64_t lines, blocks, step;
  Dims strides;
  std::vector<float> memory;
};

/// A product of [rows, depth] and the transpose of [columns, depth], and another one of the same left factor.
class ScaledProduct {
 public:
  ScaledProduct(const ScaledExtents& all, unsigned seed)
      : extents(all),
        random(seed),
        left(random, all.factor, {1, all.rows, all.depth}, all.padding, false),
        left_scales(random, all.rows, all.depth, all.left, all.lines_are_neighbours) {
    for (int i = 0; i < 2; ++i) {
      rights.emplace_back(random, all.factor, Dims{1, all.columns, all.depth}, all.padding, false);
      right_scales.emplace_back(random, all.columns, all.depth, all.right, all.lines_are_neighbours);
    }
  }

  /// All elements of a product, row by row.
  std::vector<double> values(std::size_t which) const {
    const auto scaled = [&](const GemmMatrix& factor, const ScaleMatrix& scales) {
      std::vector<double> all = factor.values();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto at = static_cast<std::int64_t>(i);
        all[i] *= scales.value(at / extents.depth, at % extents.depth);
      }
      return all;
    };
    const std::vector<double> a = scaled(left, left_scales), b = scaled(rights[which], right_scales[which]);
    std::vector<double> made;
    for (std::int64_t row = 0; row < extents.rows; ++row) {
      for (std::int64_t column = 0; column < extents.columns; ++column) {
        const auto first = a.begin() + row * extents.depth;
        made.push_back(std::inner_product(first, first + extents.depth, b.begin() + column * extents.depth, 0.0));
      }
    }
    return made;
  }
  /// No product of two numbers of these has a greater magnitude, and no sum of all more than so many times it.
  static constexpr double kLargest = 4 * 7.5 * 7.5;

  static TensorView matrix(const GemmMatrix& factor) {
    return {
        factor.memory.data(), factor.type, {factor.shape[1], factor.shape[2]}, {factor.strides[1], factor.strides[2]}};
  }

  ScaledExtents extents;
  std::mt19937 random;
  GemmMatrix left;
  ScaleMatrix left_scales;
  std::vector<GemmMatrix> rights;
  std::vector<ScaleMatrix> right_scales;
};

}  // namespace epifuse::test
