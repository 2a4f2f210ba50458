// One call of the driver.
#include "runtime/tensor_map.hpp"

#include <algorithm>

#include "runtime/driver.hpp"

namespace epifuse::runtime {

namespace {

// TMA has no 8-bit types but bytes, and copies bits.
int type_in_maps(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return abi::kTensorF32;
    case DType::f16:
      return abi::kTensorF16;
    case DType::bf16:
      return abi::kTensorBf16;
    default:
      return abi::kTensorU8;
  }
}

int swizzle_of(int bytes) { return bytes == 128 ? abi::kSwizzle128 : bytes == 64 ? abi::kSwizzle64 : abi::kSwizzle32; }

}  // namespace

TensorMap encode(const TensorBoxes& boxes) {
  std::array<std::uint64_t, 4> extents{};
  std::array<std::uint64_t, 3> strides{};
  std::array<std::uint32_t, 4> box{};
  std::array<std::uint32_t, 4> steps{};
  std::ranges::copy(boxes.extents, extents.begin());
  std::ranges::copy(boxes.strides, strides.begin());
  std::ranges::copy(boxes.steps, steps.begin());
  // The driver counts the elements between as well, and copies every so manieth of them: boxDim is N * elementStrides
  // for N elements.
  for (std::size_t d = 0; d < box.size(); ++d) box[d] = static_cast<std::uint32_t>(boxes.box[d] * boxes.steps[d]);
  constexpr int kNotInterleaved = 0;
  constexpr int kZeros = 0;
  TensorMap map{};
  check(driver().tensor_map_encode_tiled(reinterpret_cast<CUtensorMap_st*>(&map), type_in_maps(boxes.dtype),
                                         static_cast<std::uint32_t>(boxes.rank), const_cast<void*>(boxes.data),
                                         extents.data(), strides.data(), box.data(), steps.data(), kNotInterleaved,
                                         swizzle_of(boxes.swizzle), abi::kPromote256, kZeros),
        "describe a tensor for copies of its boxes");
  return map;
}

}  // namespace epifuse::runtime
