// The skeletons of chains with reductions: what a team or a block does walk by walk. places.cuh says whose elements are whose, shared_rows.cuh what
// blocks do that share rows.
//
// The generated part: Held (a thread's operands and carried values, one per step), Row (what is known per row), Level1 … (accumulators of
// one walk), write_walk (the last walk), end_parts (the walk of parts.cuh), write_rows, and Across (accumulators across rows).

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

// The group of a step, in code for straight ones: all are but those of the last kCut steps.
template <bool kStraight>
__device__ __forceinline__ Position locate_known(const Params& p, const Place& place, Index chunk, int step) {
  const Position position = locate(p, place, chunk, step);
  return kCut == 0 || step < kSteps - kCut ? known<kStraight>(position) : position;
}

// One round: all loads before the first use.
template <bool kStraight, Reuse kReuse>
__device__ __forceinline__ void load_round(const Params& p, const Place& place, Index chunk, Held (&held)[kSteps]) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].template load<kReuse>(p, locate_known<kStraight>(p, place, chunk, step));
}

// The accumulators take kGroup steps; `held` is the first.
template <bool kStraight, class Level, class Group>
__device__ __forceinline__ void accumulate_group(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, int step,
                                                 Group held, const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
  Position positions[kGroup];
#pragma unroll
  for (int g = 0; g < kGroup; ++g) positions[g] = locate_known<kStraight>(p, place, chunk, step + g);
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
    write_walk(p, uniforms, locate_known<kStraight>(p, place, chunk, step), held[step], rows, across);
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

//@section reduce_held : steps
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
  if constexpr (Level::kKeepsExponentials) {
    Level::exponentiate(level, held);
    Level own[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) own[k] = level[k];
    combine(place, level, slots);
    Level::rescale(own, level, held);
  } else {
    combine(place, level, slots);
  }
  Level::finish(level, p, uniforms, rows);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].forget_uses();
}
//@end

//@section run_team : reduce_held
//@levels
// The team reads its rows once, agrees on the accumulators level by level, and writes.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  if constexpr (kCluster > 1) cluster_begin();
  const bool straight = are_straight<kSteps - kCut, kGathers>(p, place, 0, 0);
  Held held[kSteps];
  if (straight) {
    load_round<true, kFirst>(p, place, 0, held);
  } else {
    load_round<false, kFirst>(p, place, 0, held);
  }
  ask_ahead(p, kCluster);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  if constexpr (kCluster > 1) cluster_wait();
  Across across;
  reduce_levels(p, uniforms, place, straight, held, rows, across, shared);
  if constexpr (kWritesWalk) write_round(p, uniforms, place, straight, held, rows, across, shared);
  end_parts(p, uniforms, place, held, rows, shared);
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, place.rank);
}
//@end

//@section run_passes : reduce_held
static_assert(kTeam <= 32, "warps do not wait for each other between passes");
//@levels
// All rows of a result across rows are one block's: passes of kThreads / kTeam rows, which are all asked for before the first is taken.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms = load_uniforms(p);
  const Index first = static_cast<Index>(blockIdx.x) * kPasses;
  Held held[kPasses][kSteps];
  bool straight[kPasses];
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const Place place = find_place(p, first + pass);
    straight[pass] = are_straight<kSteps, kGathers>(p, place, 0, 0);
    if (straight[pass]) {
      load_round<true, kFirst>(p, place, 0, held[pass]);
    } else {
      load_round<false, kFirst>(p, place, 0, held[pass]);
    }
  }
  Across across;
#pragma unroll
  for (int pass = 0; pass < kPasses; ++pass) {
    const Place place = find_place(p, first + pass);
    Row rows[kRows];
    load_rows(p, uniforms, place, rows);
    reduce_levels(p, uniforms, place, straight[pass], held[pass], rows, across, shared);
    if constexpr (kWritesWalk) write_round(p, uniforms, place, straight[pass], held[pass], rows, across, shared);
    write_rows(p, place, rows);
    if (pass + 1 < kPasses) {
      see_rows(p, uniforms, place, rows, across);
    } else {
      end_across(p, uniforms, place, rows, across, shared, true, 0);
    }
  }
}
//@end

//@section staged : steps, copy_async
// Rows that are kept in shared memory: threads copy their groups there on their own (cp.async needs no registers, so that many are under way)
// and read back what they copied themselves, so that nobody waits for others. The first batch is walked while the others are on their way.
constexpr int kBatch = kUnrolled > kGroup ? kUnrolled : kGroup;  // steps
static_assert(kBatch % kUnrolled == 0 && kBatch % kGroup == 0 && kSteps % kBatch == 0, "who waits for a batch waits for whole groups");

// A thread's groups of a chunk, where all of them are whole and, if kLines, a number tells one from the next: they lie in one line or, where rows are read
// together, at one place of lines as far apart.
struct Line {
  static constexpr bool kInPieces = kInterleaved && kReduced == 2;
  Position first;
  Index apart;  // kInPieces: lines from one group to the next
  bool exists;
  __device__ __forceinline__ Position at(int step) const {
    Position position = known<true>(first);
    position.linear += step * (kBetween * kElements);
    if constexpr (kInPieces) {
      position.at[kCoordinates - 2] += step * apart;
    } else {
      position.at[kCoordinates - 1] += step * (kBetween * kElements);
    }
    return position;
  }
};
template <bool kLines>
__device__ __forceinline__ Line find_line(const Params& p, const Place& place, Index chunk) {
  const Position first = locate(p, place, chunk, 0);
  const Position last = locate(p, place, chunk, kSteps - 1);
  bool same = !kLines || kReduced == 1;
  Index apart = 0;
  if constexpr (Line::kInPieces) {
    apart = divide(Index(kBetween * kElements), p.space.divisors[kCoordinates - 1]);
    same = same || (apart * p.space.extents[kCoordinates - 1] == kBetween * kElements && first.straight);
  } else {
    same = same || (last.at[kCoordinates - 1] - first.at[kCoordinates - 1] == (kSteps - 1) * (kBetween * kElements) && last.straight);
  }
  return {first, apart, first.whole && last.whole && same};
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

// Calls walk(first step) for all batches of a chunk, when they have come.
template <class Walk>
__device__ __forceinline__ void each_batch(const Walk& walk) {
#pragma unroll 1
  for (int batch = 0; batch < kSteps; batch += kBatch) {
    wait_for_all_but<kSteps / kBatch - 1>();
    end_of_batch();  // of nothing: so as many batches as before may still be on their way
    walk(batch);
  }
}

// A loop of its own for what lies in one line: what all of that wants is read before it.
template <class Level>
__device__ __forceinline__ void accumulate_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                                  const Row (&rows)[kRows], Level (&level)[kRows], Across& across) {
  if (const Line line = find_line<Level::kGathers>(p, place, chunk); line.exists) {
    each_batch([&](int batch) {
#pragma unroll 1
      for (int step = batch; step < batch + kBatch; step += kGroup) {
        Position positions[kGroup];
#pragma unroll
        for (int g = 0; g < kGroup; ++g) positions[g] = line.at(step + g);
        Level::accumulate(level, p, uniforms, positions, held.at(step), rows, across);
      }
    });
    return;
  }
  each_batch([&](int batch) {
#pragma unroll 1
    for (int step = batch; step < batch + kBatch; step += kGroup) {
      if (are_straight<kGroup, Level::kGathers>(p, place, chunk, step)) {
        accumulate_group<true>(p, uniforms, place, chunk, step, held.at(step), rows, level, across);
      } else if (is_any(p, place, chunk, step)) {
        accumulate_group<false>(p, uniforms, place, chunk, step, held.at(step), rows, level, across);
      }
    }
  });
}

__device__ __forceinline__ void write_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                             const Steady& steady, const Row (&rows)[kRows], Across& across) {
  each_step<kWriteGathers>(
      p, place, chunk, [&](int step, const Position& position) { write_walk(p, uniforms, position, held.at(step), steady, rows, across); },
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
  const Steady steady = load_steady(p, locate(p, place, 0, 0));  // first: it would wait behind all copies
  copy_staged(p, place, 0, held);
  ask_ahead(p, kCluster);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  if constexpr (kCluster > 1) cluster_wait();
  Across across;
  reduce_levels(p, uniforms, place, held, rows, across, shared);
  if constexpr (kWritesWalk) write_staged(p, uniforms, place, 0, held, steady, rows, across);
  end_parts(p, uniforms, place, held, rows, shared);
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
  accumulate_rounds<kFirst>(p, uniforms, place, 0, p.chunks, rows, level, across);
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
  end_parts(p, uniforms, place, rows, shared);
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, 0);
}
//@end
