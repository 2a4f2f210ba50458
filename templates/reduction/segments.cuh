// Reductions over segments of rows: a pass behind all others, over what a thread group still holds, that ends with one
// result for each segment. Segments are runs of p.segment_length elements of the row, which begin anywhere.
// reduction.cuh calls end_segments(), which is generated, as are SegmentStage (the accumulators), SegmentOperands (what
// the elements of a segment share) and write_segment.
//
// Short segments are reduced by a few lanes each, many at once, from shared memory (reduce_segments_by_lanes). Of
// others the lanes of a warp that belong to one thread group hold a run of the row's elements (kWarpwise). They reduce
// the segments that touch it, one by one, and agree on each; a segment that goes on in other runs is merged by the one
// in which it begins, from what the others left in shared memory. Either way there is one barrier, however many
// segments a row has.
//
// Where segment means are all that results need of a row's elements, run_by_segments has one pass for the row's accumulators and the segments'.
//
// Lane segments need none of that: lanes agree on them within a step of any pass. Of these there is only who writes their results.

//@section segment_place : combine_inner
struct Segment {
  Index first, end;        // its elements in the row
  Index at[kCoordinates];  // coordinates of its first element
};
__device__ __forceinline__ Segment find_segment(const Params& p, const Place& place, Index number) {
  Segment segment;
  segment.first = number * p.segment_length;
  segment.end = segment.first + p.segment_length;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) segment.at[d] = place.at[d];
  split<kOuter, kSegmentCoordinates>(number, p.space, segment.at);
  return segment;
}

// Of a vector, those that belong to a segment.
__device__ __forceinline__ Position within(Position position, const Place& place, const Segment& segment) {
  const Index first = position.linear - place.start;
  const Index begin = segment.first - first;
  const Index end = segment.end - first;
  if (begin > position.begin) position.begin = begin < kElements ? static_cast<int>(begin) : kElements;
  if (end < position.end) position.end = end > 0 ? static_cast<int>(end) : 0;
  return position;
}
// Which elements those are; kInside: all that exist.
template <bool kInside, class At>
__device__ __forceinline__ unsigned mask_within(const At& position, const Place& place, const Segment& segment) {
  if constexpr (kInside) {
    return mask_of(position);
  } else {
    return mask_of(within(position, place, segment));
  }
}
//@end

//@section segments : steps
constexpr int kRuns = kGroupThreads / kLanes;           // of a block's share of a row
constexpr int kStride = kLanes * kElements;     // elements of a run's step
constexpr int kRunElements = kSteps * kStride;
static_assert(kBetween == kLanes, "the lanes of a warp hold neighbouring elements");

// What the lanes of a warp hold of a row, and the segments that touch it.
struct Run {
//@if kChunked
  Index chunk;       // of the row, in which it lies
//@else
  static constexpr Index chunk = 0;
//@endif
  Index number;      // among all of the row
  Index begin, end;  // elements, whether they exist or not
  Index first_segment, end_segment;
};
__device__ __forceinline__ Run find_run(const Params& p, const Place& place/*@if kChunked*/, Index chunk/*@endif*/) {
  Run run;
//@if kChunked
  run.chunk = chunk;
  run.number = chunk * kRuns + place.thread / kLanes;
//@else
  run.number = place.rank * kRuns + place.thread / kLanes;
//@endif
  run.begin = run.number * kRunElements - place.misalignment;
  run.end = run.begin + kRunElements;
  const Index begin = run.begin > 0 ? run.begin : 0;
  const Index end = run.end < p.row_length ? run.end : p.row_length;
  run.first_segment = run.end_segment = 0;
  if (p.rows == 0 || (kGroupThreads >= 32 && !place.exists)) return run;
  if (begin < end) {
    run.first_segment = divide(begin, p.segment_divisor);
    run.end_segment = divide(end - 1, p.segment_divisor) + 1;
  } else if (p.row_length == 0 && run.number == 0) {
    run.end_segment = p.segments_per_row;  // of no elements
  }
  return run;
}

// Accumulates what kStepsAtOnce steps have of a segment; `held` is the first.
template <class Stage, class Steps>
__device__ __forceinline__ void accumulate_segment_steps(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Segment& segment,
                                                      const SegmentOperands& of_segment, int step, Steps held, const Row (&rows)[kRows], Stage& stage) {
  const Index begin = run.begin + step * kStride;
  bool inside = place.exists && begin >= segment.first && begin + kStepsAtOnce * kStride <= segment.end;
  if constexpr (Stage::kGathers && kReduced - kSegmentCoordinates > 1) inside = inside && are_full_vectors<kStepsAtOnce, true>(p, place, run.chunk, step);
  if (inside) {
    FullVector positions[kStepsAtOnce];
#pragma unroll
    for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = known<true>(locate(p, place, run.chunk, step + g));
    stage.template accumulate<true>(p, uniforms, place, segment, of_segment, positions, held, rows);
  } else {
    Position positions[kStepsAtOnce];
#pragma unroll
    for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = locate(p, place, run.chunk, step + g);
    stage.template accumulate<false>(p, uniforms, place, segment, of_segment, positions, held, rows);
  }
}
//@end

//@section segments_in_registers : segments
// The compiler must compute neither where a thread's steps are nor values of their elements before it reduces the segments: for all steps together that
// takes more registers than there are.
template <class Number>
__device__ __forceinline__ Number forgotten(Number number) {
#ifdef __CUDACC__
  if constexpr (sizeof(Number) == 8) {
    asm volatile("" : "+l"(number));
  } else {
    asm volatile("" : "+r"(number));
  }
#endif
  return number;
}

template <class Stage>
__device__ __forceinline__ void accumulate_segment(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Segment& segment,
                                                const SegmentOperands& of_segment, Held (&held)[kSteps], const Row (&rows)[kRows], Stage& stage) {
  Place here = place;
  here.first = forgotten(place.first);
  Run own = run;
  own.begin = forgotten(run.begin);
#pragma unroll
  for (int step = 0; step < kSteps; step += kStepsAtOnce) {
    const Index begin = own.begin + step * kStride;
    if (begin >= segment.end || begin + kStepsAtOnce * kStride <= segment.first) continue;
    accumulate_segment_steps(p, uniforms, here, own, segment, of_segment, step, &held[step], rows, stage);
#pragma unroll
    for (int g = 0; g < kStepsAtOnce; ++g) held[step + g].forget_uses();
  }
}
//@end

//@section segments_in_shared_memory : segments
template <class Stage>
__device__ __forceinline__ void accumulate_segment(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Segment& segment,
                                                const SegmentOperands& of_segment, const Held& held, const Row (&rows)[kRows], Stage& stage) {
  constexpr int kBatchElements = kStride * kStepsAtOnce;
  const int begin = segment.first > run.begin ? static_cast<int>(segment.first - run.begin) : 0;  // in the run
  const int end = segment.end < run.end ? static_cast<int>(segment.end - run.begin) : kRunElements;
  // Steps that lie inside of the segment: nothing has to be found out for each.
  const bool any_inside = place.exists && !(Stage::kGathers && kReduced - kSegmentCoordinates > 1);
  const int inside = any_inside ? (begin + kBatchElements - 1) / kBatchElements * kStepsAtOnce : kSteps;
  const int after = end / kBatchElements * kStepsAtOnce;
#pragma unroll 1
  for (int step = begin / kBatchElements * kStepsAtOnce; step * kStride < end; step += kStepsAtOnce) {
    if (step == inside) {
#pragma unroll 2
      for (; step < after; step += kStepsAtOnce) {
        FullVector positions[kStepsAtOnce];
#pragma unroll
        for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = known<true>(locate(p, place, run.chunk, step + g));
        stage.template accumulate<true>(p, uniforms, place, segment, of_segment, positions, held.at(step), rows);
      }
      if (step * kStride >= end) break;
    }
    accumulate_segment_steps(p, uniforms, place, run, segment, of_segment, step, held.at(step), rows, stage);
  }
}
//@end

//@section reduce_segments
// What a run has of a segment that began in another one: for the lanes there, whichever block of the cluster they are in.
template <class Stage>
__device__ __forceinline__ void leave_segment(const Place& place, const Run& run, const Stage& stage, Slots<Stage>& slots) {
  const int lane = place.thread % kLanes;
  Stage* slot = &slots.of_warp[place.group][run.number];
//@if kCluster > 1
  for (int rank = lane; rank < kCluster; rank += kLanes) *cluster_map(slot, static_cast<unsigned>(rank)) = stage;
//@else
  if (lane == 0) *slot = stage;
//@endif
}

// The segment that begins in this run: its elements here, then what the runs after it left, up to the one in which it ends.
template <class Stage>
__device__ __forceinline__ void gather_segment(const Place& place, const Run& run, const Segment& segment, Stage& stage, const Slots<Stage>& slots) {
  const Index last = (segment.end - 1 + place.misalignment) / kRunElements;
  const int lane = place.thread % kLanes;
  Stage total;
  if (lane == 0) {
    total = stage;
  } else if (run.number + lane <= last) {
    total = slots.of_warp[place.group][run.number + lane];
  }
#pragma unroll 1
  for (Index other = run.number + lane + kLanes; other <= last; other += kLanes) total.merge(slots.of_warp[place.group][other]);
  total.template merge_lanes<1, kLanes>();
  stage = total;
}

template <class Stage, class Storage>
__device__ __forceinline__ void reduce_segments(const Params& p, const Uniforms& uniforms, const Place& place, Storage& held, const Row (&rows)[kRows],
                                           Slots<Stage>& slots) {
  const Run run = find_run(p, place);
  const bool leads = place.exists && place.thread % kLanes == 0;
  Segment segment;
  Stage stage;
//@if kWarps > 0
  bool is_owed = false;  // the segment began here and goes on elsewhere
//@endif
#pragma unroll 1
  for (Index number = run.first_segment; number < run.end_segment; ++number) {
    segment = find_segment(p, place, number);
    stage = Stage();
    accumulate_segment(p, uniforms, place, run, segment, load_segment(p, segment), held, rows, stage);
    stage.template merge_lanes<1, kLanes>();
//@if kWarps > 0
    const bool begins = segment.first >= run.begin;
    is_owed = begins && segment.end > run.end;
    if (!begins) {
      leave_segment(place, run, stage, slots);
    } else if (!is_owed && leads) {
      write_segment(p, uniforms, segment, stage, rows[0]);
    }
//@else
    if (leads) write_segment(p, uniforms, segment, stage, rows[0]);  // a run is a row
//@endif
  }
//@if kWarps > 0
//@if kCluster > 1
  __syncwarp();
  cluster_sync();
//@else
  __syncthreads();
//@endif
  if (is_owed) {
    gather_segment(place, run, segment, stage, slots);
    if (leads) write_segment(p, uniforms, segment, stage, rows[0]);
  }
//@endif
}
//@end

//@section reduce_segments_by_lanes : segment_place, chunks16, masks
// Segments that are short beside what a thread group takes at once: a few lanes reduce each (p.segment_lanes_log2), so that all lanes are busy, with many segments.
// Threads leave what they hold in shared memory first; a lane reads the vectors of its segment there, whoever held them.
static_assert(kCluster == 1, "a block holds its rows");

// What the pass needs of one thread group's row. One place in nine is empty: lanes that read at once are a segment apart, which may be a power of two, and
// would meet in the same banks.
struct HeldRow {
  static constexpr int kPlaces = kGroupThreads * kSteps + kGroupThreads * kSteps / 8;  // of vectors
  Chunk16 chunks16[kSegmentBytes / sizeof(Chunk16)][kPlaces];
  static_assert(sizeof(HeldVector) <= kSegmentBytes, "the plan asked for enough");

  __device__ __forceinline__ static unsigned place_of(unsigned number) { return number + number / 8; }
  __device__ __forceinline__ void put(unsigned number, const HeldVector& vector) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(HeldVector) / sizeof(Chunk16)); ++i) chunks16[i][place_of(number)] = reinterpret_cast<const Chunk16*>(&vector)[i];
  }
  __device__ __forceinline__ HeldVector get(unsigned number) const {
    HeldVector vector;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(HeldVector) / sizeof(Chunk16)); ++i) reinterpret_cast<Chunk16*>(&vector)[i] = chunks16[i][place_of(number)];
    return vector;
  }
};

// A lane's share of a segment: full vectors, in turn with the segment's other lanes; then the vectors in which it begins and ends, of which other segments
// have some elements.
template <class Stage>
__device__ __forceinline__ void accumulate_segment(const Params& p, const Uniforms& uniforms, const Segment& segment, const SegmentOperands& of_segment, unsigned misalignment,
                                                int lane, int lanes, const HeldRow& held_row, const Row (&rows)[kRows], Stage& stage) {
  constexpr unsigned kAll = kAllOf<kElements>;
  const unsigned begin = static_cast<unsigned>(segment.first) + misalignment;  // from where the thread group's first vector begins
  const unsigned end = begin + static_cast<unsigned>(p.segment_length);
  const unsigned first = begin / kElements;
  const unsigned last = end / kElements;
#pragma unroll 1
  for (unsigned vector = (begin + kElements - 1) / kElements + lane; vector < last; vector += lanes)
    stage.accumulate(p, uniforms, of_segment, held_row.get(vector), kAll, rows);
  const unsigned from = kAll << begin % kElements & kAll;
  const unsigned to = (1u << end % kElements) - 1;
  // The segment's elements of the vector in which it begins, unless all of them are; and of that in which it ends.
  const unsigned head = first == last ? from & to : from == kAll ? 0 : from;
  const unsigned tail = first == last ? 0 : to;
#pragma unroll 1
  for (int i = lane; i < 2; i += lanes) {
    const unsigned mask = i == 0 ? head : tail;
    if (mask != 0) stage.accumulate(p, uniforms, of_segment, held_row.get(i == 0 ? first : last), mask, rows);
  }
}

template <int kFrom = 1, class Stage>
__device__ __forceinline__ void merge_segment(int lanes, Stage& stage) {
  if constexpr (kFrom < kLanes) {
    if (kFrom >= lanes) return;
    stage.template merge_lanes<kFrom, 2 * kFrom>();
    merge_segment<2 * kFrom>(lanes, stage);
  }
}

__device__ __forceinline__ void reduce_segments(const Params& p, const Uniforms& uniforms, const Place& place, Held (&held)[kSteps], const Row (&rows)[kRows],
                                           HeldRow& held_row) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) held_row.put(static_cast<unsigned>(number_of(place, 0, step)), held_vector_of(held[step]));
//@if kGroupThreads > 32
  __syncthreads();
//@else
  __syncwarp();
//@endif
  const int lanes = 1 << p.segment_lanes_log2;
  const int lane = place.thread & (lanes - 1);
#pragma unroll 1
  for (Index first = 0; first < p.segments_per_row; first += kGroupThreads >> p.segment_lanes_log2) {
    const Index number = first + (place.thread >> p.segment_lanes_log2);
    const bool exists = place.exists && number < p.segments_per_row;
    const Segment segment = find_segment(p, place, exists ? number : 0);
    SegmentStage stage;
    if (exists) accumulate_segment(p, uniforms, segment, load_segment(p, segment), static_cast<unsigned>(place.misalignment), lane, lanes, held_row, rows, stage);
    if (lanes == 1) {
      stage.template merge_lanes<1, 1>();
    } else {
      merge_segment(lanes, stage);
    }
    if (exists && lane == 0) write_segment(p, uniforms, segment, stage, rows[0]);
  }
}
//@end

//@section run_by_segments : row_position
// Where results need no more of a row's elements than segment means: a thread group reduces one segment after the other, each as if it were a row, for the
// row's accumulators and the segment's. Warps wait for each other once, when the row is known; until then each leaves what it has of a segment. A block has
// one thread group, or one for each row of a grid reduction.
static_assert(kReduced - kSegmentCoordinates == 1 && kStepsAtOnce == 1, "a segment is one line");
constexpr int kGroupWarps = kGroupThreads / 32;

// The vector of that number in a segment; the first begins `frame` elements before it.
__device__ __forceinline__ Position locate_in_segment(const Params& p, const Place& place, const Segment& segment, Index misalignment, Index number) {
  Position position;
  const Index first = number * kElements - misalignment;
  const Index left = p.segment_length - first;
  position.begin = first < 0 ? static_cast<int>(-first) : 0;
  position.end = left < kElements ? (left > 0 ? static_cast<int>(left) : 0) : kElements;
  position.linear = place.start + segment.first + first;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = segment.at[d];
  position.at[kCoordinates - 1] = first + position.begin;
  position.in_bounds = position.full_vector = position.begin == 0 && position.end == kElements;
  return position;
}

template <bool kInBounds, class Stage>
__device__ __forceinline__ void accumulate_steps(const Params& p, const Uniforms& uniforms, const Position& position, Held& held, const Row (&rows)[kRows],
                                                 Stage (&stage)[kRows], SegmentStage& of_segment, GridStage& grid) {
  const decltype(known<kInBounds>(position)) positions[1] = {known<kInBounds>(position)};
  Stage::accumulate(stage, of_segment, p, uniforms, positions, &held, rows, grid);
}

// The full vectors of a segment, round by round: all loads of a round before the first use.
template <class Stage>
__device__ __forceinline__ void reduce_inside(const Params& p, const Uniforms& uniforms, const Place& place, const Segment& segment, Index misalignment,
                                            const Row (&rows)[kRows], Stage (&stage)[kRows], SegmentStage& of_segment, GridStage& grid) {
#pragma unroll 1
  for (Index round = 0; round < p.chunks; ++round) {
    Position positions[kSteps];
    Held held[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      positions[step] = locate_in_segment(p, place, segment, misalignment, (round * kSteps + step) * kGroupThreads + place.thread);
      if (positions[step].in_bounds) held[step].template load<kHeldHint>(p, known<true>(positions[step]));
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (positions[step].in_bounds) accumulate_steps<true>(p, uniforms, positions[step], held[step], rows, stage, of_segment, grid);
    }
    stage[0].recenter();
  }
}

// Its first and its last vector, where they are cut: for two lanes of a warp, which is another one from segment to segment.
__device__ __forceinline__ Position locate_end(const Params& p, const Place& place, const Segment& segment, Index misalignment, Index number) {
  const int lane = place.thread % 32;
  const Index vector = lane == 0 ? 0 : (p.segment_length + misalignment) / kElements;
  Position position = locate_in_segment(p, place, segment, misalignment, vector);
  const bool is_mine = lane < 2 && place.thread / 32 == number % kGroupWarps;
  if (!is_mine || position.in_bounds) position.end = position.begin = 0;
  return position;
}

template <class Stage>
__device__ __forceinline__ void reduce_by_segments(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows], GridStage& grid,
                                              Slots<Stage>& slots, SegmentStage (&segments)[kSegmentSlots][kGroupWarps]) {
  Stage stage[kRows];
#pragma unroll 1
  for (Index number = 0; number < p.segments_per_row && place.exists; ++number) {
    const Segment segment = find_segment(p, place, number);
    const Index misalignment = kTensorAligned ? (place.start + segment.first) & (kElements - 1) : 0;
    SegmentStage of_segment;
    const Position end = locate_end(p, place, segment, misalignment, number);
    Held of_end;
    of_end.template load<kHeldHint>(p, end);
    reduce_inside(p, uniforms, place, segment, misalignment, rows, stage, of_segment, grid);
    if (end.end > end.begin) accumulate_steps<false>(p, uniforms, end, of_end, rows, stage, of_segment, grid);
    of_segment.template merge_lanes<1, 32>();
    if (place.thread % 32 == 0) segments[number][place.thread / 32] = of_segment;
  }
  combine(place, stage, slots);
  Stage::finish(stage, p, uniforms, rows);
}

//@stages
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/};
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  GridStage grid;
  SegmentStage(&segments)[kSegmentSlots][kGroupWarps] = shared.segments[place.group];
  reduce_by_segments(p, uniforms, place, rows, grid, shared.stage1, segments);
  for (Index number = place.thread; number < p.segments_per_row && place.exists; number += kGroupThreads) {
    SegmentStage stage = segments[number][0];
#pragma unroll
    for (int warp = 1; warp < kGroupWarps; ++warp) stage.merge(segments[number][warp]);
    write_segment(p, uniforms, place, find_segment(p, place, number), stage, rows[0], grid);
  }
  write_rows(p, place, rows);
  end_grid(p, uniforms, place, rows, grid, shared, true, 0);
}
//@end

//@section segments_in_rounds : rounds
// Of rows that nobody holds: a block reads the rounds of each segment again, the few that it shares with its neighbours twice.
constexpr int kStride = kGroupThreads * kElements;  // elements of a step
constexpr int kRoundElements = kSteps * kStride;

template <class Stage>
__device__ __forceinline__ void accumulate_segment_round(const Params& p, const Uniforms& uniforms, const Place& place, Index round, const Segment& segment,
                                                      const SegmentOperands& of_segment, const Row (&rows)[kRows], Stage& stage) {
  const Index begin = round * kRoundElements - place.misalignment;
  const bool inside = place.exists && begin >= segment.first && begin + kRoundElements <= segment.end;
  if (inside && are_full_vectors<kSteps, kLoadGathers || Stage::kGathers>(p, place, round, 0)) {
    Held held[kSteps];
    load_round<true, kHeldHint>(p, place, round, held);
#pragma unroll
    for (int step = 0; step < kSteps; step += kStepsAtOnce) {
      FullVector positions[kStepsAtOnce];
#pragma unroll
      for (int g = 0; g < kStepsAtOnce; ++g) positions[g] = known<true>(locate(p, place, round, step + g));
      stage.template accumulate<true>(p, uniforms, place, segment, of_segment, positions, &held[step], rows);
    }
    stage.recenter();
    return;
  }
#pragma unroll 1
  for (int step = 0; step < kSteps; step += kStepsAtOnce) {
    const Index first = begin + step * kStride;
    if (first >= segment.end || first + kStepsAtOnce * kStride <= segment.first) continue;
    Position positions[kStepsAtOnce];
    Held held[kStepsAtOnce];
#pragma unroll
    for (int g = 0; g < kStepsAtOnce; ++g) {
      positions[g] = locate(p, place, round, step + g);
      held[g].template load<kHeldHint>(p, positions[g]);
    }
    stage.template accumulate<false>(p, uniforms, place, segment, of_segment, positions, held, rows);
  }
}

template <class Stage>
__device__ __forceinline__ void reduce_segments(const Params& p, const Uniforms& uniforms, const Place& place, const Row (&rows)[kRows], Slots<Stage>& slots) {
#pragma unroll 1
  for (Index number = 0; number < p.segments_per_row && p.rows > 0; ++number) {
    const Segment segment = find_segment(p, place, number);
    const SegmentOperands of_segment = load_segment(p, segment);
    Stage stage[kRows];
    const Index last = segment.end > segment.first ? (segment.end - 1 + place.misalignment) / kRoundElements : -1;
#pragma unroll 1
    for (Index round = (segment.first + place.misalignment) / kRoundElements; round <= last; ++round)
      accumulate_segment_round(p, uniforms, place, round, segment, of_segment, rows, stage[0]);
    combine(place, stage, slots);
    if (is_leader(place) && place.exists) write_segment(p, uniforms, segment, stage[0], rows[0]);
    __syncthreads();  // the slots are free
  }
}
//@end

//@section lane_segments
// Segments whose reductions are needed again with their elements: kSegmentLanes neighbouring lanes hold one, a vector each.
static_assert(kSegmentLanes <= 32 && (kSegmentLanes & (kSegmentLanes - 1)) == 0, "the lanes of a warp agree by exchange");

// One of them writes what is known of it.
template <class At>
__device__ __forceinline__ bool writes_segment(const At& position) {
  return static_cast<int>(threadIdx.x) % kSegmentLanes == 0 && position.end > position.begin;
}
//@end
