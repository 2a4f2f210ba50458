// Kernels with rows: who shares a row, which elements are whose, and how a thread group agrees on a sum. The space's dimensions stand in
// three sections: parallel ones outside (kOuter), those of the row (kReduced), parallel ones inside (kInner, none in inner reductions).
//
//   inner   a thread's vector belongs to one row       thread group: kGroupThreads neighbouring threads, times kCluster blocks; kInterleavedRows: kThreadsPerRun
//           threads, and again kThreads / kGroupThreads times as far on, so that neighbours read neighbouring rows, whose runs lie side by side
//   outer   a thread's vector belongs to kElements rows side by    thread group: kGroupThreads threads kColumns apart, times kCluster blocks
//           side, and the steps of a row are as far apart as rows lie side by side; kBeside: elements of a vector lie so far apart (kColumns where rows begin
//           at any address, so that neighbouring threads move neighbouring elements)

//@section row_position : space
//@if kKnownFull
// Where a thread's vector of kElements elements, kBeside apart, begins: in bounds, and in one line of the innermost dimension.
struct Position {
  static constexpr bool kInBounds = true, kIsFull = true;
  static constexpr int begin = 0, end = kElements;
  static constexpr bool in_bounds = true, full_vector = true;
  Index linear;            // of its first element
//@if kHasCoordinates
  Index at[kCoordinates];  // coordinates of it
//@endif
};
typedef Position FullVector;

template <bool>
__device__ __forceinline__ Position known(const Position& position) { return position; }
//@else
// Where a thread's vector of kElements elements, kBeside apart, begins.
struct VectorStart {
  Index linear;            // of the vector's first element, which need not exist
//@if kHasCoordinates
  Index at[kCoordinates];  // coordinates of the first element that exists
//@endif
};
struct Position : VectorStart {
  static constexpr bool kInBounds = false, kIsFull = false;
  int begin, end;    // elements begin … end - 1 exist
  bool in_bounds;    // all of them do
  bool full_vector;  // and they lie in one line of the innermost dimension
};
// A vector that is known to be in bounds, or full: the code for others is not even compiled.
struct VectorInBounds : VectorStart {
  static constexpr bool kInBounds = true, kIsFull = false;
  static constexpr int begin = 0, end = kElements;
  static constexpr bool in_bounds = true;
  bool full_vector;
};
// In bounds, and in one line of the innermost dimension.
struct FullVector : VectorStart {
  static constexpr bool kInBounds = true, kIsFull = true;
  static constexpr int begin = 0, end = kElements;
  static constexpr bool in_bounds = true, full_vector = true;
};

template <bool kFullVector>
__device__ __forceinline__ auto known(const Position& position) {
  if constexpr (kFullVector) {
    return FullVector{static_cast<const VectorStart&>(position)};
  } else {
    return position;
  }
}
//@endif

// A vector of which some element exists; kByLine: an operand needs coordinates.
template <bool kByLine>
__device__ __forceinline__ auto existing(const Position& position) {
//@if kKnownFull || (kWholeVectors && kWholeLines)
  return known<true>(position);
//@else
//@if kWholeVectors
  if constexpr (kByLine) return VectorInBounds{static_cast<const VectorStart&>(position), position.full_vector};
  else return known<true>(position);
//@else
  return position;
//@endif
//@endif
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
// Blocks of a cluster write into each other's shared memory (PTX ISA, barrier.cluster and mapa; sm_90). No block may write to another before that
// one runs: cluster_begin() says so, and loads are on their way until cluster_wait(). It orders no memory. cluster_sync()
// does, and waits for all of a thread's writes: layer_norm on an H100 spent a quarter of its time in three such barriers.
#ifdef __CUDACC__
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ void cluster_begin() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
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

//@section numbered_inner
// Vectors between those of one thread. Warpwise, those of a warp lie side by side, so that most warps stay in one line.
constexpr int kBetween = kWarpwise ? 32 : kGroupThreads;
// The number of a thread's vector of a step in its row.
template <class Place>
__device__ __forceinline__ Index number_of(const Place& place, Index chunk, int step) {
  return (chunk * kCluster + place.rank) * (kSteps * kGroupThreads) + step * kBetween + place.first;
}
//@end

//@section numbered_outer
// The number of a thread's vector of a step in its row.
template <class Place>
__device__ __forceinline__ Index number_of(const Place& place, Index chunk, int step) {
  return (chunk * kCluster + place.rank) * (kSteps * kGroupThreads) + step * kGroupThreads + place.thread;
}
//@end

//@section numbered_by_batches
// Batches of kBatch steps: those of a thread are neighbours, kVectorsPerRun vectors apart.
template <class Place>
__device__ __forceinline__ Index batch_of(const Place& place, Index chunk, int step) {
  return (chunk * kCluster + place.rank) * (kSteps / kBatch) + step / kBatch;
}
// The number of a thread's vector of a step in its row.
template <class Place>
__device__ __forceinline__ Index number_of(const Place& place, Index chunk, int step) {
  const Index spot = (batch_of(place, chunk, step) * (kGroupThreads / kVectorsPerRun) + place.thread / kVectorsPerRun) * kBatch + step % kBatch;
  return spot * kVectorsPerRun + place.thread % kVectorsPerRun;
}
//@end

//@section place_inner : row_position, masks
// Which row a thread works for, and its number among those that share it.
struct Place {
  Index row;               // element of the outer parallel dimensions, as one number
  Index start;             // linear index of the row's first element
//@if kTensorAligned
  Index misalignment;      // elements by which the first vector begins before the row
//@else
  static constexpr Index misalignment = 0;  // vectors begin with rows
//@endif
//@if kHasCoordinates
  Index at[kCoordinates];  // outer coordinates
//@endif
  int thread;              // in the thread group of this block
  int first;               // of its vectors in the thread group's share of the row
//@if kCluster > 1
  int rank;                // of the block in its cluster
//@else
  static constexpr int rank = 0;
//@endif
//@if kThreads > kGroupThreads
  int group;               // of the block's thread groups
//@else
  static constexpr int group = 0;
//@endif
  bool exists;
};

__device__ __forceinline__ Place find_place(const Params& p, Index block) {
  constexpr int kGroups = kThreads / kGroupThreads;
  Place place;
//@if kCluster > 1
  place.rank = static_cast<int>(cluster_rank());
//@endif
//@if kInterleavedRows
  const int thread = static_cast<int>(threadIdx.x);
//@if kThreads > kGroupThreads
  place.group = thread / kThreadsPerRun % kGroups;
//@endif
  place.thread = thread / (kThreadsPerRun * kGroups) * kThreadsPerRun + thread % kThreadsPerRun;
//@else
//@if kThreads > kGroupThreads && (!kHasCoordinates || kEndsWithoutRow)
  // Without a sign a division takes 1 instruction, not 3. (Beside coordinates other code mostly grows by as much.)
  place.group = static_cast<int>(threadIdx.x / kGroupThreads);
  place.thread = static_cast<int>(threadIdx.x % kGroupThreads);
//@else
//@if kThreads > kGroupThreads
  const int thread = static_cast<int>(threadIdx.x);
  place.group = thread / kGroupThreads;
  place.thread = thread % kGroupThreads;
//@else
  place.thread = static_cast<int>(threadIdx.x);
//@endif
//@endif
//@endif
//@if kWarpwise
  place.first = place.thread / 32 * (32 * kSteps) + place.thread % 32;
//@else
  place.first = place.thread;
//@endif
//@if kEndsWithoutRow
  place.row = block * kGroups + place.group;
  place.exists = place.row < p.rows;
//@else
  const Index row = block / kCluster * kGroups + place.group;
  place.exists = row < p.rows;
  place.row = place.exists ? row : 0;
//@endif
  place.start = place.row * p.row_length;
//@if kTensorAligned
  place.misalignment = place.start & (kElements - 1);
//@endif
//@if kHasCoordinates
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) place.at[d] = 0;
//@if kEndsWithoutRow
  split<0, kOuter>(place.row, p.space, place.at);
//@else
  split<0, kOuter>(p.rows > 0 ? place.row : row, p.space, place.at);  // of no rows at all a result may still be made
//@endif
//@endif
  return place;
}

// The vector of a step; `chunk` counts rounds of kSteps steps, for thread groups that pass a row in several.
__device__ __forceinline__ Position locate(const Params& p, const Place& place, Index chunk, int step) {
  Position position;
  const Index first = number_of(place, chunk, step) * kElements/*@if kTensorAligned*/ - place.misalignment/*@endif*/;
//@if !kFull
  const Index left = place.exists ? p.row_length - first : 0;
//@endif
//@if !kKnownFull
  position.begin = /*@if kTensorAligned*/first < 0 ? static_cast<int>(-first) : /*@endif*/0;
//@if kFull
  position.end = kElements;
//@else
//@if kWholeVectors
  position.end = left >= kElements ? kElements : 0;
//@else
  position.end = left >= kElements ? kElements : left > 0 ? static_cast<int>(left) : 0;
//@endif
//@endif
//@endif
  position.linear = place.start + first;
//@if kHasCoordinates
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = place.at[d];
  split<kOuter, kReduced>(first/*@if kTensorAligned*/ + position.begin/*@endif*/, p.space, position.at);
//@endif
//@if !kKnownFull
  position.in_bounds = position.begin == 0 && position.end == kElements;
//@if kReduced == 1 || kWholeLines || !kHasCoordinates
  position.full_vector = position.in_bounds;
//@else
  position.full_vector = position.in_bounds && position.at[kCoordinates - 1] + kElements <= p.space.extents[kCoordinates - 1];
//@endif
//@endif
  return position;
}

//@if kHasCoordinates
// The place of the row itself: the coordinates of operands and results of one element per row.
__device__ __forceinline__ Index row_offset(const Place& place, const Index (&strides)[kCoordinates], int) { return offset_of(place.at, strides); }
//@endif
__device__ __forceinline__ bool row_exists(const Place& place, int) { return place.exists; }
// Where all vectors are full, groups without a row compute the first one again.
__device__ __forceinline__ bool row_is_written(const Place& place) { return place.exists; }
__device__ __forceinline__ int existing_row(const Place&, int) { return 0; }
__device__ __forceinline__ bool is_leader(const Place& place) { return place.thread == 0 && place.rank == 0; }
constexpr int kTileRows = kInterleavedRows ? kThreads / kGroupThreads : 1;  // of a block that shares rows
__device__ __forceinline__ Index tiles_beside(const Params&) { return 1; }
__device__ __forceinline__ int tile_row(int) { return kInterleavedRows ? static_cast<int>(threadIdx.x) % kTileRows : 0; }
template <class At>
__device__ __forceinline__ unsigned mask_of(const At& position) {
//@if kKnownFull
  return kAllOf<kElements>;
//@else
  return position.end > position.begin ? ((2u << (position.end - 1)) - 1) & ~((1u << position.begin) - 1) : 0;
//@endif
}
//@end

//@section place_outer : row_position
constexpr int kTileRows = kColumns * kElements;  // of a block
__device__ __forceinline__ Index tiles_beside(const Params& p) { return p.column_tiles; }  // of the same rows' outer coordinates
__device__ __forceinline__ int tile_row(int k) {
  return static_cast<int>(threadIdx.x) % kColumns * (kBeside > 1 ? 1 : kElements) + k * kBeside;
}

struct Place {
  Index row;               // element of the outer parallel dimensions, as one number
  Index column;            // elements of the inner parallel dimensions, of the thread's first row
  Index tile;              // of the tiles side by side
  Index at[kCoordinates];  // outer and inner coordinates
  int thread;              // in the thread group of this block
//@if kCluster > 1
  int rank;                // of the block in its cluster
//@else
  static constexpr int rank = 0;
//@endif
  int rows;                // of the thread's kElements rows that exist
  bool exists;
};

__device__ __forceinline__ Place find_place(const Params& p, Index block) {
  Place place;
//@if kCluster > 1
  place.rank = static_cast<int>(cluster_rank());
//@endif
  place.thread = static_cast<int>(threadIdx.x) / kColumns;
  const Index tile = block / kCluster;
  place.row = divide(tile, p.column_tiles_divisor);
  place.tile = tile - place.row * p.column_tiles;
  const Index column = place.tile * kTileRows + tile_row(0);
  place.exists = kFull || (column < p.row_columns && p.rows > 0);
  place.column = place.exists ? column : 0;
  const Index left = place.exists ? p.row_columns - column : 0;
  place.rows = !kFull && left < kElements * kBeside ? static_cast<int>((left + kBeside - 1) / kBeside) : kElements;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) place.at[d] = 0;
  split<0, kOuter>(place.row, p.space, place.at);
  split<kOuter + kReduced, kInner>(place.column, p.space, place.at);
  return place;
}

__device__ __forceinline__ Position locate(const Params& p, const Place& place, Index chunk, int step) {
  Position position;
  const Index element = number_of(place, chunk, step);
//@if !kKnownFull
  position.begin = 0;
  position.end = kFull ? kElements : element < p.row_length ? place.rows : 0;
//@endif
  position.linear = (place.row * p.row_length + element) * p.row_columns + place.column;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) position.at[d] = place.at[d];
  split<kOuter, kReduced>(element, p.space, position.at);
//@if !kKnownFull
  position.in_bounds = position.end == kElements;
  position.full_vector = position.in_bounds;  // the plan chose kElements so that no vector crosses a line
//@endif
  return position;
}

__device__ __forceinline__ Index row_offset(const Place& place, const Index (&strides)[kCoordinates], int e) {
  return offset_of(place.at, strides) + e * kBeside * strides[kCoordinates - 1];
}
__device__ __forceinline__ bool row_exists(const Place& place, int k) { return k < place.rows; }
__device__ __forceinline__ bool row_is_written(const Place&) { return true; }
__device__ __forceinline__ int existing_row(const Place& place, int k) { return k < place.rows ? k : 0; }
template <class At>
__device__ __forceinline__ unsigned mask_of(const At& position) { return position.end > 0 ? (2u << (position.end - 1)) - 1 : 0; }
__device__ __forceinline__ bool is_leader(const Place& place) { return place.thread == 0 && place.rank == 0; }
//@end

//@section combine_inner
// The lanes of a warp that belong to one thread group: kLanes in all, kThreadsPerRun side by side and again kApart times as far on.
constexpr int kApart = kInterleavedRows ? kThreads / kGroupThreads : 1;
constexpr int kLanes = kGroupThreads * kApart < 32 ? kGroupThreads : 32 / kApart;
static_assert(kLanes % kThreadsPerRun == 0, "lanes side by side are of one warp");
// Few lanes to a row would merge many partials each: a block's warps meet before the blocks of a cluster do.
constexpr bool kInSteps = kCluster > 1 && kApart > 1;
constexpr int kWarps = kGroupThreads > kLanes || kCluster > 1 ? (kGroupThreads + kLanes - 1) / kLanes : 0;  // that a thread group has lanes in
constexpr int kPartials = kInSteps ? kWarps + kCluster : kCluster * kWarps;

template <class Stage>
struct Slots {
  Stage of_warp[kThreads / kGroupThreads][kPartials + 1];
  __device__ __forceinline__ Stage& of_row(int row) { return of_warp[row][0]; }
};

// All of a thread group's lanes in a warp end with what they have together.
template <class Stage>
__device__ __forceinline__ void merge_group_lanes(Stage& stage) {
//@if kThreadsPerRun > 1
  stage.template merge_lanes<1, kThreadsPerRun>();
//@endif
//@if kThreadsPerRun == 1 || kLanes > kThreadsPerRun
  stage.template merge_lanes<kThreadsPerRun * kApart, kLanes * kApart>();
//@endif
}

// All of a thread group's lanes in a warp end with what kCount partials are together.
template <int kCount, class Stage>
__device__ __forceinline__ Stage merged(const Stage* partials, int lane) {
  Stage total;
  if (lane < kCount) total = partials[lane];
//@if kCluster > 1 || kLanes < 32
#pragma unroll
  for (int first = kLanes; first < kCount; first += kLanes) {
    if (first + lane < kCount) total.merge(partials[first + lane]);
  }
//@endif
  merge_group_lanes(total);
  return total;
}

// Every thread of the thread group ends with what all of them have seen.
template <class Stage>
__device__ __forceinline__ void combine(const Place& place, Stage (&stage)[kRows], Slots<Stage>& slots) {
  merge_group_lanes(stage[0]);
//@if kWarps > 0
  const int lane = place.thread % kLanes;
  const int warp = place.thread / kLanes;
  Stage* partials = slots.of_warp[place.group];
//@if kInSteps
  if (lane == 0) partials[warp] = stage[0];
  __syncthreads();
  stage[0] = merged<kWarps>(partials, lane);
  partials += kWarps;
//@endif
//@if kCluster > 1
  Stage* own = partials + (kInSteps ? place.rank : place.rank * kWarps + warp);
  if (!kInSteps || warp == 0) {
    for (int rank = lane; rank < kCluster; rank += kLanes) *cluster_map(own, static_cast<unsigned>(rank)) = stage[0];
  }
  __syncwarp();
  cluster_sync();
//@else
  if (lane == 0) partials[warp] = stage[0];
  __syncthreads();
//@endif
  stage[0] = merged<kInSteps ? kCluster : kCluster * kWarps>(partials, lane);
//@endif
}
//@end

//@section combine_outer
//@if kGroupThreads == 1 && kCluster == 1
// A thread has all elements of its rows.
template <class Stage>
struct Slots {};

template <class Stage>
__device__ __forceinline__ void combine(const Place&, Stage (&)[kRows], Slots<Stage>&) {}
//@else
// Neighbouring threads in which a column's partial results meet: a power of two, so that each merges about eight of them.
__device__ constexpr int power_of_two_below(int n) { return n < 2 ? 1 : 2 * power_of_two_below(n / 2); }
constexpr int kMeet = power_of_two_below(kThreads / (kColumns * kElements) < kThreads / 256 ? kThreads / (kColumns * kElements) : kThreads / 256);

constexpr int kWarps = kThreads / 32;
template <class Stage>
struct Slots {
  Stage of_warp[kWarps][kColumns * kElements];
  Stage of_block[kCluster][kColumns * kElements];
  __device__ __forceinline__ Stage& of_row(int row) { return of_block[0][row]; }
};

template <class Stage>
__device__ __forceinline__ void combine(const Place& place, Stage (&stage)[kRows], Slots<Stage>& slots) {
  constexpr int kAll = kColumns * kElements;
  const int lane = static_cast<int>(threadIdx.x) & 31;
#pragma unroll
  for (int e = 0; e < kRows; ++e) stage[e].template merge_lanes<kColumns, 32>();
  if (lane < kColumns) {
#pragma unroll
    for (int e = 0; e < kRows; ++e) slots.of_warp[static_cast<int>(threadIdx.x) / 32][tile_row(e)] = stage[e];
  }
  __syncthreads();
  // Each column's partial results meet in kMeet threads.
  for (int first = 0; first < kAll; first += kThreads / kMeet) {
    const int c = first + static_cast<int>(threadIdx.x) / kMeet;
    const int partial = static_cast<int>(threadIdx.x) % kMeet;
    Stage total;
    if (c < kAll) {
      total = slots.of_warp[partial][c];
#pragma unroll
      for (int warp = kMeet; warp < kWarps; warp += kMeet) {
        if (warp + partial < kWarps) total.merge(slots.of_warp[warp + partial][c]);
      }
    }
    if constexpr (kMeet > 1) total.template merge_lanes<1, kMeet>();
    if (c >= kAll || partial > 0) continue;
//@if kCluster > 1
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank)
      *cluster_map(&slots.of_block[place.rank][c], static_cast<unsigned>(rank)) = total;
//@else
    slots.of_block[0][c] = total;
//@endif
  }
//@if kCluster > 1
  __syncwarp();
  cluster_sync();
//@else
  __syncthreads();
//@endif
#pragma unroll
  for (int e = 0; e < kRows; ++e) {
    stage[e] = slots.of_block[0][tile_row(e)];
//@if kCluster > 1
#pragma unroll
    for (int rank = 1; rank < kCluster; ++rank) stage[e].merge(slots.of_block[rank][tile_row(e)]);
//@endif
  }
  __syncthreads();
}
//@endif
//@end
