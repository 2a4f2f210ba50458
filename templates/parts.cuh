// Reductions over parts of rows: a walk behind all others, over what a team still holds, that ends with one result for each part. Parts are runs
// of kPartLength elements of the row (a parameter: they begin anywhere). rows.cuh calls end_parts(), which is generated, as are PartLevel (the
// accumulators), PartOperands (what the elements of a part share) and write_part.
//
// Short parts are walked by a few lanes each, many at once, from shared memory (walk_parts_by_lanes). Of others the lanes of a warp that belong to
// one team hold a run of the row's elements (kWarpwise). They walk the parts that touch it, one by one, and agree on each; a part that goes on in
// other runs is merged by the one in which it begins, from what the others left in shared memory. Either way there is one barrier, however many
// parts a row has.
//
// Where averages over parts are all that results need of a row's elements, run_by_parts has one walk for the row's accumulators and the parts'.

//@section part_place : combine_along
struct Part {
  Index first, end;        // its elements in the row
  Index at[kCoordinates];  // coordinates of its first element
};
__device__ __forceinline__ Part find_part(const Params& p, const Place& place, Index number) {
  Part part;
  part.first = number * p.part_length;
  part.end = part.first + p.part_length;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) part.at[d] = place.at[d];
  split<kOuter, kPartCoordinates>(number, p.space, part.at);
  return part;
}

// Of a group of elements, those that belong to a part.
__device__ __forceinline__ Position within(Position position, const Place& place, const Part& part) {
  const Index first = position.linear - place.start;
  const Index begin = part.first - first;
  const Index end = part.end - first;
  if (begin > position.begin) position.begin = begin < kElements ? static_cast<int>(begin) : kElements;
  if (end < position.end) position.end = end > 0 ? static_cast<int>(end) : 0;
  return position;
}
//@end

//@section parts : steps
constexpr int kRuns = kTeam / kLanes;           // of a block's share of a row
constexpr int kStride = kLanes * kElements;     // elements of a run's step
constexpr int kRunElements = kSteps * kStride;
static_assert(kBetween == kLanes, "the lanes of a warp hold neighbouring elements");

// What the lanes of a warp hold of a row, and the parts that touch it.
struct Run {
  Index number;      // among all of the row
  Index begin, end;  // elements, whether they exist or not
  Index first_part, end_part;
};
__device__ __forceinline__ Run find_run(const Params& p, const Place& place) {
  Run run;
  run.number = place.rank * kRuns + place.thread / kLanes;
  run.begin = run.number * kRunElements - place.frame;
  run.end = run.begin + kRunElements;
  const Index begin = run.begin > 0 ? run.begin : 0;
  const Index end = run.end < p.row_length ? run.end : p.row_length;
  run.first_part = run.end_part = 0;
  if (p.rows == 0 || (kTeam >= 32 && !place.exists)) return run;
  if (begin < end) {
    run.first_part = divide(begin, p.part_divisor);
    run.end_part = divide(end - 1, p.part_divisor) + 1;
  } else if (p.row_length == 0 && run.number == 0) {
    run.end_part = p.row_parts;  // of no elements
  }
  return run;
}

// Accumulates what kGroup steps have of a part; `held` is the first.
template <class Level, class Group>
__device__ __forceinline__ void accumulate_part_group(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Part& part,
                                                      const PartOperands& of_part, int step, Group held, const Row (&rows)[kRows], Level& level) {
  const Index begin = run.begin + step * kStride;
  bool inside = place.exists && begin >= part.first && begin + kGroup * kStride <= part.end;
  if constexpr (Level::kGathers && kReduced - kPartCoordinates > 1) inside = inside && are_straight<kGroup, true>(p, place, 0, step);
  Position positions[kGroup];
  if (inside) {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) positions[g] = known<true>(locate(p, place, 0, step + g));
    level.template accumulate<true>(p, uniforms, place, part, of_part, positions, held, rows);
  } else {
#pragma unroll
    for (int g = 0; g < kGroup; ++g) positions[g] = locate(p, place, 0, step + g);
    level.template accumulate<false>(p, uniforms, place, part, of_part, positions, held, rows);
  }
}
//@end

//@section parts_in_registers : parts
// The compiler must compute neither where a thread's steps are nor values of their elements before it walks the parts: for all steps together that
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

template <class Level>
__device__ __forceinline__ void accumulate_part(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Part& part,
                                                const PartOperands& of_part, Held (&held)[kSteps], const Row (&rows)[kRows], Level& level) {
  Place here = place;
  here.first = forgotten(place.first);
  Run own = run;
  own.begin = forgotten(run.begin);
#pragma unroll
  for (int step = 0; step < kSteps; step += kGroup) {
    const Index begin = own.begin + step * kStride;
    if (begin >= part.end || begin + kGroup * kStride <= part.first) continue;
    accumulate_part_group(p, uniforms, here, own, part, of_part, step, &held[step], rows, level);
#pragma unroll
    for (int g = 0; g < kGroup; ++g) held[step + g].forget_uses();
  }
}
//@end

//@section parts_in_shared_memory : parts
template <class Level>
__device__ __forceinline__ void accumulate_part(const Params& p, const Uniforms& uniforms, const Place& place, const Run& run, const Part& part,
                                                const PartOperands& of_part, const Held& held, const Row (&rows)[kRows], Level& level) {
  constexpr int kWhole = kStride * kGroup;
  const int begin = part.first > run.begin ? static_cast<int>(part.first - run.begin) : 0;  // in the run
  const int end = part.end < run.end ? static_cast<int>(part.end - run.begin) : kRunElements;
  // Steps that lie inside of the part: nothing has to be found out for each.
  const bool any_inside = place.exists && !(Level::kGathers && kReduced - kPartCoordinates > 1);
  const int inside = any_inside ? (begin + kWhole - 1) / kWhole * kGroup : kSteps;
  const int after = end / kWhole * kGroup;
#pragma unroll 1
  for (int step = begin / kWhole * kGroup; step * kStride < end; step += kGroup) {
    if (step == inside) {
#pragma unroll 2
      for (; step < after; step += kGroup) {
        Position positions[kGroup];
#pragma unroll
        for (int g = 0; g < kGroup; ++g) positions[g] = known<true>(locate(p, place, 0, step + g));
        level.template accumulate<true>(p, uniforms, place, part, of_part, positions, held.at(step), rows);
      }
      if (step * kStride >= end) break;
    }
    accumulate_part_group(p, uniforms, place, run, part, of_part, step, held.at(step), rows, level);
  }
}
//@end

//@section walk_parts
// What a run has of a part that began in another one: for the lanes there, whichever block of the cluster they are in.
template <class Level>
__device__ __forceinline__ void leave_part(const Place& place, const Run& run, const Level& level, Slots<Level>& slots) {
  const int lane = place.thread % kLanes;
  Level* slot = &slots.of_warp[place.team][run.number];
  if constexpr (kCluster > 1) {
    for (int rank = lane; rank < kCluster; rank += kLanes) *cluster_map(slot, static_cast<unsigned>(rank)) = level;
  } else {
    if (lane == 0) *slot = level;
  }
}

// The part that begins in this run: its elements here, then what the runs after it left, up to the one in which it ends.
template <class Level>
__device__ __forceinline__ void gather_part(const Place& place, const Run& run, const Part& part, Level& level, const Slots<Level>& slots) {
  const Index last = (part.end - 1 + place.frame) / kRunElements;
  const int lane = place.thread % kLanes;
  Level total;
  if (lane == 0) {
    total = level;
  } else if (run.number + lane <= last) {
    total = slots.of_warp[place.team][run.number + lane];
  }
#pragma unroll 1
  for (Index other = run.number + lane + kLanes; other <= last; other += kLanes) total.merge(slots.of_warp[place.team][other]);
  total.template merge_lanes<1, kLanes>();
  level = total;
}

template <class Level, class Kept>
__device__ __forceinline__ void walk_parts(const Params& p, const Uniforms& uniforms, const Place& place, Kept& held, const Row (&rows)[kRows],
                                           Slots<Level>& slots) {
  constexpr bool kAlone = Slots<Level>::kWarps == 0;  // a run is a row
  const Run run = find_run(p, place);
  const bool leads = place.exists && place.thread % kLanes == 0;
  Part part;
  Level level;
  bool is_owed = false;  // the part began here and goes on elsewhere
#pragma unroll 1
  for (Index number = run.first_part; number < run.end_part; ++number) {
    part = find_part(p, place, number);
    level = Level();
    accumulate_part(p, uniforms, place, run, part, load_part(p, part), held, rows, level);
    level.template merge_lanes<1, kLanes>();
    const bool begins = kAlone || part.first >= run.begin;
    is_owed = !kAlone && begins && part.end > run.end;
    if (!begins) {
      leave_part(place, run, level, slots);
    } else if (!is_owed && leads) {
      write_part(p, uniforms, part, level, rows[0]);
    }
  }
  if constexpr (!kAlone) {
    if constexpr (kCluster > 1) {
      __syncwarp();
      cluster_sync();
    } else {
      __syncthreads();
    }
    if (is_owed) {
      gather_part(place, run, part, level, slots);
      if (leads) write_part(p, uniforms, part, level, rows[0]);
    }
  }
}
//@end

//@section walk_parts_by_lanes : part_place, pieces, masks
// Parts that are short beside what a team takes at once: a few lanes walk each (p.part_lanes_log2), so that all lanes are busy, with many parts.
// Threads leave what they hold in shared memory first; a lane reads the groups of its part there, whoever held them.
static_assert(kCluster == 1, "a block holds its rows");

// What the walk needs of one team's row. One place in nine is empty: lanes that read at once are a part apart, which may be a power of two, and
// would meet in the same banks.
struct KeptRow {
  static constexpr int kPlaces = kTeam * kSteps + kTeam * kSteps / 8;  // of groups
  Piece pieces[kPartBytes / sizeof(Piece)][kPlaces];
  static_assert(sizeof(Kept) <= kPartBytes, "the plan asked for enough");

  __device__ __forceinline__ static unsigned place_of(unsigned group) { return group + group / 8; }
  __device__ __forceinline__ void put(unsigned group, const Kept& kept) {
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Kept) / sizeof(Piece)); ++i) pieces[i][place_of(group)] = reinterpret_cast<const Piece*>(&kept)[i];
  }
  __device__ __forceinline__ Kept get(unsigned group) const {
    Kept kept;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(Kept) / sizeof(Piece)); ++i) reinterpret_cast<Piece*>(&kept)[i] = pieces[i][place_of(group)];
    return kept;
  }
};

// A lane's share of a part: whole groups, in turn with the part's other lanes; then the groups in which it begins and ends, of which other parts
// have a piece.
template <class Level>
__device__ __forceinline__ void accumulate_part(const Params& p, const Uniforms& uniforms, const Part& part, const PartOperands& of_part, unsigned frame,
                                                int lane, int lanes, const KeptRow& kept, const Row (&rows)[kRows], Level& level) {
  constexpr unsigned kAll = kAllOf<kElements>;
  const unsigned begin = static_cast<unsigned>(part.first) + frame;  // from where the team's first group begins
  const unsigned end = begin + static_cast<unsigned>(p.part_length);
  const unsigned first = begin / kElements;
  const unsigned last = end / kElements;
#pragma unroll 1
  for (unsigned group = (begin + kElements - 1) / kElements + lane; group < last; group += lanes)
    level.accumulate(p, uniforms, of_part, kept.get(group), kAll, rows);
  const unsigned from = kAll << begin % kElements & kAll;
  const unsigned to = (1u << end % kElements) - 1;
  // The part's elements of the group in which it begins, unless all of them are; and of that in which it ends.
  const unsigned head = first == last ? from & to : from == kAll ? 0 : from;
  const unsigned tail = first == last ? 0 : to;
#pragma unroll 1
  for (int i = lane; i < 2; i += lanes) {
    const unsigned mask = i == 0 ? head : tail;
    if (mask != 0) level.accumulate(p, uniforms, of_part, kept.get(i == 0 ? first : last), mask, rows);
  }
}

template <int kFrom = 1, class Level>
__device__ __forceinline__ void merge_part(int lanes, Level& level) {
  if constexpr (kFrom < kLanes) {
    if (kFrom >= lanes) return;
    level.template merge_lanes<kFrom, 2 * kFrom>();
    merge_part<2 * kFrom>(lanes, level);
  }
}

__device__ __forceinline__ void walk_parts(const Params& p, const Uniforms& uniforms, const Place& place, Held (&held)[kSteps], const Row (&rows)[kRows],
                                           KeptRow& kept) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) kept.put(static_cast<unsigned>(number_of(place, 0, step)), kept_of(held[step]));
  if constexpr (kTeam > 32) {
    __syncthreads();
  } else {
    __syncwarp();
  }
  const int lanes = 1 << p.part_lanes_log2;
  const int lane = place.thread & (lanes - 1);
#pragma unroll 1
  for (Index first = 0; first < p.row_parts; first += kTeam >> p.part_lanes_log2) {
    const Index number = first + (place.thread >> p.part_lanes_log2);
    const bool exists = place.exists && number < p.row_parts;
    const Part part = find_part(p, place, exists ? number : 0);
    PartLevel level;
    if (exists) accumulate_part(p, uniforms, part, load_part(p, part), static_cast<unsigned>(place.frame), lane, lanes, kept, rows, level);
    if (lanes == 1) {
      level.template merge_lanes<1, 1>();
    } else {
      merge_part(lanes, level);
    }
    if (exists && lane == 0) write_part(p, uniforms, part, level, rows[0]);
  }
}
//@end

//@section run_by_parts : row_position
// Where results need no more of a row's elements than averages over its parts: a team walks one part after the other, each as if it were a row, for the
// row's accumulators and the part's. Warps wait for each other once, when the row is known; until then each leaves what it has of a part. A block has
// one team, or one for each row of a result across rows.
static_assert(kReduced - kPartCoordinates == 1 && kGroup == 1, "a part is one line");
constexpr int kTeamWarps = kTeam / 32;

// The group of that number in a part; the first begins `frame` elements before it.
__device__ __forceinline__ Position locate_in_part(const Params& p, const Place& place, const Part& part, Index frame, Index number) {
  Position position;
  const Index first = number * kElements - frame;
  const Index left = p.part_length - first;
  position.begin = first < 0 ? static_cast<int>(-first) : 0;
  position.end = left < kElements ? (left > 0 ? static_cast<int>(left) : 0) : kElements;
  position.linear = place.start + part.first + first;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = part.at[d];
  position.at[kCoordinates - 1] = first + position.begin;
  position.whole = position.straight = position.begin == 0 && position.end == kElements;
  return position;
}

template <bool kWhole, class Level>
__device__ __forceinline__ void accumulate_group(const Params& p, const Uniforms& uniforms, const Position& position, Held& held, const Row (&rows)[kRows],
                                                 Level (&level)[kRows], PartLevel& of_part, Across& across) {
  const Position group[1] = {known<kWhole>(position)};
  Level::accumulate(level, of_part, p, uniforms, group, &held, rows, across);
}

// The whole groups of a part, round by round: all loads of a round before the first use.
template <class Level>
__device__ __forceinline__ void walk_inside(const Params& p, const Uniforms& uniforms, const Place& place, const Part& part, Index frame,
                                            const Row (&rows)[kRows], Level (&level)[kRows], PartLevel& of_part, Across& across) {
#pragma unroll 1
  for (Index round = 0; round < p.chunks; ++round) {
    Position positions[kSteps];
    Held held[kSteps];
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      positions[step] = locate_in_part(p, place, part, frame, (round * kSteps + step) * kTeam + place.thread);
      if (positions[step].whole) held[step].template load<kFirst>(p, known<true>(positions[step]));
    }
#pragma unroll
    for (int step = 0; step < kSteps; ++step) {
      if (positions[step].whole) accumulate_group<true>(p, uniforms, positions[step], held[step], rows, level, of_part, across);
    }
    level[0].recenter();
  }
}

// Its first and its last group, where they are cut: for two lanes of a warp, which is another one from part to part.
__device__ __forceinline__ Position locate_end(const Params& p, const Place& place, const Part& part, Index frame, Index number) {
  const int lane = place.thread % 32;
  const Index group = lane == 0 ? 0 : (p.part_length + frame) / kElements;
  Position position = locate_in_part(p, place, part, frame, group);
  const bool is_mine = lane < 2 && place.thread / 32 == number % kTeamWarps;
  if (!is_mine || position.whole) position.end = position.begin = 0;
  return position;
}

template <class Level>
__device__ __forceinline__ void walk_by_parts(const Params& p, const Uniforms& uniforms, const Place& place, Row (&rows)[kRows], Across& across,
                                              Slots<Level>& slots, PartLevel (&parts)[kPartSlots][kTeamWarps]) {
  Level level[kRows];
#pragma unroll 1
  for (Index number = 0; number < p.row_parts && place.exists; ++number) {
    const Part part = find_part(p, place, number);
    const Index frame = kFramed ? (place.start + part.first) & (kElements - 1) : 0;
    PartLevel of_part;
    const Position end = locate_end(p, place, part, frame, number);
    Held of_end;
    of_end.template load<kFirst>(p, end);
    walk_inside(p, uniforms, place, part, frame, rows, level, of_part, across);
    if (end.end > end.begin) accumulate_group<false>(p, uniforms, end, of_end, rows, level, of_part, across);
    of_part.template merge_lanes<1, 32>();
    if (place.thread % 32 == 0) parts[number][place.thread / 32] = of_part;
  }
  combine(place, level, slots);
  Level::finish(level, p, uniforms, rows);
}

//@levels
__device__ __forceinline__ void run_rows(const Params& p, Shared& shared) {
  const Uniforms uniforms = load_uniforms(p);
  const Place place = find_place(p, static_cast<Index>(blockIdx.x));
  Row rows[kRows];
  load_rows(p, uniforms, place, rows);
  Across across;
  PartLevel(&parts)[kPartSlots][kTeamWarps] = shared.parts[place.team];
  walk_by_parts(p, uniforms, place, rows, across, shared.level1, parts);
  for (Index number = place.thread; number < p.row_parts && place.exists; number += kTeam) {
    PartLevel level = parts[number][0];
#pragma unroll
    for (int warp = 1; warp < kTeamWarps; ++warp) level.merge(parts[number][warp]);
    write_part(p, uniforms, place, find_part(p, place, number), level, rows[0], across);
  }
  write_rows(p, place, rows);
  end_across(p, uniforms, place, rows, across, shared, true, 0);
}
//@end

//@section parts_in_rounds : rounds
// Of rows that nobody holds: a block reads the rounds of each part again, the few that it shares with its neighbours twice.
constexpr int kStride = kTeam * kElements;  // elements of a step
constexpr int kRoundElements = kSteps * kStride;

template <class Level>
__device__ __forceinline__ void accumulate_part_round(const Params& p, const Uniforms& uniforms, const Place& place, Index round, const Part& part,
                                                      const PartOperands& of_part, const Row (&rows)[kRows], Level& level) {
  const Index begin = round * kRoundElements - place.frame;
  const bool inside = place.exists && begin >= part.first && begin + kRoundElements <= part.end;
  if (inside && are_straight<kSteps, kLoadGathers || Level::kGathers>(p, place, round, 0)) {
    Held held[kSteps];
    load_round<true, kFirst>(p, place, round, held);
#pragma unroll
    for (int step = 0; step < kSteps; step += kGroup) {
      Position positions[kGroup];
#pragma unroll
      for (int g = 0; g < kGroup; ++g) positions[g] = known<true>(locate(p, place, round, step + g));
      level.template accumulate<true>(p, uniforms, place, part, of_part, positions, &held[step], rows);
    }
    level.recenter();
    return;
  }
#pragma unroll 1
  for (int step = 0; step < kSteps; step += kGroup) {
    const Index first = begin + step * kStride;
    if (first >= part.end || first + kGroup * kStride <= part.first) continue;
    Position positions[kGroup];
    Held held[kGroup];
#pragma unroll
    for (int g = 0; g < kGroup; ++g) {
      positions[g] = locate(p, place, round, step + g);
      held[g].template load<kFirst>(p, positions[g]);
    }
    level.template accumulate<false>(p, uniforms, place, part, of_part, positions, held, rows);
  }
}

template <class Level>
__device__ __forceinline__ void walk_parts(const Params& p, const Uniforms& uniforms, const Place& place, const Row (&rows)[kRows], Slots<Level>& slots) {
#pragma unroll 1
  for (Index number = 0; number < p.row_parts && p.rows > 0; ++number) {
    const Part part = find_part(p, place, number);
    const PartOperands of_part = load_part(p, part);
    Level level[kRows];
    const Index last = part.end > part.first ? (part.end - 1 + place.frame) / kRoundElements : -1;
#pragma unroll 1
    for (Index round = (part.first + place.frame) / kRoundElements; round <= last; ++round)
      accumulate_part_round(p, uniforms, place, round, part, of_part, rows, level[0]);
    combine(place, level, slots);
    if (is_leader(place) && place.exists) write_part(p, uniforms, part, level[0], rows[0]);
    __syncthreads();  // the slots are free
  }
}
//@end
