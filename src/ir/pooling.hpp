// Pooling and upsampling, as chains of views: a window is read element by element, each of which is a strided view, so that no reduction
// is needed. Names, definitions and defaults are PyTorch's. Both front ends call these.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// By dimension, or one number for all. An empty stride is the size.
struct Windows {
  std::vector<std::int64_t> size;
  std::vector<std::int64_t> stride = {};
  std::vector<std::int64_t> dilation = {1};
};

// Each over the last `rank` dimensions.
Value max_pool(Builder& b, Value x, int rank, const Windows& windows);
/// `divisor`: empty, or what sums are divided by in place of the elements of a window.
Value avg_pool(Builder& b, Value x, int rank, const Windows& windows, std::span<const std::int64_t> divisor);
Value lp_pool(Builder& b, Value x, int rank, double p, const Windows& windows);
/// `op`, mean or amax, of so many equal parts of each dimension.
Value adaptive_pool(Builder& b, Op op, Value x, int rank, std::span<const std::int64_t> sizes);
/// Each element `factors` times, over the dimensions behind batch and channel.
Value upsample_nearest(Builder& b, Value x, int rank, std::span<const std::int64_t> factors);

}  // namespace epifuse::ir
