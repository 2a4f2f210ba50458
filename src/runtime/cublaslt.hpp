// cuBLASLt, loaded when a product first needs it, as the driver is: nothing of it is linked. For the engine (api/),
// which computes with it the products that no kernel of EpiFuse hosts a chain in.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include <epifuse/tensor.hpp>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

/// cuBLASLt's functions; opaque here.
struct CublasLtApi;

/// Functions of the library that CublasLt's constructor opens, which the first call opens too. Throws
/// Error(unsupported) where there is none.
const CublasLtApi& cublaslt_api();

/// The code of an element type, a cudaDataType_t; none for those that cuBLASLt has no products of.
std::optional<int> cublaslt_type(DType type) noexcept;

/// Whether cuBLASLt reads such matrices, in the last two dimensions, where they lie: along rows (or columns, for a
/// right factor of 8 bits) elements are neighbours, and rows follow each other without overlap.
bool is_matrix_layout(const TensorView& factor, bool is_right) noexcept;

/// A handle of one device. Any number of threads.
class CublasLt {
 public:
  /// Opens the library: one that the process has loaded, else libcublasLt.so.13 or .12, or the file that
  /// EPIFUSE_CUBLASLT names. Throws Error(unsupported) where there is none. The device's context must be current.
  CublasLt();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  /// Device memory that a product may use beside its operands: what NVIDIA recommends for Hopper.
  static constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

  /// result = left @ right, queued on the stream: [rows, depth] times [depth, columns], or batches of these, all of
  /// three dimensions. Along rows or along columns, elements of each matrix are neighbours; the result is dense. Sums
  /// are f32 of f16, bf16, f32 and 8-bit floats, f64 of f64, i32 of i8. `tf32`: f32 may be rounded to TF32. Throws
  /// Error(unsupported) for what cuBLASLt has no kernel for. The device's context must be current.
  void multiply(const TensorView& left, const TensorView& right, const OutputView& result, bool tf32,
                StreamHandle stream, void* workspace) const;

 private:
  const CublasLtApi& api_;
  void* handle_ = nullptr;
};

}  // namespace epifuse::runtime
