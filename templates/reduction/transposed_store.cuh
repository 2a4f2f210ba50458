// Results of kernels with rows whose neighbours in memory are not those of the operands: NHWC into NCHW. A block reads lines of the operands
// and leaves results in a tile of shared memory: lines of kLength elements that are neighbours in the results, which threads then write as
// such. A tile takes kBatch steps at a time. It has kSides sides of kElements lines each: those of one thread's vector.
//
//   lines_of_rows         rows of inner reductions, whose neighbours are neighbours in the results; a line is one element of each row
//   lines_of_inner_reduction   runs of rows side by side (kVectorsPerRun vectors each); a line is one element of the runs that a round reads
//   lines_of_outer_reduction  rows of outer reductions; a line is what a round reads of one row

//@section lines_of_rows : row_position
constexpr int kLength = kThreads / kGroupThreads;
constexpr int kSides = kGroupThreads * kBatch;
constexpr int kUnit = 4;      // elements of a line that move together in shared memory, at most
constexpr int kPadding = 4;   // elements behind a line: neighbouring sides begin in other banks

__device__ __forceinline__ int side_of(const Place& place, int step) { return step * kGroupThreads + place.thread; }
__device__ __forceinline__ int spot_of(const Place& place, int) { return place.group; }

// Whether elements stand at `spot` of lines, and what all of them share of their offset. `first`: the first step of the batch.
__device__ __forceinline__ bool find_spot(const Params& p, const Place&, Index, int first, int spot, const Index (&strides)[kCoordinates],
                                          Index& offset) {
  const Index row = static_cast<Index>(blockIdx.x) * kLength + spot;
  if (row >= p.rows) return false;
  Index at[kCoordinates] = {};
  split<0, kOuter>(row, p.space, at);
  at[kCoordinates - 1] = static_cast<Index>(first) * (kGroupThreads * kElements);
  offset = offset_of(at, strides);
  return true;
}

// The rest of the offset, for the first line of a side.
__device__ __forceinline__ Index side_offset(int side, const Index (&strides)[kCoordinates]) {
  return static_cast<Index>(side) * kElements * strides[kCoordinates - 1];
}
// How many there are.
__device__ __forceinline__ Index count_sides(const Params& p, const Place&, int first) {
  return p.row_length / kElements - static_cast<Index>(first) * kGroupThreads;
}
//@end

//@section lines_of_inner_reduction : row_position
constexpr int kLength = kGroupThreads / kVectorsPerRun * kBatch;
constexpr int kSides = kThreads / kGroupThreads * kVectorsPerRun;
constexpr int kUnit = kBatch;  // elements of a line that move together in shared memory, at most
constexpr int kPadding = 0;

__device__ __forceinline__ int side_of(const Place& place, int) { return place.group * kVectorsPerRun + place.thread % kVectorsPerRun; }
__device__ __forceinline__ int spot_of(const Place& place, int step) { return place.thread / kVectorsPerRun * kBatch + step; }

// Whether elements stand at `spot` of lines, and what all of them share of their offset. `first`: the first step of the batch.
__device__ __forceinline__ bool find_spot(const Params& p, const Place& place, Index chunk, int first, int spot,
                                          const Index (&strides)[kCoordinates], Index& offset) {
  const Index element = (batch_of(place, chunk, first) * kLength + spot) * (kVectorsPerRun * kElements);
  if (element >= p.row_length) return false;
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = place.at[d];
  at[kOuter - 1] -= place.group;  // the rows of a block are in one line of the parallel dimensions, and all exist
  split<kOuter, kReduced>(element, p.space, at);
  offset = offset_of(at, strides);
  return true;
}

// The rest of the offset, for the first line of a side.
__device__ __forceinline__ Index side_offset(int side, const Index (&strides)[kCoordinates]) {
  return side / kVectorsPerRun * strides[kOuter - 1] + side % kVectorsPerRun * kElements * strides[kCoordinates - 1];
}
// How many there are.
__device__ __forceinline__ Index count_sides(const Params&, const Place&, int) { return kSides; }
//@end

//@section lines_of_outer_reduction : row_position
constexpr int kLength = kGroupThreads * kBatch;
constexpr int kSides = kColumns;
constexpr int kUnit = kBatch;  // elements of a line that move together in shared memory, at most
constexpr int kPadding = 0;

__device__ __forceinline__ int side_of(const Place&, int) { return static_cast<int>(threadIdx.x) % kColumns; }
__device__ __forceinline__ int spot_of(const Place& place, int step) { return place.thread * kBatch + step; }

// Whether elements stand at `spot` of lines, and what all of them share of their offset. `first`: the first step of the batch.
__device__ __forceinline__ bool find_spot(const Params& p, const Place& place, Index chunk, int first, int spot,
                                          const Index (&strides)[kCoordinates], Index& offset) {
  const Index element = batch_of(place, chunk, first) * kLength + spot;
  if (element >= p.row_length) return false;
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = place.at[d];
  split<kOuter, kReduced>(element, p.space, at);
  at[kCoordinates - 1] = place.tile * kTileRows;
  offset = offset_of(at, strides);
  return true;
}

// The rest of the offset, for the first line of a side.
__device__ __forceinline__ Index side_offset(int side, const Index (&strides)[kCoordinates]) {
  return side * kElements * strides[kCoordinates - 1];
}
// How many there are.
__device__ __forceinline__ Index count_sides(const Params& p, const Place& place, int) {
  return (p.row_columns - place.tile * kTileRows) / kElements;
}
//@end

//@section transposed_store_tile
constexpr int kTile = kSides * kElements * (kLength + kPadding);  // elements

// Where elements stand in a tile, so that lanes that put elements of one spot into different lines, and those that read a line, meet in no
// bank: lines have padding, or their units are moved about.
template <class T>
struct TileLayout {
  static constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  static constexpr int kTogether = kUnit < kMost ? kUnit : kMost;
  static constexpr int kUnits = kLength / kTogether;
  static constexpr int kBanks = 128 / (kTogether * static_cast<int>(sizeof(T)));  // units of all banks
  static constexpr int kMask = kPadding > 0 ? 0 : ((kUnits & -kUnits) < kBanks ? (kUnits & -kUnits) : kBanks) - 1;
  static constexpr int kApart = kSides <= kMask ? (kMask + 1) / kSides : 1;  // lanes of as many sides come before those of the next unit

  // Of a side's first line; the others follow kStep apart.
  static constexpr int kStep = kPadding > 0 ? kSides * (kLength + kPadding) : kLength;
  __device__ __forceinline__ static int index(int side, int spot) {
    const int line = kPadding > 0 ? side * (kLength + kPadding) : side * kElements * kLength;
    return line + ((spot / kTogether) ^ (side * kApart & kMask)) * kTogether + spot % kTogether;
  }
};

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Unit {
  T element[kCount];
};

// kL2EvictFirst: what is written leaves the L2 cache first, which keeps rows that are read again.
template <class T, int kCount>
__device__ __forceinline__ void store_unit(Unit<T, kCount>* target, const Unit<T, kCount>& unit) {
//@if kL2EvictFirst
#ifdef __CUDACC__
  constexpr int kBytes = static_cast<int>(sizeof(T)) * kCount;
  if constexpr (kBytes == 16) {
    const Words<16>& words = reinterpret_cast<const Words<16>&>(unit);
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]),
                 "r"(words.word[3])
                 : "memory");
  } else if constexpr (kBytes == 8) {
    const Words<8>& words = reinterpret_cast<const Words<8>&>(unit);
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(words.word[0]), "r"(words.word[1]) : "memory");
  } else if constexpr (kBytes == 4) {
    asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(target), "r"(reinterpret_cast<const unsigned&>(unit)) : "memory");
  } else {
    *target = unit;
  }
  return;
#endif
//@endif
  *target = unit;
}

// One step's results, element by element.
template <class T>
__device__ __forceinline__ void put_step(T* tile, const Place& place, int step, const Packet<T>& result) {
  T* const target = tile + TileLayout<T>::index(side_of(place, step), spot_of(place, step));
#pragma unroll
  for (int e = 0; e < kElements; ++e) target[e * TileLayout<T>::kStep] = result.get(e);
}

// Element e of a batch's results: what is side by side in a line moves together.
template <class T>
__device__ __forceinline__ void put_batch(T* tile, const Place& place, int e, const T (&results)[kBatch]) {
  constexpr int kTogether = kSideBySide ? TileLayout<T>::kTogether : 1;
#pragma unroll
  for (int step = 0; step < kBatch; step += kTogether) {
    Unit<T, kTogether> unit;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) unit.element[i] = results[step + i];
    T* const target = tile + TileLayout<T>::index(side_of(place, step), spot_of(place, step)) + e * TileLayout<T>::kStep;
    *reinterpret_cast<Unit<T, kTogether>*>(target) = unit;
  }
}

// The whole block: neighbouring threads write neighbours, kWidth at a time.
template <int kWidth, class T>
__device__ __forceinline__ void store_lines(const T* tile, T* base, const Index (&strides)[kCoordinates], const Params& p, const Place& place,
                                            Index chunk, int first) {
  constexpr int kAccesses = kLength / kWidth;                             // of a line
  constexpr int kWorkers = kAccesses < kThreads ? kThreads / kAccesses : 1;  // threads that write the same part of different lines
  constexpr int kSidesAtOnce = kWorkers < kSides ? kWorkers : kSides;
  constexpr int kElementsAtOnce = kWorkers / kSidesAtOnce;
  const int worker = static_cast<int>(threadIdx.x) / kAccesses;
  const int from = worker / kSidesAtOnce;
  if (kAccesses < kThreads && from >= kElementsAtOnce) return;
  const Index sides = count_sides(p, place, first);
#pragma unroll 1
  for (int access = static_cast<int>(threadIdx.x) % kAccesses; access < kAccesses; access += kThreads) {
    Index offset;
    if (!find_spot(p, place, chunk, first, access * kWidth, strides, offset)) continue;
#pragma unroll
    for (int i = 0; i < kSides; i += kSidesAtOnce) {
      const int side = i + (kAccesses < kThreads ? worker % kSidesAtOnce : 0);
      if (side >= sides || (kSides % kSidesAtOnce != 0 && side >= kSides)) break;
      const T* const source = tile + TileLayout<T>::index(side, access * kWidth);
      T* const target = base + offset + side_offset(side, strides);
#pragma unroll
      for (int e = 0; e < kElements; e += kElementsAtOnce) {
        if (kElements % kElementsAtOnce != 0 && e + from >= kElements) break;
        store_unit(reinterpret_cast<Unit<T, kWidth>*>(target + (e + from) * strides[kCoordinates - 1]),
                   *reinterpret_cast<const Unit<T, kWidth>*>(source + (e + from) * TileLayout<T>::kStep));
      }
    }
  }
}
//@end

//@section write_transposed : held_steps
// The tile is full when all threads have put their results, and free again when all have written.
__device__ __forceinline__ void finish_batch(const Params& p, const Place& place, Index chunk, int first, Shared& shared) {
  __syncthreads();
  store_transposed(p, place, chunk, first, shared.transposed);
  __syncthreads();
}
//@end

//@section write_transposed_steps : write_transposed
__device__ __forceinline__ void write_held(const Params& p, const Uniforms& uniforms, const Place& place, /*@if !kAllFull*/bool full_vectors, /*@endif*/Held (&held)[kSteps],
                                            const Row (&rows)[kRows], GridStage& grid, Shared& shared) {
#pragma unroll
  for (int first = 0; first < kSteps; first += kBatch) {
//@if kAllFull
    write_batch<1>(p, uniforms, place, 0, first, &held[first], rows, shared.transposed);
//@else
    if (full_vectors) {
      write_batch<1>(p, uniforms, place, 0, first, &held[first], rows, shared.transposed);
    } else {
#pragma unroll
      for (int step = 0; step < kBatch; ++step) {
        TransposedStep result;
        write_pass(p, uniforms, locate(p, place, 0, first + step), held[first + step], rows, grid, result);
        put_transposed(place, step, result, shared.transposed);
      }
    }
//@endif
    finish_batch(p, place, 0, first, shared);
  }
}
//@end

//@section write_transposed_rounds : write_transposed
// A batch is a round. `prepare` finds out what is known of the rows, while the first round's loads are on their way.
template <class Prepare>
__device__ __forceinline__ void write_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                             const Row (&rows)[kRows], GridStage& grid, Shared& shared, const Prepare& prepare) {
  constexpr CacheHint kLast = kL2EvictFirst ? CacheHint::evict_first : CacheHint::none;
  Held held[kSteps];
//@if kAllFull
  load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    write_batch<1>(p, uniforms, place, round, 0, held, rows, shared.transposed);
    // The next round's loads are on their way while this one's results are transposed.
    if (round + 1 < last) load_round<true, kLast>(p, place, round + 1, held);
    finish_batch(p, place, round, 0, shared);
  }
//@else
  constexpr bool kByLine = kLoadGathers || kWriteGathers;
  bool full_vectors = are_full_vectors<kSteps, kByLine>(p, place, first, 0);
  if (full_vectors) load_round<true, kLast>(p, place, first, held);
  prepare();
#pragma unroll 1
  for (Index round = first; round < last; ++round) {
    if (full_vectors) {
      write_batch<1>(p, uniforms, place, round, 0, held, rows, shared.transposed);
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps && is_any(p, place, round, step); ++step) {
        const auto position = existing<kByLine>(locate(p, place, round, step));
        Held one;
        one.template load<kLast>(p, position);
        TransposedStep result;
        write_pass(p, uniforms, position, one, rows, grid, result);
        put_transposed(place, step, result, shared.transposed);
      }
    }
    // The next round's loads are on their way while this one's results are transposed.
    if (round + 1 < last) {
      full_vectors = are_full_vectors<kSteps, kByLine>(p, place, round + 1, 0);
      if (full_vectors) load_round<true, kLast>(p, place, round + 1, held);
    }
    finish_batch(p, place, round, 0, shared);
  }
//@endif
}
//@end
