// Pooling and upsampling, as chains of views: a window is read element by element, each of which is a strided view, so
// that no reduction is needed. Names, definitions and defaults are PyTorch's. Both front ends call these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// By dimension, or one number for all. An empty stride is the size.
struct Windows {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride = {};
  std::vector<std::int64_t> dilation = {1};
  std::vector<std::int64_t> padding = {0};
  bool ceil_mode = false;  ///< the last window may end outside
};

/// What the mean of a window divides by.
struct Divisor {
  std::vector<std::int64_t> override_by = {};  ///< empty, or one number
  bool count_include_pad = true;               ///< else only elements of the tensor count
};

// Each over the last `rank` dimensions.
Value max_pool(Builder& b, Value x, int rank, const Windows& windows);
Value avg_pool(Builder& b, Value x, int rank, const Windows& windows, const Divisor& divisor);
Value lp_pool(Builder& b, Value x, int rank, double p, const Windows& windows);
/// Neighbours first, so that rounding errors and waiting grow with the logarithm. At least one value.
Value combined(Builder& b, Op op, std::vector<Value> values);
/// `op`, mean or amax, of so many equal parts of each dimension; Index::kOpen: as many as it has elements.
Value adaptive_pool(Builder& b, Op op, Value x, int rank, std::span<const std::int64_t> sizes);
/// Each element `factors` times, over the dimensions behind batch and channel.
Value upsample_nearest(Builder& b, Value x, int rank, std::span<const std::int64_t> factors);

/// `mode` is "constant": there is no other.
Value pad(Builder& b, Value x, const std::vector<std::int64_t>& sizes, std::string_view mode, double value);
/// Elements that leave a dimension at its end come in again at its beginning.
Value roll(Builder& b, Value x, std::span<const std::int64_t> shifts, std::span<const std::int64_t> dims);
/// Of a 'cat' of both pieces of one value, which roll() makes for a dimension: the view that gives the first. Of others
/// null.
const View* rolled_by(const Program& program, const Node& cat);
/// One of the elements of each window, with `value` where it lies outside.
Value window(Builder& b, Value x, std::int64_t dim, const Windows& windows, std::int64_t index, double value);

}  // namespace epifuse::ir
