// What blocks tell each other through memory: the skeletons of rows that many blocks share, and the end of grid reductions. reduction.cuh holds the
// passes over a block's own elements, and the skeletons of blocks that share nothing beyond a cluster.

//@section signals
// Blocks tell each other through memory: data first, then a flag (CUDA C++ Programming Guide, memory fence functions). What other blocks wrote is
// read past the L1 cache, which may still hold the line from before.
__device__ __forceinline__ unsigned read_flag(const unsigned* flag) {
  return *reinterpret_cast<const volatile unsigned*>(flag);
}
__device__ __forceinline__ void set_flag(unsigned* flag) {
  __threadfence();
  *reinterpret_cast<volatile unsigned*>(flag) = 1;
}
template <class Stage>
__device__ __forceinline__ Stage read_fresh(const Stage* source) {
  Stage stage;
  const volatile Real* words = reinterpret_cast<const volatile Real*>(source);
  Real* target = reinterpret_cast<Real*>(&stage);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Stage) / sizeof(Real)); ++i) target[i] = words[i];
  return stage;
}

// True in all threads of the block that comes last of `count`; what the others wrote before is then to be seen.
__device__ __forceinline__ bool is_last(unsigned* arrivals, Index count, unsigned& shared_arrival) {
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) shared_arrival = atomicAdd(arrivals, 1u);
  __syncthreads();
  const bool last = static_cast<Index>(shared_arrival) == count - 1;
  if (last) __threadfence();
  return last;
}
//@end

//@section run_split : signals, rounds
// The block that comes last merges all chunks' accumulators; whoever came when, in the same order.
template <class Stage>
__device__ __forceinline__ void merge_chunks(const Params& p, const Place& place, Slots<Stage>& slots, const Stage* partials, Stage* finals, Index tile) {
//@if kTileRows > 1 && kRows < 8
  // Chunks of a thread whose loads are under way together: all blocks of the rows wait for this.
  constexpr int kAtOnce = 8 / kRows;
  Stage stage[kRows];
#pragma unroll 1
  for (Index chunk = place.thread; chunk < p.chunks; chunk += kGroupThreads * kAtOnce) {
    Stage loaded[kAtOnce][kRows];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Index other = chunk + i * kGroupThreads < p.chunks ? chunk + i * kGroupThreads : chunk;
#pragma unroll
      for (int k = 0; k < kRows; ++k) loaded[i][k] = read_fresh(&partials[(tile * p.chunks + other) * kTileRows + tile_row(k)]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (i > 0 && chunk + i * kGroupThreads >= p.chunks) break;
#pragma unroll
      for (int k = 0; k < kRows; ++k) stage[k].merge(loaded[i][k]);
    }
  }
//@else
  Stage stage[kRows];
#pragma unroll 1
  for (Index chunk = place.thread; chunk < p.chunks; chunk += kGroupThreads) {
    Stage loaded[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) loaded[k] = read_fresh(&partials[(tile * p.chunks + chunk) * kTileRows + tile_row(k)]);
#pragma unroll
    for (int k = 0; k < kRows; ++k) stage[k].merge(loaded[k]);
  }
//@endif
  __syncthreads();
  combine(place, stage, slots);
  if (is_leader(place)) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) finals[tile * kTileRows + tile_row(k)] = stage[k];
  }
}

// The round behind a chunk's last. A row's last chunk may have fewer, of which none is partial where all vectors exist.
__device__ __forceinline__ Index end_of_chunk(const Params& p, Index chunk) {
  const Index end = (chunk + 1) * p.rounds;
//@if kFull
  const Index all = p.row_length / (kSteps * kGroupThreads * (kRows > 1 ? 1 : kElements));
  return end < all ? end : all;
//@else
  return end;
//@endif
}

// One pass over a chunk; true in the block that merged the row's accumulators.
template <CacheHint kHint, class Stage>
__device__ __forceinline__ bool reduce_chunk(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows], GridStage& grid,
                                           Shared& shared, Slots<Stage>& slots, Real* partial_words, Real* final_words, Index tile,
                                           Index chunk, unsigned* signals) {
  Stage* partials = reinterpret_cast<Stage*>(partial_words);
  Stage* finals = reinterpret_cast<Stage*>(final_words);
  Stage stage[kRows];
  accumulate_rounds<kHint>(p, uniforms, place, chunk * p.rounds, end_of_chunk(p, chunk), rows, stage, grid);
  combine(place, stage, slots);
  if (is_leader(place)) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) partials[(tile * p.chunks + chunk) * kTileRows + tile_row(k)] = stage[k];
  }
  if (!is_last(&signals[0], p.chunks, shared.arrival)) return false;
  merge_chunks(p, place, slots, partials, finals, tile);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) set_flag(&signals[1]);
  return true;
}

// What is known of the rows after `finals` of a stage are. Where a block has many rows each is read once, and handed on through shared memory: all
// blocks of a tile want the same few lines of memory at the same time.
template <class Stage>
__device__ __forceinline__ void take_stage(const Params& p, const Uniforms& uniforms, const Real* final_words, Index tile, Row (&rows)[kRows],
                                           Slots<Stage>& slots) {
  const Stage* finals = reinterpret_cast<const Stage*>(final_words) + tile * kTileRows;
  Stage stage[kRows];
//@if kRows > 1
  for (int row = static_cast<int>(threadIdx.x); row < kTileRows; row += kThreads) slots.of_row(row) = read_fresh(&finals[row]);
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kRows; ++k) stage[k] = slots.of_row(tile_row(k));
//@else
  stage[0] = read_fresh(&finals[tile_row(0)]);
//@endif
  Stage::finish(stage, p, uniforms, rows);
}

__device__ __forceinline__ void wait_for(const unsigned* flag) {
  if (threadIdx.x == 0) {
    while (read_flag(flag) == 0) {
    }
    __threadfence();
  }
  __syncthreads();
}

// What a block has to do.
struct Share {
  Index tile, chunk;
  int pass;
};

// Blocks take tickets; ticket by ticket the work is: the first pass over the chunks of tile 0, the first of tile 1, … and, p.lag tiles later, the next
// pass over tile 0, in reverse order, since what was read last is still in the L2 cache if not all is. A block only waits for smaller tickets, whose
// blocks run already, so that none waits for ever. Where there is one pass nobody waits, and blocks that run at the same time take tiles side by side:
// what they read is side by side in memory too.
__device__ __forceinline__ Share take_share(const Params& p, Shared& shared) {
//@if kPasses == 1
  const Index block = static_cast<Index>(blockIdx.x);
  const Index beside = tiles_beside(p);
  const Index set = block / (p.chunks * beside);
  const Index rest = block - set * (p.chunks * beside);
  const Index chunk = rest / beside;
  return {set * beside + rest - chunk * beside, chunk, 0};
//@else
  if (threadIdx.x == 0) shared.ticket = atomicAdd(&p.signals[0], 1u);
  __syncthreads();
  const Index ticket = static_cast<Index>(shared.ticket);
  const Index round = ticket / (p.chunks * kPasses);
  const Index rest = ticket - round * (p.chunks * kPasses);
  const int pass = static_cast<int>(rest / p.chunks);
  const Index forward = rest - pass * p.chunks;
  return {round - pass * p.lag, pass % 2 == 0 ? forward : p.chunks - 1 - forward, pass};
//@endif
}

//@stages
// Many blocks share a row.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Share share = take_share(p, shared);
  if (share.tile < 0 || share.tile >= p.tiles) return;
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, share.tile);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  unsigned* signals = p.signals + 1 + share.tile * (2 * kPasses);
  run_pass(p, uniforms, place, rows, shared, share.tile, share.chunk, share.pass, signals);
}
//@end

//@section value_with_status
// Values with a status (decoupled look-back): each word lies beside a flag in 8 bytes, which memory moves at once (PTX ISA, memory consistency model: of a
// vector each element is moved at once, here of 64 bits). Where they lay was zero at launch. So no fence orders anything, and who reads needs no
// other sign.
template <class Stage>
struct alignas(16) ValueWithStatus {
  static constexpr int kWords = static_cast<int>(sizeof(Stage) / 4);
  static constexpr int kPairs = (kWords + 1) / 2;
  unsigned long long words[2 * kPairs];

  __device__ __forceinline__ void put(const Stage& stage) {
    const unsigned* source = reinterpret_cast<const unsigned*>(&stage);
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const unsigned first = source[2 * i];
      const unsigned second = 2 * i + 1 < kWords ? source[2 * i + 1] : 0u;
#ifdef __CUDACC__
      asm volatile(
          "{\n.reg .b64 one, other;\nmov.b64 one, {%1, %3};\nmov.b64 other, {%2, %3};\nst.relaxed.gpu.global.v2.b64 [%0], {one, other};\n}" ::"l"(
              &words[2 * i]),
          "r"(first), "r"(second), "r"(1)
          : "memory");
#else
      words[2 * i] = first | 1ull << 32;
      words[2 * i + 1] = second | 1ull << 32;
#endif
    }
  }
  // Whether all words have come.
  __device__ __forceinline__ bool take(Stage& stage) const {
    unsigned* target = reinterpret_cast<unsigned*>(&stage);
    bool all = true;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      unsigned first, second, first_flag, second_flag;
#ifdef __CUDACC__
      asm volatile(
          "{\n.reg .b64 one, other;\nld.relaxed.gpu.global.v2.b64 {one, other}, [%4];\nmov.b64 {%0, %1}, one;\nmov.b64 {%2, %3}, other;\n}"
          : "=r"(first), "=r"(first_flag), "=r"(second), "=r"(second_flag)
          : "l"(&words[2 * i])
          : "memory");
#else
      const volatile unsigned long long* source = &words[2 * i];
      const unsigned long long one = source[0], other = source[1];
      first = static_cast<unsigned>(one);
      first_flag = static_cast<unsigned>(one >> 32);
      second = static_cast<unsigned>(other);
      second_flag = static_cast<unsigned>(other >> 32);
#endif
      all = all && first_flag != 0 && second_flag != 0;
      target[2 * i] = first;
      if (2 * i + 1 < kWords) target[2 * i + 1] = second;
    }
    return all;
  }
};

// A share of `count` partials that other blocks left, `first` and every kStride-th after it: whoever came when, they merge in the same order. A chunk may be
// on its way still. kAtOnce of them are under way together, for which registers must be free.
template <int kStride, int kAtOnce, class Stage>
__device__ __forceinline__ Stage merge_partials(const ValueWithStatus<Stage>* partials, Index first, Index count) {
  Stage all;
#pragma unroll 1
  for (; first < count; first += kStride * kAtOnce) {
    Stage stage[kAtOnce];
    bool have_come = false;
    while (!have_come) {
      have_come = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + kStride * i < count) have_come = partials[first + kStride * i].take(stage[i]) && have_come;
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + kStride * i < count) all.merge(stage[i]);
    }
  }
  return all;
}
//@end

//@section run_split_resident : signals, value_with_status, staged
// Blocks that share a row hold their chunks in shared memory from the first pass to the last, and meet between: each leaves what it has
// accumulated, counts itself, and waits until all have. Devices start blocks in their order, so those of one row run at about the same time. Whoever has waited
// too long makes space, since what it waits for may want its place: it abandons its chunk, which the last to arrive, who waits for nobody,
// does after its own.
constexpr int kSpinLimit = 4096;                                 // looks at the count: a few milliseconds
constexpr unsigned kTaken = 0, kAbandoned = 1, kFinished = 2;  // states of a chunk

// The first pass over a chunk.
template <class Stage>
__device__ __forceinline__ void accumulate_chunk(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                                const Row (&rows)[kRows], Stage (&stage)[kRows]) {
  GridStage grid;  // takes nothing before the last pass
  accumulate_staged(p, uniforms, place, chunk, held, rows, stage, grid);
}

// Warp 0 ends with what all threads of the block have accumulated.
template <class Stage>
__device__ __forceinline__ void combine_chunk(Stage& stage, Slots<Stage>& slots) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  merge_group_lanes(stage);
  if (lane == 0) slots.of_warp[0][threadIdx.x / 32] = stage;
  __syncthreads();
  if (threadIdx.x < 32) stage = merged<kThreads / 32>(slots.of_warp[0], lane);
}

// Thread 0 counts this block as arrived and waits for the others; whether the row is complete, and in `arrival` how many came before.
__device__ __forceinline__ bool arrive(const Params& p, unsigned* arrivals, unsigned* state, unsigned& arrival) {
  const unsigned all = static_cast<unsigned>(p.chunks);
  const unsigned before = atomicAdd(arrivals, 1u);
  bool complete = false;
#pragma unroll 1
  for (int looks = 0; !complete && looks < kSpinLimit; ++looks) complete = read_flag(arrivals) == all;
  if (!complete) complete = atomicCAS(state, kTaken, kAbandoned) == kFinished;
  arrival = before;
  return complete;
}

// Leaves what the block has accumulated. True in all threads of a block whose row is complete; `stage` then is what all of the row have accumulated.
// One warp reads that: partials of one row lie in few lines of the L2 cache, which all of its blocks want at the same time.
template <class Stage>
__device__ __forceinline__ bool meet(const Params& p, Shared& shared, Slots<Stage>& slots, ValueWithStatus<Stage>* partials, Index own,
                                     unsigned* arrivals, unsigned* state, Stage& stage) {
  combine_chunk(stage, slots);
  if (threadIdx.x == 0) partials[own].put(stage);
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) shared.complete = arrive(p, arrivals, state, shared.arrival);
    __syncwarp();
    if (shared.complete != 0) {
      Stage all = merge_partials<32, 3>(partials, static_cast<Index>(threadIdx.x), p.chunks);
      all.template merge_lanes<1, 32>();
      if (threadIdx.x == 0) slots.of_warp[0][0] = all;
    }
  }
  __syncthreads();
  stage = slots.of_warp[0][0];
  return shared.complete != 0;
}

// Whether anybody abandoned a chunk; who has not done so until now will find the row complete.
__device__ __forceinline__ bool is_abandoned(const Params& p, unsigned* states, unsigned& any) {
  __syncthreads();
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
#pragma unroll 1
  for (Index chunk = static_cast<Index>(threadIdx.x); chunk < p.chunks; chunk += kThreads) {
    if (atomicCAS(&states[chunk], kTaken, kFinished) == kAbandoned) any = 1;
  }
  __syncthreads();
  return any != 0;
}

template <class Stage>
__device__ __forceinline__ void run_chunk(const Params& p, Shared& shared, const Held& held, ValueWithStatus<Stage>* partials, Slots<Stage>& slots) {
  const Index block = static_cast<Index>(blockIdx.x);
  const Index tile = block / p.chunks;
  const Index own = block - tile * p.chunks;
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, tile);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  unsigned* states = p.states + tile * p.chunks;
  bool is_last = false;
  Index next = 0;  // of the chunks that the last to arrive has not looked at
#pragma unroll 1
  for (Index chunk = own;;) {
    const bool is_own = chunk == own;
    copy_staged(p, place, chunk, held);
    if (is_own) prefetch_later_block(p, p.chunks);
    Stage stage[kRows];
    accumulate_chunk(p, uniforms, place, chunk, held, rows, stage);  // of an abandoned chunk: for what is saved
    if (is_own) {
      if (!meet(p, shared, slots, partials + tile * p.chunks, own, &p.signals[tile], &states[own], stage[0])) return;
      Stage::finish(stage, p, uniforms, rows);
      is_last = static_cast<Index>(shared.arrival) == p.chunks - 1;
//@if kHasRowResults
      if (is_last) write_rows(p, place, rows);
//@endif
    }
    GridStage grid;
    write_staged(p, uniforms, place, chunk, held, /*@if kHasHoisted*/load_hoisted(p, locate(p, place, chunk, 0)), /*@endif*/rows, grid);
//@if kColumnRuns
    leave_segments(p, uniforms, place, chunk, held, rows);
//@endif
//@if kHasGrid
    end_grid(p, uniforms, place, rows, grid, shared, is_last && is_own, static_cast<int>(chunk));
//@endif
    if (!is_last || (is_own && !is_abandoned(p, states, shared.complete))) return;
#pragma unroll 1
    while (next < p.chunks && read_flag(&states[next]) != kAbandoned) ++next;
    if (next == p.chunks) return;
    chunk = next++;
  }
}

//@stages
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Chunk16* staged) {
  run_chunk(p, shared, Held{staged + threadIdx.x}, reinterpret_cast<ValueWithStatus<Stage1>*>(p.partials_1), shared.stage1);
//@if kColumnRuns
  end_columns(p, Uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/}, shared.columns);
//@endif
}
//@end

//@section grid
// Grid reductions: every block leaves what it has seen in the workspace, and the one that comes last of a result merges
// all of it, in the order of the blocks.

// Thread 0 ends with what all threads of the block have seen: one warp merges what the warps leave, and the others are done.
__device__ __forceinline__ void combine_block(GridStage& grid, GridStage (&of_warp)[kThreads / 32]) {
  grid.template merge_lanes<1, 32>();
//@if kThreads > 32
  constexpr int kPartialGrids = kThreads / 32;
  constexpr int kMeeting = kPartialGrids > 16 ? 32 : kPartialGrids > 8 ? 16 : kPartialGrids > 4 ? 8 : kPartialGrids > 2 ? 4 : 2;
  if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x / 32] = grid;
  __syncthreads();
  if (threadIdx.x < 32) {
    grid = threadIdx.x < kPartialGrids ? of_warp[threadIdx.x] : GridStage();
    grid.template merge_lanes<1, kMeeting>();
  }
//@endif
}
//@end

//@section grid_shared : grid, value_with_status
__device__ __forceinline__ void finish_grid(const Params& p, const Uniforms& uniforms, const Place& place, GridStage& grid, Shared& shared,
                                              Index result, Index block) {
  combine_block(grid, shared.grid);
  ValueWithStatus<GridStage>* partials = reinterpret_cast<ValueWithStatus<GridStage>*>(p.grid_partials) + result * p.blocks_per_result;
  if (threadIdx.x == 0) {
    partials[block].put(grid);
    shared.arrival = atomicAdd(&p.grid_arrivals[result], 1u);
  }
  __syncthreads();
  if (static_cast<Index>(shared.arrival) != p.blocks_per_result - 1) return;
  grid = merge_partials<kThreads, 5>(partials, static_cast<Index>(threadIdx.x), p.blocks_per_result);
  combine_block(grid, shared.grid);
  if (threadIdx.x == 0) write_grid(p, uniforms, place, grid);
}
//@end

//@section grid_alone : grid
// One block has seen all of its result.
__device__ __forceinline__ void finish_grid(const Params& p, const Uniforms& uniforms, const Place& place, GridStage& grid, Shared& shared,
                                              Index, Index) {
  combine_block(grid, shared.grid);
  if (threadIdx.x == 0) write_grid(p, uniforms, place, grid);
}
//@end
