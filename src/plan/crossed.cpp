// Operands that run across the outputs, a transposed or channels-last tensor into a row-major one: which dimension they run along, and how
// a block's threads cover both. Called by plan.cpp.
#include <algorithm>

#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// Whether most of the tiles would lie beyond the tensor: thin planes. Nobody minds where there are few.
bool wastes_tiles(const Space& space, int across) {
  const std::int64_t elements =
      tiled_elements(space, {across, kPolicy.crossed_bytes}, {space.rank() - 1, kPolicy.crossed_along});
  return elements > std::max(4 * space.elements, kPolicy.crossed_waste);
}

}  // namespace

std::int64_t tiled_elements(const Space& space, TileSide a, TileSide b) {
  const auto padded = [&](TileSide side) { return divide_up(space.extents[side.dimension], side.tile) * side.tile; };
  const std::int64_t plane = space.extents[a.dimension] * space.extents[b.dimension];
  return space.elements / std::max<std::int64_t>(plane, 1) * padded(a) * padded(b);
}

bool is_aligned(const Walk& walk, const Space& space, int run, int width) {
  const auto bytes = static_cast<std::int64_t>(size_of(walk.dtype)) * width;
  if (reinterpret_cast<std::uintptr_t>(walk.data) % static_cast<std::uintptr_t>(bytes) != 0) return false;
  for (int d = 0; d < space.rank(); ++d) {
    if (d != run && space.extents[d] > 1 && walk.strides[static_cast<std::size_t>(d)] % width != 0) return false;
  }
  return true;
}

int find_across(const Space& space) {
  const int inner = space.rank() - 1;
  if (inner < 1 || space.extents[inner] < kPolicy.least_crossed) return -1;
  const auto runs_along = [&](const Walk& walk) { return walk.strides[static_cast<std::size_t>(inner)] == 1; };
  if (!std::ranges::all_of(space.outputs, runs_along)) return -1;
  std::array<int, kMaxRank> bytes{};
  for (const Walk& walk : space.inputs) {
    if (!walk.used || !is_full(walk, space)) continue;
    const auto size = static_cast<int>(size_of(walk.dtype));
    const std::int64_t step = walk.strides[static_cast<std::size_t>(inner)];
    if (std::abs(step) * size < kPolicy.sector_bytes) continue;  // neighbours there share a sector: caches serve them
    for (int d = 0; d < inner; ++d) {
      if (walk.strides[static_cast<std::size_t>(d)] == 1 && space.extents[d] >= kPolicy.least_crossed)
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
  for (auto* walks : {&space.inputs, &space.outputs}) {
    for (Walk& walk : *walks) move(walk.strides);
  }
}

bool cross(Space& space, int across) {
  if (wastes_tiles(space, across)) return false;
  move_dimension(space, across, space.rank() - 2);
  return true;
}

int aligned_elements(const KernelClass& kernel, const Space& space, int elements) {
  const auto inner = static_cast<std::size_t>(space.rank() - 1);
  const auto fits = [&](const OperandPlan& operand, const Walk& walk) {
    if (operand.access != Access::contiguous || !is_full(walk, space)) return true;
    const auto bytes = std::min(elements * size_in_bytes(operand), kPolicy.bytes_per_access);
    if (reinterpret_cast<std::uintptr_t>(walk.data) % static_cast<std::uintptr_t>(bytes) != 0) return false;
    for (std::size_t d = 0; d < inner; ++d) {
      if (walk.strides[d] * size_in_bytes(operand) % bytes != 0) return false;
    }
    return true;
  };
  const auto all_fit = [&] {
    for (std::size_t i = 0; i < space.inputs.size(); ++i)
      if (!fits(kernel.inputs[i], space.inputs[i])) return false;
    for (std::size_t i = 0; i < space.outputs.size(); ++i)
      if (!fits(kernel.outputs[i], space.outputs[i])) return false;
    return true;
  };
  while (elements > 1 && !all_fit()) elements /= 2;
  return elements;
}

void choose_lanes(KernelClass& kernel, const Space& space) {
  const int across = space.rank() - 2;
  int narrowest = 8;
  for (std::size_t i = 0; i < space.inputs.size(); ++i) {
    const bool crossed =
        kernel.inputs[i].access == Access::strided && space.inputs[i].strides[static_cast<std::size_t>(across)] == 1;
    if (crossed) narrowest = std::min(narrowest, size_in_bytes(kernel.inputs[i]));
  }
  int written = 8;
  for (const OperandPlan& output : kernel.outputs) written = std::min(written, size_in_bytes(output));
  // Written sectors come first: a part of one costs a request of its own, while the rest of a sector that was read is in the cache for the warp
  // beside.
  const int along = std::max(1, kPolicy.sector_bytes / (kernel.elements * written));
  kernel.lanes_across = std::max(std::min(kPolicy.sector_bytes / narrowest, kWarp / along), kPolicy.least_crossed);
  kernel.threads_across = std::min(kPolicy.line_bytes / narrowest, kernel.lanes_across * (kernel.threads / kWarp));
  while (kernel.threads_across > kernel.lanes_across && kernel.threads_across / 2 >= space.extents[across])
    kernel.threads_across /= 2;
}

}  // namespace epifuse::plan
