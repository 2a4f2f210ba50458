// The skeletons of chains with reductions: what a team, or blocks that share rows, do walk by walk. places.cuh says whose elements are whose.
//
// The generated part: Held (a thread's operands and carried values, one per step), Row (what is known per row), Level1 … (accumulators of
// one walk), write_walk (the last walk), write_rows, and Across (accumulators across rows).

//@section steps
// Whether kCount groups from `step` on are all whole and, where kLines (an operand needs coordinates), straight. Neighbouring threads nearly always agree,
// and what is written for such groups alone is short enough for the instruction cache. `chunk` counts rounds of kSteps steps.
template <int kCount, bool kLines>
__device__ __forceinline__ bool are_straight(const Params& p, const Place& place, Index chunk, int step) {
  if constexpr (kMixed) return false;
  bool straight = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const Position position = locate(p, place, chunk, step + i);
    straight = straight && (kLines ? position.straight : position.whole);
  }
  return straight;
}

// Whether any element of kGroup groups exists: the later ones of a thread lie behind the first.
__device__ __forceinline__ bool is_any(const Params& p, const Place& place, Index chunk, int step) {
  return locate(p, place, chunk, step).end > 0;
}

// One round: all loads before the first use.
template <bool kStraight, Reuse kReuse>
__device__ __forceinline__ void load_round(const Params& p, const Place& place, Index chunk, Held (&held)[kSteps]) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].template load<kReuse>(p, known<kStraight>(locate(p, place, chunk, step)));
}

// The accumulators take kGroup steps; `held` is the first.
template <bool kStraight, class Level, class Group>
__device__ __forceinline__ void accumulate_group(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, int step,
                                                 Group held, const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
  Position positions[kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) positions[g] = known<kStraight>(locate(p, place, chunk, step + g));
  Level::accumulate(level, p, uniforms, positions, held, rows, across);
}

template <bool kStraight, class Level>
__device__ __forceinline__ void accumulate_round(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk,
                                                 Held (&held)[kSteps], const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
#pragma unroll
  for (int step = 0; step < kSteps; step += kGroup)
    accumulate_group<kStraight>(p, uniforms, place, chunk, step, &held[step], rows, level, across);
}
//@end

//@section write_steps : steps
template <bool kStraight>
__device__ __forceinline__ void write_round(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, Held (&held)[kSteps],
                                            const Row (&rows)[kRows], Across& across) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    write_walk(p, uniforms, known<kStraight>(locate(p, place, chunk, step)), held[step], rows, across);
}

__device__ __forceinline__ void write_round(const Params& p, const Uniforms& uniforms, const Place& place, bool straight, Held (&held)[kSteps],
                                            const Row (&rows)[kRows], Across& across, Shared&) {
  if (straight) {
    write_round<true>(p, uniforms, place, 0, held, rows, across);
  } else {
    write_round<false>(p, uniforms, place, 0, held, rows, across);
  }
}
//@end

//@section rounds : steps
// Rounds first … last - 1 of a walk over rows that nobody holds. Where groups are not straight, step by step.
template <Reuse kReuse, class Level>
__device__ __forceinline__ void accumulate_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                                  const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (are_straight<kSteps, kLoadGathers || Level::kGathers>(p, place, round, 0)) {
      Held held[kSteps];
      load_round<true, kReuse>(p, place, round, held);
      accumulate_round<true>(p, uniforms, place, round, held, rows, level, across);
#pragma unroll
      for (int k = 0; k < kRows; ++k) level[k].recenter();
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps && is_any(p, place, round, step); step += kGroup) {
        Held held[kGroup];
#pragma unroll
        for (int g = 0; g < kGroup; ++g) held[g].template load<kReuse>(p, locate(p, place, round, step + g));
        accumulate_group<false>(p, uniforms, place, round, step, held, rows, level, across);
      }
    }
  }
}
//@end

//@section write_rounds : rounds, write_steps
// `prepare` finds out what is known of the rows, while the first round's loads are on their way.
template <class Prepare>
__device__ __forceinline__ void write_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                             const Row (&rows)[kRows], Across& across, Shared&, const Prepare& prepare) {
  constexpr Reuse kLast = kStreams ? Reuse::never : Reuse::usual;
  constexpr bool kLines = kLoadGathers || kWriteGathers;
  bool straight = are_straight<kSteps, kLines>(p, place, first, 0);
  Held held[kSteps];
  if (straight) load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (round > first) {
      straight = are_straight<kSteps, kLines>(p, place, round, 0);
      if (straight) load_round<true, kLast>(p, place, round, held);
    }
    if (straight) {
      write_round<true>(p, uniforms, place, round, held, rows, across);
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps && is_any(p, place, round, step); ++step) {
        const Position position = locate(p, place, round, step);
        Held one;
        one.template load<kLast>(p, position);
        write_walk(p, uniforms, position, one, rows, across);
      }
    }
  }
}
//@end

//@section run_team : steps
// One walk over what the team holds.
template <class Level>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, bool straight, Held (&held)[kSteps],
                                       Row (&rows)[kRows], Across& across, Slots<Level>& slots) {
  Level level[kRows];
  if (straight) {
    accumulate_round<true>(p, uniforms, place, 0, held, rows, level, across);
  } else {
    accumulate_round<false>(p, uniforms, place, 0, held, rows, level, across);
  }
  combine(place, level, slots);
  Level::finish(level, p, uniforms, rows);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].forget_uses();
}

//@levels
// The team reads its rows once, agrees on the accumulators level by level, and writes.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  if constexpr (kCluster > 1) cluster_begin();
  const bool straight = are_straight<kSteps, kGathers>(p, place, 0, 0);
  Held held[kSteps];
  if (straight) {
    load_round<true, Reuse::usual>(p, place, 0, held);
  } else {
    load_round<false, Reuse::usual>(p, place, 0, held);
  }
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  if constexpr (kCluster > 1) cluster_wait();
  Across across;
  reduce_levels(p, uniforms, place, straight, held, rows, across, shared);
  if constexpr (kWritesWalk) write_round(p, uniforms, place, straight, held, rows, across, shared);
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, place.rank);
}
//@end

//@section staged : steps
// Rows that are kept in shared memory: threads copy their groups there on their own (cp.async needs no registers, so that many are under way)
// and read back what they copied themselves, so that nobody waits for others. The first batch is walked while the others are on their way.
constexpr int kUnrolled = kSteps % 4 == 0 ? 4 : kSteps % 2 == 0 ? 2 : 1;
constexpr int kBatch = kUnrolled > kGroup ? kUnrolled : kGroup;  // steps

__device__ __forceinline__ void end_of_batch() {
#ifdef __CUDACC__
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
__device__ __forceinline__ void wait_for_all_but() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}
// `left` batches may still be on their way.
__device__ __forceinline__ void wait_for_batch(int left) {
  if (left == 0) {
    wait_for_all_but<0>();
  } else if (left == 1) {
    wait_for_all_but<1>();
  } else if (left == 2) {
    wait_for_all_but<2>();
  } else {
    wait_for_all_but<3>();
  }
}

// A thread's groups of a chunk, where all of them are whole and, if kLines, in one line: what tells one from the next is a number.
struct Line {
  Position first;
  bool exists;
  __device__ __forceinline__ Position at(int step) const {
    Position position = known<true>(first);
    position.linear += step * (kBetween * kElements);
    position.at[kCoordinates - 1] += step * (kBetween * kElements);
    return position;
  }
};
template <bool kLines>
__device__ __forceinline__ Line find_line(const Params& p, const Place& place, Index chunk) {
  const Position first = locate(p, place, chunk, 0);
  const Position last = locate(p, place, chunk, kSteps - 1);
  const bool same = last.at[kCoordinates - 1] - first.at[kCoordinates - 1] == (kSteps - 1) * (kBetween * kElements);
  return {first, first.whole && last.whole && (!kLines || kReduced == 1 || (same && last.straight))};
}

// Calls work(step, position) for all steps of a chunk: kUnrolled at a time where groups are straight; then done(steps so far).
template <bool kLines, class Work, class Done>
__device__ __forceinline__ void each_step(const Params& p, const Place& place, Index chunk, const Work& work, const Done& done) {
  if (const Line line = find_line<kLines>(p, place, chunk); line.exists) {
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kUnrolled) {
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) work(first + i, line.at(first + i));
      done(first + kUnrolled);
    }
    return;
  }
#pragma unroll 1
  for (int first = 0; first < kSteps; first += kUnrolled) {
    if (are_straight<kUnrolled, kLines>(p, place, chunk, first)) {
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) work(first + i, known<true>(locate(p, place, chunk, first + i)));
    } else {
#pragma unroll 1
      for (int i = 0; i < kUnrolled; ++i) {
        const Position position = locate(p, place, chunk, first + i);
        if (position.end > position.begin) work(first + i, position);
      }
    }
    done(first + kUnrolled);
  }
}

__device__ __forceinline__ void copy_staged(const Params& p, const Place& place, Index chunk, const Held& held) {
  each_step<kLoadGathers>(
      p, place, chunk, [&](int step, const Position& position) { held.at(step).template load<Reuse::usual>(p, position); },
      [&](int steps) {
        if (kBatch == kUnrolled || steps % kBatch == 0) end_of_batch();
      });
}

template <class Level>
__device__ __forceinline__ void accumulate_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                                  const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
  const Line line = find_line<Level::kGathers>(p, place, chunk);
#pragma unroll 1
  for (int batch = 0; batch < kSteps; batch += kBatch) {
    wait_for_batch((kSteps - 1 - batch) / kBatch);
    if (line.exists) {
#pragma unroll 1
      for (int step = batch; step < batch + kBatch; step += kGroup) {
        Position positions[kGroup];
#pragma unroll
        for (int g = 0; g < kGroup; ++g) positions[g] = line.at(step + g);
        Level::accumulate(level, p, uniforms, positions, held.at(step), rows, across);
      }
      continue;
    }
#pragma unroll 1
    for (int step = batch; step < batch + kBatch; step += kGroup) {
      if (are_straight<kGroup, Level::kGathers>(p, place, chunk, step)) {
        accumulate_group<true>(p, uniforms, place, chunk, step, held.at(step), rows, level, across);
      } else if (is_any(p, place, chunk, step)) {
        accumulate_group<false>(p, uniforms, place, chunk, step, held.at(step), rows, level, across);
      }
    }
  }
}

__device__ __forceinline__ void write_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                             const Row (&rows)[kRows], Across& across) {
  each_step<kWriteGathers>(
      p, place, chunk, [&](int step, const Position& position) { write_walk(p, uniforms, position, held.at(step), rows, across); },
      [](int) {});
}
//@end

//@section run_staged : staged
template <class Level>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, const Held& held, Row (&rows)[kRows],
                                       Across& across, Slots<Level>& slots) {
  Level level[kRows];
  accumulate_staged(p, uniforms, place, 0, held, rows, level, across);
  combine(place, level, slots);
  Level::finish(level, p, uniforms, rows);
}

//@levels
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Piece* staged) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  if constexpr (kCluster > 1) cluster_begin();
  const Held held{staged + threadIdx.x};
  copy_staged(p, place, 0, held);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  if constexpr (kCluster > 1) cluster_wait();
  Across across;
  reduce_levels(p, uniforms, place, held, rows, across, shared);
  if constexpr (kWritesWalk) write_staged(p, uniforms, place, 0, held, rows, across);
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, place.rank);
}
//@end

//@section run_loop : rounds
// One walk over rows that no team holds: kSteps steps at a time.
template <class Level>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows],
                                       Across& across, Slots<Level>& slots) {
  Level level[kRows];
  accumulate_rounds<Reuse::usual>(p, uniforms, place, 0, p.chunks, rows, level, across);
  combine(place, level, slots);
  Level::finish(level, p, uniforms, rows);
}

//@levels
// A block walks its rows once per level, and once more for results that vary within them.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  Across across;
  reduce_levels(p, uniforms, place, rows, across, shared);
  if constexpr (kWritesWalk) write_rounds(p, uniforms, place, 0, p.chunks, rows, across, shared, [] {});
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, 0);
}
//@end

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

// A thread's share of `count` parts that other blocks left: whoever came when, they merge in the same order.
template <class Level>
__device__ __forceinline__ Level merge_fresh(const Level* parts, Index count) {
  Level all;
  for (Index i = static_cast<Index>(threadIdx.x); i < count; i += kThreads) all.merge(read_fresh(&parts[i]));
  return all;
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

//@levels
// Many blocks share a row. Blocks take tickets; ticket by ticket the work is: the first walk over the chunks of tile 0, the first of tile 1, … and,
// p.lag tiles later, the next walk over tile 0, backwards, since what was read last is still in the L2 cache if not all is. A block only waits
// for smaller tickets, whose blocks run already, so that none waits for ever.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  if (threadIdx.x == 0) shared.ticket = atomicAdd(&p.signals[0], 1u);
  __syncthreads();
  const Index ticket = static_cast<Index>(shared.ticket);
  const Index round = ticket / (p.chunks * kWalks);
  const Index rest = ticket - round * (p.chunks * kWalks);
  const int walk = static_cast<int>(rest / p.chunks);
  const Index forward = rest - walk * p.chunks;
  const Index chunk = walk % 2 == 0 ? forward : p.chunks - 1 - forward;
  const Index tile = round - walk * p.lag;
  if (tile < 0 || tile >= p.tiles) return;
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, tile);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  unsigned* signals = p.signals + 1 + tile * (2 * kWalks);
  run_walk(p, uniforms, place, rows, shared, tile, chunk, walk, signals);
}
//@end

//@section run_kept : signals, staged
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
  level.template merge_lanes<1, 32>();
  if (lane == 0) slots.of_warp[0][threadIdx.x / 32] = level;
  __syncthreads();
  if (threadIdx.x >= 32) return;
  Level total;
  if (lane < kThreads / 32) total = slots.of_warp[0][lane];
  total.template merge_lanes<1, 32>();
  level = total;
}

// Thread 0 counts this block as arrived and waits for the others; whether the row is complete, and in `arrival` how many came before.
__device__ __forceinline__ bool arrive(const Params& p, unsigned* arrivals, unsigned* state, unsigned& arrival) {
  *state = kTaken;
  __threadfence();
  arrival = atomicAdd(arrivals, 1u);
  const unsigned all = static_cast<unsigned>(p.chunks);
  bool complete = arrival == all - 1;
  for (int looks = 0; !complete && looks < kPatience; ++looks) complete = read_flag(arrivals) == all;
  if (!complete) complete = atomicCAS(state, kTaken, kAbandoned) == kFinished;
  __threadfence();
  return complete;
}

// True in all threads of a block whose row is complete; `level` then is what all of the row have accumulated. One warp reads that: parts of one row
// lie in few lines of the L2 cache, which all of its blocks want at the same time.
template <class Level>
__device__ __forceinline__ bool meet(const Params& p, Shared& shared, Slots<Level>& slots, const Level* parts, unsigned* arrivals,
                                     unsigned* state, Level& level) {
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) shared.complete = arrive(p, arrivals, state, shared.arrival);
    __syncwarp();
    if (shared.complete != 0) {
      Level all;
      for (Index i = static_cast<Index>(threadIdx.x); i < p.chunks; i += 32) all.merge(read_fresh(&parts[i]));
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
__device__ __forceinline__ void run_part(const Params& p, Shared& shared, const Held& held, Level* partials, Slots<Level>& slots) {
  const Index block = static_cast<Index>(blockIdx.x);
  const Index tile = block / p.chunks;
  const Index own = block - tile * p.chunks;
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, tile);
  copy_staged(p, place, own, held);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  Level level[kRows];
  accumulate_part(p, uniforms, place, own, held, rows, level);
  combine_part(level[0], slots);
  Level* parts = partials + tile * p.chunks;
  unsigned* states = p.states + tile * p.chunks;
  if (threadIdx.x == 0) parts[own] = level[0];
  if (!meet(p, shared, slots, parts, &p.signals[tile], &states[own], level[0])) return;
  Level::finish(level, p, uniforms, rows);
  const bool is_last = static_cast<Index>(shared.arrival) == p.chunks - 1;
  if (is_last) write_rows(p, place, rows);
  Across across;
  write_staged(p, uniforms, place, own, held, rows, across);
  end_across(p, uniforms, place, rows, across, shared, is_last, static_cast<int>(own));
  if (!is_last || !is_abandoned(p, states, shared.complete)) return;
#pragma unroll 1
  for (Index chunk = 0; chunk < p.chunks; ++chunk) {
    if (read_flag(&states[chunk]) != kAbandoned) continue;
    copy_staged(p, place, chunk, held);
    accumulate_part(p, uniforms, place, chunk, held, rows, level);  // for what is carried
    Across of_chunk;
    write_staged(p, uniforms, place, chunk, held, rows, of_chunk);
    end_across(p, uniforms, place, rows, of_chunk, shared, false, static_cast<int>(chunk));
  }
}

//@levels
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Piece* staged) {
  run_part(p, shared, Held{staged + threadIdx.x}, reinterpret_cast<Level1*>(p.partials_1), shared.level1);
}
//@end

//@section across : signals
// Reductions across rows: every block leaves what it has seen in the workspace, and the one that comes last of its group merges all of it,
// in the order of the blocks.
__device__ __forceinline__ void combine_block(Across& across, Across (&of_warp)[kThreads / 32]) {
  across.template merge_lanes<1, 32>();
  if ((threadIdx.x & 31) == 0) of_warp[threadIdx.x / 32] = across;
  __syncthreads();
  across = of_warp[0];
#pragma unroll
  for (int warp = 1; warp < kThreads / 32; ++warp) across.merge(of_warp[warp]);
  __syncthreads();
}
//@end

//@section across_shared : across
__device__ __forceinline__ void finish_across(const Params& p, const Uniforms& uniforms, const Place& place, Across& across, Shared& shared,
                                              Index group, Index part) {
  combine_block(across, shared.across);
  Across* parts = reinterpret_cast<Across*>(p.across_parts) + group * p.parts;
  if (threadIdx.x == 0) parts[part] = across;
  if (!is_last(&p.across_arrivals[group], p.parts, shared.arrival)) return;
  across = merge_fresh(parts, p.parts);
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
