// max_pool2d(x, 2) by hand without f32: the largest of halves is a half, so two maxima are one instruction and nothing is converted.
// Rows of results are multiples of 8, rows of x are aligned to 16 bytes. Offsets fit 32 bits.
#include "halves.cuh"

struct Params {
  const Half* x;
  Half* out;                     // dense
  int plane_stride, row_stride;  // of x, in elements
  int rows, vectors;             // of a plane of results; vectors of 8 of a row
};

// blockIdx: plane, tile of rows, tile of vectors. threadIdx: vector, row.
extern "C" __global__ void __launch_bounds__(256) max_pool2d_packed(const Params p) {
  const int plane = blockIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int vector = blockIdx.z * blockDim.x + threadIdx.x;
  if (row >= p.rows || vector >= p.vectors) return;
  const Half* upper = p.x + (plane * p.plane_stride + 2 * row * p.row_stride + vector * 16);
  const Half* lower = upper + p.row_stride;
  const Eight above[2] = {load_eight(upper), load_eight(upper + 8)};
  const Eight below[2] = {load_eight(lower), load_eight(lower + 8)};
  Eight results;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    unsigned columns[2];  // of two words, which have two columns each
#pragma unroll
    for (int word = 0; word < 2; ++word) {
      const int at = 2 * i + word;
      columns[word] = larger_halves(above[at / 4].words[at % 4], below[at / 4].words[at % 4]);
    }
    results.words[i] = larger_halves(low_halves(columns[0], columns[1]), high_halves(columns[0], columns[1]));
  }
  store_eight(p.out + ((plane * p.rows + row) * p.vectors + vector) * 8, results);
}
