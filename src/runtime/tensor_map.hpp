// What TMA copies boxes of, as the driver encodes it. For the engine (api/), which gives kernels of products their
// operands so.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <epifuse/dtype.hpp>

namespace epifuse::runtime {

/// CUtensorMap.
struct alignas(64) TensorMap {
  std::array<std::byte, 128> bytes;
};

/// A tensor of three or four dimensions, the innermost first, and contiguous. What lies outside of it reads as 0.
struct TensorBoxes {
  const void* data = nullptr;
  DType dtype = DType::f16;               ///< f32, f16, bf16, or of one byte
  std::array<std::int64_t, 4> extents{};  ///< in elements
  std::array<std::int64_t, 3> strides{};  ///< in bytes, of all but the innermost
  std::array<int, 4> box{};               ///< elements that are copied
  int swizzle = 128;                      ///< in bytes: 32, 64 or 128
  int rank = 3;
  std::array<int, 4> steps = {1, 1, 1, 1};  ///< from one element of the box to the next; 1 for the innermost
};

/// Takes about a microsecond and no context. Throws Error(device_failed) for what the driver refuses.
TensorMap encode(const TensorBoxes& boxes);

}  // namespace epifuse::runtime
