// Functions that are chains of primitives: each expands in the Builder, exactly as one would write it by hand, so that
// a composite and its spelled-out form are the same Program. Both front ends call these. Names, definitions and
// defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/program.hpp"

namespace epifuse::ir {

// In each, kNone stands for a weight or a bias that is not there.
Value std_deviation(Builder& b, Value x, const Axes& axes, double correction, bool keepdim);
/// (sum |x| ** p) ** (1 / p); p may be 0 (how many are not 0) and ±infinity.
Value norm(Builder& b, Value x, double p, const Axes& axes, bool keepdim);
Value logsumexp(Builder& b, Value x, const Axes& axes, bool keepdim);
Value softmax(Builder& b, Value x, const Axes& axes);
Value log_softmax(Builder& b, Value x, const Axes& axes);
Value layer_norm(Builder& b, Value x, Value weight, Value bias, double eps, const Axes& axes);
Value rms_norm(Builder& b, Value x, Value weight, double eps, const Axes& axes);
/// Weight and bias are vectors of the channels (dimension 1), here and in instance_norm.
Value group_norm(Builder& b, Value x, std::int64_t groups, Value weight, Value bias, double eps);
Value instance_norm(Builder& b, Value x, Value weight, Value bias, double eps);
/// `x` where a random number is at least `p`, times 1 / (1 - p), else 0.
Value dropout(Builder& b, Value x, Value p, Value seed, Value offset);
/// What quantize gives: the values of the narrow type, and what they are multiplied by to have the input again.
struct Quantized {
  Value values;
  Value scale;
};
struct Quantization {
  DType dtype = DType::f8e4m3;
  std::int64_t block = 0;  ///< elements of the last dimension that share a scale; 0: all of them
  bool power_of_two = false;
  double eps = 1e-4;  ///< the least that the largest |x| of a block counts as
};
Quantized quantize(Builder& b, Value x, const Quantization& how);
/// MXFP8: blocks of 32 with f8e8m0 scales, rounded up so that nothing saturates, or down as OCP's document has it.
inline constexpr std::int64_t kMxBlock = 32;
Quantized mx_quantize(Builder& b, Value x, DType dtype, bool rounds_up);
/// NVFP4: blocks of 16 of f4e2m1 with f8e4m3 scales, which are relative to one scale of the whole tensor.
inline constexpr std::int64_t kNvBlock = 16;
Quantized nv_quantize(Builder& b, Value x, Value global_scale);
Value dequantize(Builder& b, Value values, Value scale, std::int64_t block);
Value normalize(Builder& b, Value x, double p, const Axes& axes, double eps);
/// In training: over all dimensions but the channels' (dimension 1).
Value batch_norm(Builder& b, Value x, Value weight, Value bias, double eps);
/// The variance (which = 0) or the mean (1).
Value var_mean(Builder& b, Value x, const Axes& axes, double correction, bool keepdim, std::int64_t which);
Value count_nonzero(Builder& b, Value x, const Axes& axes);
/// Where the amax or amin of a dimension stands, as i64: the first of equals, and of NaNs. Without an axis among all
/// elements in row-major order.
Value arg_extreme(Builder& b, Op op, Value x, const Axes& axis, bool keepdim);
/// `x` where `compare` (le or ge) holds of column - row and `diagonal`, else 0.
Value triangle(Builder& b, Op compare, Value x, std::int64_t diagonal);

/// As PyTorch's: factors of float8, each with scales of its blocks.
Value scaled_mm(Builder& b, Value left, Value right, Value left_scale, Value right_scale);
/// x @ weight^T, and a bias for each column.
Value linear(Builder& b, Value x, Value weight, Value bias, bool tf32 = false);
/// Each list is one number, or one for the height and one for the width.
struct WindowLists {
  std::vector<std::int64_t> stride = {1};
  std::vector<std::int64_t> padding = {0};
  std::vector<std::int64_t> dilation = {1};
};
/// `bias` has a value for each channel of the result, or is kNone.
Value conv2d(Builder& b, Value images, Value filters, Value bias, const WindowLists& windows);

Value cat(Builder& b, std::span<const Value> values, std::int64_t dim);
Value stack(Builder& b, std::span<const Value> values, std::int64_t dim);
Value pixel_shuffle(Builder& b, Value x, std::int64_t factor);
Value pixel_unshuffle(Builder& b, Value x, std::int64_t factor);
/// Pairs (a, b) of the last dimension's elements, which are halves of it or neighbours, turned: (a * cos - b * sin, b *
/// cos + a * sin).
Value rope(Builder& b, Value x, Value cos, Value sin, bool interleaved);

}  // namespace epifuse::ir
