// The chain inside a matrix product: one kernel for result = chain(left @ right^T, operands), for GPUs of sm_90. EpiFuse plans it, writes its
// source and compiles it; the caller encodes the tensor maps and launches (examples/example_10_linear_inside.cpp does). Needs no GPU.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/inspect.hpp>

namespace epifuse {

/// What cuTensorMapEncodeTiled takes, beside the element type: three dimensions, the innermost first; element strides are 1, nothing interleaves, and
/// what lies outside of the tensor is zero.
struct TensorMapRequest {
  const void* data;
  DType dtype;                          ///< f16 or bf16
  std::array<std::int64_t, 3> extents;  ///< in elements
  std::array<std::int64_t, 2> strides;  ///< in bytes, of the outer two
  std::array<int, 3> box;               ///< in elements
  int swizzle;                          ///< in bytes: 64 or 128
};

/// A CUtensorMap that the driver has encoded.
using TensorMapBytes = std::array<std::byte, 128>;

/// How the kernel is launched, in one dimension.
struct GemmLaunch {
  std::string name;  ///< of the kernel in its image
  int blocks;        ///< of the grid; the clusters are part of the image
  int threads;       ///< of a block
  int shared_bytes;  ///< dynamic shared memory: more than a kernel has without cuFuncSetAttribute
  std::vector<TensorMapRequest> maps;
};

/// A matrix product that hosts a chain. Factors and result are f16 or bf16, sums are f32, and the chain computes in f32 on the sums as they are: the
/// product is never rounded before it.
class GemmKernel {
 public:
  /// `product` names the operand of `tail` that stands for left @ right^T. `left` is [rows, depth] and `right` [columns, depth], as in
  /// torch.nn.functional.linear, or both with a batch in front; either may be transposed in memory. `inputs` are those of `tail` in its order; the
  /// product's is not looked at. Pointers may be null, as in Inspection. An operand may be the result's own view.
  /// Throws Error(invalid_argument) for what does not fit, and Error(unsupported) for what this kernel does not do.
  GemmKernel(const Epilogue& tail, std::string_view product, const TensorView& left, const TensorView& right,
             const OutputView& output, std::span<const TensorView> inputs, const PlanTarget& target = {});

  /// The plan for people.
  const std::string& plan_text() const noexcept;
  /// The whole CUDA source. It depends on the chain, the types and the tile, not on extents, strides and addresses.
  const std::string& cuda() const noexcept;
  const GemmLaunch& launch() const noexcept;
  /// Compiled by NVRTC for sm_90a; throws no_compiler or compile_failed.
  std::string cubin() const;
  KernelResources resources() const;
  /// The kernel's parameter, for maps that were encoded in the order of launch().maps.
  std::vector<std::byte> parameters(std::span<const TensorMapBytes> maps, std::span<const double> scalars = {}) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace epifuse
