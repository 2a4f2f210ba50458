// What the products of the examples share of cuBLASLt: owners of its handles, descriptions of matrices, the choice of
// an algorithm. For common/linear.cpp and common/linear_fp8.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <cublasLt.h>

#include "common/gpu.hpp"

namespace examples {

using CublasHandle = Owner<cublasLtHandle_t, cublasLtDestroy>;
using CublasProduct = Owner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using CublasMatrix = Owner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;

/// How much memory an algorithm may use besides the matrices.
inline constexpr std::int64_t kCublasWorkspaceBytes = std::int64_t{64} << 20;

/// "CUBLAS_STATUS_NOT_SUPPORTED", with what the library says about it.
std::string cublas_status(cublasStatus_t status);
/// Throws Failure unless `status` is a success; `what` says what was tried.
void check_cublas(cublasStatus_t status, const char* what);

/// "cuBLASLt 13.1.0"
std::string cublas_library();

CublasHandle open_cublas();

/// y = x · wᵀ of row-major matrices. Column-major, as cuBLASLt has them, this is yᵀ = w · xᵀ: w comes first and is the
/// one to transpose.
CublasProduct describe_product(cublasComputeType_t compute, cudaDataType_t scale);

template <typename T>
void set_attribute(const CublasProduct& product, cublasLtMatmulDescAttributes_t attribute, const T& value,
                   const char* what) {
  check_cublas(cublasLtMatmulDescSetAttribute(product.get(), attribute, &value, sizeof value), what);
}

/// cuBLASLt's matrices are column-major, so a row-major matrix is its own transpose there: `length` numbers in a row
/// are a column. A batch of them lies one behind the other.
CublasMatrix describe_matrix(cudaDataType_t type, std::int64_t batches, std::int64_t rows, std::int64_t length);

/// Asks for the best algorithm. A success means that there is one; else the status says why not.
cublasStatus_t choose_algorithm(const CublasHandle& cublas, const CublasProduct& product, const CublasMatrix& w,
                                const CublasMatrix& x, const CublasMatrix& y, cublasLtMatmulHeuristicResult_t& chosen);

}  // namespace examples
