// rope(q, cos, sin) of halves by hand: a thread takes 8 results of the lower half of a row and the 8 of the upper half that need the same
// elements. Half rows are multiples of 8, all rows are aligned to 16 bytes. Offsets fit 32 bits.
#include "halves.cuh"

struct Params {
  const Half* q;
  const float* cosines;
  const float* sines;
  Half* out;                    // with the strides of q
  int head_stride, row_stride;  // of q, in elements; a row for each token
  int table_stride;             // of the tables
  int tokens, half;             // of a head; half a row, which is blockDim.x vectors of 8
};

struct alignas(16) Four {
  float values[4];
};

__device__ __forceinline__ void load_floats(const float* from, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const Four four = reinterpret_cast<const Four*>(from)[i];
#pragma unroll
    for (int e = 0; e < 4; ++e) to[4 * i + e] = four.values[e];
  }
}

// blockIdx: head of all samples, tile of tokens. threadIdx: vector, token.
extern "C" __global__ void __launch_bounds__(256) rope(const Params p) {
  const int token = blockIdx.y * blockDim.y + threadIdx.y;
  if (token >= p.tokens) return;
  const int column = threadIdx.x * 8;
  const int lower = blockIdx.x * p.head_stride + token * p.row_stride + column;
  const int table = token * p.table_stride + column;
  float a[8], b[8], c[8], s[8], first[8], second[8];
  widen(load_eight(p.q + lower), a);
  widen(load_eight(p.q + lower + p.half), b);
  load_floats(p.cosines + table, c);
  load_floats(p.sines + table, s);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    first[e] = a[e] * c[e] - b[e] * s[e];
    second[e] = b[e] * c[e] + a[e] * s[e];
  }
  store_eight(p.out + lower, narrow(first));
  store_eight(p.out + lower + p.half, narrow(second));
}
