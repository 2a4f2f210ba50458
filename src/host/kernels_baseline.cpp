// The CPU device's loops for any CPU of the target, and the choice among the tables.
#include "host/kernels_table.hpp"

namespace epifuse::host {

#if defined(EPIFUSE_AVX2)
extern const Kernels<float> kAvx2KernelsF32;
extern const Kernels<double> kAvx2KernelsF64;
#endif

namespace {

constexpr Kernels<float> kBaselineF32 = make_kernels<float>();
constexpr Kernels<double> kBaselineF64 = make_kernels<double>();

bool has_avx2() {
#if defined(EPIFUSE_AVX2)
  static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return yes;
#else
  return false;
#endif
}

}  // namespace

template <>
const Kernels<float>& kernels<float>() {
#if defined(EPIFUSE_AVX2)
  if (has_avx2()) return kAvx2KernelsF32;
#endif
  return kBaselineF32;
}

template <>
const Kernels<double>& kernels<double>() {
#if defined(EPIFUSE_AVX2)
  if (has_avx2()) return kAvx2KernelsF64;
#endif
  return kBaselineF64;
}

}  // namespace epifuse::host
