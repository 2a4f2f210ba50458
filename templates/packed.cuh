// Elements of 4 bits, two of which share a byte of memory, the first in its lower half. For pointwise kernels and for
// reductions: in registers each has a byte of its own. A vector of them begins with a byte, and all of its elements
// exist or none (plan/bind/packed.hpp).

//@section packed
template <int kCount>
struct alignas(4 * kCount) PackedWords {
  unsigned word[kCount];
};

// Four half bytes, each in the lower half of a byte.
__device__ __forceinline__ unsigned unpacked(unsigned halves) {
  const unsigned pairs = (halves | halves << 8) & 0x00ff00ffu;
  return (pairs | pairs << 4) & 0x0f0f0f0fu;
}
__device__ __forceinline__ unsigned packed(unsigned bytes) {
  const unsigned pairs = (bytes | bytes >> 4) & 0x00ff00ffu;
  return (pairs | pairs >> 8) & 0xffffu;
}

template <class T>
__device__ __forceinline__ void load_packed(T* elements, const T* source) {
  if constexpr (kElements % 8 == 0) {
    const PackedWords<kElements / 8> words = *reinterpret_cast<const PackedWords<kElements / 8>*>(source);
#pragma unroll
    for (int i = 0; i < kElements / 4; ++i) {
      const unsigned four = unpacked(words.word[i / 2] >> (i % 2 * 16) & 0xffffu);
      memcpy(elements + 4 * i, &four, 4);
    }
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e) elements[e].bits = source[e / 2].bits >> (e % 2 * 4) & 15u;
  }
}

template <class T>
__device__ __forceinline__ void store_packed(const T* elements, T* target) {
  if constexpr (kElements % 8 == 0) {
    PackedWords<kElements / 8> words;
#pragma unroll
    for (int i = 0; i < kElements / 8; ++i) {
      unsigned eight[2];
      memcpy(eight, elements + 8 * i, 8);
      words.word[i] = packed(eight[0]) | packed(eight[1]) << 16;
    }
    *reinterpret_cast<PackedWords<kElements / 8>*>(target) = words;
  } else {
#pragma unroll
    for (int e = 0; e < kElements; e += 2) target[e / 2].bits = elements[e].bits | elements[e + 1].bits << 4;
  }
}
//@end

//@section read_packed : packet, packed
template <class T, class At>
__device__ __forceinline__ void read_packed(Packet<T>& packet, const T* source, const At& position) {
//@if !kKnownFull
  if constexpr (!At::kInBounds) {
    if (!position.in_bounds) return packet.clear();
  }
//@endif
  load_packed(reinterpret_cast<T*>(packet.words), source);
}
//@end

//@section write_packed : packet, packed
template <class T, class At>
__device__ __forceinline__ void write_packed(const Packet<T>& packet, T* target, const At& position) {
//@if !kKnownFull
  if constexpr (!At::kInBounds) {
    if (!position.in_bounds) return;
  }
//@endif
  store_packed(reinterpret_cast<const T*>(packet.words), target);
}
//@end
