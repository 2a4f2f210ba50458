// Random numbers by counter: Philox4x32-10 (Salmon, Moraes, Dror and Shaw, SC 2011: "Parallel random numbers: as easy as 1, 2, 3"). A number is a function
// of seed, offset and the index of its element, so that any kernel, in any order, and the backward pass again, draw the same one.
//
// The key is the seed. The counter is index / 4 in its low 64 bits and the offset in its high ones: two offsets share no counter, whatever the size. Of
// the four words that one counter gives, element `index` has number index % 4. Its high 24 bits are the number, an exact f32.

//@section random
namespace detail {

struct Philox {
  unsigned word[4];
};

__device__ __forceinline__ Philox philox_round(const Philox& in, unsigned key0, unsigned key1) {
  const unsigned long long a = static_cast<unsigned long long>(in.word[0]) * 0xd2511f53u;
  const unsigned long long b = static_cast<unsigned long long>(in.word[2]) * 0xcd9e8d57u;
  return {{static_cast<unsigned>(b >> 32) ^ in.word[1] ^ key0, static_cast<unsigned>(b),
           static_cast<unsigned>(a >> 32) ^ in.word[3] ^ key1, static_cast<unsigned>(a)}};
}

__device__ __forceinline__ Philox philox(Philox counter, unsigned key0, unsigned key1) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (unsigned round = 0; round < 10; ++round)
    counter = philox_round(counter, key0 + round * 0x9e3779b9u, key1 + round * 0xbb67ae85u);
  return counter;
}

}  // namespace detail

// Stands where a pointer to an operand would: random[i] is the number of element i.
struct Random {
  unsigned long long seed, offset;

  // The words of elements 4 * four … 4 * four + 3.
  __device__ __forceinline__ detail::Philox words(unsigned long long four) const {
    return detail::philox({{static_cast<unsigned>(four), static_cast<unsigned>(four >> 32), static_cast<unsigned>(offset),
                            static_cast<unsigned>(offset >> 32)}},
                          static_cast<unsigned>(seed), static_cast<unsigned>(seed >> 32));
  }
  static __device__ __forceinline__ f32 uniform(unsigned word) { return static_cast<f32>(word >> 8) * 5.9604644775390625e-8f; }

  __device__ __forceinline__ f32 operator[](long long index) const {
    const detail::Philox four = words(static_cast<unsigned long long>(index) >> 2);
    const bool odd = (index & 1) != 0;
    const unsigned low = odd ? four.word[1] : four.word[0];
    const unsigned high = odd ? four.word[3] : four.word[2];
    return uniform((index & 2) != 0 ? high : low);
  }
};
//@end
