// Factors of any type and any strides are copied to dense matrices of the type that sums have; Eigen multiplies these.
#include "host/multiply.hpp"

#include <Eigen/Core>
#include <type_traits>

#include "host/execute.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/block_scales.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::host {
namespace {

template <class Real>
using Matrix = Eigen::Matrix<Real, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

void copy(const TensorView& from, const OutputView& to) {
  execute(ir::identity(), plan::bind(ir::identity(), std::span(&to, 1), std::span(&from, 1)), {});
}

// Matrix number `batch` of the result reads this matrix of a factor, whose dimensions in front broadcast.
TensorView matrix_of(const TensorView& factor, const Dims& shape, std::int64_t batch) {
  const int rank = factor.shape.size();
  const auto* data = static_cast<const std::byte*>(factor.data);
  for (int d = shape.size() - 2; d-- > 0;) {
    const std::int64_t at = batch % shape[d];
    batch /= shape[d];
    const int own = d - (shape.size() - rank);
    if (own >= 0 && factor.shape[own] > 1)
      data += at * factor.strides[own] * static_cast<std::int64_t>(size_of(factor.dtype));
  }
  return {data,
          factor.dtype,
          {factor.shape[rank - 2], factor.shape[rank - 1]},
          {factor.strides[rank - 2], factor.strides[rank - 1]}};
}

// One matrix of a factor. Batches that share it copy it once.
template <class Real>
class DenseMatrix {
 public:
  void take(const TensorView& factor) {
    if (is_taken_ && factor.data == data_) return;
    data_ = factor.data;
    is_taken_ = true;
    matrix_.resize(factor.shape[0], factor.shape[1]);
    if (matrix_.size() > 0) copy(factor, {matrix_.data(), kType, factor.shape});
  }
  const Matrix<Real>& get() const { return matrix_; }

  // Each number times the scale of its block. `side` as ScaledExtents has it.
  void multiply_by(const plan::ScaleView& scales, std::size_t side) {
    const auto* const values = static_cast<const float*>(scales.values.data);
    const Dims& strides = scales.values.strides;
    for (std::int64_t row = 0; row < matrix_.rows(); ++row) {
      for (std::int64_t column = 0; column < matrix_.cols(); ++column) {
        const std::int64_t line = side == 0 ? row : column;
        const std::int64_t depth = side == 0 ? column : row;
        const std::int64_t at = (scales.is_of_each ? line : line / plan::kScaledBlock) * strides[0];
        matrix_(row, column) *= static_cast<Real>(values[at + depth / plan::kScaledBlock * strides[1]]);
      }
    }
  }

 private:
  static constexpr DType kType = std::is_same_v<Real, double>  ? DType::f64
                                 : std::is_same_v<Real, float> ? DType::f32
                                                               : DType::i32;
  Matrix<Real> matrix_;
  const void* data_ = nullptr;
  bool is_taken_ = false;
};

template <class Real>
void multiply_as(const TensorView& left, const TensorView& right, const OutputView& result,
                 const std::optional<plan::ScaleView>& left_scales,
                 const std::optional<plan::ScaleView>& right_scales) {
  const int rank = result.shape.size();
  const std::int64_t rows = result.shape[rank - 2];
  const std::int64_t columns = result.shape[rank - 1];
  std::int64_t batches = 1;
  for (int d = 0; d < rank - 2; ++d) batches *= result.shape[d];
  auto* data = static_cast<Real*>(result.writable());
  DenseMatrix<Real> a, b;
  for (std::int64_t batch = 0; batch < batches; ++batch, data += rows * columns) {
    a.take(matrix_of(left, result.shape, batch));
    b.take(matrix_of(right, result.shape, batch));
    if (left_scales) a.multiply_by(*left_scales, 0);
    if (right_scales) b.multiply_by(*right_scales, 1);
    Eigen::Map<Matrix<Real>>(data, rows, columns).noalias() = a.get() * b.get();
  }
}

}  // namespace

DType type_of_sums(DType factor) noexcept {
  return factor == DType::f64 || factor == DType::f32 ? factor : factor == DType::i8 ? DType::i32 : DType::f32;
}

void multiply(const TensorView& left, const TensorView& right, const OutputView& result,
              const std::optional<plan::ScaleView>& left_scales, const std::optional<plan::ScaleView>& right_scales) {
  switch (type_of_sums(left.dtype)) {
    case DType::f64:
      return multiply_as<double>(left, right, result, left_scales, right_scales);
    case DType::i32:
      return multiply_as<std::int32_t>(left, right, result, left_scales, right_scales);
    default:
      return multiply_as<float>(left, right, result, left_scales, right_scales);
  }
}

}  // namespace epifuse::host
