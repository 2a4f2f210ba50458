// Tails whose operands all run across the outputs, as a channels-last tensor into a row-major one: they are walked as they run, and results
// turn in a tile of shared memory. Which operand is read how, and the sizes of the tile. Called by plan.cpp.
#include <algorithm>

#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

std::int64_t stride_of(const Walk& walk, int d) { return walk.strides[static_cast<std::size_t>(d)]; }

// What varies along both dimensions is as large as a plane: it has to run across. The rest comes from caches.
bool all_run_across(const Space& space, int across, int along) {
  return std::ranges::all_of(space.inputs, [&](const Walk& walk) {
    const bool is_plane = stride_of(walk, across) != 0 && stride_of(walk, along) != 0;
    return !walk.used || !is_plane || stride_of(walk, across) == 1;
  });
}

int aligned_width(const Walk& walk, const Space& space, int run, int most) {
  int width = std::min(most, kPolicy.bytes_per_access / static_cast<int>(size_of(walk.dtype)));
  while (width > 1 && !is_aligned(walk, space, run, width)) width /= 2;
  return width;
}

OperandPlan plan_input(const Walk& walk, const Space& space, int elements) {
  const int across = space.rank() - 1;
  OperandPlan operand{walk.dtype, classify(walk, space, {}, false), 1};
  if (operand.access != Access::contiguous) return operand;
  if (stride_of(walk, across - 1) == 0) operand.access = Access::steady;
  operand.width = aligned_width(walk, space, across, elements);
  return operand;
}

// Lines of results begin and end where wide accesses do, or these are put together.
OperandPlan plan_output(const Walk& walk, const Space& space) {
  const int along = space.rank() - 2;
  const int width = kPolicy.bytes_per_access / static_cast<int>(size_of(walk.dtype));
  const bool is_whole = has_whole_lines(walk, space, along, width);
  return {walk.dtype, is_whole ? Access::turned : Access::shifted, width};
}

struct Sizes {
  int elements = 1, lanes = 1, steps = 1, halo = 0;
  int rows() const { return kPolicy.threads / lanes; }  // of threads
  int across() const { return lanes * elements; }
  int along() const { return rows() * steps; }
  int own() const { return along() - halo; }  // of those, that no other tile has
};

// All lines of all results.
bool begins_at_sectors(const Space& space) {
  const int along = space.rank() - 2;
  return std::ranges::all_of(space.outputs,
                             [&](const Walk& walk) { return begins_at(walk, space, along, kPolicy.sector_bytes); });
}

// Lines that begin inside sectors are cut where sectors do, each elsewhere: two tiles compute as much as a sector holds, and none is written in parts.
int choose_halo(const Space& space, int along) {
  if (begins_at_sectors(space)) return 0;
  int halo = 0;
  for (const Walk& walk : space.outputs)
    halo = std::max(halo, kPolicy.sector_bytes / static_cast<int>(size_of(walk.dtype)));
  return along >= kPolicy.least_of_halo * halo ? halo : 0;
}

// Groups of 16 bytes of the narrowest operand, whole and aligned wherever they are; as many side by side as read whole lines of the cache, or half
// of one, where lines of results begin inside sectors: the longer the pieces of these, the fewer sectors are written in parts.
Sizes choose_sizes(const Space& space, int instructions) {
  const int across = space.rank() - 1;
  int narrowest = 8;
  int widest = 1;
  int read = 0;     // bytes per element from memory
  int written = 0;  // and to it
  int shortest = 8;
  for (const Walk& walk : space.inputs) {
    if (!walk.used || !is_full(walk, space)) continue;
    const auto size = static_cast<int>(size_of(walk.dtype));
    narrowest = std::min(narrowest, size);
    widest = std::max(widest, size);
    read += size;
  }
  for (const Walk& walk : space.outputs) {
    const auto size = static_cast<int>(size_of(walk.dtype));
    written += size;
    shortest = std::min(shortest, size);
  }
  const TurnedTile& tile = begins_at_sectors(space) ? kPolicy.turned_at_sectors : kPolicy.turned_inside_sectors;
  const auto fits = [&](int elements) {
    return space.extents[across] % elements == 0 && elements * read <= kPolicy.waiting_register_bytes &&
           elements * instructions <= kPolicy.most_instructions &&
           std::ranges::all_of(space.inputs, [&](const Walk& walk) {
             const int width = std::min(elements, kPolicy.bytes_per_access / static_cast<int>(size_of(walk.dtype)));
             return !walk.used || !is_full(walk, space) || is_aligned(walk, space, across, width);
           });
  };
  Sizes sizes;
  const auto choose = [&](int most) {
    sizes.elements = most;
    while (sizes.elements > 1 && !fits(sizes.elements)) sizes.elements /= 2;
    sizes.lanes = std::min(kPolicy.line_bytes / (sizes.elements * narrowest), kWarp);
    const auto line_bytes = [&] {
      return sizes.rows() * std::max(tile.read_bytes / (sizes.elements * read), 1) * shortest;
    };
    while (sizes.lanes > 1 && sizes.across() / 2 >= space.extents[across]) sizes.lanes /= 2;
    while (sizes.across() * narrowest > kPolicy.turned_piece_bytes && line_bytes() < tile.least_bytes &&
           std::int64_t{2} * sizes.rows() <= space.extents[across - 1]) {
      sizes.lanes /= 2;
    }
    sizes.steps = std::max(kPolicy.bytes_per_access / sizes.rows(), 1);  // a line holds an access of bytes
  };
  const auto tile_bytes = [&] { return sizes.across() * sizes.along() * written; };
  choose(std::min(kPolicy.bytes_per_access / narrowest, 2 * kPolicy.bytes_per_access / widest));
  while (sizes.elements > 1 && tile_bytes() > tile.tile_bytes) choose(sizes.elements / 2);
  const auto bears = [&](int steps) {
    return sizes.across() * sizes.rows() * steps * written <= tile.tile_bytes &&
           sizes.elements * steps * instructions <= kPolicy.unrolled_instructions &&
           sizes.rows() * steps / 2 < space.extents[across - 1];
  };
  while (sizes.steps < kPolicy.most_turned_steps && sizes.steps * sizes.elements * read < tile.read_bytes &&
         bears(2 * sizes.steps)) {
    sizes.steps *= 2;
  }
  sizes.halo = choose_halo(space, sizes.along());
  return sizes;
}

// Whether most of the tiles would lie beyond the tensor, or none fits.
bool is_wasteful(const Space& space, const Sizes& sizes) {
  const int across = space.rank() - 1;
  const std::int64_t elements = tiled_elements(space, {across, sizes.across()}, {across - 1, sizes.own()});
  return elements > std::max(2 * space.elements, kPolicy.crossed_waste);
}

}  // namespace

bool turn(Space& space, int across, int instructions, KernelClass& kernel) {
  const int inner = space.rank() - 1;
  if (!all_run_across(space, across, inner)) return false;
  move_dimension(space, across, inner);
  const Sizes sizes = choose_sizes(space, instructions);
  int written = 0;
  for (const Walk& walk : space.outputs) written += static_cast<int>(size_of(walk.dtype));
  const bool fits = (sizes.across() * sizes.along() + kPolicy.threads) * written <= kPolicy.most_tile_bytes;
  if (!fits || is_wasteful(space, sizes)) {
    move_dimension(space, inner, across);
    return false;
  }
  kernel.elements = sizes.elements;
  kernel.steps = sizes.steps;
  kernel.lanes_across = kernel.threads_across = sizes.lanes;
  kernel.halo = sizes.halo;
  for (const Walk& walk : space.inputs) kernel.inputs.push_back(plan_input(walk, space, sizes.elements));
  for (const Walk& walk : space.outputs) kernel.outputs.push_back(plan_output(walk, space));
  return true;
}

}  // namespace epifuse::plan
