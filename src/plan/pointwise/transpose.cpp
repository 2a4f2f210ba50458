// Tiles that are transposed. All full-size inputs are contiguous along a dimension that is not the outputs' innermost,
// as of a channels-last tensor into a row-major one: the kernel iterates in input order, and results are transposed in
// a tile of shared memory. Which operand is read how, and the sizes of the tile. Called by pointwise.cpp.
#include <algorithm>

#include "plan/pointwise/pointwise.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

std::int64_t stride_of(const StridedOperand& strided, int d) { return strided.strides[static_cast<std::size_t>(d)]; }

// What varies along both dimensions is as large as a plane: it has to be contiguous along the inputs' dimension. The
// rest comes from caches.
bool all_contiguous_along(const Space& space, int input, int output) {
  return std::ranges::all_of(space.inputs, [&](const StridedOperand& strided) {
    const bool is_plane = stride_of(strided, input) != 0 && stride_of(strided, output) != 0;
    return !strided.used || strided.is_generated() || !is_plane || stride_of(strided, input) == 1;
  });
}

OperandPlan plan_input(const StridedOperand& strided, const Space& space, int elements) {
  const int input = space.rank() - 1;
  OperandPlan operand{strided.dtype, classify(strided, space, {}, false), 1};
  if (operand.access != Access::contiguous) return operand;
  if (stride_of(strided, input - 1) == 0) operand.access = Access::hoisted;
  operand.width =
      access_width(strided.dtype, elements, [&](int width) { return is_aligned(strided, space, input, width); });
  return operand;
}

// Lines of results begin and end where wide accesses do, or these are put together.
OperandPlan plan_output(const StridedOperand& strided, const Space& space) {
  const int output = space.rank() - 2;
  const int width = kAccessBytes / static_cast<int>(size_of(strided.dtype));
  const bool lines_are_aligned = has_aligned_lines(strided, space, output, width);
  return {strided.dtype, lines_are_aligned ? Access::transposed : Access::transposed_unaligned, width};
}

struct Sizes {
  int elements = 1, lanes = 1, steps = 1, tile_overlap = 0;
  int rows() const { return kPolicy.block_threads / lanes; }  // of threads
  int input_side() const { return lanes * elements; }
  int output_side() const { return rows() * steps; }
  int own() const { return output_side() - tile_overlap; }  // of those, that no other tile has
};

// All lines of all results.
bool begins_at_sectors(const Space& space) {
  const int output = space.rank() - 2;
  return std::ranges::all_of(
      space.outputs, [&](const StridedOperand& strided) { return begins_at(strided, space, output, kSectorBytes); });
}

// Lines that begin inside sectors are cut where sectors do, each elsewhere: two tiles compute as much as a sector
// holds, and none is written by both.
int choose_tile_overlap(const Space& space, int output_side) {
  if (begins_at_sectors(space)) return 0;
  int tile_overlap = 0;
  for (const StridedOperand& strided : space.outputs)
    tile_overlap = std::max(tile_overlap, kSectorBytes / static_cast<int>(size_of(strided.dtype)));
  return output_side >= kPolicy.least_of_tile_overlap * tile_overlap ? tile_overlap : 0;
}

// Vectors of 16 bytes of the narrowest operand, whole and aligned wherever they are; as many side by side as read whole
// lines of the cache, or half of one, where lines of results begin inside sectors: the longer the runs of these, the
// fewer sectors are written in parts.
Sizes choose_sizes(const Space& space, int instructions) {
  const int input = space.rank() - 1;
  int narrowest = 8;
  int widest = 1;
  int read = 0;     // bytes per element from memory
  int written = 0;  // and to it
  int shortest = 8;
  for (const StridedOperand& strided : space.inputs) {
    if (!strided.used || strided.is_generated() || !is_full(strided, space)) continue;
    const auto size = static_cast<int>(size_of(strided.dtype));
    narrowest = std::min(narrowest, size);
    widest = std::max(widest, size);
    read += size;
  }
  for (const StridedOperand& strided : space.outputs) {
    const auto size = static_cast<int>(size_of(strided.dtype));
    written += size;
    shortest = std::min(shortest, size);
  }
  const int least_line_bytes = begins_at_sectors(space) ? 0 : kPolicy.cut_line_bytes;
  const auto fits = [&](int elements) {
    return space.extents[input] % elements == 0 && elements * read <= kPolicy.waiting_register_bytes &&
           elements * instructions <= kPolicy.most_instructions &&
           std::ranges::all_of(space.inputs, [&](const StridedOperand& strided) {
             return !strided.used || strided.is_generated() || !is_full(strided, space) ||
                    has_aligned_vectors(strided, space, input, elements);
           });
  };
  Sizes sizes;
  const auto choose = [&](int most) {
    sizes.elements = most;
    while (sizes.elements > 1 && !fits(sizes.elements)) sizes.elements /= 2;
    sizes.lanes = std::min(kLineBytes / (sizes.elements * narrowest), kWarp);
    const auto line_bytes = [&] {
      return sizes.rows() * std::max(kPolicy.bytes_in_flight / (sizes.elements * read), 1) * shortest;
    };
    while (sizes.lanes > 1 && sizes.input_side() / 2 >= space.extents[input]) sizes.lanes /= 2;
    while (sizes.input_side() * narrowest > kPolicy.run_bytes && line_bytes() < least_line_bytes &&
           std::int64_t{2} * sizes.rows() <= space.extents[input - 1]) {
      sizes.lanes /= 2;
    }
    sizes.steps = std::max(kAccessBytes / sizes.rows(), 1);  // a line holds an access of bytes
  };
  const auto tile_bytes = [&] { return sizes.input_side() * sizes.output_side() * written; };
  choose(elements_of_vector(narrowest, widest));
  while (sizes.elements > 1 && tile_bytes() > tile_bytes_of(kPolicy.block_threads)) choose(sizes.elements / 2);
  const auto bears = [&](int steps) {
    return sizes.input_side() * sizes.rows() * steps * written <= tile_bytes_of(kPolicy.block_threads) &&
           sizes.elements * steps * instructions <= kPolicy.unrolled_instructions &&
           sizes.rows() * steps / 2 < space.extents[input - 1];
  };
  while (sizes.steps < kPolicy.most_short_steps && sizes.steps * sizes.elements * read < kPolicy.bytes_in_flight &&
         bears(2 * sizes.steps)) {
    sizes.steps *= 2;
  }
  sizes.tile_overlap = choose_tile_overlap(space, sizes.output_side());
  return sizes;
}

// Whether most of the tiles would lie beyond the tensor, or none fits.
bool is_wasteful(const Space& space, const Sizes& sizes) {
  const int input = space.rank() - 1;
  const std::int64_t elements = tiled_elements(space, {input, sizes.input_side()}, {input - 1, sizes.own()});
  return elements > std::max<std::int64_t>(2 * space.elements, kPolicy.wasted_elements);
}

}  // namespace

std::optional<Mapped> transpose(const Space& bound, int dimension, int instructions) {
  const int inner = bound.rank() - 1;
  if (!all_contiguous_along(bound, dimension, inner)) return std::nullopt;
  Mapped mapped(bound, {Transpose{}});
  Space& space = mapped.space;
  move_dimension(space, dimension, inner);
  const Sizes sizes = choose_sizes(space, instructions);
  int written = 0;
  for (const StridedOperand& strided : space.outputs) written += static_cast<int>(size_of(strided.dtype));
  const bool fits = (sizes.input_side() * sizes.output_side() + kPolicy.block_threads) * written <= kTileShared;
  if (!fits || is_wasteful(space, sizes)) return std::nullopt;
  KernelClass& kernel = mapped.kernel;
  kernel.body = PointwiseClass{Transpose{.input_threads = sizes.lanes, .tile_overlap = sizes.tile_overlap}};
  kernel.elements = sizes.elements;
  kernel.steps = sizes.steps;
  for (const StridedOperand& strided : space.inputs)
    kernel.inputs.push_back(plan_input(strided, space, sizes.elements));
  for (const StridedOperand& strided : space.outputs) kernel.outputs.push_back(plan_output(strided, space));
  return mapped;
}

std::string why(const Transpose&, const KernelClass&) {
  return "all full-size inputs are contiguous along another dimension than the outputs: the kernel iterates in input "
         "order, and results are transposed in shared memory";
}

}  // namespace epifuse::plan
