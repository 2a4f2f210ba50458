// The body of kernels_baseline.cpp and kernels_avx2.cpp, which differ in compiler flags only. Everything here has
// internal linkage or is always inlined: a function compiled for one instruction set must never be linked into code for
// another.
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
    // An integer has no -0. g++ 12 turns the way there and back into a truncation that keeps the sign
    // (-fno-trapping-math); adding 0 takes it off.
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

// ---- random numbers

// Four neighbours come of one computation.
template <class Real>
void draw(const Random& random, std::int64_t first, std::int64_t stride, int n, Real* out) {
  const prelude::Random numbers{random.seed, random.offset};
  int i = 0;
  const auto one = [&] {
    out[i] = static_cast<Real>(numbers[first + i * stride]);
    ++i;
  };
  while (i < n && (stride != 1 || (first + i) % 4 != 0)) one();
  for (; i + 4 <= n; i += 4) {
    const auto four = numbers.words(static_cast<std::uint64_t>(first + i) / 4);
    for (int k = 0; k < 4; ++k) out[i + k] = static_cast<Real>(prelude::Random::uniform(four.word[k]));
  }
  while (i < n) one();
}

// ---- reductions

// What a reduction does with two of its elements. Lane is the type in which the elements of a short array are combined.
template <class Real>
struct Sum {
  using Lane = double;
  static constexpr double kNone = 0;
  template <class T>
  static T fold(T a, T b) {
    return a + b;
  }
};
template <class Real>
struct Product {
  using Lane = double;
  static constexpr double kNone = 1;
  template <class T>
  static T fold(T a, T b) {
    return a * b;
  }
};
template <class Real>
struct Largest {
  using Lane = Real;
  static constexpr double kNone = -__builtin_inf();
  template <class T>
  static T fold(T a, T b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
template <class Real>
struct Smallest {
  using Lane = Real;
  static constexpr double kNone = __builtin_inf();
  template <class T>
  static T fold(T a, T b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};
template <class Real>
struct Any {
  using Lane = Real;
  static constexpr double kNone = 0;
  template <class T>
  static T fold(T a, T b) {
    return ((a != T(0)) | (b != T(0))) ? T(1) : T(0);
  }
};
template <class Real>
struct All {
  using Lane = Real;
  static constexpr double kNone = 1;
  template <class T>
  static T fold(T a, T b) {
    return ((a != T(0)) & (b != T(0))) ? T(1) : T(0);
  }
};

// fold over term(0) … term(n - 1), in lanes that vectorise, and in an order that depends on n alone.
template <class Fold, class Lane, class Term>
__attribute__((always_inline)) inline Lane fold_row(int n, Term term) {
  constexpr int kLanes = 16;
  Lane result = static_cast<Lane>(Fold::kNone);
  int i = 0;
  if (n >= kLanes) {
    Lane lanes[kLanes];
    for (int l = 0; l < kLanes; ++l) lanes[l] = static_cast<Lane>(term(l));
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) lanes[l] = Fold::fold(lanes[l], static_cast<Lane>(term(i + l)));
    }
    for (int half = kLanes / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) lanes[l] = Fold::fold(lanes[l], lanes[l + half]);
    }
    result = lanes[0];
  }
  for (; i < n; ++i) result = Fold::fold(result, static_cast<Lane>(term(i)));
  return result;
}

template <template <class> class Fold, class Real>
void take_fold(const Real* __restrict__ values, int rows, int width, std::int64_t, double* __restrict__ first,
               double*) {
  using Lane = typename Fold<Real>::Lane;
  if (width == 1) {
    const Lane row = fold_row<Fold<Real>, Lane>(rows, [&](int i) { return values[i]; });
    *first = Fold<Real>::fold(*first, static_cast<double>(row));
    return;
  }
  for (int r = 0; r < rows; ++r) {
    const Real* __restrict__ row = values + static_cast<std::int64_t>(r) * width;
    for (int i = 0; i < width; ++i) first[i] = Fold<Real>::fold(first[i], static_cast<double>(row[i]));
  }
}

// Welford's formula down columns. Along a row the deviations from the row's own mean, merged by Chan's formula.
template <class Real>
void take_var(const Real* __restrict__ values, int rows, int width, std::int64_t taken, double* __restrict__ mean,
              double* __restrict__ squares) {
  if (width == 1) {
    // Counted from the first element, equal elements have that as their mean, and no variance: what divides by a
    // deviation asks whether it is 0.
    const double first = rows > 0 ? static_cast<double>(values[0]) : 0;
    double own =
        first + fold_row<Sum<Real>, double>(rows, [&](int i) { return static_cast<double>(values[i]) - first; }) / rows;
    if (__builtin_isfinite(own) == 0) own = fold_row<Sum<Real>, double>(rows, [&](int i) { return values[i]; }) / rows;
    const double own_squares = fold_row<Sum<Real>, double>(rows, [&](int i) {
      const double deviation = static_cast<double>(values[i]) - own;
      return deviation * deviation;
    });
    const double delta = own - *mean;
    const auto before = static_cast<double>(taken);
    const double after = before + rows;
    *squares = taken == 0 ? own_squares : *squares + own_squares + delta * delta * (before * rows / after);
    *mean = taken == 0 ? own : *mean + delta * (rows / after);
    return;
  }
  for (int r = 0; r < rows; ++r) {
    const Real* __restrict__ row = values + static_cast<std::int64_t>(r) * width;
    const double inverse = 1 / static_cast<double>(taken + r + 1);
    for (int i = 0; i < width; ++i) {
      const double delta = static_cast<double>(row[i]) - mean[i];
      mean[i] += delta * inverse;
      squares[i] += delta * (static_cast<double>(row[i]) - mean[i]);
    }
  }
}

template <class Real>
constexpr std::array<Reduction<Real>, kReductions> make_reductions() {
  const auto of = []<template <class> class Fold>() {
    return Reduction<Real>{Fold<Real>::kNone, take_fold<Fold, Real>};
  };
  const Reduction<Real> sum = of.template operator()<Sum>();
  const Reduction<Real> mean = sum;
  const Reduction<Real> prod = of.template operator()<Product>();
  const Reduction<Real> amax = of.template operator()<Largest>();
  const Reduction<Real> amin = of.template operator()<Smallest>();
  const Reduction<Real> var = {0, take_var<Real>};
  const Reduction<Real> any = of.template operator()<Any>();
  const Reduction<Real> all = of.template operator()<All>();
  return {
#define EPIFUSE_REDUCTION(id, ...) id,
#include "ir/reductions.def"
#undef EPIFUSE_REDUCTION
  };
}

// Tables by type, in the order of DType.
// NOLINTBEGIN(bugprone-macro-parentheses): the argument is the name of a template
#define EPIFUSE_BY_TYPE(function)                                                                        \
  {                                                                                                      \
    function<prelude::f64, Real>, function<prelude::f32, Real>, function<prelude::f16, Real>,            \
        function<prelude::bf16, Real>, function<prelude::f8e4m3, Real>, function<prelude::f8e5m2, Real>, \
        function<prelude::i8, Real>, function<prelude::u8, Real>, function<prelude::i32, Real>,          \
        function<prelude::i64, Real>, function<prelude::boolean, Real>, function<prelude::f8e8m0, Real>, \
        function<prelude::i16, Real>, function<prelude::u16, Real>, function<prelude::u32, Real>,        \
        function<prelude::f4e2m1, Real>, function<prelude::i4, Real>, function<prelude::u4, Real>        \
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
      {EPIFUSE_BY_TYPE(store)},
      make_reductions<Real>(),
      draw<Real>};
}
#undef EPIFUSE_BY_TYPE
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace
}  // namespace epifuse::host
