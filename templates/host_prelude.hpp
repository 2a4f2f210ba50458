// The device prelude as ordinary C++: the CPU device and constant folding run the very definitions that kernels are built from.
// For src/ir (folding) and src/host; CUDA's keywords are macros only inside this header.
#pragma once

#include <cmath>
#include <limits>

// NOLINTBEGIN: CUDA keywords and CUDA text
#define __device__
#define __forceinline__ inline __attribute__((always_inline))

namespace epifuse::prelude {
#include "types.cuh"

#include "integers.cuh"
// the operations build on the types, and on each other in this order
#include "arithmetic.cuh"
#include "exponentials.cuh"
// last
#include "activations.cuh"
#include "philox.cuh"
}  // namespace epifuse::prelude

#undef __device__
#undef __forceinline__
// NOLINTEND
