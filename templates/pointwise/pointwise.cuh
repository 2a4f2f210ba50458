// The skeletons of pointwise chains: which thread computes which elements, in which order. `Epilogue` is the generated part: its members hold
// one vector of every operand in registers; load(), compute() and store() are straight-line code.
//
// A block's tile is kSteps * blockDim.x vectors. All loads of a tile are issued before the first value is used, so that every thread has
// kSteps independent accesses per operand in flight; all loads come before the stores of the same elements, so that an epilogue may
// work in place. A thread whose vectors are all full (nearly every one) runs code without a single test between its loads: a branch
// there makes the compiler wait for one load before it issues the next (1.4x the copy time in f16).
//
// Each way that a vector can take is code to compile: there are as few as a kernel can need. Codegen says with kBroken whether vectors can exist
// without being full.

//@section locate_by_row : coordinates_by_row
// Each row of the innermost dimension has vectors of its own; the last one is cut short.
__device__ __forceinline__ Position locate(Index vector, const Params& p) {
  Position position;
  const Index row = divide(vector, p.vectors_per_row_divisor);
  const Index inner = (vector - row * p.vectors_per_row) * kElements;
  const Index left = vector < p.vectors ? p.space.extents[kCoordinates - 1] - inner : 0;
  split<kCoordinates - 2>(row, p.space, position.at);
  position.at[kCoordinates - 1] = inner;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.exists = position.count > 0;
  position.full_vector = position.count == kElements && is_aligned(p, position);
  return position;
}
//@end

//@section locate_by_tile : locate_by_row, by_vectors
__device__ __forceinline__ Position locate(Index tile, int step, const Params& p) { return locate(vector_of(tile, step), p); }
//@end

//@section by_vectors
// The tile's vectors are consecutive: a step's stand side by side.
__device__ __forceinline__ Index vector_of(Index tile, int step) {
  return (tile * kSteps + step) * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x);
}
//@end

//@section locate_tiled_2d : coordinates_by_row
// An input is contiguous along the last dimension but one, the outputs along the last. kLanes lanes of a warp stand
// side by side along the inputs', the others one behind the other along the outputs', so that sectors are read and
// written in full as far as possible (plan/pointwise/tiled_2d.cpp chooses). Neighbouring blocks are neighbours along the
// inputs' dimension, where their lines of memory meet.
__device__ __forceinline__ Position locate(Index tile, int step, const Params& p) {
  constexpr int kWarps = kInputExtent / kLanes;    // side by side
  constexpr int kOutputThreads = kThreads / kInputExtent;  // threads one behind the other
  const int thread = static_cast<int>(threadIdx.x);
  const int warp = thread / 32;
  const int lane = thread % 32;
  const Index column = divide(tile, p.input_tiles_divisor);
  const Index plane = divide(column, p.output_tiles_divisor);
  const Index input_at = (tile - column * p.input_tiles) * kInputExtent + warp % kWarps * kLanes + lane % kLanes;
  const int row = step * kOutputThreads + warp / kWarps * (32 / kLanes) + lane / kLanes;
  const Index output_at = ((column - plane * p.output_tiles) * (kOutputThreads * kSteps) + row) * kElements;
  Position position;
  split<kCoordinates - 3>(plane, p.space, position.at);
  position.at[kCoordinates - 2] = input_at;
  position.at[kCoordinates - 1] = output_at;
  const Index left = input_at < p.space.extents[kCoordinates - 2] ? p.space.extents[kCoordinates - 1] - output_at : 0;
  position.count = static_cast<int>(left < kElements ? left : kElements);
  position.exists = position.count > 0;
  position.full_vector = position.count == kElements && is_aligned(p, position);
  return position;
}
//@end

//@section locate_flat : position_flat
//@if kByQuotients && kHasColumn
// The compiler takes the number as it is. Else it makes another one for each test of it.
__device__ __forceinline__ int as_it_is(int number) {
  asm("" : "+r"(number));
  return number;
}
__device__ __forceinline__ long long as_it_is(long long number) {
  asm("" : "+l"(number));
  return number;
}
//@endif
// The vector that begins with an element.
__device__ __forceinline__ Position locate(Index first, const Params& p) {
//@if kHasCoordinates
  Position position;
  position.linear = first;
  split<kCoordinates - 1>(first, p.space, position.at);
//@if kByQuotients && kHasColumn
  position.column = as_it_is(position.at[kCoordinates - 1] - position.at[kCoordinates - 2] * p.space.extents[kCoordinates - 1]);
//@endif
  return position;
//@else
  return {first};
//@endif
}
//@end

//@section run_vector
//@if kBroken
template <bool kFullVector>
//@endif
__device__ __forceinline__ void run_vector(const Params& p, const Uniforms& uniforms, const Position& position) {
  Epilogue/*@if kBroken*/<kFullVector>/*@endif*/ epilogue;
  epilogue.load(p, position);
  epilogue.compute(p, uniforms);
  epilogue.store(p, position);
}
//@end

//@section run_flat : locate_flat
// A vector of the flat schedule: its elements lie in one line/*@if kBroken*/, which may cross into the next row/*@endif*/.
//@if kHasRest
// Behind the last vector each element that is left has a thread of its own, as if it were a vector.
//@endif
__device__ __forceinline__ void run_step(const Params& p, const Uniforms& uniforms, Index /*@if kCountsElements*/first/*@endif*//*@if !kCountsElements*/vector/*@endif*/) {
  const Position position = locate(/*@if kCountsElements*/first/*@endif*//*@if !kCountsElements*/vector * kElements/*@endif*/, p);
//@if kBroken && kSteps == 1 && !kOneWay
  const bool exists = position.linear <= p.elements - kElements;
  const bool full_vector = exists && position.at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1];
  if (full_vector) {
    run_vector<true>(p, uniforms, position);
  } else if (exists) {
    run_vector<false>(p, uniforms, position);
//@else
//@if kByQuotients
  if (position.linear < p.elements) {
//@else
  if (position.linear <= p.elements - kElements) {
//@endif
    run_vector/*@if kBroken*/<false>/*@endif*/(p, uniforms, position);
//@endif
//@if kHasRest
  } else {
    const Index full = p.elements / kElements;
    const Index i = full * kElements + (vector - full);
    if (i < p.elements) {
      element(p, uniforms, i);
    }
//@endif
  }
}
//@end

//@section run_full_vectors
// All vectors of a thread are full: all loads come before the first value is used.
__device__ __forceinline__ void run_full_vectors(const Params& p, const Uniforms& uniforms, const Position (&positions)[kSteps]) {
  Epilogue/*@if kBroken && !kOneWay*/<true>/*@endif*//*@if kOneWay*/<false>/*@endif*/ epilogues[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) epilogues[step].load(p, positions[step]);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    epilogues[step].compute(p, uniforms);
    epilogues[step].store(p, positions[step]);
  }
}
//@end

//@section run_flat_steps : run_full_vectors
__device__ __forceinline__ void run_vectors(const Params& p, const Uniforms& uniforms, Index tile) {
  Position positions[kSteps];
  bool full_vectors = true;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    positions[step] = locate(vector_of(tile, step) * kElements, p);
    full_vectors = full_vectors && positions[step].linear <= p.elements - kElements;
//@if kBroken && !kOneWay
    full_vectors = full_vectors && positions[step].at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1];
//@endif
  }
  if (full_vectors) {
    run_full_vectors(p, uniforms, positions);
  } else {
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) run_step(p, uniforms, vector_of(tile, step));
  }
}
//@end

//@section run_divisible_steps : locate_flat
// Rows are multiples of vectors. Every thread loads and computes kSteps vectors, and stores those that exist: one way for all, and no branch before
// the stores. A vector behind the last one takes the place of the first, which may be changed meanwhile, by an epilogue in place; it is not used.
__device__ __forceinline__ void run_vectors(const Params& p, const Uniforms& uniforms, Index tile) {
  Position positions[kSteps];
  bool exists[kSteps];
  Epilogue/*@if kBroken*/<true>/*@endif*/ epilogues[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const Index first = vector_of(tile, step) * kElements;
    exists[step] = first < p.elements;
    positions[step] = locate(exists[step] ? first : 0, p);
    epilogues[step].load(p, positions[step]);
  }
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    epilogues[step].compute(p, uniforms);
    if (exists[step]) epilogues[step].store(p, positions[step]);
  }
}
//@end

//@section run_step
__device__ __forceinline__ void run_vectors(const Params& p, const Uniforms& uniforms, Index tile) {
  const Position position = locate(tile, 0, p);
  if (position.full_vector) {
    run_vector/*@if kBroken*/<true>/*@endif*/(p, uniforms, position);
//@if kBroken
  } else if (position.exists) {
    run_vector<false>(p, uniforms, position);
//@endif
  }
}
//@end

//@section run_steps : run_vector, run_full_vectors
__device__ __forceinline__ void run_vectors(const Params& p, const Uniforms& uniforms, Index tile) {
  Position positions[kSteps];
  bool full_vector = true;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    positions[step] = locate(tile, step, p);
    full_vector = full_vector && positions[step].full_vector;
  }
  if (full_vector) {
    run_full_vectors(p, uniforms, positions);
  } else {
#pragma unroll 1
    for (int step = 0; step < kSteps; ++step) {
      const Position position = locate(tile, step, p);
      if (position.exists) run_vector/*@if kBroken*/<false>/*@endif*/(p, uniforms, position);
    }
  }
}
//@end
