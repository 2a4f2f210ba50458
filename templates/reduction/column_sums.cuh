// Column sums: sums over rows that keep a row's elements. A thread group holds one row after the other and each of its threads the sums of its elements
// (Held::sums), which are the same ones of every row. Products, maxima and the like are combined by combine_columns(), which the chain generates.

//@section run_resident_columns : reduce_held
//@stages
// A block's rows are those of one result, kThreads / kGroupThreads at a time.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Index block = static_cast<Index>(blockIdx.x) / kCluster;
  const Index result = block / p.blocks_per_result;
  const Index share = block - result * p.blocks_per_result;
  Held held[kSteps];
//@if kColumnCluster > 1
  cluster_begin();
//@endif
//@if kHasCommon
  const Place first = find_place(p, result * p.tiles * kCluster);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].load_common(p, locate_known<kAllFull>(p, first, 0, step));
//@endif
//@if kCluster > 1
  cluster_begin();
  cluster_wait();
//@endif
#pragma unroll 1
  for (Index tile = share; tile < p.tiles; tile += p.blocks_per_result) {
    const Place place = find_place(p, (result * p.tiles + tile) * kCluster);
//@if kAllFull
    load_round<true, kHeldHint>(p, place, 0, held);
//@else
    const bool full_vectors = are_full_vectors<kSteps, kGathers>(p, place, 0, 0);
    if (full_vectors) {
      load_round<true, kHeldHint>(p, place, 0, held);
    } else {
      load_round<false, kHeldHint>(p, place, 0, held);
    }
//@endif
//@if kPrefetchesTiles
    // One thread prefetches the rows that the block comes to next: memory reads while those at hand are reduced and written.
    if (tile + p.blocks_per_result < p.tiles && threadIdx.x == 0 && place.rank == 0) prefetch_rows(p, result * p.tiles + tile + p.blocks_per_result);
//@endif
    Row rows[kRows];
    load_rows(p, uniforms, place, rows);
    GridStage grid;
    reduce_stages(p, uniforms, place, /*@if !kAllFull*/full_vectors, /*@endif*/held, rows, grid, shared);
    write_held(p, uniforms, place, /*@if !kAllFull*/full_vectors, /*@endif*/held, rows, grid, shared);
    write_rows(p, place, rows);
//@if kStages == 1 && kCluster > 1
    cluster_sync();  // the slots in which threads meet are free for the next row; where they meet twice a row, they are anyway
//@endif
//@if kStages == 1 && kInnerReduction && kCluster == 1 && kGroupThreads > 32
    __syncthreads();  // the slots in which threads meet are free for the next row; where they meet twice a row, they are anyway
//@endif
//@if kStages == 0 && kPrefetchesTiles
    __syncthreads();  // nothing else keeps warps from running ahead of what is prefetched
//@endif
  }
  finish_columns(p, uniforms, result, share, held, shared);
}
//@end

//@section column_exchange
//@if kInnerReduction
constexpr int kGroups = kThreads / kGroupThreads;

//@endif
// Where thread groups of a block leave the sums of a step for others.
struct ColumnExchange {
//@if kInnerReduction
  Real sums[kVectorColumns][kGroups / 2 * kGroupThreads + 1];
  Real vectors[kColumnSums][kColumnSegments ? kGroupThreads * kSteps : 1];  // of the row, where columns are segments
//@endif
};
//@end

//@section column_exchange_alone : column_exchange
struct ColumnShared : ColumnExchange {};
//@end

//@section column_exchange_shared : column_exchange
constexpr int kColumnsAtOnce = 32;  // a lane each
constexpr int kColumnWarps = kThreads / 32;

struct ColumnShared : ColumnExchange {
  Real of_warp[kColumnWarps][kColumnsAtOnce];  // of one sum
  unsigned arrival, complete;
};
//@end

//@section column_groups
// The first thread group ends with the sums of all: the upper half adds to the lower one, again and again.
__device__ __forceinline__ void merge_groups(Held (&held)[kSteps], int group, int thread, ColumnExchange& exchange) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int sum = 0; sum < kColumnSums; ++sum) {
#pragma unroll 1
      for (int groups = kGroups; groups > 1; groups -= groups / 2) {
        const int lower = groups - groups / 2;
        __syncthreads();
        if (group >= lower && group < groups) {
#pragma unroll
          for (int e = 0; e < kVectorColumns; ++e) exchange.sums[e][(group - lower) * kGroupThreads + thread] = held[step].sums[sum][e];
        }
        __syncthreads();
        if (group < groups / 2) {
#pragma unroll
//@if kColumnsAreSums
          for (int e = 0; e < kVectorColumns; ++e) held[step].sums[sum][e] += exchange.sums[e][group * kGroupThreads + thread];
//@else
          for (int e = 0; e < kVectorColumns; ++e)
            held[step].sums[sum][e] = combine_columns(sum, held[step].sums[sum][e], exchange.sums[e][group * kGroupThreads + thread]);
//@endif
        }
      }
    }
  }
}

//@end

//@section store_columns
// What is left of a step's columns, in accesses as wide as memory takes.
__device__ __forceinline__ void store_columns(Real* target, const Real (&sums)[kElements]) {
  constexpr int kWidth = kElements * static_cast<int>(sizeof(Real)) > 16 ? 16 / static_cast<int>(sizeof(Real)) : kElements;
  struct alignas(kWidth * sizeof(Real)) Several {
    Real value[kWidth];
  };
#pragma unroll
  for (int e = 0; e < kElements; e += kWidth) {
    Several several;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) several.value[i] = sums[e + i];
    *reinterpret_cast<Several*>(target + e) = several;
  }
}
//@end

//@section columns_of_elements : column_groups, store_columns
// Calls work(column, its sums) for the columns of the block, each in one thread.
template <class Work>
__device__ __forceinline__ void each_column(const Params& p, Held (&held)[kSteps], ColumnExchange& exchange, const Work& work) {
  const Place place = find_place(p, 0);
  merge_groups(held, place.group, place.thread, exchange);
  if (place.group > 0) return;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const Index first = number_of(place, 0, step) * kElements;
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (first + e >= p.columns_per_row) continue;
      Real sums[kColumnSums];
#pragma unroll
      for (int sum = 0; sum < kColumnSums; ++sum) sums[sum] = held[step].sums[sum][e];
      work(first + e, sums);
    }
  }
}

//@if kFull
// Leaves the sums of all the block's rows in memory, as each_column() would.
__device__ __forceinline__ void leave_full_columns(const Params& p, Held (&held)[kSteps], ColumnExchange& exchange, Real* partials) {
  const Place place = find_place(p, 0);
  merge_groups(held, place.group, place.thread, exchange);
  if (place.group > 0) return;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int sum = 0; sum < kColumnSums; ++sum)
      store_columns(partials + sum * p.columns_per_row + number_of(place, 0, step) * kElements, held[step].sums[sum]);
  }
}
//@endif
//@end

//@section columns_of_segments : column_groups, lanes
// Calls work(column, its sums) for the columns of the block, each in one thread: a column is a segment of the row, and the sums of its vectors meet in a warp.
template <class Work>
__device__ __forceinline__ void each_column(const Params& p, Held (&held)[kSteps], ColumnExchange& exchange, const Work& work) {
  const Place place = find_place(p, 0);
  merge_groups(held, place.group, place.thread, exchange);
  if (place.group == 0) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
#pragma unroll
      for (int sum = 0; sum < kColumnSums; ++sum) exchange.vectors[sum][number_of(place, 0, step)] = held[step].sums[sum][0];
    }
  }
  __syncthreads();
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
  for (Index column = static_cast<Index>(threadIdx.x) / 32; column < p.columns_per_row; column += kThreads / 32) {
    Real sums[kColumnSums];
#pragma unroll
    for (int sum = 0; sum < kColumnSums; ++sum) {
//@if kColumnsAreSums
      Real total = 0;
      for (Index vector = lane; vector < p.column_vectors; vector += 32) total += exchange.vectors[sum][column * p.column_vectors + vector];
      sums[sum] = sum_of_lanes<1, 32>(total);
//@else
      Real own = identity_of_column(sum);
      for (Index vector = lane; vector < p.column_vectors; vector += 32)
        own = combine_columns(sum, own, exchange.vectors[sum][column * p.column_vectors + vector]);
      sums[sum] = over_lanes<1, 32>(own, [sum](Real a, Real b) { return combine_columns(sum, a, b); });
//@endif
    }
    if (lane == 0) work(column, sums);
  }
}
//@end

//@section columns_of_rows_beside : lanes
// Calls work(column, its sums) for the columns of the block, each in one thread: neighbouring threads have rows side by side, and elements of one column in a
// step.
template <class Work>
__device__ __forceinline__ void each_column(const Params& p, Held (&held)[kSteps], ColumnExchange&, const Work& work) {
  const Place place = find_place(p, 0);
  const bool is_first = static_cast<int>(threadIdx.x) % kColumns == 0;
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    Real sums[kColumnSums];
#pragma unroll
//@if kColumnsAreSums
    for (int sum = 0; sum < kColumnSums; ++sum) sums[sum] = sum_of_lanes<1, kColumns>(held[step].sums[sum][0]);
//@else
    for (int sum = 0; sum < kColumnSums; ++sum)
      sums[sum] = over_lanes<1, kColumns>(held[step].sums[sum][0], [sum](Real a, Real b) { return combine_columns(sum, a, b); });
//@endif
    const Index column = number_of(place, 0, step);
    if (is_first && column < p.columns_per_row) work(column, sums);
  }
}
//@end

//@section columns_alone
// One block, or cluster, has all rows of its result.
__device__ __forceinline__ void finish_columns(const Params& p, const Uniforms& uniforms, Index result, Index, Held (&held)[kSteps], Shared& shared) {
  each_column(p, held, shared.columns, [&](Index column, const Real (&sums)[kColumnSums]) { write_column(p, uniforms, result, column, sums); });
}
//@end

//@section columns_of_blocks
// What the blocks have left of columns first … first + 31: each warp sums up every kColumnWarps-th block's, then one warp the warps'. Whoever came when,
// the order is the same.
__device__ __forceinline__ void sum_columns(const Params& p, const Uniforms& uniforms, Index first, ColumnShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const bool exists = first + lane < p.columns;
  const Index number = exists ? first + lane : 0;
  const Index result = number / p.columns_per_row;
  const Index column = number - result * p.columns_per_row;
//@if kColumnsAreSums
  Real sums[kColumnSums] = {};
//@else
  Real sums[kColumnSums];
#pragma unroll
  for (int sum = 0; sum < kColumnSums; ++sum) sums[sum] = identity_of_column(sum);
//@endif
  const Index left = p.blocks_per_result/*@if kColumnCluster > 1*/ / kColumnCluster/*@endif*/;  // sets of sums
  const volatile Real* partials = p.column_partials + result * left * (kColumnSums * p.columns_per_row) + column;
#pragma unroll 8
  for (Index block = warp; block < left; block += kColumnWarps) {
#pragma unroll
//@if kColumnsAreSums
    for (int sum = 0; sum < kColumnSums; ++sum) sums[sum] += partials[(block * kColumnSums + sum) * p.columns_per_row];
//@else
    for (int sum = 0; sum < kColumnSums; ++sum)
      sums[sum] = combine_columns(sum, sums[sum], partials[(block * kColumnSums + sum) * p.columns_per_row]);
//@endif
  }
#pragma unroll
  for (int sum = 0; sum < kColumnSums; ++sum) {
    __syncthreads();
    shared.of_warp[warp][lane] = sums[sum];
    __syncthreads();
//@if kColumnsAreSums
    for (int other = 1; warp == 0 && other < kColumnWarps; ++other) sums[sum] += shared.of_warp[other][lane];
//@else
    for (int other = 1; warp == 0 && other < kColumnWarps; ++other) sums[sum] = combine_columns(sum, sums[sum], shared.of_warp[other][lane]);
//@endif
  }
  if (warp == 0 && exists) write_column(p, uniforms, result, column, sums);
}
//@end

//@section end_columns : signals
constexpr int kColumnSpinLimit = 4096;                         // looks at the count: a few milliseconds
constexpr unsigned kOpen = 0, kLeft = 1, kClosed = 2;  // of what a block is to sum up

// The share of one block of those that sum up: every so many columns.
__device__ __forceinline__ void sum_share(const Params& p, const Uniforms& uniforms, Index share, ColumnShared& shared) {
#pragma unroll 1
  for (Index first = share * kColumnsAtOnce; first < p.columns; first += p.summing_blocks * kColumnsAtOnce) sum_columns(p, uniforms, first, shared);
}

// Whether all blocks have arrived. Whoever has waited too long makes space, since what it waits for may want its place: the last to arrive, who waits for
// nobody, does its share.
__device__ __forceinline__ bool wait_for_blocks(const Params& p, unsigned* state) {
  bool complete = false;
  for (int looks = 0; !complete && looks < kColumnSpinLimit; ++looks) complete = read_flag(p.column_signals) == gridDim.x;
  if (!complete) complete = atomicCAS(state, kOpen, kLeft) == kClosed;
  __threadfence();
  return complete;
}

// The block has left its sums. The last blocks to arrive wait for the others and sum up a share of the columns each.
__device__ __forceinline__ void end_columns(const Params& p, const Uniforms& uniforms, ColumnShared& own) {
  unsigned* states = p.column_signals + 1;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    own.arrival = atomicAdd(p.column_signals, 1u);
  }
  __syncthreads();
  const Index from_last = static_cast<Index>(gridDim.x - 1 - own.arrival);
  if (from_last >= p.summing_blocks) return;
  if (from_last > 0) {
    if (threadIdx.x == 0) own.complete = wait_for_blocks(p, &states[from_last]);
    __syncthreads();
    if (own.complete == 0) return;
    sum_share(p, uniforms, from_last, own);
    return;
  }
  __threadfence();
  sum_share(p, uniforms, 0, own);
  // All at once: one after the other, 127 of them took 45 µs of an H100.
  if (threadIdx.x == 0) own.complete = 0;
  __syncthreads();
#pragma unroll 1
  for (Index other = 1 + static_cast<Index>(threadIdx.x); other < p.summing_blocks; other += kThreads) {
    if (atomicCAS(&states[other], kOpen, kClosed) == kLeft) own.complete = 1;
  }
  __syncthreads();
  if (own.complete == 0) return;
#pragma unroll 1
  for (Index other = 1; other < p.summing_blocks; ++other) {
    if (read_flag(&states[other]) == kLeft) sum_share(p, uniforms, other, own);
  }
}
//@end

//@section columns_shared : columns_of_blocks, end_columns
__device__ __forceinline__ void finish_columns(const Params& p, const Uniforms& uniforms, Index result, Index share, Held (&held)[kSteps], Shared& shared) {
  ColumnShared& own = shared.columns;
  Real* partials = p.column_partials + (result * p.blocks_per_result + share) * (kColumnSums * p.columns_per_row);
//@if kInnerReduction && kFull && !kColumnSegments
  leave_full_columns(p, held, own, partials);
//@else
  each_column(p, held, own, [&](Index column, const Real (&sums)[kColumnSums]) {
#pragma unroll
    for (int sum = 0; sum < kColumnSums; ++sum) partials[sum * p.columns_per_row + column] = sums[sum];
  });
//@endif
  end_columns(p, uniforms, own);
}
//@end

//@section columns_in_clusters : column_groups, columns_of_blocks, end_columns
// What a warp has of one sum of one step: blocks of a cluster leave every kColumnCluster-th of these each, of all blocks.
constexpr int kShareThreads = kGroupThreads < 32 ? kGroupThreads : 32;
constexpr int kWarpShares = kGroupThreads / kShareThreads;
constexpr int kShares = kSteps * kColumnSums * kWarpShares;
constexpr int kOwnShares = (kShares + kColumnCluster - 1) / kColumnCluster;

// Where a block of the cluster puts what it has of a share of another: `other` counts all but that one.
__device__ __forceinline__ int place_of_share(int other, int share, int e, int lane) {
  return ((other * kOwnShares + share / kColumnCluster) * kElements + e) * kShareThreads + lane;
}

// Calls visit(step, sum, number) for the shares that a thread's warp has something of.
template <class Visit>
__device__ __forceinline__ void each_share(int warp, const Visit& visit) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
#pragma unroll
    for (int sum = 0; sum < kColumnSums; ++sum) visit(step, sum, (step * kColumnSums + sum) * kWarpShares + warp);
  }
}

// Each block of a cluster leaves a share of a row's sums, of all its blocks: so much less lies in memory, and is summed up.
__device__ __forceinline__ void finish_columns(const Params& p, const Uniforms& uniforms, Index result, Index share, Held (&held)[kSteps], Shared& shared) {
  extern __shared__ Real of_others[];
  ColumnShared& own = shared.columns;
  const Place place = find_place(p, 0);
  merge_groups(held, place.group, place.thread, own);
  const int rank = static_cast<int>(cluster_rank());
  const int warp = place.thread / kShareThreads;
  const int lane = place.thread % kShareThreads;
  cluster_wait();  // all blocks run
  if (place.group == 0) {
    each_share(warp, [&](int step, int sum, int number) {
      const int owner = number % kColumnCluster;
      if (owner == rank) return;
      const int other = rank < owner ? rank : rank - 1;
#pragma unroll
      for (int e = 0; e < kElements; ++e)
        *cluster_map(&of_others[place_of_share(other, number, e, lane)], static_cast<unsigned>(owner)) = held[step].sums[sum][e];
    });
  }
  cluster_sync();
  Real* partials = p.column_partials + (result * p.blocks_per_result + share) / kColumnCluster * (kColumnSums * p.columns_per_row);
  if (place.group == 0) {
    each_share(warp, [&](int step, int sum, int number) {
      if (number % kColumnCluster != rank) return;
      Real sums[kElements];
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        sums[e] = held[step].sums[sum][e];
#pragma unroll
        for (int other = 0; other < kColumnCluster - 1; ++other) {
//@if kColumnsAreSums
          sums[e] += of_others[place_of_share(other, number, e, lane)];
//@else
          sums[e] = combine_columns(sum, sums[e], of_others[place_of_share(other, number, e, lane)]);
//@endif
        }
      }
      store_columns(partials + sum * p.columns_per_row + number_of(place, 0, step) * kElements, sums);
    });
  }
  end_columns(p, uniforms, own);
}
//@end
