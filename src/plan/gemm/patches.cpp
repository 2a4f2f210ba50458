// All patches of a tile are compared.
#include "plan/gemm/patches.hpp"

#include <utility>

namespace epifuse::plan {
namespace {

// Of a tensor map: how far apart the elements of a box are, and how many it has with those between (CUDA driver API,
// cuTensorMapEncodeTiled).
constexpr int kMostPixelStep = 8;
constexpr std::int64_t kMostBox = 256;

bool is_possible(const Patch& patch, const ir::Windows2d& windows) {
  const auto fits = [](std::int64_t pixels, std::int64_t stride) {
    return stride <= kMostPixelStep && pixels * stride <= kMostBox;
  };
  return fits(patch.height, windows.stride[0]) && fits(patch.width, windows.stride[1]);
}

// Of the images, that one patch reads.
std::int64_t pixels_read(const Patch& patch, const Convolution& of) {
  const auto reach = [](std::int64_t pixels, std::int64_t stride, std::int64_t size, std::int64_t dilation) {
    return (pixels - 1) * stride + (size - 1) * dilation + 1;
  };
  const ir::Windows2d& windows = of.windows;
  return patch.images * reach(patch.height, windows.stride[0], of.filter_height, windows.dilation[0]) *
         reach(patch.width, windows.stride[1], of.filter_width, windows.dilation[1]);
}

}  // namespace

std::optional<Patch> choose_patch(const Convolution& convolution) {
  std::optional<Patch> best;
  std::pair<std::int64_t, std::int64_t> least;
  for (int width = kPatchPixels; width >= 1; width /= 2) {
    for (int height = 1; width * height <= kPatchPixels; height *= 2) {
      Convolution made = convolution;
      const Patch patch = {width, height, kPatchPixels / width / height};
      if (!is_possible(patch, convolution.windows)) continue;
      made.patch = patch;
      const std::pair cost(made.patches(), pixels_read(patch, convolution));
      if (best && cost >= least) continue;
      best = patch;
      least = cost;
    }
  }
  return best;
}

}  // namespace epifuse::plan
