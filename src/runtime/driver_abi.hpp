// The part of the CUDA driver's C interface that runtime/ calls, declared here so that no CUDA header is needed to
// build. All of it has been stable since CUDA 12.0; tests/runtime/driver_abi_test.cpp compares it with cuda.h where
// that is installed. Only runtime/ calls these functions; the handle types are seen by its users.
#pragma once

#include <cstddef>
#include <cstdint>

// NVIDIA's own names at global scope: the very same types when cuda.h is included as well, so that a caller's CUstream
// needs no cast.
struct CUctx_st;
struct CUmod_st;
struct CUfunc_st;
struct CUstream_st;
struct CUevent_st;
struct CUgraph_st;
struct CUgraphExec_st;
struct CUtensorMap_st;

namespace epifuse::runtime {

using ContextHandle = ::CUctx_st*;
using ModuleHandle = ::CUmod_st*;
using FunctionHandle = ::CUfunc_st*;
using StreamHandle = ::CUstream_st*;  ///< null: the legacy default stream
using EventHandle = ::CUevent_st*;
using GraphHandle = ::CUgraph_st*;
using GraphExecHandle = ::CUgraphExec_st*;
using DeviceHandle = int;
using DevicePointer = unsigned long long;

/// The driver's constants, as cuda.h numbers them. Results and attributes are enums of four bytes there; passed alike.
namespace abi {
// CUresult
inline constexpr int kSuccess = 0;
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kNotInitialized = 3;
inline constexpr int kDeinitialized = 4;
inline constexpr int kStubLibrary = 34;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kInvalidContext = 201;
inline constexpr int kNoBinaryForGpu = 209;
inline constexpr int kEccUncorrectable = 214;
inline constexpr int kInvalidPtx = 218;
inline constexpr int kNvlinkUncorrectable = 220;
inline constexpr int kJitCompilerNotFound = 221;
inline constexpr int kUnsupportedPtxVersion = 222;
inline constexpr int kInvalidHandle = 400;
inline constexpr int kNotFound = 500;
inline constexpr int kIllegalAddress = 700;
inline constexpr int kLaunchOutOfResources = 701;
inline constexpr int kLaunchTimeout = 702;
inline constexpr int kContextIsDestroyed = 709;
inline constexpr int kAssert = 710;
inline constexpr int kHardwareStackError = 714;
inline constexpr int kIllegalInstruction = 715;
inline constexpr int kMisalignedAddress = 716;
inline constexpr int kInvalidAddressSpace = 717;
inline constexpr int kInvalidPc = 718;
inline constexpr int kLaunchFailed = 719;
inline constexpr int kSystemDriverMismatch = 803;
inline constexpr int kCompatNotSupported = 804;
inline constexpr int kStreamCaptureUnsupported = 900;
inline constexpr int kStreamCaptureInvalidated = 901;
inline constexpr int kStreamCaptureImplicit = 906;

// CUdevice_attribute
inline constexpr int kMaxThreadsPerBlock = 1;
inline constexpr int kMultiprocessorCount = 16;
inline constexpr int kMemoryClockRate = 36;
inline constexpr int kGlobalMemoryBusWidth = 37;
inline constexpr int kL2CacheSize = 38;
inline constexpr int kMaxThreadsPerMultiprocessor = 39;
inline constexpr int kComputeCapabilityMajor = 75;
inline constexpr int kComputeCapabilityMinor = 76;
inline constexpr int kMaxSharedMemoryPerBlockOptin = 97;

// CUfunction_attribute
inline constexpr int kFunctionMaxThreadsPerBlock = 0;
inline constexpr int kFunctionSharedSizeBytes = 1;
inline constexpr int kFunctionLocalSizeBytes = 3;
inline constexpr int kFunctionNumRegs = 4;
inline constexpr int kFunctionMaxDynamicSharedSizeBytes = 8;
inline constexpr int kFunctionNonPortableClusterSizeAllowed = 14;

// CUpointer_attribute and CUmemorytype
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerBufferId = 7;
inline constexpr int kPointerIsManaged = 8;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

// CUtensorMapDataType, CUtensorMapSwizzle and CUtensorMapL2promotion
inline constexpr int kTensorU8 = 0;
inline constexpr int kTensorF16 = 6;
inline constexpr int kTensorF32 = 7;
inline constexpr int kTensorBf16 = 9;
inline constexpr int kSwizzle32 = 1;
inline constexpr int kSwizzle64 = 2;
inline constexpr int kSwizzle128 = 3;
inline constexpr int kPromote256 = 3;

// CUjit_option
inline constexpr int kJitErrorLogBuffer = 5;
inline constexpr int kJitErrorLogBufferSizeBytes = 6;

// Flags
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr int kCaptureModeThreadLocal = 1;
inline constexpr int kCaptureModeRelaxed = 2;
inline constexpr unsigned kEventDefault = 0;
inline constexpr unsigned kEventDisableTiming = 2;

// The keys of cuLaunchKernel's `extra` array, each a small integer as a pointer.
inline constexpr std::size_t kLaunchParamEnd = 0;
inline constexpr std::size_t kLaunchParamBufferPointer = 1;
inline constexpr std::size_t kLaunchParamBufferSize = 2;
}  // namespace abi
}  // namespace epifuse::runtime

// X(member, symbol, parameters). Every function returns a CUresult. The symbols carry the version suffix that the
// driver exports. cuEventElapsedTime is the first version: cuda.h 13 names a second one, which drivers of CUDA 12 do
// not export.
#define EPIFUSE_DRIVER_FUNCTIONS(X)                                                                                \
  X(init, cuInit, (unsigned))                                                                                      \
  X(driver_get_version, cuDriverGetVersion, (int*))                                                                \
  X(get_error_name, cuGetErrorName, (int, const char**))                                                           \
  X(get_error_string, cuGetErrorString, (int, const char**))                                                       \
  X(device_get_count, cuDeviceGetCount, (int*))                                                                    \
  X(device_get, cuDeviceGet, (DeviceHandle*, int))                                                                 \
  X(device_get_name, cuDeviceGetName, (char*, int, DeviceHandle))                                                  \
  X(device_get_attribute, cuDeviceGetAttribute, (int*, int, DeviceHandle))                                         \
  X(device_total_mem, cuDeviceTotalMem_v2, (std::size_t*, DeviceHandle))                                           \
  X(device_get_pci_bus_id, cuDeviceGetPCIBusId, (char*, int, DeviceHandle))                                        \
  X(ctx_get_current, cuCtxGetCurrent, (ContextHandle*))                                                            \
  X(ctx_set_current, cuCtxSetCurrent, (ContextHandle))                                                             \
  X(ctx_push_current, cuCtxPushCurrent_v2, (ContextHandle))                                                        \
  X(ctx_pop_current, cuCtxPopCurrent_v2, (ContextHandle*))                                                         \
  X(ctx_get_device, cuCtxGetDevice, (DeviceHandle*))                                                               \
  X(device_primary_ctx_get_state, cuDevicePrimaryCtxGetState, (DeviceHandle, unsigned*, int*))                     \
  X(device_primary_ctx_retain, cuDevicePrimaryCtxRetain, (ContextHandle*, DeviceHandle))                           \
  X(device_primary_ctx_release, cuDevicePrimaryCtxRelease_v2, (DeviceHandle))                                      \
  X(module_load_data_ex, cuModuleLoadDataEx, (ModuleHandle*, const void*, unsigned, int*, void**))                 \
  X(module_unload, cuModuleUnload, (ModuleHandle))                                                                 \
  X(module_get_function, cuModuleGetFunction, (FunctionHandle*, ModuleHandle, const char*))                        \
  X(func_get_attribute, cuFuncGetAttribute, (int*, int, FunctionHandle))                                           \
  X(func_set_attribute, cuFuncSetAttribute, (FunctionHandle, int, int))                                            \
  X(occupancy_max_active_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                      \
    (int*, FunctionHandle, int, std::size_t))                                                                      \
  X(launch_kernel, cuLaunchKernel,                                                                                 \
    (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, StreamHandle, void**,   \
     void**))                                                                                                      \
  X(mem_alloc, cuMemAlloc_v2, (DevicePointer*, std::size_t))                                                       \
  X(mem_free, cuMemFree_v2, (DevicePointer))                                                                       \
  X(mem_alloc_async, cuMemAllocAsync, (DevicePointer*, std::size_t, StreamHandle))                                 \
  X(mem_free_async, cuMemFreeAsync, (DevicePointer, StreamHandle))                                                 \
  X(memcpy_htod_async, cuMemcpyHtoDAsync_v2, (DevicePointer, const void*, std::size_t, StreamHandle))              \
  X(memcpy_dtoh_async, cuMemcpyDtoHAsync_v2, (void*, DevicePointer, std::size_t, StreamHandle))                    \
  X(memcpy_dtod_async, cuMemcpyDtoDAsync_v2, (DevicePointer, DevicePointer, std::size_t, StreamHandle))            \
  X(memset_d8_async, cuMemsetD8Async, (DevicePointer, unsigned char, std::size_t, StreamHandle))                   \
  X(stream_create, cuStreamCreate, (StreamHandle*, unsigned))                                                      \
  X(stream_destroy, cuStreamDestroy_v2, (StreamHandle))                                                            \
  X(stream_synchronize, cuStreamSynchronize, (StreamHandle))                                                       \
  X(stream_begin_capture, cuStreamBeginCapture_v2, (StreamHandle, int))                                            \
  X(stream_end_capture, cuStreamEndCapture, (StreamHandle, GraphHandle*))                                          \
  X(thread_exchange_stream_capture_mode, cuThreadExchangeStreamCaptureMode, (int*))                                \
  X(graph_instantiate, cuGraphInstantiateWithFlags, (GraphExecHandle*, GraphHandle, unsigned long long))           \
  X(graph_launch, cuGraphLaunch, (GraphExecHandle, StreamHandle))                                                  \
  X(graph_exec_destroy, cuGraphExecDestroy, (GraphExecHandle))                                                     \
  X(graph_destroy, cuGraphDestroy, (GraphHandle))                                                                  \
  X(event_create, cuEventCreate, (EventHandle*, unsigned))                                                         \
  X(event_record, cuEventRecord, (EventHandle, StreamHandle))                                                      \
  X(event_synchronize, cuEventSynchronize, (EventHandle))                                                          \
  X(event_elapsed_time, cuEventElapsedTime, (float*, EventHandle, EventHandle))                                    \
  X(event_destroy, cuEventDestroy_v2, (EventHandle))                                                               \
  X(tensor_map_encode_tiled, cuTensorMapEncodeTiled,                                                               \
    (CUtensorMap_st*, int, std::uint32_t, void*, const std::uint64_t*, const std::uint64_t*, const std::uint32_t*, \
     const std::uint32_t*, int, int, int, int))                                                                    \
  X(pointer_get_attributes, cuPointerGetAttributes, (unsigned, int*, void**, DevicePointer))

namespace epifuse::runtime {

/// The driver's functions, found by name in libcuda. Tests fill in a table of their own.
struct DriverApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type and a parameter list, not expressions
#define EPIFUSE_MEMBER(member, symbol, parameters) int(*member) parameters = nullptr;
  EPIFUSE_DRIVER_FUNCTIONS(EPIFUSE_MEMBER)
#undef EPIFUSE_MEMBER
};

}  // namespace epifuse::runtime
