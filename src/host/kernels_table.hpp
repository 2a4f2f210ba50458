// The body of kernels_baseline.cpp and kernels_avx2.cpp, which differ in compiler flags only. Everything here has internal linkage or
// is always inlined: a function compiled for one instruction set must never be linked into code for another.
#pragma once

#include <type_traits>

#include "host/kernels.hpp"
#include "host_prelude.hpp"

namespace epifuse::host {
namespace {

namespace ops = prelude::ops;

template <char kind, class Real>
__attribute__((always_inline)) inline auto argument(Real value) {
  if constexpr (kind == 'b') {
    return value != Real(0);
  } else {
    return value;
  }
}

// The letter of parameter i; a missing one reads a as well, and the loop ignores it.
constexpr char kind_at(const char* kinds, int i) {
  for (int k = 0; k < i; ++k) {
    if (kinds[k] == '\0') return '\0';
  }
  return kinds[i];
}

#define EPIFUSE_OP(id, signature, kinds, result, expression, ...)                                     \
  template <class Real>                                                                               \
  void loop_##id(const Real* __restrict__ pa, [[maybe_unused]] const Real* __restrict__ pb,           \
                 [[maybe_unused]] const Real* __restrict__ pc, Real* __restrict__ out, int n) {       \
    for (int i = 0; i < n; ++i) {                                                                     \
      [[maybe_unused]] const auto a = argument<kind_at(kinds, 0)>(pa[i]);                             \
      [[maybe_unused]] const auto b = argument<kind_at(kinds, 1)>(kind_at(kinds, 1) ? pb[i] : pa[i]); \
      [[maybe_unused]] const auto c = argument<kind_at(kinds, 2)>(kind_at(kinds, 2) ? pc[i] : pa[i]); \
      out[i] = static_cast<Real>(expression);                                                         \
    }                                                                                                 \
  }
#include "ir/ops.def"
#undef EPIFUSE_OP

template <class T, class Real>
void loop_cast(const Real* __restrict__ a, const Real*, const Real*, Real* __restrict__ out, int n) {
  if constexpr (std::is_integral_v<T>) {
    // An integer has no -0. g++ 12 turns the way there and back into a truncation that keeps the sign (-fno-trapping-math); adding 0
    // takes it off.
    for (int i = 0; i < n; ++i) out[i] = prelude::round_to<T>(a[i]) + Real(0);
  } else {
    for (int i = 0; i < n; ++i) out[i] = prelude::round_to<T>(a[i]);
  }
}

template <class T, class Real>
void load(const void* source, std::int64_t stride, int n, Real* __restrict__ out) {
  const T* __restrict__ values = static_cast<const T*>(source);
  if (stride == 1) {
    for (int i = 0; i < n; ++i) out[i] = prelude::to_real<Real>(values[i]);
  } else if (stride == 0) {
    const Real value = prelude::to_real<Real>(values[0]);
    for (int i = 0; i < n; ++i) out[i] = value;
  } else {
    for (int i = 0; i < n; ++i) out[i] = prelude::to_real<Real>(values[i * stride]);
  }
}

template <class T, class Real>
void store(const Real* __restrict__ values, int n, void* target, std::int64_t stride) {
  T* __restrict__ out = static_cast<T*>(target);
  if (stride == 1) {
    for (int i = 0; i < n; ++i) out[i] = prelude::from_real<T>(values[i]);
  } else {
    for (int i = 0; i < n; ++i) out[i * stride] = prelude::from_real<T>(values[i]);
  }
}

// Tables by type, in the order of DType.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is the name of a template
#define EPIFUSE_BY_TYPE(function)                                                                        \
  {                                                                                                      \
    function<prelude::f64, Real>, function<prelude::f32, Real>, function<prelude::f16, Real>,            \
        function<prelude::bf16, Real>, function<prelude::f8e4m3, Real>, function<prelude::f8e5m2, Real>, \
        function<prelude::i8, Real>, function<prelude::u8, Real>, function<prelude::i32, Real>,          \
        function<prelude::i64, Real>, function<prelude::boolean, Real>                                   \
  }

template <class Real>
constexpr Kernels<Real> make_kernels() {
  return {
#define EPIFUSE_OP(id, ...) loop_##id<Real>,
      {
#include "ir/ops.def"
      },
#undef EPIFUSE_OP
      {EPIFUSE_BY_TYPE(loop_cast)},
      {EPIFUSE_BY_TYPE(load)},
      {EPIFUSE_BY_TYPE(store)}};
}
#undef EPIFUSE_BY_TYPE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace
}  // namespace epifuse::host
