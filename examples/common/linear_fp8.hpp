// A linear layer in fp8, y = x · wᵀ, with a scale for each 128 numbers of x and one for each 128×128 of w, as
// DeepSeek-V3 has them and cuBLASLt computes them on GPUs of sm_90: the products of example 11. Where cuBLASLt does
// not, EpiFuse multiplies in f32.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <epifuse/epifuse.hpp>

#include "common/data.hpp"
#include "common/linear.hpp"

namespace examples {

/// The numbers of a row that share a scale, and the rows and the columns of a weight that do.
inline constexpr std::int64_t kScaleBlock = 128;

/// Numbers in f8e4m3 [rows, inputs], dense, and their scales in f32 [rows, inputs / 128], which lie as
/// `transposed_scales` puts them. A number counts as itself times its scale.
struct Fp8 {
  ef::TensorView values;
  ef::TensorView scales;
};

class LinearFp8 {
 public:
  /// Random weights from `seed`, of deviation 1/sqrt(inputs) once they are scaled. Throws Failure unless inputs and
  /// outputs are multiples of 128 and rows one of 16.
  LinearFp8(ef::Engine& engine, const LinearShape& shape, std::uint64_t seed);
  ~LinearFp8();
  LinearFp8(const LinearFp8&) = delete;
  LinearFp8& operator=(const LinearFp8&) = delete;

  /// Type and shape of the result: bf16 [rows, outputs].
  ef::OutputView result() const;

  /// y = x · wᵀ on `stream`, the sums rounded to bf16.
  void forward(const Fp8& x, const ef::OutputView& y, ef::Stream stream);

  /// One value of the result, in double precision.
  double expected(const Fp8& x, const ef::Dims& at) const;

  std::string describe() const;
  /// Who multiplies: "cuBLASLt 13.1.0" or "EpiFuse 0.1.0".
  std::string library() const;
  /// Why cuBLASLt does not, as a sentence; empty where it does.
  const std::string& refusal() const noexcept { return refusal_; }

 private:
  struct Cublas;
  /// Weights and x as f32, which EpiFuse multiplies.
  struct Plain {
    ef::Array w;
    ef::Array x;
  };

  void forward_plain(const Fp8& x, const ef::OutputView& y, ef::Stream stream);

  ef::Engine& engine_;
  LinearShape shape_;
  ef::Array w_;
  ef::Array w_scales_;  ///< [outputs / 128, inputs / 128 and up to a multiple of 4]
  std::string refusal_;
  std::unique_ptr<Cublas> cublas_;
  std::optional<Plain> plain_;
};

}  // namespace examples
