// Our declarations of the driver against NVIDIA's own, at compile time, where cuda.h is installed.
#include <gtest/gtest.h>

#include "runtime/driver_abi.hpp"

#if __has_include(<cuda.h>)
#include <cuda.h>

#include <type_traits>

// cuda.h 13 turns this name into its second version, which has the same parameters; we call the first.
#if CUDA_VERSION >= 13000
static_assert(std::is_same_v<decltype(&cuEventElapsedTime), CUresult (*)(float*, CUevent, CUevent)>);
#endif

namespace epifuse::runtime {
namespace {

// A type as the calling convention sees it: an enum of four bytes is an int.
template <class T>
struct Passed {
  using Type = T;
};
template <class T>
requires std::is_enum_v<T>
struct Passed<T> {
  static_assert(sizeof(T) == sizeof(int));
  using Type = int;
};
template <class T>
struct Passed<T*> {
  using Type = typename Passed<T>::Type*;
};
template <class T>
struct Passed<const T> {
  using Type = const typename Passed<T>::Type;
};
template <class R, class... P>
struct Passed<R (*)(P...)> {
  using Type = typename Passed<R>::Type (*)(typename Passed<P>::Type...);
};

#define EPIFUSE_COMPARE(member, symbol, parameters)                                             \
  static_assert(std::is_same_v<decltype(DriverApi::member), Passed<decltype(&::symbol)>::Type>, \
                #symbol " is declared differently in cuda.h");
EPIFUSE_DRIVER_FUNCTIONS(EPIFUSE_COMPARE)
#undef EPIFUSE_COMPARE

static_assert(std::is_same_v<ContextHandle, CUcontext>);
static_assert(std::is_same_v<ModuleHandle, CUmodule>);
static_assert(std::is_same_v<FunctionHandle, CUfunction>);
static_assert(std::is_same_v<StreamHandle, CUstream>);
static_assert(std::is_same_v<EventHandle, CUevent>);
static_assert(std::is_same_v<GraphHandle, CUgraph>);
static_assert(std::is_same_v<GraphExecHandle, CUgraphExec>);
static_assert(std::is_same_v<DeviceHandle, CUdevice>);
static_assert(std::is_same_v<DevicePointer, CUdeviceptr>);

static_assert(abi::kSuccess == CUDA_SUCCESS);
static_assert(abi::kInvalidValue == CUDA_ERROR_INVALID_VALUE);
static_assert(abi::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(abi::kNotInitialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(abi::kDeinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(abi::kStubLibrary == CUDA_ERROR_STUB_LIBRARY);
static_assert(abi::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(abi::kInvalidDevice == CUDA_ERROR_INVALID_DEVICE);
static_assert(abi::kInvalidImage == CUDA_ERROR_INVALID_IMAGE);
static_assert(abi::kInvalidContext == CUDA_ERROR_INVALID_CONTEXT);
static_assert(abi::kNoBinaryForGpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(abi::kEccUncorrectable == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(abi::kInvalidPtx == CUDA_ERROR_INVALID_PTX);
static_assert(abi::kNvlinkUncorrectable == CUDA_ERROR_NVLINK_UNCORRECTABLE);
static_assert(abi::kJitCompilerNotFound == CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
static_assert(abi::kUnsupportedPtxVersion == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(abi::kInvalidHandle == CUDA_ERROR_INVALID_HANDLE);
static_assert(abi::kNotFound == CUDA_ERROR_NOT_FOUND);
static_assert(abi::kIllegalAddress == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(abi::kLaunchOutOfResources == CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
static_assert(abi::kLaunchTimeout == CUDA_ERROR_LAUNCH_TIMEOUT);
static_assert(abi::kContextIsDestroyed == CUDA_ERROR_CONTEXT_IS_DESTROYED);
static_assert(abi::kAssert == CUDA_ERROR_ASSERT);
static_assert(abi::kHardwareStackError == CUDA_ERROR_HARDWARE_STACK_ERROR);
static_assert(abi::kIllegalInstruction == CUDA_ERROR_ILLEGAL_INSTRUCTION);
static_assert(abi::kMisalignedAddress == CUDA_ERROR_MISALIGNED_ADDRESS);
static_assert(abi::kInvalidAddressSpace == CUDA_ERROR_INVALID_ADDRESS_SPACE);
static_assert(abi::kInvalidPc == CUDA_ERROR_INVALID_PC);
static_assert(abi::kLaunchFailed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(abi::kSystemDriverMismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(abi::kCompatNotSupported == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE);
static_assert(abi::kStreamCaptureUnsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(abi::kStreamCaptureInvalidated == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
static_assert(abi::kStreamCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);

static_assert(abi::kMaxThreadsPerBlock == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(abi::kMultiprocessorCount == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(abi::kMemoryClockRate == CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
static_assert(abi::kGlobalMemoryBusWidth == CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
static_assert(abi::kL2CacheSize == CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
static_assert(abi::kMaxThreadsPerMultiprocessor == CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
static_assert(abi::kComputeCapabilityMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(abi::kComputeCapabilityMinor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(abi::kMaxSharedMemoryPerBlockOptin == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);

static_assert(abi::kFunctionMaxThreadsPerBlock == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
static_assert(abi::kFunctionSharedSizeBytes == CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
static_assert(abi::kFunctionLocalSizeBytes == CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
static_assert(abi::kFunctionNumRegs == CU_FUNC_ATTRIBUTE_NUM_REGS);
static_assert(abi::kFunctionMaxDynamicSharedSizeBytes == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

static_assert(abi::kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(abi::kPointerBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(abi::kPointerIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(abi::kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(abi::kMemoryTypeHost == CU_MEMORYTYPE_HOST);
static_assert(abi::kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);

static_assert(abi::kJitErrorLogBuffer == CU_JIT_ERROR_LOG_BUFFER);
static_assert(abi::kJitErrorLogBufferSizeBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

static_assert(abi::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(abi::kCaptureModeThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(abi::kCaptureModeRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(abi::kEventDefault == CU_EVENT_DEFAULT);
static_assert(abi::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);

// Macros of casts, which no constant expression may hold: compared at run time.
TEST(DriverAbi, AgreesWithTheOfficialHeader) {
  EXPECT_EQ(reinterpret_cast<void*>(abi::kLaunchParamEnd), CU_LAUNCH_PARAM_END);
  EXPECT_EQ(reinterpret_cast<void*>(abi::kLaunchParamBufferPointer), CU_LAUNCH_PARAM_BUFFER_POINTER);
  EXPECT_EQ(reinterpret_cast<void*>(abi::kLaunchParamBufferSize), CU_LAUNCH_PARAM_BUFFER_SIZE);
}

}  // namespace
}  // namespace epifuse::runtime
#else
TEST(DriverAbi, AgreesWithTheOfficialHeader) { GTEST_SKIP() << "cuda.h is not installed"; }
#endif
