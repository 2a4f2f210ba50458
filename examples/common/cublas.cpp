// Calls of cuBLASLt that every product makes in the same way.
#include "common/cublas.hpp"

namespace examples {

std::string cublas_status(cublasStatus_t status) {
  return std::string(cublasLtGetStatusString(status)) + " (" + cublasLtGetStatusName(status) + ")";
}

void check_cublas(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Failure(std::string(what) + " failed: cuBLASLt reports " + cublas_status(status));
}

std::string cublas_library() {
  const std::size_t version = cublasLtGetVersion();  // 130100 is 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

CublasHandle open_cublas() { return create<CublasHandle>(cublasLtCreate, check_cublas, "cublasLtCreate"); }

CublasProduct describe_product(cublasComputeType_t compute, cudaDataType_t scale) {
  cublasLtMatmulDesc_t created = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&created, compute, scale), "describing the product");
  CublasProduct product(created);
  set_attribute(product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T, "asking for w transposed");
  return product;
}

CublasMatrix describe_matrix(cudaDataType_t type, std::int64_t batches, std::int64_t rows, std::int64_t length) {
  cublasLtMatrixLayout_t created = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&created, type, static_cast<std::uint64_t>(length),
                                          static_cast<std::uint64_t>(rows), length),
               "describing a matrix");
  CublasMatrix matrix(created);
  if (batches == 1) return matrix;
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    check_cublas(cublasLtMatrixLayoutSetAttribute(created, attribute, &value, sizeof value), "describing a batch");
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(batches));
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * length);
  return matrix;
}

cublasStatus_t choose_algorithm(const CublasHandle& cublas, const CublasProduct& product, const CublasMatrix& w,
                                const CublasMatrix& x, const CublasMatrix& y, cublasLtMatmulHeuristicResult_t& chosen) {
  using Preference = Owner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;
  const auto preference = create<Preference>(cublasLtMatmulPreferenceCreate, check_cublas, "creating a preference");
  const std::uint64_t bytes = kCublasWorkspaceBytes;
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.get(), CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                                    sizeof bytes),
               "offering a workspace");
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(cublas.get(), product.get(), w.get(), x.get(), y.get(),
                                                               y.get(), preference.get(), 1, &chosen, &found);
  return status == CUBLAS_STATUS_SUCCESS && found == 0 ? CUBLAS_STATUS_NOT_SUPPORTED : status;
}

}  // namespace examples
