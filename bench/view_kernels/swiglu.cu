// silu(x[..., :n]) * x[..., n:] by hand: a thread takes 8 results of a row. Rows of results are multiples of 8, rows of x are aligned to
// 16 bytes. Offsets fit 32 bits.
#include "halves.cuh"

struct Params {
  const Half* x;
  Half* out;       // dense
  int row_stride;  // of x, in elements
  int columns;     // of results
};

// blockIdx: row, tile of vectors. threadIdx: vector.
extern "C" __global__ void __launch_bounds__(256) swiglu(const Params p) {
  const int row = blockIdx.x;
  const int column = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
  if (column >= p.columns) return;
  const Half* gate = p.x + (row * p.row_stride + column);
  float g[8], up[8], results[8];
  widen(load_eight(gate), g);
  widen(load_eight(gate + p.columns), up);
#pragma unroll
  for (int e = 0; e < 8; ++e) {
    const float sigmoid = reciprocal_approximate(1.0f + exp2_approximate(g[e] * -1.4426950408889634f));
    results[e] = g[e] * sigmoid * up[e];
  }
  store_eight(p.out + (row * p.columns + column), narrow(results));
}
