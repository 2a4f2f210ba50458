// Loads and stores of one thread's vector of kElements elements, one function per access kind (docs/internals/plan.md).
// `kWidth` elements move in one instruction of at most 16 bytes. kFullVector: the vector is in bounds, lies in one row,
// and is aligned where operands need it. Without that gather() reads element by element. In the flat schedule vectors
// are in bounds, and elements that are no vector's are loaded and stored by element().

//@section wide
// What one memory instruction moves: in words where elements are narrower, so that the compiler keeps them packed as they are.
template <class T, int kWidth>
struct alignas(sizeof(T) * kWidth) Wide {
  T element[kWidth];
};
//@if kHasBytes
template <int kCount>
struct alignas(4 * kCount) WideWords {
  unsigned word[kCount];
};

template <int kWidth, class T>
__device__ __forceinline__ void load_wide(T (&values)[kElements], const T* source) {
#pragma unroll
  for (int e = 0; e < kElements; e += kWidth) {
    constexpr int kWords = kWidth * static_cast<int>(sizeof(T)) / 4;
    if constexpr (sizeof(T) == 1 && kWords > 0) {
      const WideWords<kWords> wide = *reinterpret_cast<const WideWords<kWords>*>(source + e);
#pragma unroll
      for (int i = 0; i < kWords; ++i) memcpy(values + e + 4 * i, &wide.word[i], 4);
      continue;
    }
    *reinterpret_cast<Wide<T, kWidth>*>(values + e) = *reinterpret_cast<const Wide<T, kWidth>*>(source + e);
  }
}

template <int kWidth, class T>
__device__ __forceinline__ void store_wide(const T (&values)[kElements], T* target) {
#pragma unroll
  for (int e = 0; e < kElements; e += kWidth) {
    constexpr int kWords = kWidth * static_cast<int>(sizeof(T)) / 4;
    if constexpr (sizeof(T) == 1 && kWords > 0) {
      WideWords<kWords> wide;
#pragma unroll
      for (int i = 0; i < kWords; ++i) memcpy(&wide.word[i], values + e + 4 * i, 4);
      *reinterpret_cast<WideWords<kWords>*>(target + e) = wide;
      continue;
    }
    *reinterpret_cast<Wide<T, kWidth>*>(target + e) = *reinterpret_cast<const Wide<T, kWidth>*>(values + e);
  }
}
//@else

// A vector from memory or to it, kWidth elements at a time.
template <int kWidth, class T>
__device__ __forceinline__ void copy_wide(T* target, const T* source) {
#pragma unroll
  for (int i = 0; i < kElements / kWidth; ++i)
    *reinterpret_cast<Wide<T, kWidth>*>(target + i * kWidth) = *reinterpret_cast<const Wide<T, kWidth>*>(source + i * kWidth);
}
template <int kWidth, class T>
__device__ __forceinline__ void load_wide(T (&values)[kElements], const T* source) {
  copy_wide<kWidth>(values, source);
}
template <int kWidth, class T>
__device__ __forceinline__ void store_wide(const T (&values)[kElements], T* target) {
  copy_wide<kWidth>(target, values);
}
//@endif

// The same, from any address.
template <int kWidth, class T>
__device__ __forceinline__ void load_narrow(T (&values)[kElements], const T* source) {
//@if kHasBytes
  if constexpr (sizeof(T) == 1 && kWidth >= 4) {
    const unsigned char* bytes = reinterpret_cast<const unsigned char*>(source);
#pragma unroll
    for (int e = 0; e < kElements; e += 4) {
      const unsigned word =
          bytes[e] | bytes[e + 1] << 8 | bytes[e + 2] << 16 | static_cast<unsigned>(bytes[e + 3]) << 24;
      memcpy(values + e, &word, 4);
    }
    return;
  }
//@endif
#pragma unroll
  for (int e = 0; e < kElements; ++e) values[e] = source[e];
}
//@end

//@section aligned
// Whether an operand's vector can move kWidth elements at a time. Neighbouring threads nearly always agree.
template <int kWidth, class T>
__device__ __forceinline__ bool is_aligned(const T* address) {
  return (reinterpret_cast<unsigned long long>(address) & (sizeof(T) * kWidth - 1)) == 0;
}
//@end

//@section each_wrapping : space
// Each element of a vector that may reach into the next row: visit(e, offset).
template <class Visit>
__device__ __forceinline__ void each_element(const Position& position, const Index (&strides)[kCoordinates], const Space& space,
                                             const Visit& visit) {
  Position next = position;
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    visit(e, offset_of(next.at, strides));
    advance(next.at, space);
  }
}
//@end

//@section gather_flat : each_wrapping
// Element by element, beyond the ends of rows.
template <class T>
__device__ __forceinline__ void gather(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                       const Position& position, const Space& space) {
  each_element(position, strides, space, [&](int e, Index offset) { values[e] = base[offset]; });
}
//@end

//@section gather_by_row
// Element by element, to the end of the row. Those beyond it are never touched; in registers they are zero.
template <class T>
__device__ __forceinline__ void gather(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                       const Position& position, const Space&) {
  const T* source = base + offset_of(position.at, strides);
#pragma unroll
  for (int e = 0; e < kElements; ++e) values[e] = e < position.count ? source[e * strides[kCoordinates - 1]] : T{};
}
//@end

//@section load_row
// A full vector shares one value: one register, and what the chain makes of it alone is computed once.
template <bool kFullVector, class T, int kCount>
__device__ __forceinline__ void load_row(T (&values)[kCount], const T* base, const Index (&strides)[kCoordinates],
                                         const Position& position, const Space& space) {
//@if kBroken
  if constexpr (!kFullVector) return gather(values, base, strides, position, space);
//@endif
  values[0] = base[offset_of(position.at, strides)];
}
//@end

// kAligned: the plan knows it, or the skeleton tested it (by_row schedule, where this is what bandwidth is spent on).
//@section load_contiguous : wide, aligned
template <int kWidth, bool kFullVector, bool kAligned, class T>
__device__ __forceinline__ void load_contiguous(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                                const Position& position, const Space& space) {
//@if kBroken
  if constexpr (!kFullVector) return gather(values, base, strides, position, space);
//@endif
  const T* source = base + offset_of(position.at, strides);
  if (kAligned || is_aligned<kWidth>(source)) {
    load_wide<kWidth>(values, source);
  } else {  // this operand alone: a bias at an odd address must not slow down the rest
    load_narrow<kWidth>(values, source);
  }
}
//@end

//@section load_strided
template <bool kFullVector, class T>
__device__ __forceinline__ void load_strided(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates],
                                                const Position& position, const Space& space) {
//@if kBroken
  if constexpr (!kFullVector) return gather(values, base, strides, position, space);
//@endif
  const T* source = base + offset_of(position.at, strides);
#pragma unroll
  for (int e = 0; e < kElements; ++e) values[e] = source[e * strides[kCoordinates - 1]];
}
//@end

//@section store_strided
// A vector of by_row never leaves its row.
template <bool kFullVector, class T>
__device__ __forceinline__ void store_strided(const T (&values)[kElements], T* base, const Index (&strides)[kCoordinates],
                                              const Position& position) {
  T* target = base + offset_of(position.at, strides);
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
//@if kByRow
    if (kFullVector || e < position.count) target[e * strides[kCoordinates - 1]] = values[e];
//@else
    target[e * strides[kCoordinates - 1]] = values[e];
//@endif
  }
}
//@end

//@section store_contiguous : wide, aligned, store_strided
template <int kWidth, bool kFullVector, class T>
__device__ __forceinline__ void store_contiguous(const T (&values)[kElements], T* base, const Index (&strides)[kCoordinates],
                                                 const Position& position) {
  if constexpr (kFullVector) {
    store_wide<kWidth>(values, base + offset_of(position.at, strides));
  } else {
    store_strided<false>(values, base, strides, position);
  }
}
//@end

//@section load_run : wide
// A run of memory that several views of a tensor have their elements of, kWidth elements at a time.
template <int kWidth, class T, int kCount>
__device__ __forceinline__ void load_run(T (&run)[kCount], const T* source) {
#pragma unroll
  for (int i = 0; i < kCount; i += kWidth)
    *reinterpret_cast<Wide<T, kWidth>*>(run + i) = *reinterpret_cast<const Wide<T, kWidth>*>(source + i);
}
//@end

//@section store_run : wide
// A run of memory that slices of a result lie in, kWidth elements at a time.
template <int kWidth, class T, int kCount>
__device__ __forceinline__ void store_run(const T (&run)[kCount], T* target) {
#pragma unroll
  for (int i = 0; i < kCount; i += kWidth)
    *reinterpret_cast<Wide<T, kWidth>*>(target + i) = *reinterpret_cast<const Wide<T, kWidth>*>(run + i);
}
//@end

//@section load_run_if : bounded
// The same, where it exists: else 0. In words, so that zeros are no work for each element.
template <int kWidth, class T, int kCount>
__device__ __forceinline__ void load_run_if(T (&run)[kCount], const T* source, bool exists) {
  struct alignas(sizeof(T) * kWidth) Words {
    unsigned word[sizeof(T) * kWidth / 4];
  };
#pragma unroll
  for (int i = 0; i < kCount; i += kWidth) {
    Words words = {};
    if (exists) words = *reinterpret_cast<const Words*>(source + i);
    *reinterpret_cast<Words*>(run + i) = words;
  }
}
//@end

//@section beside : bounded
// Whether a vector is the first or the last one of its row. Rows are multiples of vectors.
__device__ __forceinline__ Index column_of(const Position& position, const Params& p) {
//@if kByQuotients && kHasColumn
  return position.column;
//@endif
//@if kByQuotients && !kHasColumn
  return position.at[kCoordinates - 1] - position.at[kCoordinates - 2] * p.space.extents[kCoordinates - 1];
//@endif
//@if !kByQuotients
  return position.at[kCoordinates - 1];
//@endif
}
__device__ __forceinline__ bool is_first(const Position& position, const Params& p) { return column_of(position, p) == 0; }
__device__ __forceinline__ bool is_last(const Position& position, const Params& p) {
  return column_of(position, p) + kElements == p.space.extents[kCoordinates - 1];
}
//@end
