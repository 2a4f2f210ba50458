"""Kernels that one writes by hand for five chains with views, in f16: each thread 16 bytes at a time, shapes known when they are compiled. bench/view_counts.py counts
their instructions beside those of EpiFuse's kernels. Nothing launches them.

Each has the operands and the result of its chain in row-major order, and as many threads as there are vectors, or rows for the norm."""

HEADER = """
#include <cuda_fp16.h>
struct alignas(16) Vector { __half2 pair[4]; };
__device__ __forceinline__ Vector load(const __half* at) { return *reinterpret_cast<const Vector*>(at); }
__device__ __forceinline__ void store(__half* at, const float (&values)[8]) {
  Vector v;
#pragma unroll
  for (int k = 0; k < 4; ++k) v.pair[k] = __floats2half2_rn(values[2 * k], values[2 * k + 1]);
  *reinterpret_cast<Vector*>(at) = v;
}
__device__ __forceinline__ void widen(const Vector& v, float (&values)[8]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float2 two = __half22float2(v.pair[k]);
    values[2 * k] = two.x;
    values[2 * k + 1] = two.y;
  }
}
__device__ __forceinline__ float silu(float x) { return x / (1.0f + __expf(-x)); }
"""

# x: 64x64x112x112. A vector of the result is the largest of two vectors of each of two rows.
MAX_POOL = """
extern "C" __global__ void kernel(const __half* __restrict__ x, __half* __restrict__ out, int vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const int row = i / 7, column = i % 7;
  const __half* from = x + row * 224 + column * 16;
  float a[8], b[8], c[8], d[8], result[8];
  widen(load(from), a);
  widen(load(from + 8), b);
  widen(load(from + 112), c);
  widen(load(from + 120), d);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    result[k] = fmaxf(fmaxf(a[2 * k], a[2 * k + 1]), fmaxf(c[2 * k], c[2 * k + 1]));
    result[k + 4] = fmaxf(fmaxf(b[2 * k], b[2 * k + 1]), fmaxf(d[2 * k], d[2 * k + 1]));
  }
  store(out + i * 8, result);
}
"""

# x: 64x64x56x56. A thread reads one vector and a neighbour on each side, of three rows.
AVG_POOL = """
extern "C" __global__ void kernel(const __half* __restrict__ x, __half* __restrict__ out, int vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const int column = i % 7, line = i / 7, row = line % 56;
  const __half* center = x + i * 8;
  float sums[10] = {};
#pragma unroll
  for (int d = -1; d <= 1; ++d) {
    if (row + d < 0 || row + d >= 56) continue;
    const __half* from = center + d * 56;
    float values[8];
    widen(load(from), values);
    sums[0] += column > 0 ? __half2float(from[-1]) : 0.0f;
#pragma unroll
    for (int k = 0; k < 8; ++k) sums[k + 1] += values[k];
    sums[9] += column < 6 ? __half2float(from[8]) : 0.0f;
  }
  float result[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) result[k] = (sums[k] + sums[k + 1] + sums[k + 2]) / 9.0f;
  store(out + i * 8, result);
}
"""

# x: 8192x8192, out: 8192x4096.
SWIGLU = """
extern "C" __global__ void kernel(const __half* __restrict__ x, __half* __restrict__ out, int vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const __half* from = x + (i / 512) * 8192 + (i % 512) * 8;
  float a[8], b[8], result[8];
  widen(load(from), a);
  widen(load(from + 4096), b);
#pragma unroll
  for (int k = 0; k < 8; ++k) result[k] = silu(a[k]) * b[k];
  store(out + i * 8, result);
}
"""

# q: 8x2048x32x128, cos and sin: 2048x1x64. A thread writes a vector of either half.
ROPE = """
extern "C" __global__ void kernel(const __half* __restrict__ q, const __half* __restrict__ cos, const __half* __restrict__ sin,
                                  __half* __restrict__ out, int vectors) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= vectors) return;
  const int head = i / 8, at = i % 8 * 8, position = head / 32 % 2048;
  const int offset = head * 128 + at;
  float a[8], b[8], c[8], s[8], first[8], second[8];
  widen(load(q + offset), a);
  widen(load(q + offset + 64), b);
  widen(load(cos + position * 64 + at), c);
  widen(load(sin + position * 64 + at), s);
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    first[k] = a[k] * c[k] - b[k] * s[k];
    second[k] = b[k] * c[k] + a[k] * s[k];
  }
  store(out + offset, first);
  store(out + offset + 64, second);
}
"""

# ids: 8192 of i64, table: 50000x1024, w and b: 1024. 128 threads for a row, which registers hold.
EMBEDDING = """
__device__ __forceinline__ float sum_of_block(float value, float (&shared)[4]) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  return shared[0] + shared[1] + shared[2] + shared[3];
}
extern "C" __global__ void __launch_bounds__(128) kernel(const long long* __restrict__ ids, const __half* __restrict__ table,
    const __half* __restrict__ w, const __half* __restrict__ b, __half* __restrict__ out) {
  __shared__ float first[4], second[4];
  const int at = threadIdx.x * 8;
  const long long row = ids[blockIdx.x];
  if (row < 0 || row >= 50000) return;
  float x[8], scale[8], bias[8], result[8], sum = 0.0f, squares = 0.0f;
  widen(load(table + row * 1024 + at), x);
  widen(load(w + at), scale);
  widen(load(b + at), bias);
#pragma unroll
  for (int k = 0; k < 8; ++k) sum += x[k];
  const float mean = sum_of_block(sum, first) / 1024.0f;
#pragma unroll
  for (int k = 0; k < 8; ++k) squares += (x[k] - mean) * (x[k] - mean);
  const float factor = rsqrtf(sum_of_block(squares, second) / 1024.0f + 1e-5f);
#pragma unroll
  for (int k = 0; k < 8; ++k) result[k] = (x[k] - mean) * factor * scale[k] + bias[k];
  store(out + blockIdx.x * 1024LL + at, result);
}
"""

# Chain, operands as `epifuse dump` takes them, and the kernel.
KERNELS = [
    ("max_pool2d(x, 2)", "x=f16[64,64,112,112]", MAX_POOL),
    ("avg_pool2d(x, 3, 1, 1)", "x=f16[64,64,56,56]", AVG_POOL),
    ("silu(x[..., :4096]) * x[..., 4096:]", "x=f16[8192,8192]", SWIGLU),
    ("rope(q, cos, sin)", "q=f16[8,2048,32,128] cos=f16[2048,1,64] sin=f16[2048,1,64]", ROPE),
    ("layer_norm(embedding(ids, table), w, b)", "ids=i64[8192] table=f16[50000,1024] w=f16[1024] b=f16[1024]", EMBEDDING),
]
