// The skeletons of pointwise chains: which thread computes which elements, in which order. `Tail` is the generated part: its members hold
// one group of elements of every operand in registers; load(), compute() and store() are straight-line code.
//
// A block's tile is kSteps * blockDim.x groups. All loads of a tile are issued before the first value is used, so that every thread has
// kSteps independent accesses per operand in flight; all loads come before the stores of the same elements, so that a tail may
// work in place. A thread whose groups are all straight (nearly every one) runs code without a single test between its loads: a branch
// there makes the compiler wait for one load before it issues the next (1.4x the copy time in f16). The grid covers all tiles, but for
// tensors with more tiles than a grid has blocks.

//@section locate_linear : position
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  const Index first = group * kElements;
  const Index left = p.elements - first;
  return Position{first, static_cast<int>(left < kElements ? left : kElements), left >= kElements};
}
//@end

//@section locate_flat : coordinates
// The elements lie in one line; a group may cross into the next row.
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  Position position;
  position.linear = group * kElements;
  const Index left = p.elements - position.linear;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  split(position.linear, kCoordinates - 1, p.space, position.at);
  position.straight = position.count == kElements && position.at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1];
  return position;
}
//@end

//@section locate_rows : coordinates
// Each row of the innermost dimension has groups of its own; the last one is cut short.
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  Position position;
  const Index row = divide(group, p.groups_per_row_divisor);
  const Index inner = (group - row * p.groups_per_row) * kElements;
  const Index left = group < p.groups ? p.space.extents[kCoordinates - 1] - inner : 0;
  split(row, kCoordinates - 2, p.space, position.at);
  position.at[kCoordinates - 1] = inner;
  position.linear = 0;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.straight = position.count == kElements;
  return position;
}
//@end

//@section by_groups
// The tile's groups are consecutive: a step's stand side by side.
__device__ __forceinline__ Index group_of(Index tile, int step) {
  return (tile * kSteps + step) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
}

__device__ __forceinline__ Position locate(Index tile, int step, const Params& p) { return locate(group_of(tile, step), p); }
//@end

//@section locate_crossed : coordinates
// An operand's neighbours lie along the last dimension but one, the outputs' along the last. kLanes lanes of a warp stand side by side across,
// the others one behind the other along, so that both read and write sectors as whole as they can (plan/crossed.cpp chooses). Neighbouring
// blocks are neighbours across, where their lines of memory meet.
__device__ __forceinline__ Position locate(Index tile, int step, const Params& p) {
  constexpr int kWarps = kAcross / kLanes;    // side by side
  constexpr int kAlong = kThreads / kAcross;  // threads one behind the other
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const Index column = divide(tile, p.tiles_across_divisor);
  const Index plane = divide(column, p.tiles_along_divisor);
  const Index across = (tile - column * p.tiles_across) * kAcross + warp % kWarps * kLanes + lane % kLanes;
  const int row = step * kAlong + warp / kWarps * (32 / kLanes) + lane / kLanes;
  const Index along = ((column - plane * p.tiles_along) * (kAlong * kSteps) + row) * kElements;
  Position position;
  split(plane, kCoordinates - 3, p.space, position.at);
  position.at[kCoordinates - 2] = across;
  position.at[kCoordinates - 1] = along;
  position.linear = 0;
  const Index left = across < p.space.extents[kCoordinates - 2] ? p.space.extents[kCoordinates - 1] - along : 0;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.straight = left >= kElements;
  return position;
}
//@end

//@section run_tiles
__device__ __forceinline__ void run_tiles(const Params& p) {
  const Uniforms uniforms = load_uniforms(p);
  for (Index tile = blockIdx.x; tile < p.tiles; tile += gridDim.x) {
    Tail<true> tails[kSteps];
    bool straight = true;
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      tails[step].position = locate(tile, step, p);
      straight = straight && tails[step].position.straight && is_aligned(p, tails[step].position);
    }
    if (straight) {
#pragma unroll
      for (int step = 0; step < kSteps; ++step) tails[step].load(p);
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        tails[step].compute(p, uniforms);
        tails[step].store(p);
      }
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step) {
        Tail<false> tail;
        tail.position = locate(tile, step, p);
        if (tail.position.count <= 0) continue;
        tail.load(p);
        tail.compute(p, uniforms);
        tail.store(p);
      }
    }
  }
}
//@end
