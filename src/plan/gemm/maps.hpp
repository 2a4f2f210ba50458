// What a product's kernel copies, as maps of tensors: matrices, and the pixels of images and filters. Each refuses what
// cannot be copied 16 bytes at a time. For gemm.cpp.
#pragma once

#include <array>
#include <string_view>

#include <epifuse/tensor.hpp>

#include "plan/gemm/gemm.hpp"
#include "plan/gemm/patches.hpp"

namespace epifuse::plan {

/// Of a matrix, or of a batch of them. `transposed`: its last dimension but one is contiguous.
GemmMap map_of(std::string_view name, const TensorView& tensor, bool transposed, std::array<int, 4> box, int swizzle);

/// Of [N, H, W, C]: so many channels of the pixels of a patch.
GemmMap map_of_pixels(std::string_view name, const TensorView& tensor, int channels, const Patch& patch);
/// Of [K, R, S, C]: so many channels of one pixel of so many filters.
GemmMap map_of_filters(const TensorView& tensor, int channels, int filters);

/// The same for warps, which copy no boxes. Of the filters each pixel is a matrix [K, C] of a batch.
GemmMap map_of_images(std::string_view name, const TensorView& tensor);
GemmMap map_of_filter_matrices(const TensorView& tensor);
/// Of [N, H, W, C], pixels that lie in one line as the rows of a matrix.
TensorView rows_of_pixels(std::string_view name, const TensorView& tensor);

}  // namespace epifuse::plan
