// The innermost dimension of each map comes first, and is contiguous.
#include "plan/gemm/maps.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#include "base/text.hpp"
#include "plan/bind/products.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;

constexpr std::int64_t kMapUnit = 16;  // bytes: addresses and strides of what is copied are multiples

// Bytes from one element of dimension `d` to the next; of one element any that a map may have, which is at least
// `least`.
std::int64_t map_stride(const TensorView& tensor, int d, std::int64_t least) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  return tensor.shape[d] > 1 ? tensor.strides[d] * size : divide_up(least, kMapUnit) * kMapUnit;
}

// What has channels innermost, and pixels that begin where copies may.
void check_pixels(std::string_view name, const TensorView& tensor, const GemmMap& map) {
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  const bool has_channels = tensor.strides[3] == 1 || tensor.shape[3] == 1;
  const bool is_apart = std::ranges::all_of(std::span(map.strides).first(static_cast<std::size_t>(map.rank - 1)),
                                            [](std::int64_t it) { return it > 0 && it % kMapUnit == 0; });
  if (has_channels && is_apart && address % kMapUnit == 0) return;
  fail(unsupported,
       "'{}' has {} channels and, channels last, strides {} at an address whose remainder is {}; the kernel copies "
       "pixels whose channels are contiguous and which begin at multiples of {} bytes",
       name, tensor.shape[3], to_string(tensor.strides), address % kMapUnit, kMapUnit);
}

}  // namespace

GemmMap map_of(std::string_view name, const TensorView& tensor, bool transposed, std::array<int, 4> box, int swizzle) {
  const int rank = tensor.shape.size();
  const int inner = transposed ? rank - 2 : rank - 1;
  const int outer = transposed ? rank - 1 : rank - 2;
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const std::int64_t batches = rank == 3 ? tensor.shape[0] : 1;
  const std::int64_t row = tensor.strides[outer] * size;
  const std::int64_t batch = batches > 1 ? tensor.strides[0] * size : row;
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (tensor.strides[inner] != 1 && tensor.shape[inner] > 1)
    fail(unsupported,
         "'{}' has strides {}; the kernel copies tiles whose rows are contiguous. Make it contiguous, or run the "
         "product "
         "and the chain apart",
         name, to_string(tensor.strides));
  if (address % kMapUnit != 0 || row % kMapUnit != 0 || batch % kMapUnit != 0 || row <= 0 || batch <= 0)
    fail(unsupported,
         "'{}' has strides {} at an address whose remainder is {}; the kernel copies tiles whose rows are multiples of "
         "{} "
         "bytes apart and begin at such an address. Run the product and the chain apart",
         name, to_string(tensor.strides), address % kMapUnit, kMapUnit);
  return {tensor.data,  tensor.dtype, {tensor.shape[inner], tensor.shape[outer], batches, 1},
          {row, batch}, box,          swizzle};
}

GemmMap map_of_pixels(std::string_view name, const TensorView& tensor, int channels, const Patch& patch) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  GemmMap map{tensor.data,
              tensor.dtype,
              {tensor.shape[3], tensor.shape[2], tensor.shape[1], tensor.shape[0]},
              {},
              {channels, patch.width, patch.height, patch.images},
              channels * static_cast<int>(size),
              4};
  std::int64_t least = tensor.shape[3] * size;
  for (std::size_t i = 0; i < map.strides.size(); ++i) {
    map.strides[i] = map_stride(tensor, 2 - static_cast<int>(i), least);
    least = map.strides[i] * map.extents[i + 1];
  }
  check_pixels(name, tensor, map);
  return map;
}

GemmMap map_of_filters(const TensorView& tensor, int channels, int filters) {
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const auto pixel = merged_stride(tensor.shape, tensor.strides, 1, 3);
  if (!pixel)
    fail(unsupported, "the filters have, channels last, the strides {}: their pixels do not lie in one line",
         to_string(tensor.strides));
  const std::int64_t pixels = tensor.shape[1] * tensor.shape[2];
  const std::int64_t channel_bytes = tensor.shape[3] * size;
  const std::int64_t step = pixels > 1 ? *pixel * size : divide_up(channel_bytes, kMapUnit) * kMapUnit;
  GemmMap map{tensor.data,
              tensor.dtype,
              {tensor.shape[3], pixels, tensor.shape[0], 1},
              {step, map_stride(tensor, 0, step * pixels)},
              {channels, 1, filters, 1},
              channels * static_cast<int>(size)};
  check_pixels("filters", tensor, map);
  return map;
}

GemmMap map_of_images(std::string_view name, const TensorView& tensor) { return map_of_pixels(name, tensor, 0, {}); }

GemmMap map_of_filter_matrices(const TensorView& tensor) {
  GemmMap map = map_of_filters(tensor, 0, 0);
  std::swap(map.extents[1], map.extents[2]);
  std::swap(map.strides[0], map.strides[1]);
  return map;
}

TensorView rows_of_pixels(std::string_view name, const TensorView& tensor) {
  const auto step = merged_stride(tensor.shape, tensor.strides, 0, 3);
  if (!step)
    fail(unsupported,
         "'{}' has, channels last, the strides {}: its pixels do not lie in one line, as the rows of a matrix do that "
         "warps copy. Make it contiguous, or run the convolution and the chain apart",
         name, to_string(tensor.strides));
  const std::int64_t pixels = tensor.shape[0] * tensor.shape[1] * tensor.shape[2];
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype));
  const std::int64_t of_one = divide_up(tensor.shape[3] * size, kMapUnit) * kMapUnit / size;
  return {tensor.data, tensor.dtype, {pixels, tensor.shape[3]}, {pixels > 1 ? *step : of_one, tensor.strides[3]}};
}

}  // namespace epifuse::plan
