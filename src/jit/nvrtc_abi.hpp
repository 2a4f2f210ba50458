// The part of NVRTC's C interface that jit/ calls, declared here so that no CUDA header is needed to build. It has been
// stable since CUDA 11.2; tests/jit/nvrtc_abi_test.cpp compares it with nvrtc.h where that is installed. Only jit/ uses
// it.
#pragma once

#include <cstddef>

// NVIDIA's own name at global scope: the same type when nvrtc.h is included as well.
struct _nvrtcProgram;  // NOLINT(bugprone-reserved-identifier,readability-identifier-naming)

namespace epifuse::jit::abi {

using Program = ::_nvrtcProgram*;

// nvrtcResult. An enum of four bytes there; passed alike.
inline constexpr int kSuccess = 0;
inline constexpr int kOutOfMemory = 1;
inline constexpr int kInvalidOption = 5;
inline constexpr int kCompilation = 6;

}  // namespace epifuse::jit::abi

// X(member, symbol, return type, parameters)
#define EPIFUSE_NVRTC_FUNCTIONS(X)                                                                          \
  X(get_error_string, nvrtcGetErrorString, const char*, (int))                                              \
  X(get_version, nvrtcVersion, int, (int*, int*))                                                           \
  X(get_num_supported_archs, nvrtcGetNumSupportedArchs, int, (int*))                                        \
  X(get_supported_archs, nvrtcGetSupportedArchs, int, (int*))                                               \
  X(create_program, nvrtcCreateProgram, int,                                                                \
    (::epifuse::jit::abi::Program*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(destroy_program, nvrtcDestroyProgram, int, (::epifuse::jit::abi::Program*))                             \
  X(compile_program, nvrtcCompileProgram, int, (::epifuse::jit::abi::Program, int, const char* const*))     \
  X(get_ptx_size, nvrtcGetPTXSize, int, (::epifuse::jit::abi::Program, std::size_t*))                       \
  X(get_ptx, nvrtcGetPTX, int, (::epifuse::jit::abi::Program, char*))                                       \
  X(get_cubin_size, nvrtcGetCUBINSize, int, (::epifuse::jit::abi::Program, std::size_t*))                   \
  X(get_cubin, nvrtcGetCUBIN, int, (::epifuse::jit::abi::Program, char*))                                   \
  X(get_program_log_size, nvrtcGetProgramLogSize, int, (::epifuse::jit::abi::Program, std::size_t*))        \
  X(get_program_log, nvrtcGetProgramLog, int, (::epifuse::jit::abi::Program, char*))

namespace epifuse::jit::abi {

/// NVRTC's functions, found by name in the library.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type and a parameter list, not expressions
#define EPIFUSE_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  EPIFUSE_NVRTC_FUNCTIONS(EPIFUSE_MEMBER)
#undef EPIFUSE_MEMBER
};

}  // namespace epifuse::jit::abi
