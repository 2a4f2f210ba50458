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
  first.at[kCoordinates - 2] = (column - plane * p.tiles_along) * kOwn;
  first.at[kCoordinates - 1] = (tile - column * p.tiles_across) * kAcross;
  return first;
}

// Lines are multiples of groups. A group beyond the tensor takes the place of one inside; nobody writes its results.
__device__ __forceinline__ Position locate(const Position& first, int step, const Params& p) {
  Position position = first;
  Index& along = position.at[kCoordinates - 2];
  Index& across = position.at[kCoordinates - 1];
  const Index last = p.space.extents[kCoordinates - 2] - 1;
  along += static_cast<Index>(threadIdx.x / kLanes * kSteps) + step;
  along = along < last ? along : last;
  across += static_cast<Index>(threadIdx.x % kLanes * kElements);
  across = across < p.space.extents[kCoordinates - 1] ? across : 0;
  return position;
}
//@end

//@section load_across : wide
// A block takes a part of a line of the cache; blocks that run at the same time take the rest. Fetched as a whole, memory is asked for once (16 bits,
// parts of 64 bytes: 1.09 of the copy's time, 1.04 so).
template <int kWidth, class T>
__device__ __forceinline__ void load_across(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                            const Position& position) {
  const T* source = base + offset_of(position.at, strides);
#ifdef __CUDACC__
  if constexpr (kWidth * sizeof(T) == 16) {
#pragma unroll
    for (int e = 0; e < kElements; e += kWidth) {
      unsigned words[4];
      asm volatile("ld.global.L2::128B.v4.b32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                   : "l"(source + e));
      memcpy(values + e, words, 16);
    }
    return;
  }
#endif
  load_wide<kWidth>(values, source);
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
__device__ __forceinline__ Chunk<kBytes> chunk_at(const void* from) {
  return *static_cast<const Chunk<kBytes>*>(from);
}

// Between the lines of one group and those of the next there is a gap, so that lanes side by side, which put the same element of their
// groups, meet in no bank.
template <class T>
struct alignas(16) Tile {
  static constexpr unsigned kGap = (kLanes < 8 ? 128 / kLanes : 16) / sizeof(T);
  T elements[kAcross * kAlong + kLanes * kGap];

  __device__ __forceinline__ static unsigned index(unsigned line, unsigned spot) {
    return line * kAlong + line / kElements * kGap + spot;
  }
};

// Element e of all groups of a thread: neighbours of a line.
template <class T, class Value>
__device__ __forceinline__ void put(Tile<T>& tile, unsigned e, const Value (&results)[kSteps]) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  constexpr int kTogether = kSteps < kMost ? kSteps : kMost;
  constexpr int kBytes = kTogether * static_cast<int>(sizeof(T));
  constexpr int kPair = kSteps % 2 == 0 ? 2 : 1;
  T* const target = tile.elements + Tile<T>::index(threadIdx.x % kLanes * kElements, threadIdx.x / kLanes * kSteps) + e * kAlong;
#pragma unroll
  for (int first = 0; first < kSteps; first += kTogether) {
    alignas(16) T values[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i += kPair) from_reals<kPair>(results + first + i, values + i);
    *reinterpret_cast<Chunk<kBytes>*>(target + first) = chunk_at<kBytes>(values);
  }
}

// How much of the tile exists.
struct Part {
  unsigned lines;
  unsigned length;
};
__device__ __forceinline__ Part existing(const Position& first, const Space& space) {
  const Index lines = space.extents[kCoordinates - 1] - first.at[kCoordinates - 1];
  const Index length = space.extents[kCoordinates - 2] - first.at[kCoordinates - 2];
  return Part{static_cast<unsigned>(lines < kAcross ? lines : kAcross), static_cast<unsigned>(length < kAlong ? length : kAlong)};
}

// Elements of a sector: what the memory writes.
template <class T>
constexpr unsigned kSector = 32 / sizeof(T);

// What of a line the block writes, and where the first whole sector of memory begins. With a halo, tiles cut lines at sectors: what stands before
// the first one is the previous tile's. Sectors in parts took turned 8 bits 1.15 to 1.18 of the copy's time, whole ones 1.02.
struct Cut {
  unsigned begin;
  unsigned sectors;
  unsigned end;
};
template <class T>
__device__ __forceinline__ Cut cut_of(const T* line, const Position& first, const Part& part) {
  const unsigned address = static_cast<unsigned>(reinterpret_cast<unsigned long long>(line));
  const unsigned before = (0u - address) / static_cast<unsigned>(sizeof(T)) % kSector<T>;
  const unsigned sectors = before < part.length ? before : part.length;
  if constexpr (kHalo == 0) return Cut{0, sectors, part.length};
  const unsigned end = kOwn + before;
  return Cut{first.at[kCoordinates - 2] == 0 ? 0 : sectors, sectors, end < part.length ? end : part.length};
}

// Which of a tile's pieces a thread writes: neighbouring threads neighbours of a line.
template <unsigned kPieces>
struct Pieces {
  static constexpr unsigned kBeside = kPieces < kThreads ? kPieces : kThreads;  // threads of a line
  static constexpr unsigned kLines = kThreads / kBeside;                        // at once
  static constexpr unsigned kRounds = kAcross > kLines ? kAcross / kLines : 1;
  static constexpr unsigned kColumns = kPieces / kBeside;
};
//@end

//@section store_turned : tile
// Whether lines of the tile are copied as a whole: 16 bytes at a time from all threads take the copy's time 1.01 to 1.03 times, this 1.00 to 1.02. Not
// so of 8 bits (1.06 and 1.09).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
template <int kWidth, class T>
constexpr bool kCopiesLines = kWidth * sizeof(T) == 16 && sizeof(T) > 1 && kAcross <= kThreads;
#else
template <int kWidth, class T>
constexpr bool kCopiesLines = false;
#endif

// A thread for each line (PTX ISA, cp.async.bulk).
template <class T>
__device__ __forceinline__ void copy_lines(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                           const Space& space) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Part part = existing(first, space);
  if (threadIdx.x >= part.lines) return;
  T* const line = base + offset_of(first.at, strides) + static_cast<Index>(threadIdx.x) * strides[kCoordinates - 1];
  const Cut cut = cut_of(line, first, part);
  if (cut.begin >= cut.end) return;
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(line + cut.begin),
               "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile.elements + Tile<T>::index(threadIdx.x, cut.begin)))),
               "r"((cut.end - cut.begin) * static_cast<unsigned>(sizeof(T)))
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");  // the block's shared memory lasts no longer than the block
#endif
}

template <int kWidth, class T>
__device__ __forceinline__ void store_pieces(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                             const Space& space) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  using Each = Pieces<kAlong / kWidth>;
  const Part part = existing(first, space);
  const unsigned top = threadIdx.x / Each::kBeside;
#pragma unroll
  for (unsigned column = 0; column < Each::kColumns; ++column) {
    const unsigned spot = (threadIdx.x % Each::kBeside + column * Each::kBeside) * kWidth;
    T* const target = base + offset_of(first.at, strides);
#pragma unroll
    for (unsigned round = 0; round < Each::kRounds; ++round) {
      const unsigned line = top + round * Each::kLines;
      T* const to = target + static_cast<Index>(line) * strides[kCoordinates - 1];
      const Cut cut = cut_of(to, first, part);
      if (line < part.lines && spot >= cut.begin && spot < cut.end)
        *reinterpret_cast<Chunk<kBytes>*>(to + spot) = chunk_at<kBytes>(tile.elements + Tile<T>::index(line, spot));
    }
  }
}

// All lines are aligned to what one instruction writes, and end there.
template <int kWidth, class T>
__device__ __forceinline__ void store_turned(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                             const Space& space) {
  if constexpr (kCopiesLines<kWidth, T>) {
    copy_lines(tile, base, strides, first, space);
  } else {
    store_pieces<kWidth>(tile, base, strides, first, space);
  }
}
//@end

//@section store_shifted : tile
// 16 bytes from any place of the tile.
template <class T>
__device__ __forceinline__ Chunk<16> gather_words(const Tile<T>& tile, unsigned index) {
  Chunk<16> chunk;
  if constexpr (sizeof(T) < 4) {
    const unsigned byte = index * static_cast<unsigned>(sizeof(T));
    const unsigned* const words = reinterpret_cast<const unsigned*>(tile.elements) + byte / 4;
    const unsigned shift = byte % 4 * 8;
    unsigned long long low = words[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned long long high = words[i + 1];
      chunk.word[i] = static_cast<unsigned>((high << 32 | low) >> shift);
      low = high;
    }
  } else {
    constexpr int kWords = static_cast<int>(sizeof(T)) / 4;
#pragma unroll
    for (int i = 0; i < 4; i += kWords) {
      const Chunk<sizeof(T)> element = chunk_at<sizeof(T)>(tile.elements + index + i / kWords);
#pragma unroll
      for (int k = 0; k < kWords; ++k) chunk.word[i + k] = element.word[k];
    }
  }
  return chunk;
}

// The end of a line's last whole sector.
template <class T>
__device__ __forceinline__ unsigned whole_until(const Cut& cut) {
  return cut.end - (cut.end - cut.sectors) % kSector<T>;
}

// Lines begin at any address: what stands before the first whole sector of memory and behind the last one goes element by element, so that of
// each line two sectors at most are written in parts.
template <int kWidth, class T>
__device__ __forceinline__ void store_shifted(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                              const Space& space) {
  static_assert(sizeof(T) * kWidth == 16 && kWidth <= kAlong, "whole pieces of 16 bytes");
  using Each = Pieces<kAlong / kWidth>;
  const Part part = existing(first, space);
  T* const target = base + offset_of(first.at, strides);
  const Index stride = strides[kCoordinates - 1];
  const unsigned top = threadIdx.x / Each::kBeside;
#pragma unroll
  for (unsigned column = 0; column < Each::kColumns; ++column) {
    const unsigned place = (threadIdx.x % Each::kBeside + column * Each::kBeside) * kWidth;
#pragma unroll
    for (unsigned round = 0; round < Each::kRounds; ++round) {
      const unsigned line = top + round * Each::kLines;
      T* const to = target + static_cast<Index>(line) * stride;
      const Cut cut = cut_of(to, first, part);
      const unsigned spot = cut.sectors + place;
      if (line < part.lines && spot < whole_until<T>(cut))
        *reinterpret_cast<Chunk<16>*>(to + spot) = gather_words(tile, Tile<T>::index(line, spot));
    }
  }
  using Ends = Pieces<kSector<T>>;
  const unsigned e = threadIdx.x % kSector<T>;
#pragma unroll
  for (unsigned round = 0; round < Ends::kRounds; ++round) {
    const unsigned line = threadIdx.x / kSector<T> + round * Ends::kLines;
    if (line >= part.lines) continue;
    T* const to = target + static_cast<Index>(line) * stride;
    const T* const from = tile.elements + Tile<T>::index(line, 0);
    const Cut cut = cut_of(to, first, part);
    const unsigned tail = whole_until<T>(cut) + e;
    if (e >= cut.begin && e < cut.sectors) to[e] = from[e];
    if (tail < cut.end) to[tail] = from[tail];
  }
}
//@end

//@section run_turned : locate_turned
// What a thread has put into the tile is seen by copies that others ask for, too (PTX ISA, async proxy).
__device__ __forceinline__ void publish_tile() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (Shared::kCopied) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void run_tile(const Params& p, const Uniforms& uniforms, Index tile) {
  __shared__ Shared shared;
  const Position first = first_of(tile, p);
  Tail tails[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) tails[step].load(p, locate(first, step, p));
  Steady steady;
  steady.load(p, locate(first, 0, p));
  // ptxas moves loads behind the first results where these are dear, and the memory waits: a branch that no launch takes keeps them before. (Single
  // elements are too many to be kept: 48 registers rather than 32.)
#ifdef __CUDACC__
  if (kElements > 1 && p.tiles < 0) asm volatile("trap;");
#endif
  put_results(p, uniforms, tails, steady, shared);
  publish_tile();
  __syncthreads();
  store_results(p, first, shared);
}
//@end
