// The loops of the CPU device: one per operation and per conversion, over short arrays, compiled from the same definitions as kernels
// and once per instruction set. For execute.cpp only.
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

inline constexpr std::size_t kTypes = kAllDTypes.size();
inline constexpr std::size_t kOps = 0
#define EPIFUSE_OP(...) +1  // NOLINT(bugprone-macro-parentheses): a sum of rows
#include "ir/ops.def"
#undef EPIFUSE_OP
    ;

template <class Real>
struct Kernels {
  std::array<Loop<Real>, kOps> ops;      ///< in the order of ops.def
  std::array<Loop<Real>, kTypes> casts;  ///< by DType
  std::array<Load<Real>, kTypes> loads;
  std::array<Store<Real>, kTypes> stores;

  Loop<Real> of(ir::Op op) const {
    return ops[static_cast<std::size_t>(op) - static_cast<std::size_t>(ir::Op::cast) - 1];
  }
};

/// The fastest table that this CPU can run. Real is float or double.
template <class Real>
const Kernels<Real>& kernels();

}  // namespace epifuse::host
