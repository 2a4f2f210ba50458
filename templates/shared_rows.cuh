// What blocks tell each other through memory: the skeletons of rows that many blocks share, and the end of reductions across rows. rows.cuh holds the
// walks over a block's own elements, and the skeletons of blocks that share nothing beyond a cluster.

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
template <class Level>
__device__ __forceinline__ Level read_fresh(const Level* source) {
  Level level;
  const volatile Real* words = reinterpret_cast<const volatile Real*>(source);
  Real* target = reinterpret_cast<Real*>(&level);
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(Level) / sizeof(Real)); ++i) target[i] = words[i];
  return level;
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
template <class Level>
__device__ __forceinline__ void merge_chunks(const Params& p, const Place& place, Slots<Level>& slots, const Level* partials, Level* finals, Index tile) {
  // Chunks of a thread whose loads are under way together: all blocks of the rows wait for this.
  constexpr int kAtOnce = kTileRows > 1 && kRows < 8 ? 8 / kRows : 1;
  Level level[kRows];
#pragma unroll 1
  for (Index chunk = place.thread; chunk < p.chunks; chunk += kTeam * kAtOnce) {
    Level parts[kAtOnce][kRows];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const Index other = chunk + i * kTeam < p.chunks ? chunk + i * kTeam : chunk;
#pragma unroll
      for (int k = 0; k < kRows; ++k) parts[i][k] = read_fresh(&partials[(tile * p.chunks + other) * kTileRows + tile_row(k)]);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (i > 0 && chunk + i * kTeam >= p.chunks) break;
#pragma unroll
      for (int k = 0; k < kRows; ++k) level[k].merge(parts[i][k]);
    }
  }
  __syncthreads();
  combine(place, level, slots);
  if (is_leader(place)) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) finals[tile * kTileRows + tile_row(k)] = level[k];
  }
}

// One walk over a chunk; true in the block that merged the row's accumulators.
template <Reuse kReuse, class Level>
__device__ __forceinline__ bool walk_chunk(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows], Across& across,
                                           Shared& shared, Slots<Level>& slots, Real* partial_words, Real* final_words, Index tile,
                                           Index chunk, unsigned* signals) {
  Level* partials = reinterpret_cast<Level*>(partial_words);
  Level* finals = reinterpret_cast<Level*>(final_words);
  Level level[kRows];
  accumulate_rounds<kReuse>(p, uniforms, place, chunk * p.rounds, (chunk + 1) * p.rounds, rows, level, across);
  combine(place, level, slots);
  if (is_leader(place)) {
#pragma unroll
    for (int k = 0; k < kRows; ++k) partials[(tile * p.chunks + chunk) * kTileRows + tile_row(k)] = level[k];
  }
  if (!is_last(&signals[0], p.chunks, shared.arrival)) return false;
  merge_chunks(p, place, slots, partials, finals, tile);
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) set_flag(&signals[1]);
  return true;
}

// What is known of the rows after `finals` of a level are. Where a block has many rows each is read once, and handed on through shared memory: all
// blocks of a tile want the same few lines of memory at the same time.
template <class Level>
__device__ __forceinline__ void take_level(const Params& p, const Uniforms& uniforms, const Real* final_words, Index tile, Row (&rows)[kRows],
                                           Slots<Level>& slots) {
  const Level* finals = reinterpret_cast<const Level*>(final_words) + tile * kTileRows;
  Level level[kRows];
  if constexpr (kRows > 1) {
    for (int row = static_cast<int>(threadIdx.x); row < kTileRows; row += kThreads) slots.of_row(row) = read_fresh(&finals[row]);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kRows; ++k) level[k] = slots.of_row(tile_row(k));
  } else {
    level[0] = read_fresh(&finals[tile_row(0)]);
  }
  Level::finish(level, p, uniforms, rows);
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
  int walk;
};

// Blocks take tickets; ticket by ticket the work is: the first walk over the chunks of tile 0, the first of tile 1, … and, p.lag tiles later, the next
// walk over tile 0, backwards, since what was read last is still in the L2 cache if not all is. A block only waits for smaller tickets, whose
// blocks run already, so that none waits for ever. Where there is one walk nobody waits, and blocks that run at the same time take tiles side by side:
// what they read is side by side in memory too.
__device__ __forceinline__ Share take_share(const Params& p, Shared& shared) {
  if constexpr (kWalks == 1) {
    const Index block = static_cast<Index>(blockIdx.x);
    const Index beside = tiles_beside(p);
    const Index group = block / (p.chunks * beside);
    const Index rest = block - group * (p.chunks * beside);
    const Index chunk = rest / beside;
    return {group * beside + rest - chunk * beside, chunk, 0};
  } else {
    if (threadIdx.x == 0) shared.ticket = atomicAdd(&p.signals[0], 1u);
    __syncthreads();
    const Index ticket = static_cast<Index>(shared.ticket);
    const Index round = ticket / (p.chunks * kWalks);
    const Index rest = ticket - round * (p.chunks * kWalks);
    const int walk = static_cast<int>(rest / p.chunks);
    const Index forward = rest - walk * p.chunks;
    return {round - walk * p.lag, walk % 2 == 0 ? forward : p.chunks - 1 - forward, walk};
  }
}

//@levels
// Many blocks share a row.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Share share = take_share(p, shared);
  if (share.tile < 0 || share.tile >= p.tiles) return;
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, share.tile);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  unsigned* signals = p.signals + 1 + share.tile * (2 * kWalks);
  run_walk(p, uniforms, place, rows, shared, share.tile, share.chunk, share.walk, signals);
}
//@end

//@section flagged
// Words that say themselves that they have come: each lies beside a flag in 8 bytes, which memory moves at once (PTX ISA, memory consistency model: of a
// vector each element is moved at once, here of 64 bits). Where they lay was zero at launch. So no fence orders anything, and who reads needs no
// other sign.
template <class Level>
struct alignas(16) Flagged {
  static constexpr int kWords = static_cast<int>(sizeof(Level) / 4);
  static constexpr int kPairs = (kWords + 1) / 2;
  unsigned long long words[2 * kPairs];

  __device__ __forceinline__ void put(const Level& level) {
    const unsigned* source = reinterpret_cast<const unsigned*>(&level);
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
  __device__ __forceinline__ bool take(Level& level) const {
    unsigned* target = reinterpret_cast<unsigned*>(&level);
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

// A share of `count` parts that other blocks left, `first` and every kStride-th after it: whoever came when, they merge in the same order. A part may be
// on its way still. kAtOnce of them are under way together, for which registers must be free.
template <int kStride, int kAtOnce, class Level>
__device__ __forceinline__ Level merge_parts(const Flagged<Level>* parts, Index first, Index count) {
  Level all;
#pragma unroll 1
  for (; first < count; first += kStride * kAtOnce) {
    Level level[kAtOnce];
    bool have_come = false;
    while (!have_come) {
      have_come = true;
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        if (first + kStride * i < count) have_come = parts[first + kStride * i].take(level[i]) && have_come;
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (first + kStride * i < count) all.merge(level[i]);
    }
  }
  return all;
}
//@end

//@section run_kept : signals, flagged, staged
// Blocks that share a row keep their parts in shared memory from the first walk to the last, and meet between: each leaves what it has
// accumulated, counts itself, and waits until all have. Devices start blocks in their order, so those of one row run at about the same time. Whoever has waited
// too long makes room, since what it waits for may want its place: it abandons its part, which the last to arrive, who waits for nobody,
// does after its own.
constexpr int kPatience = 4096;                                 // looks at the count: a few milliseconds
constexpr unsigned kTaken = 0, kAbandoned = 1, kFinished = 2;  // states of a part

// The first walk over a part.
template <class Level>
__device__ __forceinline__ void accumulate_part(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                                const Row (&rows)[kRows], Level (&level)[kRows]) {
  Across across;  // takes nothing before the last walk
  accumulate_staged(p, uniforms, place, chunk, held, rows, level, across);
}

// Warp 0 ends with what all threads of the block have accumulated.
template <class Level>
__device__ __forceinline__ void combine_part(Level& level, Slots<Level>& slots) {
  const int lane = static_cast<int>(threadIdx.x) & 31;
  merge_team_lanes(level);
  if (lane == 0) slots.of_warp[0][threadIdx.x / 32] = level;
  __syncthreads();
  if (threadIdx.x < 32) level = merged<kThreads / 32>(slots.of_warp[0], lane);
}

// Thread 0 counts this block as arrived and waits for the others; whether the row is complete, and in `arrival` how many came before.
__device__ __forceinline__ bool arrive(const Params& p, unsigned* arrivals, unsigned* state, unsigned& arrival) {
  const unsigned all = static_cast<unsigned>(p.chunks);
  const unsigned before = atomicAdd(arrivals, 1u);
  bool complete = false;
  for (int looks = 0; !complete && looks < kPatience; ++looks) complete = read_flag(arrivals) == all;
  if (!complete) complete = atomicCAS(state, kTaken, kAbandoned) == kFinished;
  arrival = before;
  return complete;
}

// True in all threads of a block whose row is complete; `level` then is what all of the row have accumulated. One warp reads that: parts of one row
// lie in few lines of the L2 cache, which all of its blocks want at the same time.
template <class Level>
__device__ __forceinline__ bool meet(const Params& p, Shared& shared, Slots<Level>& slots, const Flagged<Level>* parts, unsigned* arrivals,
                                     unsigned* state, Level& level) {
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) shared.complete = arrive(p, arrivals, state, shared.arrival);
    __syncwarp();
    if (shared.complete != 0) {
      Level all = merge_parts<32, 3>(parts, static_cast<Index>(threadIdx.x), p.chunks);
      all.template merge_lanes<1, 32>();
      if (threadIdx.x == 0) slots.of_warp[0][0] = all;
    }
  }
  __syncthreads();
  level = slots.of_warp[0][0];
  return shared.complete != 0;
}

// Whether anybody abandoned a part; who has not done so until now will find the row complete.
__device__ __forceinline__ bool is_abandoned(const Params& p, unsigned* states, unsigned& any) {
  __syncthreads();
  if (threadIdx.x == 0) any = 0;
  __syncthreads();
  for (Index chunk = static_cast<Index>(threadIdx.x); chunk < p.chunks; chunk += kThreads) {
    if (atomicCAS(&states[chunk], kTaken, kFinished) == kAbandoned) any = 1;
  }
  __syncthreads();
  return any != 0;
}

template <class Level>
__device__ __forceinline__ void run_part(const Params& p, Shared& shared, const Held& held, Flagged<Level>* partials, Slots<Level>& slots) {
  const Index block = static_cast<Index>(blockIdx.x);
  const Index tile = block / p.chunks;
  const Index own = block - tile * p.chunks;
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, tile);
  copy_staged(p, place, own, held);
  ask_ahead(p, p.chunks);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  Level level[kRows];
  accumulate_part(p, uniforms, place, own, held, rows, level);
  combine_part(level[0], slots);
  Flagged<Level>* parts = partials + tile * p.chunks;
  unsigned* states = p.states + tile * p.chunks;
  if (threadIdx.x == 0) parts[own].put(level[0]);
  if (!meet(p, shared, slots, parts, &p.signals[tile], &states[own], level[0])) return;
  Level::finish(level, p, uniforms, rows);
  const bool is_last = static_cast<Index>(shared.arrival) == p.chunks - 1;
  if (is_last) write_rows(p, place, rows);
  Across across;
  write_staged(p, uniforms, place, own, held, load_steady(p, locate(p, place, own, 0)), rows, across);
  end_across(p, uniforms, place, rows, across, shared, is_last, static_cast<int>(own));
  if (!is_last || !is_abandoned(p, states, shared.complete)) return;
#pragma unroll 1
  for (Index chunk = 0; chunk < p.chunks; ++chunk) {
    if (read_flag(&states[chunk]) != kAbandoned) continue;
    copy_staged(p, place, chunk, held);
    accumulate_part(p, uniforms, place, chunk, held, rows, level);  // for what is carried
    Across of_chunk;
    write_staged(p, uniforms, place, chunk, held, load_steady(p, locate(p, place, chunk, 0)), rows, of_chunk);
    end_across(p, uniforms, place, rows, of_chunk, shared, false, static_cast<int>(chunk));
  }
}

//@levels
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Piece* staged) {
  run_part(p, shared, Held{staged + threadIdx.x}, reinterpret_cast<Flagged<Level1>*>(p.partials_1), shared.level1);
}
//@end

//@section across
// Reductions across rows: every block leaves what it has seen in the workspace, and the one that comes last of its group merges all of it,
// in the order of the blocks.

// Thread 0 ends with what all threads of the block have seen: one warp merges what the warps leave, and the others are done.
__device__ __forceinline__ void combine_block(Across& across, Across (&of_warp)[kThreads / 32]) {
  constexpr int kWarps = kThreads / 32;
  constexpr int kMeet = kWarps > 16 ? 32 : kWarps > 8 ? 16 : kWarps > 4 ? 8 : kWarps > 2 ? 4 : 2;
  across.template merge_lanes<1, 32>();
  if constexpr (kWarps > 1) {
    if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x / 32] = across;
    __syncthreads();
    if (threadIdx.x < 32) {
      across = threadIdx.x < kWarps ? of_warp[threadIdx.x] : Across();
      across.template merge_lanes<1, kMeet>();
    }
  }
}
//@end

//@section across_shared : across, flagged
__device__ __forceinline__ void finish_across(const Params& p, const Uniforms& uniforms, const Place& place, Across& across, Shared& shared,
                                              Index group, Index part) {
  combine_block(across, shared.across);
  Flagged<Across>* parts = reinterpret_cast<Flagged<Across>*>(p.across_parts) + group * p.parts;
  if (threadIdx.x == 0) {
    parts[part].put(across);
    shared.arrival = atomicAdd(&p.across_arrivals[group], 1u);
  }
  __syncthreads();
  if (static_cast<Index>(shared.arrival) != p.parts - 1) return;
  across = merge_parts<kThreads, 5>(parts, static_cast<Index>(threadIdx.x), p.parts);
  combine_block(across, shared.across);
  if (threadIdx.x == 0) write_across(p, uniforms, place, across);
}
//@end

//@section across_alone : across
// One block has seen all of its group.
__device__ __forceinline__ void finish_across(const Params& p, const Uniforms& uniforms, const Place& place, Across& across, Shared& shared,
                                              Index, Index) {
  combine_block(across, shared.across);
  if (threadIdx.x == 0) write_across(p, uniforms, place, across);
}
//@end
