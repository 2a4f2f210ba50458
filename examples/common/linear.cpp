// cuBLASLt's matrix product: its descriptors, its call, and one plain loop to check it against.
#include "common/linear.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <vector>

namespace examples {
namespace {

constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;

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

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Failure(std::string(what) + " failed: cuBLASLt reports " + cublasLtGetStatusString(status) + " (" +
                cublasLtGetStatusName(status) + ")");
}

/// [rows, length] or, of several, [batches, rows, length].
ef::Dims matrices(const LinearShape& shape, std::int64_t rows, std::int64_t length) {
  return shape.batches > 1 ? ef::Dims{shape.batches, rows, length} : ef::Dims{rows, length};
}

template <typename T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, const T& value, const char* what) {
  check_cublas(cublasLtMatmulDescSetAttribute(product, attribute, &value, sizeof value), what);
}

/// cuBLASLt's matrices are column-major, so a row-major matrix is its own transpose there: `length` numbers in a row
/// are a column. A batch of them lies one behind the other.
template <typename LayoutOwner>
LayoutOwner row_major(cudaDataType_t type, std::int64_t batches, std::int64_t rows, std::int64_t length) {
  cublasLtMatrixLayout_t created = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&created, type, static_cast<std::uint64_t>(length),
                                          static_cast<std::uint64_t>(rows), length),
               "describing a matrix");
  LayoutOwner layout(created);
  if (batches == 1) return layout;
  const auto set_layout = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(created, attribute, &value, sizeof value), "describing a batch");
  };
  set_layout(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batches));
  set_layout(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * length);
  return layout;
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
      workspace_(engine.empty(ef::DType::u8, {kWorkspaceBytes})),
      cublas_(create<decltype(cublas_)>(cublasLtCreate, check_cublas, "cublasLtCreate")),
      x_layout_(row_major<MatrixLayout>(row_of(dtype).in, shape.batches, shape.rows, shape.inputs)),
      w_layout_(row_major<MatrixLayout>(row_of(dtype).in, shape.batches, shape.outputs, shape.inputs)),
      y_layout_(row_major<MatrixLayout>(row_of(dtype).out, shape.batches, shape.rows, shape.outputs)) {
  if (bias == Bias::in_epilogue) bias_ = normal(engine, dtype, {shape.outputs}, 0.1, 3);
  describe_product();
  choose_algorithm();
}

void Linear::describe_product() {
  const TypeRow& type = row_of(dtype_);
  cublasLtMatmulDesc_t product = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&product, type.compute, type.scale), "describing the product");
  product_.reset(product);
  // Column-major, the row-major y = x · wᵀ reads yᵀ = w · xᵀ: w comes first and is the one to transpose.
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, "asking for w transposed");
  if (!bias_) return;
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS, "asking for the bias");
  set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_->view().data, "giving the bias");
}

void Linear::choose_algorithm() {
  using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
  const auto preference = create<Preference>(cublasLtMatmulPreferenceCreate, check_cublas, "creating a preference");
  const std::uint64_t bytes = kWorkspaceBytes;
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                    sizeof bytes),
               "offering a workspace");
  int found = 0;
  check_cublas(
      cublasLtMatmulAlgoGetHeuristic(cublas_.get(), product_.get(), w_layout_.get(), x_layout_.get(), y_layout_.get(),
                                     y_layout_.get(), preference.get(), 1, &algorithm_, &found),
      "asking cuBLASLt for an algorithm");
  if (found == 0)
    throw Failure("cuBLASLt has no algorithm for " + describe() + " in " + std::string(ef::to_string(dtype_)));
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

std::string Linear::library() {
  const std::size_t version = cublasLtGetVersion();  // 130100 is 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace examples
