// Sub-tiles of results and of operands in shared memory, and the matrices of 8 x 8 numbers that a warp moves together. Who owns which number of a sub-tile is the
// same in every kernel of products: templates/gemm/gemm.cuh and templates/gemm/warp_gemm.cuh take this. Where no CUDA compiler reads it, tests/support/gemm_model.hpp
// has functions of the same names.

//@section matrices
#if defined(__CUDACC__)
// Four matrices of 8 x 8 numbers of 16 bits: lane l gives the address of row l % 8 of matrix l / 8, and holds of each
// matrix the numbers 2 * (l % 4) and the next of row l / 4.
__device__ __forceinline__ void load_matrices(unsigned (&words)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ float load_number(unsigned address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

__device__ __forceinline__ void store_number(unsigned address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

__device__ __forceinline__ void load_pair(float& low, float& high, unsigned address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(address) : "memory");
}

__device__ __forceinline__ void store_pair(unsigned address, float low, float high) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(low), "f"(high) : "memory");
}

__device__ __forceinline__ unsigned short load_short(unsigned address) {
  unsigned short bits;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(bits) : "r"(address) : "memory");
  return bits;
}

__device__ __forceinline__ void store_short(unsigned address, unsigned short bits) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(address), "h"(bits) : "memory");
}

__device__ __forceinline__ void store_matrices(unsigned address, const unsigned (&words)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
               "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
}
#endif
//@end

//@section boxes : matrices, convert
// Where a number of a sub-tile stands: TMA exchanges pieces of 16 bytes by the bits above them, those of a row of 128 bytes.
template <int kBytes>
__device__ __forceinline__ unsigned place_in_box(int row, int column) {
  const unsigned at = (row * kSubtileColumns + column) * kBytes;
  return at ^ ((at >> 7 & (kSubtileColumns * kBytes / 16 - 1)) << 4);
}

// A thread's pairs of 16 columns of a sub-tile: in rows lane / 4 and eight below of its warp's 16, then the same of the next 8 columns.
template <int kBytes>
__device__ __forceinline__ unsigned place_of_pair(int pair, int column) {
  const int lane = threadIdx.x % 32;
  return place_in_box<kBytes>(threadIdx.x % 128 / 32 * 16 + pair % 2 * 8 + lane / 4, column + pair / 2 * 8 + lane % 4 * 2);
}
// The address of the row that a lane gives to an instruction which moves four matrices of 16-bit numbers.
__device__ __forceinline__ unsigned place_of_matrices(int column) {
  return place_in_box<2>(threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, column + threadIdx.x % 32 / 16 * 8);
}

template <class T>
__device__ __forceinline__ void load_halves(float (&values)[8], unsigned box, int column) {
  unsigned words[4];
  load_matrices(words, box + place_of_matrices(column));
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    values[2 * pair] = to_real<float>(__builtin_bit_cast(T, static_cast<unsigned short>(words[pair])));
    values[2 * pair + 1] = to_real<float>(__builtin_bit_cast(T, static_cast<unsigned short>(words[pair] >> 16)));
  }
}
__device__ __forceinline__ void store_halves(const float (&values)[8], unsigned box, int column) {
  unsigned words[4];
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) words[pair] = pack(values[2 * pair], values[2 * pair + 1]);
  store_matrices(box + place_of_matrices(column), words);
}

__device__ __forceinline__ void load_floats(float (&values)[8], unsigned box, int column) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) load_pair(values[2 * pair], values[2 * pair + 1], box + place_of_pair<4>(pair, column));
}
__device__ __forceinline__ void store_floats(const float (&values)[8], unsigned box, int column) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) store_pair(box + place_of_pair<4>(pair, column), values[2 * pair], values[2 * pair + 1]);
}

template <class T>
__device__ __forceinline__ void load_bytes(float (&values)[8], unsigned box, int column) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    alignas(2) T both[2];
    const unsigned short bits = load_short(box + place_of_pair<1>(pair, column));
    memcpy(both, &bits, 2);
    to_reals<2>(both, values + 2 * pair);
  }
}
template <class T>
__device__ __forceinline__ void store_bytes(const float (&values)[8], unsigned box, int column) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    alignas(2) T both[2];
    from_reals<2>(values + 2 * pair, both);
    unsigned short bits;
    memcpy(&bits, both, 2);
    store_short(box + place_of_pair<1>(pair, column), bits);
  }
}
//@end

//@section host_pairs
// The chain of a thread's 16 columns: four pairs, of rows +0 and +8, then of the next 8 columns. Families keep products and values of rows in places of their own:
// product_of(product, pair, element), column_of(vector, 0 or 1 for row +8).
template <int kInputs, int kRowValues, class Products, class Columns>
__device__ __forceinline__ void host_pairs(const Params& p, const Products& product_of, const float (&inputs)[kInputs][8],
                                           const float (&in_row)[kRowValues][2][2], const Columns& column_of, float (&made)[8]/*@if kPartials > 0*/, float (&reduced)[kPartials][8]/*@endif*/) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      float product[kProducts], tile_values[kInputs], row_of[kRowValues], column_values[kColumnVectors > 0 ? kColumnVectors : 1];
#pragma unroll
      for (int i = 0; i < kProducts; ++i) product[i] = static_cast<float>(product_of(i, pair, e));
#pragma unroll
      for (int i = 0; i < kTileInputs; ++i) tile_values[i] = inputs[i][pair * 2 + e];
#pragma unroll
      for (int v = 0; v < kRowVectors; ++v) row_of[v] = in_row[v][pair / 2][e];
#pragma unroll
      for (int v = 0; v < kColumnVectors; ++v) column_values[v] = column_of(v, pair % 2);
//@if kPartials > 0
      float of_element[kPartials];
      made[pair * 2 + e] = host_chain(p, product, tile_values, row_of, column_values, of_element);
#pragma unroll
      for (int v = 0; v < kPartials; ++v) reduced[v][pair * 2 + e] = of_element[v];
//@else
      made[pair * 2 + e] = host_chain(p, product, tile_values, row_of, column_values);
//@endif
    }
  }
}
//@end
