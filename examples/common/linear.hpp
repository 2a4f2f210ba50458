// A linear layer, y = x · wᵀ (+ bias), computed by cuBLASLt: the producer of examples 2, 5, 6 and 7; a batch of such
// products, as the q · kᵀ of attention, is that of example 8.
#pragma once

#include <optional>
#include <string>

#include <epifuse/epifuse.hpp>

#include "common/cublas.hpp"
#include "common/data.hpp"

namespace examples {

/// x is rows × inputs, w is outputs × inputs, y is rows × outputs; all of them row-major, as in PyTorch. With `batches`
/// each of the three has so many of these matrices, one behind the other.
struct LinearShape {
  std::int64_t rows;
  std::int64_t inputs;
  std::int64_t outputs;
  std::int64_t batches = 1;
};

class Linear {
 public:
  enum class Bias { none, in_epilogue };

  /// Random x and w from a fixed seed: f32, f16 and bf16 normal, w scaled by 1/sqrt(inputs); i8 normal with deviation
  /// 30, results in i32.
  Linear(ef::Engine& engine, const LinearShape& shape, ef::DType dtype, Bias bias);

  /// Type and shape [rows, outputs] or [batches, rows, outputs] of the result.
  ef::OutputView result() const;

  /// The factors.
  ef::TensorView x() const { return x_.view(); }
  ef::TensorView w() const { return w_.view(); }

  /// y = x · wᵀ (+ bias), in one cuBLASLt call on `stream`.
  void forward(const ef::OutputView& y, ef::Stream stream);

  /// One value of the result, from the same inputs, in double precision.
  double expected(const ef::Dims& at) const;

  std::string describe() const;
  static std::string library();

 private:
  LinearShape shape_;
  ef::DType dtype_;
  ef::Array x_;
  ef::Array w_;
  std::optional<ef::Array> bias_;
  ef::Array workspace_;
  CublasHandle cublas_;
  CublasProduct product_;
  CublasMatrix x_layout_;
  CublasMatrix w_layout_;
  CublasMatrix y_layout_;
  cublasLtMatmulHeuristicResult_t algorithm_{};
};

}  // namespace examples
