// Pointwise chains whose operands run across the results: NHWC into NCHW. Operands are walked as they run, groups of kElements along their
// lines, so that all accesses to them are wide; a thread has kSteps groups one behind the other. Results turn in a tile of shared memory:
// kAcross lines of kAlong elements that are neighbours in the results, which neighbouring threads then write. No thread writes where it
// has read, so nothing of this works in place, and the planner sees to it that nothing needs to.

//@section position_turned : space, split
// The first element of a group.
struct Position {
  Index at[kCoordinates];
};
//@end

//@section locate_turned
// The first element of a block's tile. Neighbouring blocks are neighbours across, where the operands' lines meet.
__device__ __forceinline__ Position first_of(Index tile, const Params& p) {
  const Index column = divide(tile, p.tiles_across_divisor);
  const Index plane = divide(column, p.tiles_along_divisor);
  Position first;
  split(plane, kCoordinates - 3, p.space, first.at);
  first.at[kCoordinates - 2] = (column - plane * p.tiles_along) * kAlong;
  first.at[kCoordinates - 1] = (tile - column * p.tiles_across) * kAcross;
  return first;
}

// Lines are multiples of groups. A group beyond the tensor takes the place of one inside; nobody writes its results.
__device__ __forceinline__ Position locate(const Position& first, int step, const Params& p) {
  const int thread = static_cast<int>(threadIdx.x);
  Position position = first;
  Index& along = position.at[kCoordinates - 2];
  Index& across = position.at[kCoordinates - 1];
  const Index last = p.space.extents[kCoordinates - 2] - 1;
  along += thread / kLanes * kSteps + step;
  along = along < last ? along : last;
  across += thread % kLanes * kElements;
  across = across < p.space.extents[kCoordinates - 1] ? across : 0;
  return position;
}
//@end

//@section load_steady : wide
template <int kWidth, class T>
__device__ __forceinline__ void load_steady(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                            const Position& position) {
  load_wide<kWidth>(values, base + offset_of(position.at, strides));
}
//@end

//@section tile : position_turned
// What one instruction moves, without regard to what it is.
template <int kBytes>
struct alignas(kBytes) Chunk {
  unsigned word[kBytes / 4];
};
template <>
struct alignas(2) Chunk<2> {
  unsigned short word;
};
template <>
struct Chunk<1> {
  unsigned char word;
};

template <int kBytes>
__device__ __forceinline__ void move(void* to, const void* from) {
  *static_cast<Chunk<kBytes>*>(to) = *static_cast<const Chunk<kBytes>*>(from);
}

// Between the lines of one group and those of the next there is a gap, so that lanes side by side, which put the same element of their
// groups, meet in no bank.
template <class T>
struct alignas(16) Tile {
  static constexpr int kGap = (kLanes < 8 ? 128 / kLanes : 16) / static_cast<int>(sizeof(T));
  T elements[kAcross * kAlong + kLanes * kGap];

  __device__ __forceinline__ static int index(int line, int spot) { return line * kAlong + line / kElements * kGap + spot; }
};

// Element e of all groups of a thread: neighbours of a line.
template <class T, class Value>
__device__ __forceinline__ void put(Tile<T>& tile, int e, const Value (&results)[kSteps]) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  constexpr int kTogether = kSteps < kMost ? kSteps : kMost;
  constexpr int kPair = kSteps % 2 == 0 ? 2 : 1;
  const int thread = static_cast<int>(threadIdx.x);
  T* const target = tile.elements + Tile<T>::index(thread % kLanes * kElements + e, thread / kLanes * kSteps);
#pragma unroll
  for (int first = 0; first < kSteps; first += kTogether) {
    alignas(16) T values[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i += kPair) from_reals<kPair>(results + first + i, values + i);
    move<kTogether * static_cast<int>(sizeof(T))>(target + first, values);
  }
}

// How much of the tile exists.
struct Part {
  int lines;
  int length;
};
__device__ __forceinline__ Part existing(const Position& first, const Space& space) {
  const Index lines = space.extents[kCoordinates - 1] - first.at[kCoordinates - 1];
  const Index length = space.extents[kCoordinates - 2] - first.at[kCoordinates - 2];
  return Part{static_cast<int>(lines < kAcross ? lines : kAcross), static_cast<int>(length < kAlong ? length : kAlong)};
}
//@end

//@section store_turned : tile
// Neighbouring threads write neighbours of a line, kWidth at a time.
template <int kWidth, class T>
__device__ __forceinline__ void store_turned(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                             const Space& space) {
  constexpr int kPieces = kAlong / kWidth;  // of a line
  const Part part = existing(first, space);
  T* const target = base + offset_of(first.at, strides);
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < kAcross * kPieces; i += kThreads) {
    const int line = i / kPieces;
    const int spot = i % kPieces * kWidth;
    if (line < part.lines && spot < part.length)
      move<kWidth * static_cast<int>(sizeof(T))>(target + line * strides[kCoordinates - 1] + spot,
                                                 tile.elements + Tile<T>::index(line, spot));
  }
}
//@end

//@section store_shifted : tile
// 16 bytes from any place of the tile.
template <class T>
__device__ __forceinline__ Chunk<16> gather_words(const Tile<T>& tile, int index) {
  Chunk<16> chunk;
  if constexpr (sizeof(T) < 4) {
    const int byte = index * static_cast<int>(sizeof(T));
    const unsigned* const words = reinterpret_cast<const unsigned*>(tile.elements) + byte / 4;
    const int shift = byte % 4 * 8;
    unsigned long long low = words[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned long long high = words[i + 1];
      chunk.word[i] = static_cast<unsigned>((high << 32 | low) >> shift);
      low = high;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 16 / static_cast<int>(sizeof(T)); ++i)
      move<sizeof(T)>(reinterpret_cast<T*>(chunk.word) + i, tile.elements + index + i);
  }
  return chunk;
}

// The same where lines begin at any address: what stands before the first whole word of memory and behind the last one goes element by
// element.
template <int kWidth, class T>
__device__ __forceinline__ void store_shifted(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                              const Space& space) {
  constexpr int kPieces = kAlong / kWidth;  // of a line
  const Part part = existing(first, space);
  T* const target = base + offset_of(first.at, strides);
  const auto head_of = [&](const T* line) {
    const int head = static_cast<int>((0 - reinterpret_cast<unsigned long long>(line)) / sizeof(T) % kWidth);
    return head < part.length ? head : part.length;
  };
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kAcross * kPieces; i += kThreads) {
    const int line = i / kPieces;
    T* const to = target + line * strides[kCoordinates - 1];
    const int spot = head_of(to) + i % kPieces * kWidth;
    if (line < part.lines && spot + kWidth <= part.length)
      *reinterpret_cast<Chunk<16>*>(to + spot) = gather_words(tile, Tile<T>::index(line, spot));
  }
#pragma unroll 2
  for (int i = static_cast<int>(threadIdx.x); i < kAcross * kWidth; i += kThreads) {
    const int line = i / kWidth;
    const int e = i % kWidth;
    T* const to = target + line * strides[kCoordinates - 1];
    const T* const from = tile.elements + Tile<T>::index(line, 0);
    const int head = head_of(to);
    const int tail = (part.length - head) % kWidth;
    if (line >= part.lines) continue;
    if (e < head) to[e] = from[e];
    if (e < tail) to[part.length - tail + e] = from[part.length - tail + e];
  }
}
//@end

//@section run_turned : locate_turned
__device__ __forceinline__ void run_tile(const Params& p, const Uniforms& uniforms, Index tile) {
  __shared__ Shared shared;
  const Position first = first_of(tile, p);
  Tail tails[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) tails[step].load(p, locate(first, step, p));
  Steady steady;
  steady.load(p, locate(first, 0, p));
  put_results(p, uniforms, tails, steady, shared);
  __syncthreads();
  store_results(p, first, shared);
}
//@end
