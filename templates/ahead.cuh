// What a later block of the grid will read is asked for ahead of time, so that memory reads while blocks compute and write. For teams and kept rows whose
// class says so (plan/ahead.cpp). A kernel has one of ask_ahead's forms.

//@section ask
// What lies between two multiples of 16 bytes comes to the L2 cache; nobody waits for it (PTX ISA, cp.async.bulk.prefetch).
#ifdef __CUDACC__
__device__ __forceinline__ void ask_cache(unsigned long long begin, unsigned long long end) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(reinterpret_cast<const void*>(begin))),
               "r"(static_cast<unsigned>(end - begin))
               : "memory");
#endif
}
#endif

// Of `count` elements those in whole pieces of 16 bytes.
template <class T>
__device__ __forceinline__ void ask(const T* first, Index count) {
  const unsigned long long begin = (reinterpret_cast<unsigned long long>(first) + 15) & ~15ull;
  const unsigned long long end = reinterpret_cast<unsigned long long>(first + count) & ~15ull;
  if (begin < end) ask_cache(begin, end);
}
//@end

//@section ask_along
// One thread asks for all that the block p.ahead later will read: rows one behind the other, or its part of a row that `sharers` blocks read.
__device__ __forceinline__ void ask_ahead(const Params& p, Index sharers) {
  if (threadIdx.x != 0 || static_cast<Index>(gridDim.x - blockIdx.x) <= p.ahead) return;
  constexpr int kTeams = kThreads / kTeam;
  constexpr int kPart = kThreads * kSteps * kElements;  // of a row that is shared
  const Index block = static_cast<Index>(blockIdx.x) + p.ahead;
  const Index tile = block / sharers;
  const Index row = tile * kTeams;
  const Index from = (block - tile * sharers) * kPart;
  const Index rows = p.rows - row < kTeams ? p.rows - row : kTeams;
  const Index left = rows * p.row_length - from;
  ask_held(p, row * p.row_length + from, sharers > 1 && left > kPart ? kPart : left);
}
//@end

//@section ask_across
// Threads ask for the lines that the block p.ahead later will read, each for some elements of its rows.
__device__ __forceinline__ void ask_ahead(const Params& p, Index) {
  if (static_cast<Index>(gridDim.x - blockIdx.x) <= p.ahead) return;
  const Index block = static_cast<Index>(blockIdx.x) + p.ahead;
  const Index row = divide(block, p.column_tiles_divisor);
  const Index column = (block - row * p.column_tiles) * kTileRows;
  const Index columns = p.row_columns - column < kTileRows ? p.row_columns - column : kTileRows;
  for (Index element = static_cast<Index>(threadIdx.x); element < p.row_length; element += kThreads)
    ask_held(p, (row * p.row_length + element) * p.row_columns + column, columns);
}
//@end

//@section ask_nothing
__device__ __forceinline__ void ask_ahead(const Params&, Index) {}
//@end
