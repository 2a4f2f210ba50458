// Random numbers of one thread's vector, where other operands are loaded: nothing is read. kWidth neighbours, whose first index is a multiple of kWidth,
// share a computation. Elements that do not exist get numbers, too.

//@section draw : random
// Elements first, first + stride, …, which lie side by side if kWidth is more than one.
template <int kWidth, class Put>
__device__ __forceinline__ void draw(const Random& random, Index first, Index stride, const Put& put) {
#pragma unroll
  for (int e = 0; e < kElements; e += kWidth) {
    if constexpr (kWidth == 4) {
      const detail::Philox four = random.words(static_cast<unsigned long long>(first + e) >> 2);
#pragma unroll
      for (int i = 0; i < 4; ++i) put(e + i, Random::uniform(four.word[i]));
    } else if constexpr (kWidth == 2) {
      const detail::Philox four = random.words(static_cast<unsigned long long>(first + e) >> 2);
      const bool high = ((first + e) & 2) != 0;
      put(e, Random::uniform(high ? four.word[2] : four.word[0]));
      put(e + 1, Random::uniform(high ? four.word[3] : four.word[1]));
    } else {
      put(e, random[first + e * stride]);
    }
  }
}
//@end

//@section load_random_linear : draw
template <int kWidth>
__device__ __forceinline__ void load_random_linear(f32 (&values)[kElements], const Random& random, const Position& position) {
  draw<kWidth>(random, position.linear, 1, [&](int e, f32 value) { values[e] = value; });
}
//@end

//@section load_random_strided : draw
template <int kWidth>
__device__ __forceinline__ void load_random_strided(f32 (&values)[kElements], const Random& random, const Index (&strides)[kCoordinates],
                                                    const Position& position) {
  draw<kWidth>(random, offset_of(position.at, strides), strides[kCoordinates - 1], [&](int e, f32 value) { values[e] = value; });
}
//@end

//@section load_random_wrapping : load_random_strided, each_wrapping
// A vector that is not full reaches into the next row.
template <int kWidth, bool kFullVector>
__device__ __forceinline__ void load_random_wrapping(f32 (&values)[kElements], const Random& random, const Index (&strides)[kCoordinates],
                                                     const Position& position, const Space& space) {
  if constexpr (kFullVector) {
    load_random_strided<kWidth>(values, random, strides, position);
  } else {
    each_element(position, strides, space, [&](int e, Index offset) { values[e] = random[offset]; });
  }
}
//@end

//@section read_random_linear : draw, packet
// Of rows. Where a thread's elements stand apart, each has a computation of its own.
template <int kWidth, class At>
__device__ __forceinline__ void read_random_linear(Packet<f32>& packet, const Random& random, const At& position) {
  draw<kBeside == 1 ? kWidth : 1>(random, position.linear, kBeside, [&](int e, f32 value) { packet.put(e, value); });
}
//@end

//@section read_random_strided : draw, packet, each_element
template <int kWidth, class At>
__device__ __forceinline__ void read_random_strided(Packet<f32>& packet, const Random& random, const Index (&strides)[kCoordinates],
                                                    const At& position, const Space& space) {
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
      packet.clear();
      each_element(position, strides, space, [&](int e, Index offset) { packet.put(e, random[offset]); });
      return;
    }
  }
  draw<kBeside == 1 ? kWidth : 1>(random, offset_of(position.at, strides), strides[kCoordinates - 1] * kBeside,
                                  [&](int e, f32 value) { packet.put(e, value); });
}
//@end
