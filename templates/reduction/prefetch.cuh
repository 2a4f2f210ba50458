// Blocks prefetch what a later block of the grid will read, so that memory reads while blocks compute and write. For
// drivers whose class says so (plan/reduction/prefetch.cpp). A kernel has one form of prefetch_later_block.
//
// prefetch_rows(p, block) prefetches the rows of a block that shares none with others, one behind the other.

//@section prefetch
// What lies between two multiples of 16 bytes comes to the L2 cache; nobody waits for it (PTX ISA, cp.async.bulk.prefetch).
#ifdef __CUDACC__
__device__ __forceinline__ void prefetch_l2(unsigned long long begin, unsigned long long end) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(__cvta_generic_to_global(reinterpret_cast<const void*>(begin))),
               "r"(static_cast<unsigned>(end - begin))
               : "memory");
#endif
}
#endif

// Of `count` elements those in full chunks of 16 bytes.
template <class T>
__device__ __forceinline__ void prefetch(const T* first, Index count) {
  const unsigned long long begin = (reinterpret_cast<unsigned long long>(first) + 15) & ~15ull;
  const unsigned long long end = reinterpret_cast<unsigned long long>(first + count) & ~15ull;
  if (begin < end) {
    prefetch_l2(begin, end);
  }
}
//@end

//@section prefetch_rows
__device__ __forceinline__ void prefetch_rows(const Params& p, Index block) {
//@if kThreads > kGroupThreads
  constexpr int kGroups = kThreads / kGroupThreads;
  const Index row = block * kGroups;
  const Index rows = p.rows - row < kGroups ? p.rows - row : kGroups;
  prefetch_held(p, row * p.row_length, rows * p.row_length);
//@else
  prefetch_held(p, block * p.row_length, p.row_length);
//@endif
}
//@end

//@section prefetch_inner : prefetch_rows
// One thread prefetches all that the block p.prefetch_distance later will read: rows one behind the other, or its chunk of a row that `sharers` blocks read.
__device__ __forceinline__ void prefetch_later_block(const Params& p, Index sharers) {
  if (threadIdx.x != 0 || static_cast<Index>(gridDim.x - blockIdx.x) <= p.prefetch_distance) return;
  const Index block = static_cast<Index>(blockIdx.x) + p.prefetch_distance;
//@if kBlocksShareRows
  constexpr int kChunk = kThreads * kSteps * kElements;  // of a row that is shared
  const Index tile = block / sharers;
  const Index from = (block - tile * sharers) * kChunk;
//@if kThreads > kGroupThreads
  constexpr int kGroups = kThreads / kGroupThreads;
  const Index row = tile * kGroups;
  const Index rows = p.rows - row < kGroups ? p.rows - row : kGroups;
  const Index left = rows * p.row_length - from;
  prefetch_held(p, row * p.row_length + from, sharers > 1 && left > kChunk ? kChunk : left);
//@else
  const Index left = p.row_length - from;
  prefetch_held(p, tile * p.row_length + from, sharers > 1 && left > kChunk ? kChunk : left);
//@endif
//@else
  prefetch_rows(p, block);
//@endif
}
//@end

//@section prefetch_outer
// Threads prefetch the lines that the block p.prefetch_distance later will read, each for some elements of its rows.
__device__ __forceinline__ void prefetch_later_block(const Params& p, Index) {
  if (static_cast<Index>(gridDim.x - blockIdx.x) <= p.prefetch_distance) return;
  const Index block = static_cast<Index>(blockIdx.x) + p.prefetch_distance;
  const Index row = divide(block, p.column_tiles_divisor);
  const Index column = (block - row * p.column_tiles) * kTileRows;
  const Index columns = p.row_columns - column < kTileRows ? p.row_columns - column : kTileRows;
  for (Index element = static_cast<Index>(threadIdx.x); element < p.row_length; element += kThreads)
    prefetch_held(p, (row * p.row_length + element) * p.row_columns + column, columns);
}
//@end

//@section no_prefetch
__device__ __forceinline__ void prefetch_later_block(const Params&, Index) {}
//@end
