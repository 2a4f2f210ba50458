// Our declarations of cuBLASLt against NVIDIA's own, at compile time, where cublasLt.h is installed.
#include <gtest/gtest.h>

#include "runtime/cublaslt_abi.hpp"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#include <cstddef>

namespace epifuse::runtime {
namespace {

static_assert(cublaslt::kSuccess == CUBLAS_STATUS_SUCCESS);
static_assert(cublaslt::kComputeF32 == CUBLAS_COMPUTE_32F);
static_assert(cublaslt::kComputeF64 == CUBLAS_COMPUTE_64F);
static_assert(cublaslt::kComputeI32 == CUBLAS_COMPUTE_32I);
static_assert(cublaslt::kF32 == CUDA_R_32F && cublaslt::kF64 == CUDA_R_64F && cublaslt::kF16 == CUDA_R_16F);
static_assert(cublaslt::kI8 == CUDA_R_8I && cublaslt::kI32 == CUDA_R_32I && cublaslt::kBf16 == CUDA_R_16BF);
static_assert(cublaslt::kF8E4M3 == CUDA_R_8F_E4M3 && cublaslt::kF8E5M2 == CUDA_R_8F_E5M2);
static_assert(cublaslt::kTransposeA == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(cublaslt::kTransposeB == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(cublaslt::kScaleA == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER);
static_assert(cublaslt::kTransposed == CUBLAS_OP_T);
static_assert(cublaslt::kBatchCount == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(cublaslt::kBatchStride == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(cublaslt::kMostWorkspace == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(cublaslt::kAlignmentA == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(cublaslt::kAlignmentB == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES);
static_assert(cublaslt::kAlignmentC == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES);
static_assert(cublaslt::kAlignmentD == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);

static_assert(sizeof(cublaslt::Heuristic) == sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(cublaslt::Heuristic, algorithm) == offsetof(cublasLtMatmulHeuristicResult_t, algo));
static_assert(offsetof(cublaslt::Heuristic, workspace_bytes) ==
              offsetof(cublasLtMatmulHeuristicResult_t, workspaceSize));
static_assert(offsetof(cublaslt::Heuristic, state) == offsetof(cublasLtMatmulHeuristicResult_t, state));

// A parameter as the calling convention sees it: descriptors and the stream are pointers, enums are ints of four bytes.
template <class T>
constexpr std::size_t kPassed = sizeof(T);
template <class Ours, class Theirs>
struct Alike;
template <class... Ours, class... Theirs>
struct Alike<int (*)(Ours...), cublasStatus_t (*)(Theirs...)> {
  static constexpr bool value = sizeof...(Ours) == sizeof...(Theirs) && ((kPassed<Ours> == kPassed<Theirs>)&&...);
};

#define EPIFUSE_COMPARE(member, symbol, parameters)                               \
  static_assert(Alike<decltype(CublasLtApi::member), decltype(&::symbol)>::value, \
                #symbol " is declared differently in cublasLt.h");
EPIFUSE_CUBLASLT_FUNCTIONS(EPIFUSE_COMPARE)
#undef EPIFUSE_COMPARE

TEST(CublasLtAbi, AgreesWithTheOfficialHeader) { SUCCEED() << "all of it is asserted when this file compiles"; }

}  // namespace
}  // namespace epifuse::runtime
#else
TEST(CublasLtAbi, AgreesWithTheOfficialHeader) { GTEST_SKIP() << "cublasLt.h is not installed"; }
#endif
