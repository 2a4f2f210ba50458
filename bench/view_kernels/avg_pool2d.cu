// avg_pool2d(x, 3, 1, 1) by hand: a thread takes 8 results of a row from three rows, of each 16 bytes and the neighbour at both sides.
// What lies outside counts as 0, and the divisor is 9 everywhere. Rows are multiples of 8 and aligned to 16 bytes. Offsets fit 32 bits.
#include "halves.cuh"

struct Params {
  const Half* x;
  Half* out;                     // dense
  int plane_stride, row_stride;  // of x, in elements
  int rows, vectors;             // of a plane; vectors of 8 of a row
};

// Of one row: the thread's own 8 columns, one before and one behind.
__device__ __forceinline__ void load_columns(float (&columns)[10], const Half* row, bool has_left, bool has_right) {
  float own[8];
  widen(load_eight(row), own);
  columns[0] = has_left ? to_float(row[-1]) : 0.0f;
#pragma unroll
  for (int e = 0; e < 8; ++e) columns[e + 1] = own[e];
  columns[9] = has_right ? to_float(row[8]) : 0.0f;
}

__device__ __forceinline__ void add_columns(float (&sums)[10], const Half* row, bool has_left, bool has_right) {
  float columns[10];
  load_columns(columns, row, has_left, has_right);
#pragma unroll
  for (int e = 0; e < 10; ++e) sums[e] += columns[e];
}

// blockIdx: plane, tile of rows, tile of vectors. threadIdx: vector, row.
extern "C" __global__ void __launch_bounds__(256) avg_pool2d(const Params p) {
  const int plane = blockIdx.x;
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int vector = blockIdx.z * blockDim.x + threadIdx.x;
  if (row >= p.rows || vector >= p.vectors) return;
  const Half* middle = p.x + (plane * p.plane_stride + row * p.row_stride + vector * 8);
  const bool has_left = vector > 0, has_right = vector + 1 < p.vectors;
  float sums[10];
  load_columns(sums, middle, has_left, has_right);
  if (row > 0) add_columns(sums, middle - p.row_stride, has_left, has_right);
  if (row + 1 < p.rows) add_columns(sums, middle + p.row_stride, has_left, has_right);
  float results[8];
#pragma unroll
  for (int e = 0; e < 8; ++e) results[e] = (sums[e] + sums[e + 1] + sums[e + 2]) * (1.0f / 9.0f);
  store_eight(p.out + ((plane * p.rows + row) * p.vectors + vector) * 8, narrow(results));
}
