// Pointwise chains whose inputs are contiguous along another dimension than the results: NHWC into NCHW. The kernel
// iterates in input order, vectors of kElements along their lines, so that all accesses to them are wide; a thread has
// kSteps vectors one behind the other. Results are transposed in a tile of shared memory: kInputExtent lines of
// kOutputExtent elements that are neighbours in the results, which neighbouring threads then write. No thread writes
// where it has read, so nothing of this works in place, and the planner sees to it that nothing needs to.

//@section position_transposed : space, split
// The first element of a vector.
struct Position {
  Index at[kCoordinates];
};
//@end

//@section locate_transposed
// The first element of a block's tile. Neighbouring blocks are neighbours along the inputs' dimension, where their lines meet.
__device__ __forceinline__ Position first_of(Index tile, const Params& p) {
  const Index column = divide(tile, p.input_tiles_divisor);
  const Index plane = divide(column, p.output_tiles_divisor);
  Position first;
  split<kCoordinates - 3>(plane, p.space, first.at);
  first.at[kCoordinates - 2] = (column - plane * p.output_tiles) * kOwn;
  first.at[kCoordinates - 1] = (tile - column * p.input_tiles) * kInputExtent;
  return first;
}

// Lines are multiples of vectors. A vector beyond the tensor takes the place of one inside; nobody writes its results.
__device__ __forceinline__ Position locate(const Position& first, int step, const Params& p) {
  Position position = first;
  Index& output_at = position.at[kCoordinates - 2];
  Index& input_at = position.at[kCoordinates - 1];
  const Index last = p.space.extents[kCoordinates - 2] - 1;
  output_at += static_cast<Index>(threadIdx.x / kLanes * kSteps) + step;
  output_at = output_at < last ? output_at : last;
  input_at += static_cast<Index>(threadIdx.x % kLanes * kElements);
  input_at = input_at < p.space.extents[kCoordinates - 1] ? input_at : 0;
  return position;
}
//@end

//@section load_transposed : wide
// A block takes some bytes of a line of the cache; blocks that run at the same time take the rest. Fetched as a whole, there is one request (16 bits,
// 64 bytes each: 1.09 of the copy's time, 1.04 so).
template <int kWidth, class T>
__device__ __forceinline__ void load_transposed(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
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

//@section load_hoisted : wide
template <int kWidth, class T>
__device__ __forceinline__ void load_hoisted(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                            const Position& position) {
  load_wide<kWidth>(values, base + offset_of(position.at, strides));
}
//@end

//@section tile : position_transposed
// What one instruction moves, without regard to what it is.
template <int kBytes>
struct alignas(kBytes) Bytes {
  unsigned word[kBytes / 4];
};
template <>
struct alignas(2) Bytes<2> {
  unsigned short word;
};
template <>
struct Bytes<1> {
  unsigned char word;
};

template <int kBytes>
__device__ __forceinline__ Bytes<kBytes> bytes_at(const void* from) {
  return *static_cast<const Bytes<kBytes>*>(from);
}

// Between the lines of one vector and those of the next there is a gap, so that lanes side by side, which put the same element of their
// vectors, meet in no bank.
template <class T>
struct alignas(16) Tile {
  static constexpr unsigned kGap = (kLanes < 8 ? 128 / kLanes : 16) / sizeof(T);
  T elements[kInputExtent * kOutputExtent + kLanes * kGap];

  __device__ __forceinline__ static unsigned index(unsigned line, unsigned spot) {
    return line * kOutputExtent + line / kElements * kGap + spot;
  }
};

// Element e of all vectors of a thread: neighbours of a line.
template <class T, class Value>
__device__ __forceinline__ void put(Tile<T>& tile, unsigned e, const Value (&results)[kSteps]) {
  constexpr int kMost = 16 / static_cast<int>(sizeof(T));
  constexpr int kTogether = kSteps < kMost ? kSteps : kMost;
  constexpr int kBytes = kTogether * static_cast<int>(sizeof(T));
  constexpr int kPair = kSteps % 2 == 0 ? 2 : 1;
  T* const target = tile.elements + Tile<T>::index(threadIdx.x % kLanes * kElements, threadIdx.x / kLanes * kSteps) + e * kOutputExtent;
#pragma unroll
  for (int first = 0; first < kSteps; first += kTogether) {
    alignas(16) T values[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; i += kPair) from_reals<kPair>(results + first + i, values + i);
    *reinterpret_cast<Bytes<kBytes>*>(target + first) = bytes_at<kBytes>(values);
  }
}

// How much of the tile exists.
struct Bounds {
  unsigned lines;
  unsigned length;
};
__device__ __forceinline__ Bounds existing(const Position& first, const Space& space) {
  const Index lines = space.extents[kCoordinates - 1] - first.at[kCoordinates - 1];
  const Index length = space.extents[kCoordinates - 2] - first.at[kCoordinates - 2];
  return Bounds{static_cast<unsigned>(lines < kInputExtent ? lines : kInputExtent), static_cast<unsigned>(length < kOutputExtent ? length : kOutputExtent)};
}

// Elements of a sector: what the memory writes.
template <class T>
constexpr unsigned kSector = 32 / sizeof(T);

// What of a line the block writes, and where the first full sector of memory begins. With an overlap, tiles cut lines at sectors: what stands before
// the first one is the previous tile's. Partly written sectors took transposed 8 bits 1.15 to 1.18 of the copy's time, full ones 1.02.
struct Cut {
  unsigned begin;
  unsigned sectors;
  unsigned end;
};
template <class T>
__device__ __forceinline__ Cut cut_of(const T* line, const Position& first, const Bounds& bounds) {
  const unsigned address = static_cast<unsigned>(reinterpret_cast<unsigned long long>(line));
  const unsigned before = (0u - address) / static_cast<unsigned>(sizeof(T)) % kSector<T>;
  const unsigned sectors = before < bounds.length ? before : bounds.length;
  if constexpr (kTileOverlap == 0) return Cut{0, sectors, bounds.length};
  const unsigned end = kOwn + before;
  return Cut{first.at[kCoordinates - 2] == 0 ? 0 : sectors, sectors, end < bounds.length ? end : bounds.length};
}

// Which of a tile's runs a thread writes: neighbouring threads neighbours of a line.
template <unsigned kAccesses>
struct Accesses {
  static constexpr unsigned kBeside = kAccesses < kThreads ? kAccesses : kThreads;  // threads of a line
  static constexpr unsigned kLines = kThreads / kBeside;                        // at once
  static constexpr unsigned kRounds = kInputExtent > kLines ? kInputExtent / kLines : 1;
  static constexpr unsigned kColumns = kAccesses / kBeside;
};
//@end

//@section store_transposed : tile
// Whether lines of the tile are copied as a whole: 16 bytes at a time from all threads take the copy's time 1.01 to 1.03 times, this 1.00 to 1.02. Not
// so of 8 bits (1.06 and 1.09).
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
template <int kWidth, class T>
constexpr bool kCopiesLines = kWidth * sizeof(T) == 16 && sizeof(T) > 1 && kInputExtent <= kThreads;
#else
template <int kWidth, class T>
constexpr bool kCopiesLines = false;
#endif

// A thread for each line (PTX ISA, cp.async.bulk).
template <class T>
__device__ __forceinline__ void copy_lines(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                           const Space& space) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  const Bounds bounds = existing(first, space);
  if (threadIdx.x >= bounds.lines) return;
  T* const line = base + offset_of(first.at, strides) + static_cast<Index>(threadIdx.x) * strides[kCoordinates - 1];
  const Cut cut = cut_of(line, first, bounds);
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
__device__ __forceinline__ void store_accesses(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                             const Space& space) {
  constexpr int kBytes = kWidth * static_cast<int>(sizeof(T));
  using Each = Accesses<kOutputExtent / kWidth>;
  const Bounds bounds = existing(first, space);
  const unsigned top = threadIdx.x / Each::kBeside;
#pragma unroll
  for (unsigned column = 0; column < Each::kColumns; ++column) {
    const unsigned spot = (threadIdx.x % Each::kBeside + column * Each::kBeside) * kWidth;
    T* const target = base + offset_of(first.at, strides);
#pragma unroll
    for (unsigned round = 0; round < Each::kRounds; ++round) {
      const unsigned line = top + round * Each::kLines;
      T* const to = target + static_cast<Index>(line) * strides[kCoordinates - 1];
      const Cut cut = cut_of(to, first, bounds);
      if (line < bounds.lines && spot >= cut.begin && spot < cut.end)
        *reinterpret_cast<Bytes<kBytes>*>(to + spot) = bytes_at<kBytes>(tile.elements + Tile<T>::index(line, spot));
    }
  }
}

// All lines are aligned to what one instruction writes, and end there.
template <int kWidth, class T>
__device__ __forceinline__ void store_transposed(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                             const Space& space) {
  if constexpr (kCopiesLines<kWidth, T>) {
    copy_lines(tile, base, strides, first, space);
  } else {
    store_accesses<kWidth>(tile, base, strides, first, space);
  }
}
//@end

//@section store_transposed_unaligned : tile
// 16 bytes from any place of the tile.
template <class T>
__device__ __forceinline__ Bytes<16> gather_words(const Tile<T>& tile, unsigned index) {
  Bytes<16> bytes;
  if constexpr (sizeof(T) < 4) {
    const unsigned byte = index * static_cast<unsigned>(sizeof(T));
    const unsigned* const words = reinterpret_cast<const unsigned*>(tile.elements) + byte / 4;
    const unsigned shift = byte % 4 * 8;
    unsigned long long low = words[0];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const unsigned long long high = words[i + 1];
      bytes.word[i] = static_cast<unsigned>((high << 32 | low) >> shift);
      low = high;
    }
  } else {
    constexpr int kWords = static_cast<int>(sizeof(T)) / 4;
#pragma unroll
    for (int i = 0; i < 4; i += kWords) {
      const Bytes<sizeof(T)> element = bytes_at<sizeof(T)>(tile.elements + index + i / kWords);
#pragma unroll
      for (int k = 0; k < kWords; ++k) bytes.word[i + k] = element.word[k];
    }
  }
  return bytes;
}

// The end of a line's last full sector.
template <class T>
__device__ __forceinline__ unsigned full_until(const Cut& cut) {
  return cut.end - (cut.end - cut.sectors) % kSector<T>;
}

// Lines begin at any address: what stands before the first full sector of memory and behind the last one goes element by element, so that of
// each line two sectors at most are written in part.
template <int kWidth, class T>
__device__ __forceinline__ void store_transposed_unaligned(const Tile<T>& tile, T* base, const Index (&strides)[kCoordinates], const Position& first,
                                              const Space& space) {
  static_assert(sizeof(T) * kWidth == 16 && kWidth <= kOutputExtent, "accesses of 16 bytes");
  using Each = Accesses<kOutputExtent / kWidth>;
  const Bounds bounds = existing(first, space);
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
      const Cut cut = cut_of(to, first, bounds);
      const unsigned spot = cut.sectors + place;
      if (line < bounds.lines && spot < full_until<T>(cut))
        *reinterpret_cast<Bytes<16>*>(to + spot) = gather_words(tile, Tile<T>::index(line, spot));
    }
  }
  using Ends = Accesses<kSector<T>>;
  const unsigned e = threadIdx.x % kSector<T>;
#pragma unroll
  for (unsigned round = 0; round < Ends::kRounds; ++round) {
    const unsigned line = threadIdx.x / kSector<T> + round * Ends::kLines;
    if (line >= bounds.lines) continue;
    T* const to = target + static_cast<Index>(line) * stride;
    const T* const from = tile.elements + Tile<T>::index(line, 0);
    const Cut cut = cut_of(to, first, bounds);
    const unsigned end_at = full_until<T>(cut) + e;
    if (e >= cut.begin && e < cut.sectors) to[e] = from[e];
    if (end_at < cut.end) to[end_at] = from[end_at];
  }
}
//@end

//@section run_transpose : locate_transposed
// What a thread has put into the tile is seen by copies that others issue, too (PTX ISA, async proxy).
__device__ __forceinline__ void publish_tile() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (Shared::kCopied) asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

__device__ __forceinline__ void run_tile(const Params& p, const Uniforms& uniforms, Index tile) {
  __shared__ Shared shared;
  const Position first = first_of(tile, p);
  Epilogue epilogues[kSteps];
#pragma unroll
  for (int step = 0; step < kSteps; ++step) epilogues[step].load(p, locate(first, step, p));
  Hoisted hoisted;
  hoisted.load(p, locate(first, 0, p));
  // ptxas moves loads behind the first results where these are expensive, and the memory waits: a branch that no launch takes keeps them before. (Single
  // elements are too many to be held: 48 registers rather than 32.)
#ifdef __CUDACC__
  if (kElements > 1 && p.tiles < 0) asm volatile("trap;");
#endif
  put_results(p, uniforms, epilogues, hoisted, shared);
  publish_tile();
  __syncthreads();
  store_results(p, first, shared);
}
//@end
