// The skeletons of chains with reductions: who shares a row, who reads what, and how a team agrees on a sum. The space's dimensions stand in
// three sections: kept ones outside (kOuter), those of the row (kReduced), kept ones inside (kInner, none if rows lie along memory).
//
//   along   a thread's group of elements belongs to one row       team: kTeam neighbouring threads, times kCluster blocks; kInterleaved: threads
//           kThreads / kTeam apart, so that neighbours read neighbouring rows, whose groups lie side by side
//   across  a thread's group belongs to kElements rows side by    team: kTeam threads kColumns apart, times kCluster blocks
//           side, and the row is walked in steps across memory; kBeside: elements of a group lie so far apart (kColumns where rows begin
//           at any address, so that neighbouring threads move neighbouring elements)
//
// The generated part: Held (a thread's operands and carried values, one per step), Row (what is known per row), Level1 … (accumulators of
// one walk), write_walk (the last walk), write_rows, and Across (accumulators
// across rows).

//@section row_position : space
// A group of kElements elements of one thread, kBeside apart.
struct Position {
  Index linear;            // of the group's first element, which need not exist
  Index at[kCoordinates];  // coordinates of the first element that exists
  int begin, end;          // elements begin … end - 1 exist
  bool whole;              // all of them do
  bool straight;           // and they lie in one line of the innermost dimension
};

// A group that is known to be straight, so that the code for others falls away.
template <bool kStraight>
__device__ __forceinline__ Position known(Position position) {
  if constexpr (kStraight) {
    position.begin = 0;
    position.end = kElements;
    position.whole = position.straight = true;
  }
  return position;
}

// Coordinates kFirst … kFirst + kCount - 1 of the number `n`, the last the fastest.
template <int kFirst, int kCount>
__device__ __forceinline__ void split(Index n, const Space& space, Index (&at)[kCoordinates]) {
#pragma unroll
  for (int d = kFirst + kCount - 1; d > kFirst; --d) {
    const Index quotient = divide(n, space.divisors[d]);
    at[d] = n - quotient * space.extents[d];
    n = quotient;
  }
  if constexpr (kCount > 0) at[kFirst] = n;
}
//@end

//@section cluster
// Blocks of a cluster reach each other's shared memory (PTX ISA, barrier.cluster and mapa; sm_90). Arriving is apart from waiting: no block
// may write to another before that one runs, and meanwhile loads are on their way.
#ifdef __CUDACC__
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}
template <class T>
__device__ __forceinline__ T* cluster_map(T* shared_address, unsigned rank) {
  T* mapped;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(mapped) : "l"(shared_address), "r"(rank));
  return mapped;
}
#endif
//@end

//@section no_cluster
__device__ __forceinline__ unsigned cluster_rank() { return 0; }
__device__ __forceinline__ void cluster_arrive() {}
__device__ __forceinline__ void cluster_wait() {}
__device__ __forceinline__ void cluster_sync() {}
template <class T>
__device__ __forceinline__ T* cluster_map(T* shared_address, unsigned) {
  return shared_address;
}
//@end

//@section place_along : row_position
// Which row a thread works for, and its number among those that share it.
struct Place {
  Index row;               // kept elements outside, as one number
  Index start;             // linear index of the row's first element
  Index frame;             // elements by which the first group begins before the row
  Index at[kCoordinates];  // outer coordinates
  int thread;              // in the team of this block
  int rank;                // of the block in its cluster
  int team;                // of the block's teams
  bool exists;
};

__device__ __forceinline__ Place find_place(const Params& p, Index block) {
  constexpr int kTeams = kThreads / kTeam;
  Place place;
  place.rank = static_cast<int>(cluster_rank());
  place.team = kInterleaved ? static_cast<int>(threadIdx.x) % kTeams : static_cast<int>(threadIdx.x) / kTeam;
  place.thread = kInterleaved ? static_cast<int>(threadIdx.x) / kTeams : static_cast<int>(threadIdx.x) % kTeam;
  const Index row = block / kCluster * kTeams + place.team;
  place.exists = row < p.rows;
  place.row = place.exists ? row : 0;
  place.start = place.row * p.row_length;
  place.frame = kFramed ? place.start & (kElements - 1) : 0;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) place.at[d] = 0;
  split<0, kOuter>(place.row, p.space, place.at);
  return place;
}

// The group of a step; `chunk` counts rounds of kSteps steps, for teams that walk a row in several.
__device__ __forceinline__ Position locate(const Params& p, const Place& place, Index chunk, int step) {
  Position position;
  const Index group = (chunk * kCluster + place.rank) * (kSteps * kTeam) + step * kTeam + place.thread;
  const Index first = group * kElements - place.frame;
  const Index left = place.exists ? p.row_length - first : 0;
  position.begin = first < 0 ? static_cast<int>(-first) : 0;
  position.end = left < kElements ? (left > 0 ? static_cast<int>(left) : 0) : kElements;
  position.linear = place.start + first;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = place.at[d];
  split<kOuter, kReduced>(first + position.begin, p.space, position.at);
  position.whole = position.begin == 0 && position.end == kElements;
  position.straight = position.whole && (kReduced == 1 || position.at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1]);
  return position;
}

// Where the row itself is kept: the coordinates of operands and results of one element per row.
__device__ __forceinline__ Index row_offset(const Place& place, const Index (&strides)[kCoordinates], int) { return offset_of(place.at, strides); }
__device__ __forceinline__ bool row_exists(const Place& place, int) { return place.exists; }
__device__ __forceinline__ int existing_row(const Place&, int) { return 0; }
__device__ __forceinline__ bool is_leader(const Place& place) { return place.thread == 0 && place.rank == 0; }
constexpr int kTileRows = 1;  // of a block that has one team
__device__ __forceinline__ int tile_row(int) { return 0; }
__device__ __forceinline__ unsigned mask_of(const Position& position) {
  return position.end > position.begin ? ((2u << (position.end - 1)) - 1) & ~((1u << position.begin) - 1) : 0;
}
//@end

//@section place_across : row_position
constexpr int kTileRows = kColumns * kElements;  // of a block
__device__ __forceinline__ int tile_row(int k) {
  return static_cast<int>(threadIdx.x) % kColumns * (kBeside > 1 ? 1 : kElements) + k * kBeside;
}

struct Place {
  Index row;               // kept elements outside, as one number
  Index column;            // kept elements inside, of the thread's first row
  Index tile;              // of the tiles side by side
  Index at[kCoordinates];  // outer and inner coordinates
  int thread;              // in the team of this block
  int rank;                // of the block in its cluster
  int rows;                // of the thread's kElements rows that exist
  bool exists;
};

__device__ __forceinline__ Place find_place(const Params& p, Index block) {
  Place place;
  place.rank = static_cast<int>(cluster_rank());
  place.thread = static_cast<int>(threadIdx.x) / kColumns;
  const Index tile = block / kCluster;
  place.row = divide(tile, p.column_tiles_divisor);
  place.tile = tile - place.row * p.column_tiles;
  const Index column = place.tile * kTileRows + tile_row(0);
  place.exists = column < p.row_columns;
  place.column = place.exists ? column : 0;
  const Index left = place.exists ? p.row_columns - column : 0;
  place.rows = left < kElements * kBeside ? static_cast<int>((left + kBeside - 1) / kBeside) : kElements;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) place.at[d] = 0;
  split<0, kOuter>(place.row, p.space, place.at);
  split<kOuter + kReduced, kInner>(place.column, p.space, place.at);
  return place;
}

__device__ __forceinline__ Position locate(const Params& p, const Place& place, Index chunk, int step) {
  Position position;
  const Index element = (chunk * kCluster + place.rank) * (kSteps * kTeam) + step * kTeam + place.thread;
  position.begin = 0;
  position.end = element < p.row_length ? place.rows : 0;
  position.linear = (place.row * p.row_length + element) * p.row_columns + place.column;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = place.at[d];
  split<kOuter, kReduced>(element, p.space, position.at);
  position.whole = position.end == kElements;
  position.straight = position.whole;  // the plan chose kElements so that no group crosses a line
  return position;
}

__device__ __forceinline__ Index row_offset(const Place& place, const Index (&strides)[kCoordinates], int e) {
  return offset_of(place.at, strides) + e * kBeside * strides[kCoordinates - 1];
}
__device__ __forceinline__ bool row_exists(const Place& place, int k) { return k < place.rows; }
__device__ __forceinline__ int existing_row(const Place& place, int k) { return k < place.rows ? k : 0; }
__device__ __forceinline__ unsigned mask_of(const Position& position) { return position.end > 0 ? (2u << (position.end - 1)) - 1 : 0; }
__device__ __forceinline__ bool is_leader(const Place& place) { return place.thread == 0 && place.rank == 0; }
//@end

//@section combine_along
// The lanes of a warp that belong to one team are kApart apart.
constexpr int kApart = kInterleaved ? kThreads / kTeam : 1;
constexpr int kLanes = kTeam * kApart < 32 ? kTeam : 32 / kApart;

template <class Level>
struct Slots {
  static constexpr int kWarps = kTeam > kLanes || kCluster > 1 ? (kTeam + kLanes - 1) / kLanes : 0;  // that a team has lanes in
  Level of_warp[kThreads / kTeam][kCluster * kWarps + 1];
};

// Every thread of the team ends with what all of them have seen.
template <class Level>
__device__ __forceinline__ void combine(const Place& place, Level (&level)[kRows], Slots<Level>& slots) {
  constexpr int kWarps = Slots<Level>::kWarps;
  level[0].template merge_lanes<kApart, kLanes * kApart>();
  if constexpr (kWarps > 0) {
    const int lane = place.thread % kLanes;
    Level* slot = &slots.of_warp[place.team][place.rank * kWarps + place.thread / kLanes];
    if constexpr (kCluster > 1) {
      cluster_wait();
      if (lane < kCluster) *cluster_map(slot, static_cast<unsigned>(lane)) = level[0];
      __syncwarp();
      cluster_sync();
    } else {
      if (lane == 0) *slot = level[0];
      __syncthreads();
    }
    Level total;
#pragma unroll
    for (int i = 0; i < (kCluster * kWarps + kLanes - 1) / kLanes; ++i) {
      const int other = i * kLanes + lane;
      if (other < kCluster * kWarps) {
        if (i == 0) {
          total = slots.of_warp[place.team][other];
        } else {
          total.merge(slots.of_warp[place.team][other]);
        }
      }
    }
    if constexpr (kCluster > 1) cluster_arrive();  // what others wrote has been read
    total.template merge_lanes<kApart, kLanes * kApart>();
    level[0] = total;
  }
}
//@end

//@section combine_across
template <class Level>
struct Slots {
  static constexpr int kWarps = kThreads / 32;
  Level of_warp[kWarps][kColumns * kElements];
  Level of_block[kCluster][kColumns * kElements];
};

template <class Level>
__device__ __forceinline__ void combine(const Place& place, Level (&level)[kRows], Slots<Level>& slots) {
  constexpr int kAll = kColumns * kElements;
  const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
  for (int e = 0; e < kRows; ++e) level[e].template merge_lanes<kColumns, 32>();
  if (lane < kColumns) {
#pragma unroll
    for (int e = 0; e < kRows; ++e) slots.of_warp[static_cast<int>(threadIdx.x) / 32][tile_row(e)] = level[e];
  }
  __syncthreads();
  // Each column's partial results meet in one thread.
  if constexpr (kCluster > 1) cluster_wait();
  for (int c = static_cast<int>(threadIdx.x); c < kAll; c += kThreads) {
    Level total = slots.of_warp[0][c];
#pragma unroll
    for (int warp = 1; warp < Slots<Level>::kWarps; ++warp) total.merge(slots.of_warp[warp][c]);
    if constexpr (kCluster > 1) {
#pragma unroll
      for (int rank = 0; rank < kCluster; ++rank)
        *cluster_map(&slots.of_block[place.rank][c], static_cast<unsigned>(rank)) = total;
    } else {
      slots.of_block[0][c] = total;
    }
  }
  if constexpr (kCluster > 1) {
    __syncwarp();
    cluster_sync();
  } else {
    __syncthreads();
  }
#pragma unroll
  for (int e = 0; e < kRows; ++e) {
    level[e] = slots.of_block[0][tile_row(e)];
#pragma unroll
    for (int rank = 1; rank < kCluster; ++rank) level[e].merge(slots.of_block[rank][tile_row(e)]);
  }
  if constexpr (kCluster > 1) cluster_arrive();
  __syncthreads();
}
//@end

//@section steps
// Whether kCount groups from `step` on are all whole and, where an operand is not linear, straight. Neighbouring threads nearly always agree,
// and what is written for such groups alone is short enough for the instruction cache. `chunk` counts rounds of kSteps steps.
template <int kCount>
__device__ __forceinline__ bool are_straight(const Params& p, const Place& place, Index chunk, int step) {
  if constexpr (kMixed) return false;
  bool straight = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const Position position = locate(p, place, chunk, step + i);
    straight = straight && (kGathers ? position.straight : position.whole);
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
template <bool kStraight, class Level>
__device__ __forceinline__ void accumulate_group(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, int step,
                                                 Held* held, const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
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

template <bool kStraight>
__device__ __forceinline__ void write_round(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, Held (&held)[kSteps],
                                            const Row (&rows)[kRows], Across& across) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    write_walk(p, uniforms, known<kStraight>(locate(p, place, chunk, step)), held[step], rows, across);
}
//@end

//@section rounds : steps
// Rounds first … last - 1 of a walk over rows that nobody holds. Where groups are not straight, step by step.
template <Reuse kReuse, class Level>
__device__ __forceinline__ void accumulate_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                                  const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (are_straight<kSteps>(p, place, round, 0)) {
      Held held[kSteps];
      load_round<true, kReuse>(p, place, round, held);
      accumulate_round<true>(p, uniforms, place, round, held, rows, level, across);
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

// `prepare` finds out what is known of the rows, while the first round's loads are on their way.
template <class Prepare>
__device__ __forceinline__ void write_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                             const Row (&rows)[kRows], Across& across, const Prepare& prepare) {
  constexpr Reuse kLast = kStreams ? Reuse::never : Reuse::usual;
  bool straight = are_straight<kSteps>(p, place, first, 0);
  Held held[kSteps];
  if (straight) load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (round > first) {
      straight = are_straight<kSteps>(p, place, round, 0);
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
  if constexpr (kCluster > 1) cluster_arrive();
  const bool straight = are_straight<kSteps>(p, place, 0, 0);
  Held held[kSteps];
  if (straight) {
    load_round<true, Reuse::usual>(p, place, 0, held);
  } else {
    load_round<false, Reuse::usual>(p, place, 0, held);
  }
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  Across across;
  reduce_levels(p, uniforms, place, straight, held, rows, across, shared);
  if constexpr (kWritesWalk) {
    if (straight) {
      write_round<true>(p, uniforms, place, 0, held, rows, across);
    } else {
      write_round<false>(p, uniforms, place, 0, held, rows, across);
    }
  }
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, place.rank);
  if constexpr (kCluster > 1) cluster_wait();
}
//@end

//@section run_staged : steps
// Rows that are kept in shared memory: threads copy their groups there on their own (cp.async needs no registers, so that many are under way)
// and read back what they copied themselves, so that nobody waits.
__device__ __forceinline__ void wait_for_copies() {
#ifdef __CUDACC__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Calls work(step, position) for all steps: kUnrolled at a time where groups are straight.
template <class Work>
__device__ __forceinline__ void each_step(const Params& p, const Place& place, const Work& work) {
  constexpr int kUnrolled = kSteps % 4 == 0 ? 4 : kSteps % 2 == 0 ? 2 : 1;
#pragma unroll 1
  for (int first = 0; first < kSteps; first += kUnrolled) {
    if (are_straight<kUnrolled>(p, place, 0, first)) {
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) work(first + i, known<true>(locate(p, place, 0, first + i)));
    } else {
#pragma unroll 1
      for (int i = 0; i < kUnrolled; ++i) {
        const Position position = locate(p, place, 0, first + i);
        if (position.end > position.begin) work(first + i, position);
      }
    }
  }
}

template <class Level>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, Held* held, Row (&rows)[kRows],
                                       Across& across, Slots<Level>& slots) {
  Level level[kRows];
#pragma unroll 1
  for (int step = 0; step < kSteps; step += kGroup) {
    if (are_straight<kGroup>(p, place, 0, step)) {
      accumulate_group<true>(p, uniforms, place, 0, step, held + step * kThreads, rows, level, across);
    } else if (is_any(p, place, 0, step)) {
      accumulate_group<false>(p, uniforms, place, 0, step, held + step * kThreads, rows, level, across);
    }
  }
  combine(place, level, slots);
  Level::finish(level, p, uniforms, rows);
}

//@levels
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Held* staged) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  if constexpr (kCluster > 1) cluster_arrive();
  Held* held = staged + threadIdx.x;
  each_step(p, place, [&](int step, const Position& position) { held[step * kThreads].template load<Reuse::usual>(p, position); });
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  wait_for_copies();
  Across across;
  reduce_levels(p, uniforms, place, held, rows, across, shared);
  if constexpr (kWritesWalk) {
    each_step(p, place, [&](int step, const Position& position) {
      write_walk(p, uniforms, position, held[step * kThreads], rows, across);
    });
  }
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, place.rank);
  if constexpr (kCluster > 1) cluster_wait();
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
  if constexpr (kWritesWalk) write_rounds(p, uniforms, place, 0, p.chunks, rows, across, [] {});
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
// The block that comes last merges all chunks' accumulators, in the order of the chunks.
template <class Level>
__device__ __forceinline__ void merge_chunks(const Params& p, const Place& place, Slots<Level>& slots, const Level* partials, Level* finals, Index tile) {
  if constexpr (kTileRows == 1) {
    Level level[kRows];
    for (Index chunk = static_cast<Index>(threadIdx.x); chunk < p.chunks; chunk += kThreads)
      level[0].merge(read_fresh(&partials[tile * p.chunks + chunk]));
    __syncthreads();
    combine(place, level, slots);
    if (threadIdx.x == 0) finals[tile] = level[0];
  } else {
    for (int row = static_cast<int>(threadIdx.x); row < kTileRows; row += kThreads) {
      Level total;
      for (Index chunk = 0; chunk < p.chunks; ++chunk) total.merge(read_fresh(&partials[(tile * p.chunks + chunk) * kTileRows + row]));
      finals[tile * kTileRows + row] = total;
    }
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

// What is known of the rows after `finals` of a level are.
template <class Level>
__device__ __forceinline__ void take_level(const Params& p, const Uniforms& uniforms, const Real* final_words, Index tile, Row (&rows)[kRows]) {
  const Level* finals = reinterpret_cast<const Level*>(final_words);
  Level level[kRows];
#pragma unroll
  for (int k = 0; k < kRows; ++k) level[k] = read_fresh(&finals[tile * kTileRows + tile_row(k)]);
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
  across = Across();
  for (Index i = static_cast<Index>(threadIdx.x); i < p.parts; i += kThreads) across.merge(read_fresh(&parts[i]));
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
