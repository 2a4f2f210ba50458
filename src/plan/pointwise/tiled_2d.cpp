// Tiles of two dimensions. Some input is contiguous along another dimension than the outputs, as a transposed or
// channels-last tensor beside row-major ones: which dimension that is, and how a block's threads cover both. Called by
// pointwise.cpp.
#include <algorithm>

#include "plan/pointwise/pointwise.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// Whether most of the tiles would lie beyond the tensor: thin planes. Nobody minds where there are few. A tile is about
// as one of f32: a line of inputs, and vectors of `thread_elements` of the threads that are left.
bool wastes_tiles(const Space& space, int dimension) {
  constexpr int kInputSide = kLineBytes / 4;
  const int output_side = kPolicy.block_threads / kInputSide * kPolicy.thread_elements;
  const std::int64_t elements = tiled_elements(space, {dimension, kInputSide}, {space.rank() - 1, output_side});
  return elements > std::max<std::int64_t>(4 * space.elements, kPolicy.wasted_elements);
}

}  // namespace

std::int64_t tiled_elements(const Space& space, TileSide a, TileSide b) {
  const auto padded = [&](TileSide side) { return divide_up(space.extents[side.dimension], side.tile) * side.tile; };
  const std::int64_t plane = space.extents[a.dimension] * space.extents[b.dimension];
  return space.elements / std::max<std::int64_t>(plane, 1) * padded(a) * padded(b);
}

int find_input_dimension(const Space& space) {
  const int inner = space.rank() - 1;
  if (inner < 1 || space.extents[inner] < kPolicy.least_tiled_extent) return -1;
  const auto is_contiguous_inner = [&](const StridedOperand& strided) {
    return strided.strides[static_cast<std::size_t>(inner)] == 1;
  };
  if (!std::ranges::all_of(space.outputs, is_contiguous_inner)) return -1;
  std::array<int, kMaxRank> bytes{};
  for (const StridedOperand& strided : space.inputs) {
    if (!strided.used || strided.is_generated() || !is_full(strided, space)) continue;
    const auto size = static_cast<int>(size_of(strided.dtype));
    const std::int64_t step = strided.strides[static_cast<std::size_t>(inner)];
    if (std::abs(step) * size < kSectorBytes) continue;  // neighbours there share a sector: caches serve them
    for (int d = 0; d < inner; ++d) {
      if (strided.strides[static_cast<std::size_t>(d)] == 1 && space.extents[d] >= kPolicy.least_tiled_extent)
        bytes[static_cast<std::size_t>(d)] += size;
    }
  }
  const auto most = std::ranges::max_element(bytes);
  return *most == 0 ? -1 : static_cast<int>(most - bytes.begin());
}

void move_dimension(Space& space, int from, int to) {
  const auto move = [&](auto& values) {
    from < to ? std::rotate(&values[0] + from, &values[0] + from + 1, &values[0] + to + 1)
              : std::rotate(&values[0] + to, &values[0] + from, &values[0] + from + 1);
  };
  move(space.extents);
  for (auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (StridedOperand& strided : *strided_operands) move(strided.strides);
  }
}

std::optional<Mapped> tile_2d(const Space& space, int dimension) {
  if (wastes_tiles(space, dimension)) return std::nullopt;
  Mapped mapped(space, {Tiled2D{}});
  move_dimension(mapped.space, dimension, space.rank() - 2);
  return mapped;
}

int aligned_elements(const KernelClass& kernel, const Space& space, int elements) {
  const auto all_fit = [&](const auto& operands, const auto& strided_operands) {
    for (std::size_t i = 0; i < strided_operands.size(); ++i) {
      const bool counts = operands[i].access == Access::contiguous && is_full(strided_operands[i], space);
      if (counts && !has_aligned_vectors(strided_operands[i], space, space.rank() - 1, elements)) return false;
    }
    return true;
  };
  while (elements > 1 && !(all_fit(kernel.inputs, space.inputs) && all_fit(kernel.outputs, space.outputs)))
    elements /= 2;
  return elements;
}

Tiled2D choose_lanes(const KernelClass& kernel, const Space& space) {
  const int dimension = space.rank() - 2;
  int narrowest = 8;
  for (std::size_t i = 0; i < space.inputs.size(); ++i) {
    const bool is_transposed_input =
        kernel.inputs[i].access == Access::strided && space.inputs[i].strides[static_cast<std::size_t>(dimension)] == 1;
    if (is_transposed_input) narrowest = std::min(narrowest, size_in_bytes(kernel.inputs[i]));
  }
  int written = 8;
  for (const OperandPlan& output : kernel.outputs) written = std::min(written, size_in_bytes(output));
  // Written sectors come first: a partly written one costs a request of its own, while the rest of a sector that was
  // read is in the cache for the warp beside.
  const int output_lanes = std::max(1, kSectorBytes / (kernel.elements * written));
  Tiled2D map;
  map.input_lanes = std::max(std::min(kSectorBytes / narrowest, kWarp / output_lanes), kPolicy.least_tiled_extent);
  map.input_threads = std::min(kLineBytes / narrowest, map.input_lanes * (kernel.threads / kWarp));
  while (map.input_threads > map.input_lanes && map.input_threads / 2 >= space.extents[dimension])
    map.input_threads /= 2;
  return map;
}

std::string why(const Tiled2D&, const KernelClass&) {
  return "an input is contiguous along another dimension than the outputs: a warp works on both dimensions, so that "
         "full sectors are read and written";
}

}  // namespace epifuse::plan
