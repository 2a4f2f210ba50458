// cuBLASLt's matrix product: its descriptors, its call, and one plain loop to check it against.
#include "common/linear.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace examples {
namespace {

/// How cuBLASLt computes with an element type, and the random data for it: one row per type. In f32 it is plain f32
/// (TF32 would be CUBLAS_COMPUTE_32F_FAST_TF32).
struct TypeRow {
  ef::DType dtype;
  ef::DType result;
  cudaDataType_t in;
  cudaDataType_t out;
  cublasComputeType_t compute;
  cudaDataType_t scale;
  double deviation;        ///< of x
  bool weights_by_fan_in;  ///< w's deviation is 1/sqrt(inputs), not x's
};
constexpr TypeRow kTypes[] = {
    {ef::DType::f32, ef::DType::f32, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 1, true},
    {ef::DType::f16, ef::DType::f16, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_32F, 1, true},
    {ef::DType::bf16, ef::DType::bf16, CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_32F, 1, true},
    {ef::DType::i8, ef::DType::i32, CUDA_R_8I, CUDA_R_32I, CUBLAS_COMPUTE_32I, CUDA_R_32I, 30, false},
};

const TypeRow& row_of(ef::DType dtype) {
  const auto* const row = std::ranges::find(kTypes, dtype, &TypeRow::dtype);
  if (row != std::end(kTypes)) return *row;
  throw Failure("the linear layer of the examples takes f32, f16, bf16 or i8, not " +
                std::string(ef::to_string(dtype)));
}

/// [rows, length] or, of several, [batches, rows, length].
ef::Dims matrices(const LinearShape& shape, std::int64_t rows, std::int64_t length) {
  return shape.batches > 1 ? ef::Dims{shape.batches, rows, length} : ef::Dims{rows, length};
}

double weight_deviation(const TypeRow& type, std::int64_t inputs) {
  return type.weights_by_fan_in ? 1 / std::sqrt(static_cast<double>(inputs)) : type.deviation;
}

}  // namespace

Linear::Linear(ef::Engine& engine, const LinearShape& shape, ef::DType dtype, Bias bias)
    : shape_(shape),
      dtype_(dtype),
      x_(normal(engine, dtype, matrices(shape, shape.rows, shape.inputs), row_of(dtype).deviation, 1)),
      w_(normal(engine, dtype, matrices(shape, shape.outputs, shape.inputs),
                weight_deviation(row_of(dtype), shape.inputs), 2)),
      workspace_(engine.empty(ef::DType::u8, {kCublasWorkspaceBytes})),
      cublas_(open_cublas()),
      product_(describe_product(row_of(dtype).compute, row_of(dtype).scale)),
      x_layout_(describe_matrix(row_of(dtype).in, shape.batches, shape.rows, shape.inputs)),
      w_layout_(describe_matrix(row_of(dtype).in, shape.batches, shape.outputs, shape.inputs)),
      y_layout_(describe_matrix(row_of(dtype).out, shape.batches, shape.rows, shape.outputs)) {
  if (bias == Bias::in_epilogue) {
    bias_ = normal(engine, dtype, {shape.outputs}, 0.1, 3);
    set_attribute(product_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, "asking for the bias");
    set_attribute(product_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_->view().data, "giving the bias");
  }
  const cublasStatus_t status = choose_algorithm(cublas_, product_, w_layout_, x_layout_, y_layout_, algorithm_);
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Failure("cuBLASLt has no algorithm for " + describe() + " in " + std::string(ef::to_string(dtype)) + ": " +
                cublas_status(status));
}

ef::OutputView Linear::result() const {
  return {nullptr, row_of(dtype_).result, matrices(shape_, shape_.rows, shape_.outputs)};
}

void Linear::forward(const ef::OutputView& y, ef::Stream stream) {
  // alpha and beta have the scale's type: i32 for i8 products, else f32.
  const float float_one = 1;
  const float float_zero = 0;
  const std::int32_t int_one = 1;
  const std::int32_t int_zero = 0;
  const bool integer = dtype_ == ef::DType::i8;
  const void* const one = integer ? static_cast<const void*>(&int_one) : &float_one;
  const void* const zero = integer ? static_cast<const void*>(&int_zero) : &float_zero;
  check_cublas(cublasLtMatmul(cublas_.get(), product_.get(), one, w_.view().data, w_layout_.get(), x_.view().data,
                              x_layout_.get(), zero, y.data, y_layout_.get(), y.writable(), y_layout_.get(),
                              &algorithm_.algo, workspace_.view().writable(), workspace_.size_bytes(), stream),
               "cublasLtMatmul");
}

double Linear::expected(const ef::Dims& at) const {
  const std::int64_t batch = at.size() > 2 ? at[0] : 0;
  const std::int64_t row = at[at.size() - 2];
  const std::int64_t output = at[at.size() - 1];
  const auto vector = [this](const ef::Array& from, std::int64_t number) {
    return download(from.view().data, dtype_, number * shape_.inputs, shape_.inputs);
  };
  const std::vector<double> x = vector(x_, batch * shape_.rows + row);
  const std::vector<double> w = vector(w_, batch * shape_.outputs + output);
  double sum = bias_ ? download(bias_->view().data, dtype_, output, 1).front() : 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += x[i] * w[i];
  return sum;
}

std::string Linear::describe() const {
  const std::string batches = shape_.batches > 1 ? std::to_string(shape_.batches) + " times " : "";
  return "linear " + batches + std::to_string(shape_.rows) + "×" + std::to_string(shape_.inputs) + " to " +
         std::to_string(shape_.outputs) + (bias_ ? ", bias" : "");
}

std::string Linear::library() { return cublas_library(); }

}  // namespace examples
