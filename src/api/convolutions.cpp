// Views say which pixels a launch copies: the images with zeros around them, and of these every stride-th pixel.
#include "api/convolutions.hpp"

#include <algorithm>

namespace epifuse {
namespace {

std::int64_t depth_of(const plan::Product& convolution) {
  const Dims& filters = convolution.right.shape;
  return filters[1] * filters[2] * filters[3];
}

// Along one dimension, what windows have at `first`.
ir::Index steps(std::int64_t first, std::int64_t windows, std::int64_t stride) {
  return {.start = first, .stop = first + (windows - 1) * stride + 1, .step = stride};
}

// Of pixel (y, x) of the filters.
ir::Program program_of(const plan::Product& convolution, std::int64_t y, std::int64_t x) {
  const ir::Windows2d& windows = *convolution.windows;
  const auto& [pad_y, pad_x] = windows.padding;
  ir::Builder builder;
  ir::Value images = builder.input("x");
  if (pad_y > 0 || pad_x > 0) images = builder.view(images, ir::pad_view({pad_x, pad_x, pad_y, pad_y}, 0));
  const ir::Index down = steps(y * windows.dilation[0], convolution.shape[2], windows.stride[0]);
  const ir::Index across = steps(x * windows.dilation[1], convolution.shape[3], windows.stride[1]);
  builder.result("", builder.view(images, ir::index_view({ir::Index(), ir::Index(), down, across})));
  return std::move(builder).finish();
}

}  // namespace

OutputView WindowCopy::in(const OutputView& matrix) const {
  const std::int64_t bytes = column * static_cast<std::int64_t>(size_of(matrix.dtype));
  return {static_cast<std::byte*>(matrix.writable()) + bytes, matrix.dtype, shape, strides};
}

TensorView matrix_of_windows(const plan::Product& convolution) {
  const Dims& shape = convolution.shape;
  return {nullptr, convolution.left.dtype, {shape[0] * shape[2] * shape[3], depth_of(convolution)}};
}

std::vector<WindowCopy> copies_of_windows(const plan::Product& convolution) {
  const std::int64_t depth = depth_of(convolution);
  const Dims& shape = convolution.shape;
  const Dims& filters = convolution.right.shape;
  const Dims of_copies = {shape[0], filters[1], shape[2], shape[3]};
  const Dims strides = {shape[2] * shape[3] * depth, 1, shape[3] * depth, depth};
  std::vector<WindowCopy> copies;
  for (std::int64_t y = 0; y < filters[2]; ++y) {
    for (std::int64_t x = 0; x < filters[3]; ++x)
      copies.push_back({program_of(convolution, y, x), (y * filters[3] + x) * filters[1], of_copies, strides});
  }
  return copies;
}

std::optional<TensorView> matrix_of_filters(const TensorView& filters) {
  const TensorView by_pixel = filters.permute({0, 2, 3, 1});
  const Dims& shape = by_pixel.shape;
  const bool has_none = std::ranges::find(shape, 0) != shape.end();
  const auto depth = has_none ? 1 : plan::merged_stride(shape, by_pixel.strides, 1, 4);
  if (!depth) return std::nullopt;
  return TensorView{
      filters.data, filters.dtype, {shape[1] * shape[2] * shape[3], shape[0]}, {*depth, filters.strides[0]}};
}

OutputView matrix_of_result(const OutputView& result) {
  const Dims& shape = result.shape;
  return {result.writable(), result.dtype, {shape[0] * shape[2] * shape[3], shape[1]}};
}

}  // namespace epifuse
