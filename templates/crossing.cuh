// Results of kernels with rows whose neighbours in memory are not those of the operands: NHWC into NCHW. A block reads lines of the operands
// and leaves results in a tile of shared memory: kLines lines of kLength elements that are neighbours in the results, which threads then
// write as such. A tile takes kBatch steps at a time.
//
//   lines_of_rows         rows along memory, whose neighbours are neighbours in the results; a line is one element of each row
//   lines_of_walk_along   pieces of rows side by side (kPieces groups each); a line is one element of the pieces that a round walks
//   lines_of_walk_across  rows across memory; a line is what a round walks of one row

//@section lines_of_rows : row_position
constexpr int kLength = kThreads / kTeam;
constexpr int kLines = kTeam * kBatch * kElements;
constexpr int kUnit = 4;  // elements of a line that move together in shared memory

__device__ __forceinline__ int line_of(const Place& place, int step, int e) { return (step * kTeam + place.thread) * kElements + e; }
__device__ __forceinline__ int spot_of(const Place& place, int) { return place.team; }

// Whether elements stand at `spot` of lines, and what all of them share of their offset. `first`: the first step of the batch.
__device__ __forceinline__ bool find_spot(const Params& p, const Place&, Index, int, int spot, const Index (&strides)[kCoordinates],
                                          Index& offset) {
  const Index row = static_cast<Index>(blockIdx.x) * kLength + spot;
  if (row >= p.rows) return false;
  Index at[kCoordinates] = {};
  split<0, kOuter>(row, p.space, at);
  offset = offset_of(at, strides);
  return true;
}

// The rest of the offset, and whether the line exists.
__device__ __forceinline__ bool find_line(const Params& p, const Place&, int first, int line, const Index (&strides)[kCoordinates],
                                          Index& offset) {
  const Index element = static_cast<Index>(first) * (kTeam * kElements) + line;
  offset = element * strides[kCoordinates - 1];
  return element < p.row_length;
}
//@end

//@section lines_of_walk_along : row_position
constexpr int kLength = kTeam / kPieces * kBatch;
constexpr int kLines = kThreads / kTeam * kPieces * kElements;
constexpr int kUnit = kBatch;  // elements of a line that move together in shared memory

__device__ __forceinline__ int line_of(const Place& place, int, int e) {
  return (place.team * kPieces + place.thread % kPieces) * kElements + e;
}
__device__ __forceinline__ int spot_of(const Place& place, int step) { return place.thread / kPieces * kBatch + step; }

// Whether elements stand at `spot` of lines, and what all of them share of their offset. `first`: the first step of the batch.
__device__ __forceinline__ bool find_spot(const Params& p, const Place& place, Index chunk, int first, int spot,
                                          const Index (&strides)[kCoordinates], Index& offset) {
  const Index element = (batch_of(place, chunk, first) * kLength + spot) * (kPieces * kElements);
  if (element >= p.row_length) return false;
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = place.at[d];
  at[kOuter - 1] -= place.team;  // the rows of a block are in one line of the kept dimensions, and all exist
  split<kOuter, kReduced>(element, p.space, at);
  offset = offset_of(at, strides);
  return true;
}

// The rest of the offset, and whether the line exists.
__device__ __forceinline__ bool find_line(const Params&, const Place&, int, int line, const Index (&strides)[kCoordinates], Index& offset) {
  constexpr int kPiece = kPieces * kElements;
  offset = static_cast<Index>(line / kPiece) * strides[kOuter - 1] + static_cast<Index>(line % kPiece) * strides[kCoordinates - 1];
  return true;
}
//@end

//@section lines_of_walk_across : row_position
constexpr int kLength = kTeam * kBatch;
constexpr int kLines = kColumns * kElements;
constexpr int kUnit = kBatch;  // elements of a line that move together in shared memory

__device__ __forceinline__ int line_of(const Place&, int, int e) { return tile_row(e); }
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

// The rest of the offset, and whether the line exists.
__device__ __forceinline__ bool find_line(const Params& p, const Place& place, int, int line, const Index (&strides)[kCoordinates], Index& offset) {
  offset = line * strides[kCoordinates - 1];
  return place.tile * kTileRows + line < p.row_columns;
}
//@end

//@section turned
// Where elements stand in a tile: units of a line are moved about, so that lanes that put elements of the same spot into different lines,
// and those that read a line, meet in no bank.
template <class T>
struct Turned {
  static constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  static constexpr int kTogether = kUnit < kMost ? kUnit : kMost;
  static constexpr int kUnits = kLength / kTogether;
  static constexpr int kBanks = 128 / (kTogether * static_cast<int>(sizeof(T)));  // units of all banks
  static constexpr int kMask = ((kUnits & -kUnits) < kBanks ? (kUnits & -kUnits) : kBanks) - 1;
  // Lanes of as many lines stand side by side; behind them come those of the next unit.
  static constexpr int kSideLines = kLines / kElements;
  static constexpr int kApart = kSideLines <= kMask ? (kMask + 1) / kSideLines : 1;

  __device__ __forceinline__ static int index(int line, int spot) {
    return line * kLength + ((spot / kTogether) ^ ((line / kElements * kApart) & kMask)) * kTogether + spot % kTogether;
  }
};

template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Unit {
  T element[kCount];
};

// kStreams: what is written leaves the L2 cache first, which keeps rows that are walked again.
template <class T, int kCount>
__device__ __forceinline__ void store_unit(Unit<T, kCount>* target, const Unit<T, kCount>& unit) {
#ifdef __CUDACC__
  constexpr int kBytes = static_cast<int>(sizeof(T)) * kCount;
  if constexpr (kStreams && kBytes == 16) {
    const Words<16>& words = reinterpret_cast<const Words<16>&>(unit);
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]),
                 "r"(words.word[3])
                 : "memory");
  } else if constexpr (kStreams && kBytes == 8) {
    const Words<8>& words = reinterpret_cast<const Words<8>&>(unit);
    asm volatile("st.global.cs.v2.b32 [%0], {%1, %2};" ::"l"(target), "r"(words.word[0]), "r"(words.word[1]) : "memory");
  } else if constexpr (kStreams && kBytes == 4) {
    asm volatile("st.global.cs.b32 [%0], %1;" ::"l"(target), "r"(reinterpret_cast<const unsigned&>(unit)) : "memory");
  } else {
    *target = unit;
  }
#else
  *target = unit;
#endif
}

// One step's results, element by element.
template <class T>
__device__ __forceinline__ void put_step(T* tile, const Place& place, int step, const Packet<T>& result) {
#pragma unroll
  for (int e = 0; e < kElements; ++e) tile[Turned<T>::index(line_of(place, step, e), spot_of(place, step))] = result.get(e);
}

// Element e of a batch's results: what is side by side in a line moves together.
template <class T>
__device__ __forceinline__ void put_batch(T* tile, const Place& place, int e, const T (&results)[kBatch]) {
  constexpr int kTogether = kSideBySide ? Turned<T>::kTogether : 1;
#pragma unroll
  for (int step = 0; step < kBatch; step += kTogether) {
    Unit<T, kTogether> unit;
#pragma unroll
    for (int i = 0; i < kTogether; ++i) unit.element[i] = results[step + i];
    *reinterpret_cast<Unit<T, kTogether>*>(tile + Turned<T>::index(line_of(place, step, e), spot_of(place, step))) = unit;
  }
}

// The whole block: neighbouring threads write neighbours, kWidth at a time.
template <int kWidth, class T>
__device__ __forceinline__ void store_lines(const T* tile, T* base, const Index (&strides)[kCoordinates], const Params& p, const Place& place,
                                            Index chunk, int first) {
  constexpr int kParts = kLength / kWidth;
  constexpr int kAtOnce = kParts < kThreads ? kThreads / kParts : 1;  // lines
  const int thread = static_cast<int>(threadIdx.x);
  if (kParts < kThreads && thread >= kAtOnce * kParts) return;
#pragma unroll 1
  for (int part = thread % kParts; part < kParts; part += kThreads) {
    Index offset;
    if (!find_spot(p, place, chunk, first, part * kWidth, strides, offset)) continue;
    T* const target = base + offset;
#pragma unroll 4
    for (int line = kParts < kThreads ? thread / kParts : 0; line < kLines; line += kAtOnce) {
      Index of_line;
      if (!find_line(p, place, first, line, strides, of_line)) continue;
      const T* const source = tile + Turned<T>::index(line, part * kWidth);
      store_unit(reinterpret_cast<Unit<T, kWidth>*>(target + of_line), *reinterpret_cast<const Unit<T, kWidth>*>(source));
    }
  }
}
//@end

//@section write_crossed : steps
// The tile is full when all threads have put their results, and free again when all have written.
__device__ __forceinline__ void finish_batch(const Params& p, const Place& place, Index chunk, int first, Shared& shared) {
  __syncthreads();
  store_crossed(p, place, chunk, first, shared.crossed);
  __syncthreads();
}
//@end

//@section write_crossed_steps : write_crossed
__device__ __forceinline__ void write_round(const Params& p, const Uniforms& uniforms, const Place& place, bool straight, Held (&held)[kSteps],
                                            const Row (&rows)[kRows], Across& across, Shared& shared) {
#pragma unroll
  for (int first = 0; first < kSteps; first += kBatch) {
    if (straight) {
      write_batch<1>(p, uniforms, place, 0, first, &held[first], rows, shared.crossed);
    } else {
#pragma unroll
      for (int step = 0; step < kBatch; ++step) {
        Crossing result;
        write_walk(p, uniforms, locate(p, place, 0, first + step), held[first + step], rows, across, result);
        put_crossed(place, step, result, shared.crossed);
      }
    }
    finish_batch(p, place, 0, first, shared);
  }
}
//@end

//@section write_crossed_rounds : write_crossed
// A batch is a round. `prepare` finds out what is known of the rows, while the first round's loads are on their way.
template <class Prepare>
__device__ __forceinline__ void write_rounds(const Params& p, const Uniforms& uniforms, const Place& place, Index first, Index last,
                                             const Row (&rows)[kRows], Across& across, Shared& shared, const Prepare& prepare) {
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
      write_batch<1>(p, uniforms, place, round, 0, held, rows, shared.crossed);
    } else {
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step) {
        const Position position = locate(p, place, round, step);
        Held one;
        one.template load<kLast>(p, position);
        Crossing result;
        write_walk(p, uniforms, position, one, rows, across, result);
        put_crossed(place, step, result, shared.crossed);
      }
    }
    finish_batch(p, place, round, 0, shared);
  }
}
//@end

//@section write_crossed_staged : staged, write_crossed
__device__ __forceinline__ void write_staged(const Params& p, const Uniforms& uniforms, const Place& place, Index chunk, Held* held,
                                             const Row (&rows)[kRows], Across& across, Shared& shared) {
#pragma unroll 1
  for (int first = 0; first < kSteps; first += kBatch) {
    if (are_straight<kBatch>(p, place, chunk, first)) {
      write_batch<kThreads>(p, uniforms, place, chunk, first, held + first * kThreads, rows, shared.crossed);
    } else {
#pragma unroll 1
      for (int step = 0; step < kBatch; ++step) {
        const Position position = locate(p, place, chunk, first + step);
        if (position.end == 0) continue;
        Crossing result;
        write_walk(p, uniforms, position, held[(first + step) * kThreads], rows, across, result);
        put_crossed(place, step, result, shared.crossed);
      }
    }
    finish_batch(p, place, chunk, first, shared);
  }
}
//@end
