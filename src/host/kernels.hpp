// The loops of the CPU device: one per operation and per conversion, over short arrays, compiled from the same
// definitions as kernels and once per instruction set. For execute.cpp only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <epifuse/dtype.hpp>

#include "ir/ops.hpp"

namespace epifuse::host {

/// out[i] = op(a[i], b[i], c[i]). Truth values are 0 and 1. `out` overlaps no argument; unused arguments may be null.
template <class Real>
using Loop = void (*)(const Real* a, const Real* b, const Real* c, Real* out, int n);
/// out[i] = source[i * stride], converted.
template <class Real>
using Load = void (*)(const void* source, std::int64_t stride, int n, Real* out);
/// target[i * stride] = values[i], converted.
template <class Real>
using Store = void (*)(const Real* values, int n, void* target, std::int64_t stride);

/// What random numbers are drawn with.
struct Random {
  std::uint64_t seed = 0, offset = 0;
};
/// out[i] = the random number of element first + i * stride.
template <class Real>
using Draw = void (*)(const Random& random, std::int64_t first, std::int64_t stride, int n, Real* out);

inline constexpr std::size_t kTypes = kDTypes;
inline constexpr std::size_t kOps = 0
#define EPIFUSE_OP(...) +1  // NOLINT(bugprone-macro-parentheses): a sum of rows
#include "ir/ops.def"
#undef EPIFUSE_OP
    ;
inline constexpr std::size_t kReductions = 0
#define EPIFUSE_REDUCTION(...) +1  // NOLINT(bugprone-macro-parentheses): a sum of rows
#include "ir/reductions.def"
#undef EPIFUSE_REDUCTION
    ;

/// What a reduction has seen is two doubles, `first` and `second`: of sum and mean the sum, of var the mean and the sum
/// of squared deviations, of the others the result so far. This takes `rows` rows of `width` values into the states of
/// their columns, which `taken` rows have entered before. The order of the additions depends on rows and width alone,
/// not on the instruction set.
template <class Real>
using Take = void (*)(const Real* values, int rows, int width, std::int64_t taken, double* first, double* second);

template <class Real>
struct Reduction {
  double none;  ///< of no element; of var: both
  Take<Real> take;
};

template <class Real>
struct Kernels {
  std::array<Loop<Real>, kOps> ops;      ///< in the order of ops.def
  std::array<Loop<Real>, kTypes> casts;  ///< by DType
  std::array<Load<Real>, kTypes> loads;
  std::array<Store<Real>, kTypes> stores;
  std::array<Reduction<Real>, kReductions> reductions;  ///< in the order of reductions.def
  Draw<Real> draw;

  Loop<Real> of(ir::Op op) const {
    return ops[static_cast<std::size_t>(op) - static_cast<std::size_t>(ir::Op::cast) - 1];
  }
  const Reduction<Real>& reduction(ir::Op op) const {
    return reductions[static_cast<std::size_t>(op) - static_cast<std::size_t>(ir::Op::sum)];
  }
};

/// The fastest table that this CPU can run. Real is float or double.
template <class Real>
const Kernels<Real>& kernels();

}  // namespace epifuse::host
