// The skeletons of pointwise chains: which thread computes which elements, in which order. `Tail` is the generated part: its members hold
// one group of elements of every operand in registers; load(), compute() and store() are straight-line code.
//
// A block's tile is kSteps * blockDim.x groups. All loads of a tile are issued before the first value is used, so that every thread has
// kSteps independent accesses per operand in flight; all loads come before the stores of the same elements, so that a tail may
// work in place. A thread whose groups are all straight (nearly every one) runs code without a single test between its loads: a branch
// there makes the compiler wait for one load before it issues the next (1.4x the copy time in f16).
//
// Each way that a group can take is code to compile: there are as few as a kernel can need. Codegen says with kBroken whether groups can exist
// without being straight.

//@section locate_linear : position
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  const Index first = group * kElements;
  const bool exists = first <= p.elements - kElements;
  return Position{first, exists, exists};
}
//@end

//@section locate_flat : coordinates
// The elements lie in one line; a group may cross into the next row.
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  Position position;
  position.linear = group * kElements;
  position.exists = position.linear <= p.elements - kElements;
  split(position.linear, kCoordinates - 1, p.space, position.at);
  position.straight = position.exists && position.at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1];
  return position;
}
//@end

//@section locate_whole : coordinates
// The elements lie in one line, and rows are multiples of groups. A group behind the last one takes the place of the first.
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  Position position;
  position.exists = group * kElements < p.elements;
  position.straight = position.exists;
  position.linear = position.exists ? group * kElements : 0;
  split(position.linear, kCoordinates - 1, p.space, position.at);
  return position;
}
//@end

//@section locate_rows : coordinates_of_rows
// Each row of the innermost dimension has groups of its own; the last one is cut short.
__device__ __forceinline__ Position locate(Index group, const Params& p) {
  Position position;
  const Index row = divide(group, p.groups_per_row_divisor);
  const Index inner = (group - row * p.groups_per_row) * kElements;
  const Index left = group < p.groups ? p.space.extents[kCoordinates - 1] - inner : 0;
  split(row, kCoordinates - 2, p.space, position.at);
  position.at[kCoordinates - 1] = inner;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.exists = position.count > 0;
  position.straight = position.count == kElements && is_aligned(p, position);
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

//@section locate_crossed : coordinates_of_rows
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
  const Index left = across < p.space.extents[kCoordinates - 2] ? p.space.extents[kCoordinates - 1] - along : 0;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.exists = position.count > 0;
  position.straight = position.count == kElements && is_aligned(p, position);
  return position;
}
//@end

//@section run_group
template <bool kStraight>
__device__ __forceinline__ void run_group(const Params& p, const Uniforms& uniforms, const Position& position) {
  Tail<kStraight> tail;
  tail.load(p, position);
  tail.compute(p, uniforms);
  tail.store(p, position);
}
//@end

//@section run_step : run_group
__device__ __forceinline__ void run_groups(const Params& p, const Uniforms& uniforms, Index tile) {
  const Position position = locate(tile, 0, p);
  if (position.straight) {
    run_group<true>(p, uniforms, position);
  } else if (kBroken && position.exists) {
    run_group<!kBroken>(p, uniforms, position);
  } else {
    run_rest(p, uniforms, tile, 0);
  }
}
//@end

//@section run_steps : run_group
__device__ __forceinline__ void run_groups(const Params& p, const Uniforms& uniforms, Index tile) {
  Position positions[kSteps];
  Tail<true> tails[kSteps];
  bool straight = true;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    positions[step] = locate(tile, step, p);
    straight = straight && positions[step].straight;
  }
  if (straight) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) tails[step].load(p, positions[step]);
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      tails[step].compute(p, uniforms);
      tails[step].store(p, positions[step]);
    }
  } else {
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const Position position = locate(tile, step, p);
      if (position.exists) {
        run_group<!kBroken>(p, uniforms, position);
      } else {
        run_rest(p, uniforms, tile, step);
      }
    }
  }
}
//@end

//@section run_whole_steps : run_group
// Every thread loads and computes kSteps groups, and stores those that exist: one way for all, and no branch before the stores. What takes the
// place of a group that does not exist may be changed meanwhile, by a tail in place; it is not used.
__device__ __forceinline__ void run_groups(const Params& p, const Uniforms& uniforms, Index tile) {
  Position positions[kSteps];
  Tail<true> tails[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    positions[step] = locate(tile, step, p);
    tails[step].load(p, positions[step]);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    tails[step].compute(p, uniforms);
    if (positions[step].exists) tails[step].store(p, positions[step]);
  }
}
//@end

//@section rest
// Behind the last whole group each element has a thread of its own, as if it were a group.
__device__ __forceinline__ void run_rest(const Params& p, const Uniforms& uniforms, Index tile, int step) {
  const Index whole = p.elements / kElements;
  const Index i = whole * kElements + (group_of(tile, step) - whole);
  if (i < p.elements) element(p, uniforms, i);
}
//@end

//@section no_rest
__device__ __forceinline__ void run_rest(const Params&, const Uniforms&, Index, int) {}
//@end
