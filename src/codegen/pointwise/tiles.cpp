// What a tile measures, as the templates name it.
#include "codegen/pointwise/tiles.hpp"

#include <spdlog/fmt/fmt.h>

namespace epifuse::codegen {

std::string tile_constants(const plan::KernelClass& kernel, const plan::Transpose& map) {
  return fmt::format(
      "constexpr int kThreads = {};  // of a block\n"
      "constexpr int kLanes = {};  // threads side by side along the inputs' contiguous dimension\n"
      "constexpr int kInputExtent = kLanes * kElements;  // lines of a tile\n"
      "constexpr int kOutputExtent = kThreads / kLanes * kSteps;  // elements of such a line\n"
      "constexpr int kTileOverlap = {};  // of them, that the next tile computes too\n"
      "constexpr int kOwn = kOutputExtent - kTileOverlap;\n",
      kernel.threads, map.input_threads, map.tile_overlap);
}

std::string tile_constants(const plan::KernelClass& kernel, const plan::Tiled2D& map) {
  return fmt::format(
      "constexpr int kThreads = {};  // of a block\n"
      "constexpr int kLanes = {};  // of a warp, side by side along the inputs' dimension\n"
      "constexpr int kInputExtent = {};  // threads of a block side by side along the inputs' dimension\n",
      kernel.threads, map.input_lanes, map.input_threads);
}

}  // namespace epifuse::codegen
