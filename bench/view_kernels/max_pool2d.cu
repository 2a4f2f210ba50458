// max_pool2d(x, 2) by hand: a thread takes 8 results of a row from 16 bytes four times, two rows of 16 elements.
// Rows of results are multiples of 8, rows of x are aligned to 16 bytes. Offsets fit 32 bits.
#include "halves.cuh"

struct Params {
  const Half* x;
  Half* out;                     // dense
  int plane_stride, row_stride;  // of x, in elements
  int rows, vectors;             // of a plane of results; vectors of 8 of a row
};

// blockIdx: plane, tile of rows, tile of vectors. threadIdx: vector, row.
extern "C" __global__ void __launch_bounds__(256) max_pool2d(const Params p) {
  const int plane = blockIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int vector = blockIdx.z * blockDim.x + threadIdx.x;
  if (row >= p.rows || vector >= p.vectors) return;
  const Half* upper = p.x + (plane * p.plane_stride + 2 * row * p.row_stride + vector * 16);
  const Half* lower = upper + p.row_stride;
  float results[8];
  const Eight above[2] = {load_eight(upper), load_eight(upper + 8)};
  const Eight below[2] = {load_eight(lower), load_eight(lower + 8)};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float a[8], b[8];
    widen(above[half], a);
    widen(below[half], b);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      results[4 * half + e] = larger(larger(a[2 * e], a[2 * e + 1]), larger(b[2 * e], b[2 * e + 1]));
    }
  }
  store_eight(p.out + ((plane * p.rows + row) * p.vectors + vector) * 8, narrow(results));
}
