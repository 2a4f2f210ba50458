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

/// A tensor of three dimensions, the innermost first, and contiguous. What lies outside of it reads as 0.
struct TensorBoxes {
  const void* data = nullptr;
  DType dtype = DType::f16;               ///< f32, f16, bf16, or of one byte
  std::array<std::int64_t, 3> extents{};  ///< in elements
  std::array<std::int64_t, 2> strides{};  ///< in bytes, of the outer two
  std::array<int, 3> box{};               ///< in elements
  int swizzle = 128;                      ///< in bytes: 32, 64 or 128
};

/// Takes about a microsecond and no context. Throws Error(device_failed) for what the driver refuses.
TensorMap encode(const TensorBoxes& boxes);

}  // namespace epifuse::runtime
