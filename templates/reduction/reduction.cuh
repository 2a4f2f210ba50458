// The skeletons of reductions: what a thread group or a block does pass by pass. places.cuh says whose elements are
// whose, shared_rows.cuh what blocks do that share rows.
//
// The generated part: Held (a thread's operands and saved values, one per step), Row (what is known per row), Stage1 …
// (accumulators of one pass), write_pass (the last pass), end_segments (the pass of segments.cuh), write_rows, and
// GridStage (accumulators of grid reductions).

//@section steps
// Whether kCount vectors from `step` on are all in bounds and, where kLines (an operand needs coordinates), full. Neighbouring threads nearly always agree,
// and what is written for such vectors alone is short enough for the instruction cache. `chunk` counts rounds of kSteps steps.
template <int kCount, bool kByLine>
__device__ __forceinline__ bool are_full_vectors(const Params& p, const Place& place, Index chunk, int step) {
//@if kMixed
  return false;
//@else
  if constexpr (kFull && (kWholeLines || !kByLine)) return true;
  bool full_vectors = true;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const Position position = locate(p, place, chunk, step + i);
    full_vectors = full_vectors && (kByLine ? position.full_vector : position.in_bounds);
  }
  return full_vectors;
//@endif
}

// Whether any element of kStepsAtOnce vectors exists: the later ones of a thread lie behind the first.
__device__ __forceinline__ bool is_any(const Params& p, const Place& place, Index chunk, int step) {
  return locate(p, place, chunk, step).end > 0;
}

// The vector of a step, in code for full ones: all are but those of the last kCut steps.
template <bool kFullVector>
__device__ __forceinline__ auto locate_known(const Params& p, const Place& place, Index chunk, int step) {
//@if kCut > 0
  Position position = locate(p, place, chunk, step);
  if (kFullVector && step < kSteps - kCut) {
    position.begin = 0;
    position.end = kElements;
    position.in_bounds = position.full_vector = true;
  }
  return position;
//@else
  return known<kFullVector>(locate(p, place, chunk, step));
//@endif
}

// The accumulators take kStepsAtOnce steps; `held` is the first.
template <bool kFullVector, class Stage>
__device__ __forceinline__ void accumulate_steps(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, int step,
                                                 /*@if kInSharedMemory*/const Held&/*@endif*//*@if !kInSharedMemory*/Held*/*@endif*/ held, const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
  decltype(locate_known<kFullVector>(p, place, chunk, step)) positions[kStepsAtOnce];
#pragma unroll
  for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = locate_known<kFullVector>(p, place, chunk, step + g);
  Stage::accumulate(stage, p, uniforms, positions, held, rows, grid);
}

// The same where some element of them exists.
template <class Stage>
__device__ __forceinline__ void accumulate_existing(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, int step,
                                                    /*@if kInSharedMemory*/const Held&/*@endif*//*@if !kInSharedMemory*/Held*/*@endif*/ held, const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
//@if kStepsAtOnce == 1
  const decltype(existing<Stage::kGathers>(Position())) positions[1] = {existing<Stage::kGathers>(locate(p, place, chunk, step))};
  Stage::accumulate(stage, p, uniforms, positions, held, rows, grid);
//@else
  accumulate_steps<false>(p, uniforms, place, chunk, step, held, rows, stage, grid);
//@endif
}
//@end

//@section held_steps : steps
// One round: all loads before the first use.
template <bool kFullVector, CacheHint kHint>
__device__ __forceinline__ void load_round(const Params& p, const Place& place, Index chunk, Held (&held)[kSteps]) {
//@if kFindsRows
  const IndexedRows indexed = find_indexed_rows(p, place);
//@endif
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].template load<kHint>(p, /*@if kFindsRows*/indexed, /*@endif*/locate_known<kFullVector>(p, place, chunk, step));
}

template <bool kFullVector, class Stage>
__device__ __forceinline__ void accumulate_round(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk,
                                                 Held (&held)[kSteps], const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
#pragma unroll
  for (int step = 0; step < kSteps; step += kStepsAtOnce)
    accumulate_steps<kFullVector>(p, uniforms, place, chunk, step, &held[step], rows, stage, grid);
}
//@end

//@section write_steps : held_steps
template <bool kFullVector>
__device__ __forceinline__ void write_round(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, Held (&held)[kSteps],
                                            const Row (&rows)[kRows], GridStage& grid) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    write_pass(p, uniforms, locate_known<kFullVector>(p, place, chunk, step), held[step], rows, grid);
}

__device__ __forceinline__ void write_held(const Params& p, const Uniforms& uniforms, const Place& place, /*@if !kAllFull*/bool full_vectors, /*@endif*/Held (&held)[kSteps],
                                            const Row (&rows)[kRows], GridStage& grid, Shared&) {
//@if kFull && kThreads > kGroupThreads && !kEndsWithoutRow
  if (!row_is_written(place)) return;
//@endif
//@if kAllFull
  write_round<true>(p, uniforms, place, 0, held, rows, grid);
//@endif
//@if !kAllFull && kElements == 1 && kSteps == 1
  // One element is there or is not, which is asked where it is written. Asked here, too, ptxas 13.0 lets groups without a row write.
  write_round<false>(p, uniforms, place, 0, held, rows, grid);
//@endif
//@if !kAllFull && (kElements > 1 || kSteps > 1)
  if (full_vectors) {
    write_round<true>(p, uniforms, place, 0, held, rows, grid);
  } else {
    write_round<false>(p, uniforms, place, 0, held, rows, grid);
  }
//@endif
}
//@end

//@section rounds : held_steps
template <CacheHint kHint, class Stage>
__device__ __forceinline__ void accumulate_full_round(const Params& p, const Uniforms& uniforms, const Place& place, Index round,
                                                      const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
  Held held[kSteps];
  load_round<true, kHint>(p, place, round, held);
  accumulate_round<true>(p, uniforms, place, round, held, rows, stage, grid);
#pragma unroll
  for (int k = 0; k < kRows; ++k) stage[k].recenter();
}

// Rounds first … last - 1 of a pass over rows that nobody holds. Where vectors are not full, step by step.
template <CacheHint kHint, class Stage>
__device__ __forceinline__ void accumulate_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                                  const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
//@if kAllFull
    accumulate_full_round<kHint>(p, uniforms, place, round, rows, stage, grid);
//@else
    if (are_full_vectors<kSteps, kLoadGathers || Stage::kGathers>(p, place, round, 0)) {
      accumulate_full_round<kHint>(p, uniforms, place, round, rows, stage, grid);
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps && is_any(p, place, round, step); step += kStepsAtOnce) {
        Held held[kStepsAtOnce];
#pragma unroll
        for (int g = 0; g < kStepsAtOnce; ++g) held[g].template load<kHint>(p, /*@if kMovesFull*/known<true>/*@endif*/(locate(p, place, round, step + g)));
        accumulate_existing(p, uniforms, place, round, step, held, rows, stage, grid);
      }
    }
//@endif
  }
}
//@end

//@section write_rounds : rounds, write_steps
// `prepare` finds out what is known of the rows, while the first round's loads are on their way.
template <class Prepare>
__device__ __forceinline__ void write_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                             const Row (&rows)[kRows], GridStage& grid, Shared&, const Prepare& prepare) {
  constexpr CacheHint kLast = kL2EvictFirst ? CacheHint::evict_first : CacheHint::none;
  Held held[kSteps];
//@if kAllFull
  load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (round > first) load_round<true, kLast>(p, place, round, held);
    write_round<true>(p, uniforms, place, round, held, rows, grid);
  }
//@else
  constexpr bool kByLine = kLoadGathers || kWriteGathers;
  bool full_vectors = are_full_vectors<kSteps, kByLine>(p, place, first, 0);
  if (full_vectors) load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (round > first) {
      full_vectors = are_full_vectors<kSteps, kByLine>(p, place, round, 0);
      if (full_vectors) load_round<true, kLast>(p, place, round, held);
    }
    if (full_vectors) {
      write_round<true>(p, uniforms, place, round, held, rows, grid);
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps && is_any(p, place, round, step); ++step) {
        const auto position = existing<kByLine>(locate(p, place, round, step));
        Held one;
        one.template load<kLast>(p, position);
        write_pass(p, uniforms, position, one, rows, grid);
      }
    }
  }
//@endif
}
//@end

//@section staged_element
// An element of the row that the thread group holds in shared memory, whoever copied it. `kFirst` is the operand's first chunk of a step.
template <class T, int kFirst>
__device__ __forceinline__ T staged_element(const Place& place, const Chunk16* staged, Index element) {
  const unsigned index = static_cast<unsigned>(element + place.misalignment);
  unsigned number = index / kElements;
//@if kCluster > 1
  const unsigned rank = number / (kSteps * kGroupThreads);
  number -= rank * (kSteps * kGroupThreads);
//@endif
//@if kWarpwise
  const unsigned step = number / 32 % kSteps;
  const unsigned thread = number / (32 * kSteps) * 32 + number % 32;
//@else
  const unsigned step = number / kGroupThreads;
  const unsigned thread = number % kGroupThreads;
//@endif
  const unsigned byte = index % kElements * sizeof(T);
  const Chunk16* chunk16 = staged + (step * Held::kChunks16 + kFirst + byte / sizeof(Chunk16)) * kThreads + thread;
//@if kCluster > 1
  if (static_cast<int>(rank) != place.rank) chunk16 = cluster_map(chunk16, rank);
//@endif
  return *reinterpret_cast<const T*>(reinterpret_cast<const char*>(chunk16) + byte % sizeof(Chunk16));
}
//@end

//@section written
// What is written in place of a row's elements, by the threads that share it, once what is known of the row is. A block of a cluster takes those of
// which it likely holds the row's elements.
__device__ __forceinline__ void write_instead(const Params& p, const Uniforms& uniforms, const Place& place, /*@if kReadsStaged*/const Chunk16* staged, /*@endif*/const Row (&rows)[kRows]) {
//@if kCluster > 1
  const Index share = (p.written_length + kCluster - 1) / kCluster;
  const Index first = place.rank * share;
  const Index end = first + share < p.written_length ? first + share : p.written_length;
//@else
  constexpr Index first = 0;
  const Index end = p.written_length;
//@endif
#pragma unroll 1
  for (Index number = first + place.thread; number < end; number += kGroupThreads) {
    Index at[kCoordinates];
#pragma unroll
    for (int d = 0; d < kCoordinates; ++d) at[d] = place.at[d];
    split<kOuter, kReduced>(number, p.written_space, at);
#pragma unroll
    for (int k = 0; k < kRows; ++k) {
      if (row_exists(place, k)) write_element(p, uniforms, /*@if kReadsStaged*/place, staged, /*@endif*/rows[k], at);
      at[kCoordinates - 1] += kBeside;  // the next row, where a thread has several
    }
  }
//@if kReadsStaged && kCluster > 1
  cluster_sync();  // others read this block's shared memory
//@endif
}
//@end

//@section reduce_held : held_steps
// One pass over what the thread group holds.
template <class Stage>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, /*@if !kAllFull*/bool full_vectors, /*@endif*/Held (&held)[kSteps],
                                       Row (&rows)[kRows], GridStage& grid, Slots<Stage>& slots) {
  Stage stage[kRows];
//@if kMeansFirst
  Stage::find_means(stage, held);
//@endif
//@if kAllFull
  accumulate_round<true>(p, uniforms, place, 0, held, rows, stage, grid);
//@else
  if (full_vectors) {
    accumulate_round<true>(p, uniforms, place, 0, held, rows, stage, grid);
  } else {
    accumulate_round<false>(p, uniforms, place, 0, held, rows, stage, grid);
  }
//@endif
//@if kHoldsExponentials
  if constexpr (Stage::kHoldsExponentials) {
    Stage::exponentiate(stage, held);
//@if kRows == 1
    const Stage own[1] = {stage[0]};
//@else
    Stage own[kRows];
#pragma unroll
    for (int k = 0; k < kRows; ++k) own[k] = stage[k];
//@endif
    combine(place, stage, slots);
    Stage::rescale(own, stage, held);
  } else {
    combine(place, stage, slots);
  }
//@else
  combine(place, stage, slots);
//@endif
  Stage::finish(stage, p, uniforms, rows);
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held[step].forget_uses();
}
//@end

//@section run_resident : reduce_held
//@stages
// The thread group reads its rows once, agrees on the accumulators stage by stage, and writes.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
//@if kEndsWithoutRow
  if (!place.exists) return;
//@endif
//@if kCluster > 1
  cluster_begin();
//@endif
  Held held[kSteps];
//@if kAllFull
  load_round<true, kHeldHint>(p, place, 0, held);
//@else
  const bool full_vectors = are_full_vectors<kSteps - kCut, kGathers>(p, place, 0, 0);
  if (full_vectors) {
    load_round<true, kHeldHint>(p, place, 0, held);
  } else {
    load_round<false, kHeldHint>(p, place, 0, held);
  }
//@endif
  prefetch_later_block(p, kCluster);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
//@if kCluster > 1
  cluster_wait();
//@endif
  GridStage grid;
  reduce_stages(p, uniforms, place, /*@if !kAllFull*/full_vectors, /*@endif*/held, rows, grid, shared);
//@if kHasWritePass
  write_held(p, uniforms, place, /*@if !kAllFull*/full_vectors, /*@endif*/held, rows, grid, shared);
//@endif
  end_segments(p, uniforms, place, held, rows, shared);
//@if kHasWritten
  write_instead(p, uniforms, place, rows);
//@endif
  write_rows(p, place, rows);
  end_grid(p, uniforms, place, rows, grid, shared, true, place.rank);
//@if kColumnRuns
  end_columns(p, uniforms, shared.columns);
//@endif
}
//@end

//@section run_rows_per_group : reduce_held
static_assert(kGroupThreads <= 32, "warps do not wait for each other between passes");
//@stages
// All rows of a grid reduction are one block's: kRowsPerGroup times kThreads / kGroupThreads rows, whose loads are all issued before the first is used.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Index first = static_cast<Index>(blockIdx.x) * kRowsPerGroup;
  Held held[kRowsPerGroup][kSteps];
//@if !kAllFull
  bool full_vectors[kRowsPerGroup];
//@endif
#pragma unroll
  for (int index = 0; index < kRowsPerGroup; ++index) {
    const Place place = find_place(p, first + index);
//@if kAllFull
    load_round<true, kHeldHint>(p, place, 0, held[index]);
//@else
    full_vectors[index] = are_full_vectors<kSteps, kGathers>(p, place, 0, 0);
    if (full_vectors[index]) {
      load_round<true, kHeldHint>(p, place, 0, held[index]);
    } else {
      load_round<false, kHeldHint>(p, place, 0, held[index]);
    }
//@endif
  }
  GridStage grid;
#pragma unroll
  for (int index = 0; index < kRowsPerGroup; ++index) {
    const Place place = find_place(p, first + index);
    Row rows[kRows];
    load_rows(p, uniforms, place, rows);
    reduce_stages(p, uniforms, place, /*@if !kAllFull*/full_vectors[index], /*@endif*/held[index], rows, grid, shared);
//@if kHasWritePass
    write_held(p, uniforms, place, /*@if !kAllFull*/full_vectors[index], /*@endif*/held[index], rows, grid, shared);
//@endif
    write_rows(p, place, rows);
    if (index + 1 < kRowsPerGroup) {
      see_rows(p, uniforms, place, rows, grid);
    } else {
      end_grid(p, uniforms, place, rows, grid, shared, true, 0);
    }
  }
}
//@end

//@section staged : steps, copy_async
// Rows that are held in shared memory: threads copy their vectors there on their own (cp.async needs no registers, so that many are under way)
// and read back what they copied themselves, so that nobody waits for others. The first batch is reduced while the others are on their way.
constexpr int kCopyBatch = kUnrolled > kStepsAtOnce ? kUnrolled : kStepsAtOnce;  // steps
static_assert(kCopyBatch % kUnrolled == 0 && kCopyBatch % kStepsAtOnce == 0 && kSteps % kCopyBatch == 0, "who waits for a batch waits for all steps of an accumulator");

// A thread's vectors of a chunk, where all of them are in bounds and, if kLines, a number tells one from the next: they lie in one line or, where rows are read
// together, at one place of lines as far apart.
struct AffineRun {
  Position first;
//@if kInnerReduction
  Index apart;  // lines from one vector to the next, where rows are read together
//@else
  Index apart;  // elements from one vector to the next
//@endif
  bool exists;
  __device__ __forceinline__ FullVector at(int step) const {
    FullVector position = known<true>(first);
//@if !kInnerReduction
    position.linear += step * apart;
    position.at[kOuter + kReduced - 1] += step * kGroupThreads;
//@endif
//@if kInnerReduction
    position.linear += step * (kBetween * kElements);
//@if kInterleavedRows && kReduced == 2
    position.at[kCoordinates - 2] += step * apart;
//@else
//@if kHasCoordinates
    position.at[kCoordinates - 1] += step * (kBetween * kElements);
//@endif
//@endif
//@endif
    return position;
  }
};
template <bool kByLine>
__device__ __forceinline__ AffineRun find_affine_run(const Params& p, const Place& place, Index chunk) {
  const Position first = locate(p, place, chunk, 0);
  const Position last = locate(p, place, chunk, kSteps - 1);
//@if !kInnerReduction
  return {first, kGroupThreads * p.row_columns, first.in_bounds && last.in_bounds && (!kByLine || kReduced == 1)};
//@endif
//@if kInnerReduction
  bool same = !kByLine || kReduced == 1;
  Index apart = 0;
//@if kInterleavedRows && kReduced == 2
  apart = divide(Index(kBetween * kElements), p.space.divisors[kCoordinates - 1]);
  same = same || (apart * p.space.extents[kCoordinates - 1] == kBetween * kElements && first.full_vector);
//@else
//@if kHasCoordinates
  same = same || (last.at[kCoordinates - 1] - first.at[kCoordinates - 1] == (kSteps - 1) * (kBetween * kElements) && last.full_vector);
//@endif
//@endif
  return {first, apart, first.in_bounds && last.in_bounds && same};
//@endif
}

// Calls work(step, position) for all steps of a chunk, kUnrolled at a time in an affine run; then done(steps so far).
template <bool kByLine, class Work, class Done>
__device__ __forceinline__ void each_step(const Params& p, const Place& place, Index chunk, const Work& work, const Done& done) {
  if (const AffineRun run = find_affine_run<kByLine>(p, place, chunk); run.exists) {
#pragma unroll 1
    for (int first = 0; first < kSteps; first += kUnrolled) {
#pragma unroll
      for (int i = 0; i < kUnrolled; ++i) work(first + i, run.at(first + i));
      done(first + kUnrolled);
    }
    return;
  }
#pragma unroll 1
  for (int first = 0; first < kSteps; first += kUnrolled) {
#pragma unroll 1
    for (int step = first; step < first + kUnrolled; ++step) {
      const Position position = locate(p, place, chunk, step);
      if (position.end > position.begin) work(step, existing<kByLine>(position));
    }
    done(first + kUnrolled);
  }
}

//@if !kMovesFull
// What is done with a step of each kind of position.
struct CopyStep {
  const Params& p;
  const Held& held;
  template <class At>
  __device__ __forceinline__ void operator()(int step, const At& position) const {
    held.at(step).template load<CacheHint::none>(p, position);
  }
};
struct WriteStep {
  const Params& p;
  const Uniforms& uniforms;
  const Held& held;
//@if kHasHoisted
  const Hoisted& hoisted;
//@endif
  const Row (&rows)[kRows];
  GridStage& grid;
  template <class At>
  __device__ __forceinline__ void operator()(int step, const At& position) const {
    write_pass(p, uniforms, position, held.at(step), /*@if kHasHoisted*/hoisted, /*@endif*/rows, grid);
  }
};
//@endif

__device__ __forceinline__ void copy_staged(const Params& p, const Place& place, Index chunk, const Held& held) {
//@if kMovesFull
  const auto copy = [&](int step, const FullVector& position) { held.at(step).template load<CacheHint::none>(p, position); };
//@else
  const CopyStep copy{p, held};
//@endif
  each_step<kLoadGathers>(p, place, chunk, copy, [](int steps) {
    if (kCopyBatch == kUnrolled || steps % kCopyBatch == 0) end_of_batch();
  });
}

// Calls pass(first step) for all batches of a chunk, when they have come.
template <class Pass>
__device__ __forceinline__ void each_batch(const Pass& pass) {
#pragma unroll 1
  for (int batch = 0; batch < kSteps; batch += kCopyBatch) {
    wait_for_all_but<kSteps / kCopyBatch - 1>();
    end_of_batch();  // of nothing: so as many batches as before may still be on their way
    pass(batch);
  }
}

// A loop of its own for what lies in one line: what all of that wants is read before it.
template <class Stage>
__device__ __forceinline__ void accumulate_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                                  const Row (&rows)[kRows], Stage (&stage)[kRows], GridStage& grid) {
  if (const AffineRun run = find_affine_run<Stage::kGathers>(p, place, chunk); run.exists) {
    each_batch([&](int batch) {
#pragma unroll 1
      for (int step = batch; step < batch + kCopyBatch; step += kStepsAtOnce) {
        FullVector positions[kStepsAtOnce];
#pragma unroll
        for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = run.at(step + g);
        Stage::accumulate(stage, p, uniforms, positions, held.at(step), rows, grid);
      }
    });
    return;
  }
  each_batch([&](int batch) {
#pragma unroll 1
    for (int step = batch; step < batch + kCopyBatch; step += kStepsAtOnce) {
      if (is_any(p, place, chunk, step)) accumulate_existing(p, uniforms, place, chunk, step, held.at(step), rows, stage, grid);
    }
  });
}

__device__ __forceinline__ void write_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, const Held& held,
                                             /*@if kHasHoisted*/const Hoisted& hoisted, /*@endif*/const Row (&rows)[kRows], GridStage& grid) {
//@if kFull && kThreads > kGroupThreads
  if (!row_is_written(place)) return;
//@endif
//@if kMovesFull
  const auto write = [&](int step, const FullVector& position) { write_pass(p, uniforms, position, held.at(step), /*@if kHasHoisted*/hoisted, /*@endif*/rows, grid); };
//@else
  const WriteStep write{p, uniforms, held, /*@if kHasHoisted*/hoisted, /*@endif*/rows, grid};
//@endif
  each_step<kWriteGathers>(p, place, chunk, write, [](int) {});
}
//@end

//@section run_staged : staged
template <class Stage>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, const Held& held, Row (&rows)[kRows],
                                       GridStage& grid, Slots<Stage>& slots) {
  Stage stage[kRows];
  accumulate_staged(p, uniforms, place, 0, held, rows, stage, grid);
  combine(place, stage, slots);
  Stage::finish(stage, p, uniforms, rows);
}

//@stages
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared, Chunk16* staged) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
//@if kCluster > 1
  cluster_begin();
//@endif
  const Held held{staged + threadIdx.x};
//@if kHasHoisted
  const Hoisted hoisted = load_hoisted(p, locate(p, place, 0, 0));  // first: it would wait behind all copies
//@endif
  copy_staged(p, place, 0, held);
  prefetch_later_block(p, kCluster);
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
//@if kCluster > 1
  cluster_wait();
//@endif
  GridStage grid;
  reduce_stages(p, uniforms, place, held, rows, grid, shared);
//@if kHasWritePass
  write_staged(p, uniforms, place, 0, held, /*@if kHasHoisted*/hoisted, /*@endif*/rows, grid);
//@endif
  end_segments(p, uniforms, place, held, rows, shared);
//@if kHasWritten
  write_instead(p, uniforms, place, /*@if kReadsStaged*/staged, /*@endif*/rows);
//@endif
  write_rows(p, place, rows);
  end_grid(p, uniforms, place, rows, grid, shared, true, place.rank);
//@if kColumnRuns
  end_columns(p, uniforms, shared.columns);
//@endif
}
//@end

//@section run_looped : rounds
// One pass over rows that no thread group holds: kSteps steps at a time.
template <class Stage>
__device__ __forceinline__ void reduce(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows],
                                       GridStage& grid, Slots<Stage>& slots) {
  Stage stage[kRows];
  accumulate_rounds<kHeldHint>(p, uniforms, place, 0, p.chunks, rows, stage, grid);
  combine(place, stage, slots);
  Stage::finish(stage, p, uniforms, rows);
}

//@stages
// A block reads its rows once per stage, and once more for results that vary within them.
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  GridStage grid;
  reduce_stages(p, uniforms, place, rows, grid, shared);
//@if kHasWritePass
  write_rounds(p, uniforms, place, 0, p.chunks, rows, grid, shared, [] {});
//@endif
  end_segments(p, uniforms, place, rows, shared);
//@if kHasWritten
  write_instead(p, uniforms, place, rows);
//@endif
  write_rows(p, place, rows);
  end_grid(p, uniforms, place, rows, grid, shared, true, 0);
}
//@end
