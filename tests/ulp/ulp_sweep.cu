// The same cases as ulp_sweep.cpp over all 2^32 floats, and all conversions, on a GPU.
//   nvcc -std=c++17 -O3 --fmad=false -arch=sm_90 -I../../templates/prelude ulp_sweep.cu -o ulp_sweep_gpu
//   ./ulp_sweep_gpu result.json        0 if all is within bounds
#include <cuda_runtime.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "check.cuh"
#include "reference.hpp"

namespace device {
#include "types.cuh"

#include "integers.cuh"

#include "arithmetic.cuh"
#include "exponentials.cuh"
// needs both
#include "activations.cuh"
#include "fast.cuh"
}  // namespace device

namespace ops = device::ops;
namespace fast = device::fast;
using Real = double;

constexpr int blocks = 132 * 8, threads = 256;

struct Worst {
  double error;
  float x, y;
};

__device__ void see(Worst& w, double error, float x, float y) {
  if (error > w.error) w = Worst{error, x, y};
}

__device__ void keep(const Worst& mine, Worst* out) {
  __shared__ Worst all[threads];
  all[threadIdx.x] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int i = 1; i < threads; ++i) see(all[0], all[i].error, all[i].x, all[i].y);
    out[blockIdx.x] = all[0];
  }
}

// One pair of functors per case: what is tested and what it should be.
#define ULP_CASE(name, cpu, gpu, got, want)                      \
  template <>                                                    \
  struct Case<__LINE__> {                                        \
    static __device__ float test(float x, float) { return got; } \
    static __device__ Real exact(Real X, Real) { return want; }  \
  };
#define ULP_PAIR(name, cpu, gpu, got, want)                        \
  template <>                                                      \
  struct Case<__LINE__> {                                          \
    static __device__ float test(float x, float y) { return got; } \
    static __device__ Real exact(Real X, Real Y) { return want; }  \
  };
template <int Line>
struct Case;
#include "cases.def"
#undef ULP_CASE
#undef ULP_PAIR

template <class C, bool pairs>
__global__ void sweep(Worst* out) {
  Worst w{-1, 0, 0};
  for (std::uint64_t i = blockIdx.x * std::uint64_t(threads) + threadIdx.x; i <= 0xffffffffu;
       i += std::uint64_t(blocks) * threads) {
    float x = ref::float_of(std::uint32_t(i)), y = 0;
    if (pairs) ref::pair(i, x, y);
    see(w, ref::ulp_error<Real>(C::test(x, y), C::exact(Real(x), Real(y))), x, y);
  }
  keep(w, out);
}

template <class C>
__global__ void once(float x, float y, double* out) {
  out[0] = C::test(x, y);
  out[1] = C::exact(Real(x), Real(y));
}

struct Mismatch {
  unsigned long long count, tried;
  double v, got, want;
};

__device__ void see(Mismatch* m, bool right, double v, double got, double want) {
  if (right) return;
  if (atomicAdd(&m->count, 1ull) == 0) m->v = v, m->got = got, m->want = want;
}

struct Definition {
  const double* mids;
  std::uint32_t count, largest, overflow, sign_bit;
  bool infinities;
};

template <class T, class Real>
__device__ void check_from(const Definition& d, Mismatch* m, Real v) {
  std::uint32_t got = device::from_real<T>(v).bits, a = got & (d.sign_bit - 1u);
  bool negative = signbit(v);
  if (v != v) {
    // cvt gives one NaN, without a sign.
    see(m, a > d.largest && !(d.infinities && a == d.largest + 1u), v, got, -1);
    return;
  }
  std::uint32_t want = ref::nearest_code(d.mids, d.count, d.overflow, double(v)) | (negative ? d.sign_bit : 0u);
  see(m, got == want, v, got, want);
}

template <class T>
__global__ void from_float(Definition d, Mismatch* m) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t(threads) + threadIdx.x; i <= 0xffffffffu;
       i += std::uint64_t(blocks) * threads)
    check_from<T>(d, m, ref::float_of(std::uint32_t(i)));
}

template <class T>
__global__ void from_double(Definition d, Mismatch* m) {
  for (std::uint32_t c = threadIdx.x; c <= d.count; c += threads) {
    double v = c < d.count ? d.mids[c] : ref::inf<double>();
    for (double near : {v, nextafter(v, 0.0), nextafter(v, 1e300), v * 1.01, v * 1e10, v * 1e-10, 1e-320})
      check_from<T>(d, m, near), check_from<T>(d, m, -near);
  }
  if (threadIdx.x == 0) check_from<T>(d, m, double(ref::nan_f())), check_from<T>(d, m, -double(ref::nan_f()));
}

template <class T>
__global__ void to_real(const double* values, Definition d, Mismatch* m) {  // values: of the codes up to `largest`
  for (std::uint32_t c = threadIdx.x; c < 2 * d.sign_bit; c += threads) {
    T v;
    v.bits = static_cast<decltype(v.bits)>(c);
    std::uint32_t a = c & (d.sign_bit - 1u);
    bool infinite = d.infinities && a == d.largest + 1u, nan = a > d.largest && !infinite;
    double want = nan ? 0 : infinite ? ref::inf<double>() : values[a];
    if (c & d.sign_bit) want = -want;
    float got = device::to_real<float>(v);
    double wide = device::to_real<double>(v);
    see(m, nan ? got != got && wide != wide : got == want && wide == want && signbit(got) == signbit(want), c, got,
        want);
  }
}

template <class T>
__global__ void integers(double low, double high, T least, T most, Mismatch* m) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t(threads) + threadIdx.x; i <= 0xffffffffu;
       i += std::uint64_t(blocks) * threads) {
    float v = ref::float_of(std::uint32_t(i));
    double w = ref::nearest_integer(v, low, high);
    T want = w >= high ? most : w <= low ? least : T(w);
    T got = device::from_real<T>(v);
    see(m, got == want, v, double(got), double(want));
    double fine = v + double(v) * 0x1p-40;  // a double that is no float
    w = ref::nearest_integer(fine, low, high);
    want = w >= high ? most : w <= low ? least : T(w);
    see(m, device::from_real<T>(fine) == want && device::from_real<T>(double(v)) == got, fine,
        double(device::from_real<T>(fine)), double(want));
  }
}

__global__ void booleans(Mismatch* m) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t(threads) + threadIdx.x; i <= 0xffffffffu;
       i += std::uint64_t(blocks) * threads) {
    float v = ref::float_of(std::uint32_t(i));
    see(m, device::from_real<device::boolean>(v).bits == !(v == 0), v, 0, 0);
    device::boolean b{static_cast<unsigned char>(i)};
    see(m, device::to_real<bool>(b) == ((i & 255) != 0), double(i), 0, 0);
  }
}

FILE* json;
bool failed = false, comma = false;

std::string number(double v) {  // JSON knows neither NaN nor Inf
  char text[64];
  std::snprintf(text, sizeof text, v - v == 0 ? "%.17g" : "\"%g\"", v);
  return text;
}

template <class C, bool pairs>
void run(const char* name, double bound) {
  static Worst* out = nullptr;
  if (!out) CHECK(cudaMallocManaged(&out, blocks * sizeof *out));
  auto start = std::chrono::steady_clock::now();
  sweep<C, pairs><<<blocks, threads>>>(out);
  CHECK(cudaDeviceSynchronize());
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Worst w = out[0];
  for (int i = 1; i < blocks; ++i)
    if (out[i].error > w.error) w = out[i];
  static double* values = nullptr;
  if (!values) CHECK(cudaMallocManaged(&values, 2 * sizeof *values));
  once<C><<<1, 1>>>(w.x, w.y, values);
  CHECK(cudaDeviceSynchronize());
  bool bad = w.error > bound + 1e-3;
  failed |= bad;
  std::fprintf(json,
               "%s\n    {\"op\": \"%s%s\", \"max_ulp\": %s, \"bound\": %g, \"x\": %s, \"y\": %s, \"got\": %s, "
               "\"exact\": %s, \"within\": %s}",
               comma ? "," : "", name, pairs ? "(x,y)" : "", number(w.error).c_str(), bound, number(w.x).c_str(),
               number(w.y).c_str(), number(values[0]).c_str(), number(values[1]).c_str(), bad ? "false" : "true");
  comma = true;
  std::printf("%-20s %9.4f  (%.1f)  at %.9g, %.9g: %.9g, exactly %.12g  [%.2f s]%s\n", name, w.error, bound,
              double(w.x), double(w.y), values[0], values[1], seconds, bad ? "  FAILED" : "");
}

template <class Launch>
void conversion(const std::string& name, Launch launch) {
  static Mismatch* m = nullptr;
  if (!m) CHECK(cudaMallocManaged(&m, sizeof *m));
  *m = Mismatch{};
  launch(m);
  CHECK(cudaDeviceSynchronize());
  failed |= m->count != 0;
  std::fprintf(json, "%s\n    {\"conversion\": \"%s\", \"wrong\": %llu}", comma ? "," : "", name.c_str(), m->count);
  comma = true;
  std::printf("%-28s %llu wrong", name.c_str(), m->count);
  if (m->count != 0) std::printf(", such as %.17g: %.17g, should be %.17g  FAILED", m->v, m->got, m->want);
  std::printf("\n");
}

template <class T>
void small_float(const ref::SmallFloat& type) {
  auto mids = type.midpoints();
  double *table, *values;
  CHECK(cudaMallocManaged(&table, mids.size() * sizeof(double)));
  CHECK(cudaMallocManaged(&values, mids.size() * sizeof(double)));
  for (std::size_t i = 0; i < mids.size(); ++i) table[i] = mids[i], values[i] = type.value(std::uint32_t(i));
  Definition d{table, std::uint32_t(mids.size()), type.largest, type.overflow, type.sign_bit, type.exponent_bits != 4};
  conversion(std::string(type.name) + " to real", [&](Mismatch* m) { to_real<T><<<1, threads>>>(values, d, m); });
  conversion(std::string(type.name) + " from float", [&](Mismatch* m) { from_float<T><<<blocks, threads>>>(d, m); });
  conversion(std::string(type.name) + " from double", [&](Mismatch* m) { from_double<T><<<1, threads>>>(d, m); });
}

int main(int argc, char** argv) {
  if (argc != 2 || !(json = std::fopen(argv[1], "w")))
    return std::fprintf(stderr, "usage: %s result.json\n", argv[0]), 2;
  cudaDeviceProp properties;
  CHECK(cudaGetDeviceProperties(&properties, 0));
  // The format of bench/record.py; who commits it adds the commit and the date.
  std::fprintf(json,
               "{\n  \"suite\": \"ulp\", \"device\": \"%s\", \"driver\": null, \"commit\": null, \"date\": null, "
               "\"versions\": {}, \"command\": \"ulp_sweep_gpu\", \"settings\": {\"inputs\": 4294967296},\n  \"records\": [",
               properties.name);
#define ULP_CASE(name, cpu, gpu, got, want) run<Case<__LINE__>, false>(name, gpu);
#define ULP_PAIR(name, cpu, gpu, got, want) run<Case<__LINE__>, true>(name, gpu);
#include "cases.def"
  small_float<device::f16>(ref::small_floats[0]);
  small_float<device::bf16>(ref::small_floats[1]);
  small_float<device::f8e4m3>(ref::small_floats[2]);
  small_float<device::f8e5m2>(ref::small_floats[3]);
  conversion("i8 from real", [](Mismatch* m) { integers<device::i8><<<blocks, threads>>>(-128, 127, -128, 127, m); });
  conversion("u8 from real", [](Mismatch* m) { integers<device::u8><<<blocks, threads>>>(0, 255, 0, 255, m); });
  conversion("i16 from real",
             [](Mismatch* m) { integers<device::i16><<<blocks, threads>>>(-32768, 32767, -32768, 32767, m); });
  conversion("u16 from real", [](Mismatch* m) { integers<device::u16><<<blocks, threads>>>(0, 65535, 0, 65535, m); });
  conversion("u32 from real", [](Mismatch* m) {
    integers<device::u32><<<blocks, threads>>>(0, 4294967295.0, 0, 4294967295u, m);
  });
  conversion("i32 from real", [](Mismatch* m) {
    integers<device::i32><<<blocks, threads>>>(-2147483648.0, 2147483647.0, -2147483647 - 1, 2147483647, m);
  });
  conversion("i64 from real", [](Mismatch* m) {
    integers<device::i64><<<blocks, threads>>>(-0x1p63, 0x1p63, -9223372036854775807ll - 1, 9223372036854775807ll, m);
  });
  conversion("boolean", [](Mismatch* m) { booleans<<<blocks, threads>>>(m); });
  std::fprintf(json, "\n  ]\n}\n");
  std::fclose(json);
  std::printf(failed ? "FAILED\n" : "all within bounds\n");
  return failed ? 1 : 0;
}
