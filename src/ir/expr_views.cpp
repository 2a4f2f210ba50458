// Views, pooling and positions of the C++ front end. As expr.cpp: each makes a node that is expanded when the Program
// is built.
#include <array>

#include "ir/composites.hpp"
#include "ir/expr.hpp"
#include "ir/indices.hpp"
#include "ir/pooling.hpp"

namespace epifuse {
namespace {

using ir::Builder;
using ir::Op;
using ir::Value;
using Values = std::span<const Value>;

Expr max_pool(std::string_view function, int rank, const Expr& input, const PerDimension& size,
              const PerDimension& stride, const PerDimension& padding, const PerDimension& dilation, bool ceil_mode) {
  return composite(function, {input}, [=](Builder& b, Values args) {
    return ir::max_pool(b, args[0], rank, {size, stride, dilation, padding, ceil_mode});
  });
}

Expr avg_pool(std::string_view function, int rank, const Expr& input, const PerDimension& size,
              const PerDimension& stride, const PerDimension& padding, bool ceil_mode, bool count_include_pad,
              std::optional<std::int64_t> divisor) {
  return composite(function, {input}, [=](Builder& b, Values args) {
    return ir::avg_pool(b, args[0], rank, {size, stride, {1}, padding, ceil_mode},
                        {divisor ? PerDimension{*divisor} : PerDimension(), count_include_pad});
  });
}

Expr lp_pool(std::string_view function, int rank, const Expr& input, double p, const PerDimension& size,
             const PerDimension& stride, bool ceil_mode) {
  return composite(function, {input}, [=](Builder& b, Values args) {
    return ir::lp_pool(b, args[0], rank, p, {size, stride, {1}, {0}, ceil_mode});
  });
}

Expr arg_extreme(std::string_view function, Op op, const Expr& input, const Axes& axis, bool keepdim) {
  return composite(function, {input}, [=](Builder& b, Values args) {
    return ir::arg_extreme(b, op, args[0], axes_of(function, axis), keepdim);
  });
}

Expr adaptive(std::string_view function, int rank, Op op, const Expr& input, const PerDimension& sizes) {
  return composite(function, {input},
                   [=](Builder& b, Values args) { return ir::adaptive_pool(b, op, args[0], rank, sizes); });
}

Expr upsample(std::string_view function, int rank, const Expr& input, const PerDimension& factors) {
  return composite(function, {input},
                   [=](Builder& b, Values args) { return ir::upsample_nearest(b, args[0], rank, factors); });
}

Expr indexed(std::string_view function, Op op, const Expr& table, const Expr& index, int dim) {
  return composite(function, {table, index}, [=](Builder& b, Values args) {
    return b.indexed(op, args[0], args[1], ir::dimension_of(function, dim));
  });
}

}  // namespace

Expr argmax(const Expr& input, const Axes& axis, bool keepdim) {
  return arg_extreme("argmax", Op::amax, input, axis, keepdim);
}
Expr argmin(const Expr& input, const Axes& axis, bool keepdim) {
  return arg_extreme("argmin", Op::amin, input, axis, keepdim);
}
Expr iota(const Expr& input, int dim) {
  return composite("iota", {input},
                   [=](Builder& b, Values args) { return b.iota(args[0], ir::dimension_of("iota", dim)); });
}
Expr tril(const Expr& input, std::int64_t diagonal) {
  return composite("tril", {input},
                   [=](Builder& b, Values args) { return ir::triangle(b, Op::le, args[0], diagonal); });
}
Expr triu(const Expr& input, std::int64_t diagonal) {
  return composite("triu", {input},
                   [=](Builder& b, Values args) { return ir::triangle(b, Op::ge, args[0], diagonal); });
}

Expr window(const Expr& input, int dim, std::int64_t size, std::int64_t stride, std::int64_t index,
            std::int64_t dilation, std::int64_t padding, bool ceil_mode, double value) {
  return composite("window", {input}, [=](Builder& b, Values args) {
    return ir::window(b, args[0], dim, {{size}, {stride}, {dilation}, {padding}, ceil_mode}, index, value);
  });
}
Expr unfold(const Expr& input, int dimension, std::int64_t size, std::int64_t step, std::int64_t padding,
            bool ceil_mode, double value) {
  return composite("unfold", {input}, [=](Builder& b, Values args) {
    return b.view(args[0], ir::unfold_view(dimension, size, step, padding, ceil_mode, value));
  });
}
Expr pad(const Expr& input, std::vector<std::int64_t> sizes, double value) {
  return composite("pad", {input},
                   [=](Builder& b, Values args) { return b.view(args[0], ir::pad_view(sizes, value)); });
}
Expr roll(const Expr& input, std::vector<std::int64_t> shifts, std::vector<std::int64_t> dims) {
  return composite("roll", {input}, [=](Builder& b, Values args) { return ir::roll(b, args[0], shifts, dims); });
}
Expr cat(const std::vector<Expr>& tensors, int dim) {
  return composite("cat", tensors, [=](Builder& b, Values args) { return ir::cat(b, args, dim); });
}
Expr stack(const std::vector<Expr>& tensors, int dim) {
  return composite("stack", tensors, [=](Builder& b, Values args) { return ir::stack(b, args, dim); });
}
Expr pixel_shuffle(const Expr& input, std::int64_t upscale_factor) {
  return composite("pixel_shuffle", {input},
                   [=](Builder& b, Values args) { return ir::pixel_shuffle(b, args[0], upscale_factor); });
}
Expr pixel_unshuffle(const Expr& input, std::int64_t downscale_factor) {
  return composite("pixel_unshuffle", {input},
                   [=](Builder& b, Values args) { return ir::pixel_unshuffle(b, args[0], downscale_factor); });
}
Expr rope(const Expr& input, const Expr& cos, const Expr& sin, bool interleaved) {
  return composite("rope", {input, cos, sin},
                   [=](Builder& b, Values args) { return ir::rope(b, args[0], args[1], args[2], interleaved); });
}

Expr rope(const Expr& input, const Expr& cos, const Expr& sin, const Expr& positions, bool interleaved) {
  return composite("rope", {input, cos, sin, positions}, [=](Builder& b, Values args) {
    return ir::rope_at(b, args[0], args[1], args[2], args[3], interleaved);
  });
}

Expr take(const Expr& input, const Expr& indices, int axis) { return indexed("take", Op::take, input, indices, axis); }
Expr index_select(const Expr& input, int dim, const Expr& index) {
  return indexed("index_select", Op::index_select, input, index, dim);
}
Expr embedding(const Expr& input, const Expr& weight) {
  return composite("embedding", {input, weight},
                   [](Builder& b, Values args) { return b.indexed(Op::index_select, args[1], args[0], 0); });
}
Expr gather(const Expr& input, int dim, const Expr& index) { return indexed("gather", Op::gather, input, index, dim); }
Expr index_copy(const Expr& input, int dim, const Expr& index, const Expr& source) {
  return composite("index_copy", {input, index, source}, [=](Builder& b, Values args) {
    return b.index_copy(args[0], ir::dimension_of("index_copy", dim), args[1], args[2]);
  });
}
Expr one_hot(const Expr& input, std::int64_t num_classes) {
  return composite("one_hot", {input}, [=](Builder& b, Values args) { return ir::one_hot(b, args[0], num_classes); });
}

Expr max_pool1d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, const PerDimension& dilation, bool ceil_mode) {
  return max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode);
}
Expr max_pool2d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, const PerDimension& dilation, bool ceil_mode) {
  return max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode);
}
Expr max_pool3d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, const PerDimension& dilation, bool ceil_mode) {
  return max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode);
}
Expr avg_pool1d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, bool ceil_mode, bool count_include_pad) {
  return avg_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad, std::nullopt);
}
Expr avg_pool2d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, bool ceil_mode, bool count_include_pad,
                std::optional<std::int64_t> divisor_override) {
  return avg_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
Expr avg_pool3d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride,
                const PerDimension& padding, bool ceil_mode, bool count_include_pad,
                std::optional<std::int64_t> divisor_override) {
  return avg_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override);
}
Expr lp_pool1d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride,
               bool ceil_mode) {
  return lp_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode);
}
Expr lp_pool2d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride,
               bool ceil_mode) {
  return lp_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode);
}
Expr lp_pool3d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride,
               bool ceil_mode) {
  return lp_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode);
}
Expr adaptive_avg_pool1d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool1d", 1, Op::mean, input, output_size);
}
Expr adaptive_avg_pool2d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool2d", 2, Op::mean, input, output_size);
}
Expr adaptive_avg_pool3d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_avg_pool3d", 3, Op::mean, input, output_size);
}
Expr adaptive_max_pool1d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_max_pool1d", 1, Op::amax, input, output_size);
}
Expr adaptive_max_pool2d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_max_pool2d", 2, Op::amax, input, output_size);
}
Expr adaptive_max_pool3d(const Expr& input, const PerDimension& output_size) {
  return adaptive("adaptive_max_pool3d", 3, Op::amax, input, output_size);
}
Expr upsample_nearest1d(const Expr& input, const PerDimension& scale_factor) {
  return upsample("upsample_nearest1d", 1, input, scale_factor);
}
Expr upsample_nearest2d(const Expr& input, const PerDimension& scale_factor) {
  return upsample("upsample_nearest2d", 2, input, scale_factor);
}
Expr upsample_nearest3d(const Expr& input, const PerDimension& scale_factor) {
  return upsample("upsample_nearest3d", 3, input, scale_factor);
}

}  // namespace epifuse
