// The cheaper formulas of templates/prelude/fast.cuh against their rows in src/plan/analysis/formulas.def, over all 2^32 floats and, rounded to them, over
// all f16 and bf16 arguments; on a GPU.
//   nvcc -std=c++17 -O3 --fmad=false -arch=sm_90 -I../../templates/prelude -I../../src formula_sweep.cu -o formula_sweep
//   ./formula_sweep result.json        0 if every formula is as good as its row
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "check.cuh"
#include "reference.hpp"

namespace device {
#include "types.cuh"

#include "integers.cuh"

#include "arithmetic.cuh"
#include "exponentials.cuh"
// needs both
#include "fast.cuh"
}  // namespace device

namespace fast = device::fast;

constexpr int blocks = 132 * 8, threads = 256;
constexpr double kUnbounded = 1e300;

struct Found {
  double relative, total, term;  // the largest: beside the result (or the floor), as it is, beside the larger of 1 and the argument
  float at;
  double ulps[2];  // of f16 and bf16 results, for arguments of those types
};

__device__ double atomic_max(double* address, double value) {
  auto* bits = reinterpret_cast<unsigned long long*>(address);
  return __longlong_as_double(atomicMax(bits, static_cast<unsigned long long>(__double_as_longlong(value))));
}

// How far a stored result is from the exact one, in units of the type's last place there.
template <class Storage>
__device__ double ulps(float got, double exact, int digits, int least) {
  const double stored = device::to_real<float>(device::from_real<Storage>(got));
  if (isnan(exact) || isinf(exact) || isinf(stored)) return 0;
  int exponent = 0;
  frexp(exact, &exponent);
  return fabs(stored - exact) / ldexp(1.0, max(exponent - digits, least));
}

template <class Case>
__global__ void sweep(Found* found, double floor) {
  for (std::uint64_t i = blockIdx.x * std::uint64_t(threads) + threadIdx.x; i <= 0xffffffffu;
       i += std::uint64_t(blocks) * threads) {
    const float x = ref::float_of(std::uint32_t(i));
    const float got = Case::test(x);
    const double exact = Case::exact(double(x));
    if (isnan(exact)) {
      if (got == got) atomic_max(&found->relative, kUnbounded);
      continue;
    }
    if (fabs(exact) > 0x1p127) continue;
    const double error = fabs(double(got) - exact);
    if (fabs(exact) < 0x1p-117 && fabs(double(got)) <= 0x1p-116) continue;
    const double relative = error / fmax(fabs(exact), floor);
    if (relative > found->relative && relative > atomic_max(&found->relative, relative)) found->at = x;
    if (error > found->total) atomic_max(&found->total, error);
    const double term = error / fmax(1.0, fabs(double(x)));
    if (term > found->term) atomic_max(&found->term, term);
    const float as_f16 = device::to_real<float>(device::from_real<device::f16>(x));
    if (as_f16 == x) {
      const double u = ulps<device::f16>(got, exact, 11, -24);
      if (u > found->ulps[0]) atomic_max(&found->ulps[0], u);
    }
    if ((i & 0xffffu) == 0) {
      const double u = ulps<device::bf16>(got, exact, 8, -133);
      if (u > found->ulps[1]) atomic_max(&found->ulps[1], u);
    }
  }
}

struct Row {
  std::string name;
  double relative, floor, total;
  void (*run)(Found*, double);
  double term;  // of a term of a long sum: what it may be off, beside the larger of 1 and its argument; else 0
};

template <class Case>
void run(Found* found, double floor) {
  sweep<Case><<<blocks, threads>>>(found, floor);
}

// One formula: its text, and what it should be in f64.
#define FORMULA(name_, got, want)                              \
  struct Case_##name_ {                                        \
    static __device__ float test(float x) { return got; }      \
    static __device__ double exact(double X) { return want; }  \
  };
FORMULA(exp, fast::exp(x), ::exp(X))
FORMULA(exp2, fast::exp2(x), ::exp2(X))
FORMULA(expm1, fast::expm1(x), ::expm1(X))
FORMULA(tanh_approx, fast::tanh_approx(x), ::tanh(X))
FORMULA(tanh, fast::tanh(x), ::tanh(X))
FORMULA(tanh_term, fast::tanh_term(x), ::tanh(X))
FORMULA(sigmoid, fast::sigmoid(x), ref::sigmoid(X))
FORMULA(sigmoid_term, fast::sigmoid_term(x), ref::sigmoid(X))
// Of products, beside what the product rounds to.
constexpr float kFactor = 0x1.b34p+0f;  // of f16
FORMULA(sigmoid_of_product, fast::sigmoid(x, kFactor), ref::sigmoid(double(float(X) * kFactor)))
FORMULA(sigmoid_term_of_product, fast::sigmoid_term(x, kFactor), ref::sigmoid(double(float(X) * kFactor)))
FORMULA(silu_term, fast::silu_term(x), (X * ref::sigmoid(X)))
FORMULA(silu, fast::silu(x), (X * ref::sigmoid(X)))
FORMULA(mish, fast::mish(x), ref::mish(X))
FORMULA(gelu, fast::gelu(x), ref::gelu(X))
FORMULA(gelu_wide, fast::gelu_wide(x), ref::gelu(X))
FORMULA(gelu_fine, fast::gelu_fine(x), ref::gelu(X))
FORMULA(gelu_close, fast::gelu_close(x), ref::gelu(X))
FORMULA(gelu_term, fast::gelu_term(x), ref::gelu(X))
FORMULA(gelu_tanh, fast::gelu_tanh(x), ref::gelu_tanh(X))
FORMULA(elu, fast::elu(x, 1.3f), ref::elu(X, double(1.3f)))
FORMULA(selu, fast::selu(x), ref::selu(X))
FORMULA(celu, fast::celu(x, 0.3f), ref::celu(X, double(0.3f)))
FORMULA(softplus, fast::softplus(x, 1.0f, 20.0f), ref::softplus(X, 1.0, 20.0))
FORMULA(logsigmoid, fast::logsigmoid(x), ref::logsigmoid(X))
FORMULA(softsign, fast::softsign(x), (X / (1 + ::fabs(X))))
FORMULA(div, fast::div(1.7f, x), (double(1.7f) / X))
FORMULA(sqrt, fast::sqrt(x), ::sqrt(X))
FORMULA(reciprocal, fast::reciprocal(x), (1 / X))

const double kTerm = std::exp2(-21.9), kCoarseTerm = 0x1p-17;
const Row rows[] = {
#define EPIFUSE_FORMULA(op, name, relative, floor, total, cost) \
  {#name, relative, floor, total, run<Case_##name>, 0},
#define EPIFUSE_TERM(op, name) {#name, kUnbounded, 0x1p-117, kUnbounded, run<Case_##name>, kTerm},
#define EPIFUSE_COARSE_TERM(op, name) {#name, kUnbounded, 0x1p-117, kUnbounded, run<Case_##name>, kCoarseTerm},
#include "plan/analysis/formulas.def"
  {"sigmoid(a, f)", 0x1.6ap-17, 0x1p-117, 0x1p-21, run<Case_sigmoid_of_product>, 0},
  {"sigmoid_term(a, f)", kUnbounded, 0x1p-117, kUnbounded, run<Case_sigmoid_term_of_product>, kCoarseTerm},
};

int main(int argc, char** argv) {
  Found* found = nullptr;
  CHECK(cudaMallocManaged(&found, sizeof *found));
  std::string json;
  bool good = true;
  std::printf("%-18s %9s %9s %9s %9s   %s\n", "formula", "relative", "row", "total", "row", "at; ulp of f16, bf16");
  for (const Row& row : rows) {
    *found = {};
    row.run(found, row.floor);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    const bool holds =
        row.term > 0 ? found->term <= row.term : found->relative <= row.relative && found->total <= row.total;
    good = good && holds;
    char line[400];
    std::snprintf(line, sizeof line, "%-18s  2^%6.2f  2^%6.2f  2^%6.2f  2^%6.2f   %a; %.3f %.3f%s%s\n", row.name.c_str(),
                  std::log2(found->relative), std::log2(row.relative), std::log2(row.term > 0 ? found->term : found->total),
                  std::log2(row.term > 0 ? row.term : row.total), found->at, found->ulps[0], found->ulps[1],
                  row.term > 0 ? "  (term)" : "", holds ? "" : "  WORSE THAN ITS ROW");
    std::fputs(line, stdout);
    std::snprintf(line, sizeof line,
                  "%s    {\"formula\": \"%s\", \"term\": %s, \"relative\": %.4g, \"total\": %.4g, \"beside_argument\": %.4g, "
                  "\"ulp_f16\": %.4f, \"ulp_bf16\": %.4f, \"holds\": %s}",
                  json.empty() ? "" : ",\n", row.name.c_str(), row.term > 0 ? "true" : "false", found->relative,
                  found->total, found->term, found->ulps[0], found->ulps[1], holds ? "true" : "false");
    json += line;
  }
  cudaDeviceProp device{};
  CHECK(cudaGetDeviceProperties(&device, 0));
  if (argc > 1) {
    std::FILE* out = std::fopen(argv[1], "w");
    if (out == nullptr) return 2;
    // The format of bench/record.py; who commits it adds the commit and the date.
    std::fprintf(out,
                 "{\"suite\": \"formulas\", \"device\": \"%s\", \"driver\": null, \"commit\": null, \"date\": null, "
                 "\"versions\": {}, \"command\": \"formula_sweep\", \"settings\": {\"arguments\": \"all 2^32 floats\"}, "
                 "\"records\": [\n%s\n]}\n",
                 device.name, json.c_str());
    std::fclose(out);
  }
  return good ? 0 : 1;
}
