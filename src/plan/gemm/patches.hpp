// How the result of a convolution is cut into tiles of a product. A row of the product is a pixel of the result. Of
// warp groups, the rows of a tile are a patch: pixels beside and below each other, perhaps of several images. Whatever
// windows these pixels have, one pixel of the filters meets them all in one box of the images. Where warps multiply,
// rows are pixels in their order.
#pragma once

#include <cstdint>
#include <optional>

#include "ir/program.hpp"

namespace epifuse::plan {

/// Each extent is a power of two.
struct Patch {
  int width, height, images;

  constexpr int pixels() const { return width * height * images; }
  /// The first half of its pixels in their order: along the width first, and then along the height.
  constexpr Patch halved() const {
    if (images > 1) return {width, height, images / 2};
    return height > 1 ? Patch{width, height / 2, 1} : Patch{width / 2, 1, 1};
  }
};

/// Rows of every tile of warp groups.
inline constexpr int kPatchPixels = 128;

/// A convolution as a product.
struct Convolution {
  ir::Windows2d windows;
  std::int64_t images, height, width;                ///< of the result
  std::int64_t input_height, input_width, channels;  ///< of the images
  std::int64_t filter_height, filter_width;
  std::optional<Patch> patch;  ///< of warp groups

  /// Patches of the result, the last ones perhaps beyond its edge.
  std::int64_t patches_across() const { return (width + patch->width - 1) / patch->width; }
  std::int64_t patches_down() const { return (height + patch->height - 1) / patch->height; }
  std::int64_t patches() const {
    return patches_across() * patches_down() * ((images + patch->images - 1) / patch->images);
  }
  std::int64_t pixels() const { return images * height * width; }
};

/// Of kPatchPixels: the patch that covers the result with the fewest pixels beyond its edges, and of these the one
/// whose windows have the fewest pixels, and then the widest. Nothing if no box has pixels so far apart.
std::optional<Patch> choose_patch(const Convolution& convolution);

}  // namespace epifuse::plan
