// layer_norm(embedding(ids, w), g, b) by hand: a warp takes a row, each lane kVectors vectors of 8 that stay in registers, mean first and then the
// squares of what lies beyond it. Rows are kVectors * 256 elements and aligned to 16 bytes. An index out of range gives NaN. Offsets fit 32 bits.
#include "halves.cuh"

constexpr int kVectors = 3;
constexpr int kWarps = 4;  // of a block

struct Params {
  const long long* ids;
  const Half* w;
  const Half* g;
  const Half* b;
  Half* out;  // dense
  int rows, columns;
  int table_rows;
  float over_columns, eps;
};

__device__ __forceinline__ float sum_of_warp(float own) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) own += __shfl_xor_sync(0xffffffffu, own, offset);
  return own;
}

// A block has kWarps warps, and blocks have as many rows.
extern "C" __global__ void __launch_bounds__(kWarps * 32) embedding_layer_norm(const Params p) {
  const int row = blockIdx.x * kWarps + threadIdx.x / 32;
  if (row >= p.rows) return;
  const int column = threadIdx.x % 32 * 8;
  const long long id = p.ids[row];
  Eight held[kVectors];
  if (static_cast<unsigned long long>(id) < static_cast<unsigned long long>(p.table_rows)) {
    const Half* from = p.w + (static_cast<int>(id) * p.columns + column);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) held[v] = load_eight(from + v * 256);
  } else {
#pragma unroll
    for (int v = 0; v < kVectors; ++v) held[v] = {{0x7e007e00u, 0x7e007e00u, 0x7e007e00u, 0x7e007e00u}};
  }
  float values[kVectors][8];
  float sum = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    widen(held[v], values[v]);
#pragma unroll
    for (int e = 0; e < 8; ++e) sum += values[v][e];
  }
  const float mean = sum_of_warp(sum) * p.over_columns;
  float squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      values[v][e] -= mean;
      squares += values[v][e] * values[v][e];
    }
  }
  const float scale = rsqrtf(sum_of_warp(squares) * p.over_columns + p.eps);
  Half* out = p.out + (row * p.columns + column);
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    float g[8], b[8], results[8];
    widen(load_eight(p.g + column + v * 256), g);
    widen(load_eight(p.b + column + v * 256), b);
#pragma unroll
    for (int e = 0; e < 8; ++e) results[e] = values[v][e] * scale * g[e] + b[e];
    store_eight(out + v * 256, narrow(results));
  }
}
