// The part of cuBLASLt's C interface that cublaslt.cpp calls, declared here so that no CUDA header is needed to build.
// It has been the same since CUDA 12.0; tests/runtime/cublaslt_abi_test.cpp compares it with cublasLt.h where that is
// installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

namespace cublaslt {
// cublasStatus_t
inline constexpr int kSuccess = 0;
// cublasComputeType_t
inline constexpr int kComputeF32 = 68;
inline constexpr int kComputeF64 = 70;
inline constexpr int kComputeI32 = 72;
inline constexpr int kComputeTf32 = 77;
// cudaDataType_t
inline constexpr int kF32 = 0, kF64 = 1, kF16 = 2, kI8 = 3, kI32 = 10, kBf16 = 14, kF8E4M3 = 28, kF8E5M2 = 29;
// cublasLtMatmulDescAttributes_t
inline constexpr int kTransposeA = 3, kTransposeB = 4, kScaleA = 17;
// cublasOperation_t
inline constexpr int kTransposed = 1;
// cublasLtMatrixLayoutAttribute_t
inline constexpr int kBatchCount = 5, kBatchStride = 6;
// cublasLtMatmulPreferenceAttributes_t
inline constexpr int kMostWorkspace = 1;
inline constexpr int kAlignmentA = 5, kAlignmentB = 6, kAlignmentC = 7, kAlignmentD = 8;

/// cublasLtMatmulHeuristicResult_t
struct Heuristic {
  std::uint64_t algorithm[8];
  std::size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};
}  // namespace cublaslt

// X(member, symbol, parameters). Every function returns a cublasStatus_t; descriptors and the handle are pointers.
#define EPIFUSE_CUBLASLT_FUNCTIONS(X)                                                                                  \
  X(create, cublasLtCreate, (void**))                                                                                  \
  X(destroy, cublasLtDestroy, (void*))                                                                                 \
  X(operation_create, cublasLtMatmulDescCreate, (void**, int, int))                                                    \
  X(operation_set, cublasLtMatmulDescSetAttribute, (void*, int, const void*, std::size_t))                             \
  X(operation_destroy, cublasLtMatmulDescDestroy, (void*))                                                             \
  X(layout_create, cublasLtMatrixLayoutCreate, (void**, int, std::uint64_t, std::uint64_t, std::int64_t))              \
  X(layout_set, cublasLtMatrixLayoutSetAttribute, (void*, int, const void*, std::size_t))                              \
  X(layout_destroy, cublasLtMatrixLayoutDestroy, (void*))                                                              \
  X(preference_create, cublasLtMatmulPreferenceCreate, (void**))                                                       \
  X(preference_set, cublasLtMatmulPreferenceSetAttribute, (void*, int, const void*, std::size_t))                      \
  X(preference_destroy, cublasLtMatmulPreferenceDestroy, (void*))                                                      \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic,                                                                         \
    (void*, void*, void*, void*, void*, void*, void*, int, cublaslt::Heuristic*, int*))                                \
  X(matmul, cublasLtMatmul,                                                                                            \
    (void*, void*, const void*, const void*, void*, const void*, void*, const void*, const void*, void*, void*, void*, \
     const void*, void*, std::size_t, StreamHandle))

struct CublasLtApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type and a parameter list, not expressions
#define EPIFUSE_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  EPIFUSE_CUBLASLT_FUNCTIONS(EPIFUSE_MEMBER)
#undef EPIFUSE_MEMBER
};

}  // namespace epifuse::runtime
