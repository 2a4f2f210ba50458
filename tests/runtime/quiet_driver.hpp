// A driver that does next to nothing, from any number of threads, without writing what two of them share: what the
// library itself costs shows beside it. For bench/ and the tests of dispatch.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>

#include "runtime/driver.hpp"

namespace epifuse::runtime {

/// What a launch was given.
struct QuietLaunch {
  FunctionHandle function = nullptr;
  unsigned grid = 0, block = 0, shared = 0;
  StreamHandle stream = nullptr;
  std::size_t bytes = 0;
  std::array<std::byte, 32'768> parameters{};
};

/// One at a time, as the functions of a driver take no `this`. It has two devices: like an H100, or of another compute
/// capability, `major`.0. Each of their addresses tells its device.
class QuietDriver {
 public:
  explicit QuietDriver(int major = 9);
  ~QuietDriver() { set_driver_for_testing(nullptr); }
  QuietDriver(const QuietDriver&) = delete;
  QuietDriver& operator=(const QuietDriver&) = delete;

  /// The calling thread's last launch.
  static const QuietLaunch& last_launch() { return launch_; }
  /// How often this thread asked what memory a pointer addresses, and loaded a module.
  static std::size_t pointer_queries() { return pointer_queries_; }
  static std::size_t modules_loaded() { return modules_loaded_; }

  /// Bytes of a tensor in the parameters of a product's kernel, which begin with three: a map for 9.0, else an address
  /// and two strides.
  static std::size_t bytes_of_tensor() { return major_ == 9 ? 128 : 24; }

  /// An address on that device, `offset` bytes into its memory; nobody need allocate it.
  static void* address(int device, std::size_t offset) {
    return reinterpret_cast<void*>(kDeviceMemory | static_cast<DevicePointer>(device) << kDeviceShift | offset);
  }

 private:
  static constexpr DevicePointer kDeviceMemory = 1ULL << 50;  // which no address of the host has
  static constexpr int kDeviceShift = 48;
  DriverApi api_;
  static inline std::atomic<int> major_{9};
  static inline thread_local QuietLaunch launch_;
  static inline thread_local std::size_t pointer_queries_ = 0;
  static inline thread_local std::size_t modules_loaded_ = 0;
  static inline thread_local ContextHandle current_ = nullptr;
  static inline thread_local ContextHandle below_ = nullptr;  // one may be pushed over another
  static inline std::atomic<DevicePointer> next_memory_{1ULL << 20};
};

inline QuietDriver::QuietDriver(int major) {
  major_ = major;
  static constexpr auto kContext = [](int device) {
    return reinterpret_cast<ContextHandle>(0x100UL + 0x100UL * static_cast<std::size_t>(device));
  };
  api_.init = [](unsigned) { return abi::kSuccess; };
  api_.driver_get_version = [](int* version) { return *version = 13000, abi::kSuccess; };
  api_.get_error_name = [](int, const char** name) { return *name = "CUDA_ERROR", abi::kSuccess; };
  api_.get_error_string = [](int, const char** text) { return *text = "quiet", abi::kSuccess; };
  api_.device_get_count = [](int* count) { return *count = 2, abi::kSuccess; };
  api_.device_get = [](DeviceHandle* device, int ordinal) { return *device = ordinal, abi::kSuccess; };
  api_.device_get_name = [](char* name, int, DeviceHandle) { return std::strcpy(name, "none (stub)"), abi::kSuccess; };
  api_.device_get_pci_bus_id = [](char* id, int, DeviceHandle) { return std::strcpy(id, "0"), abi::kSuccess; };
  api_.device_total_mem = [](std::size_t* bytes, DeviceHandle) { return *bytes = 1ULL << 36, abi::kSuccess; };
  api_.device_get_attribute = [](int* value, int which, DeviceHandle) {
    *value = which == abi::kComputeCapabilityMajor ? major_.load() : which == abi::kMultiprocessorCount ? 132 : 0;
    return abi::kSuccess;
  };
  api_.ctx_get_current = [](ContextHandle* context) { return *context = current_, abi::kSuccess; };
  api_.ctx_set_current = [](ContextHandle context) { return current_ = context, abi::kSuccess; };
  api_.ctx_push_current = [](ContextHandle context) { return below_ = current_, current_ = context, abi::kSuccess; };
  api_.ctx_pop_current = [](ContextHandle* context) { return *context = current_, current_ = below_, abi::kSuccess; };
  api_.ctx_get_device = [](DeviceHandle* device) {
    return *device = current_ == kContext(1) ? 1 : 0, current_ == nullptr ? abi::kInvalidContext : abi::kSuccess;
  };
  api_.device_primary_ctx_get_state = [](DeviceHandle, unsigned*, int* active) { return *active = 1, abi::kSuccess; };
  api_.device_primary_ctx_retain = [](ContextHandle* context, DeviceHandle device) {
    return *context = kContext(device), abi::kSuccess;
  };
  api_.device_primary_ctx_release = [](DeviceHandle) { return abi::kSuccess; };
  api_.module_load_data_ex = [](ModuleHandle* module, const void*, unsigned, int*, void**) {
    *module = reinterpret_cast<ModuleHandle>(0x1000 + 0x10 * ++modules_loaded_);
    return abi::kSuccess;
  };
  api_.module_unload = [](ModuleHandle) { return abi::kSuccess; };
  api_.module_get_function = [](FunctionHandle* function, ModuleHandle module, const char*) {
    return *function = reinterpret_cast<FunctionHandle>(module), abi::kSuccess;
  };
  api_.func_get_attribute = [](int* value, int, FunctionHandle) { return *value = 32, abi::kSuccess; };
  api_.func_set_attribute = [](FunctionHandle, int, int) { return abi::kSuccess; };
  api_.tensor_map_encode_tiled = [](CUtensorMap_st* map, int, std::uint32_t, void* data, const std::uint64_t*,
                                    const std::uint64_t*, const std::uint32_t*, const std::uint32_t*, int, int, int,
                                    int) {
    std::memcpy(static_cast<void*>(map), &data, sizeof data);
    return abi::kSuccess;
  };
  api_.launch_kernel = [](FunctionHandle function, unsigned grid, unsigned, unsigned, unsigned block, unsigned,
                          unsigned, unsigned shared, StreamHandle stream, void** parameters, void** extra) {
    launch_.function = function;
    launch_.grid = grid;
    launch_.block = block;
    launch_.shared = shared;
    launch_.stream = stream;
    // A product's kernel is launched by pointers, and takes one struct.
    launch_.bytes = extra != nullptr ? *static_cast<const std::size_t*>(extra[3]) : 3 * bytes_of_tensor();
    std::memcpy(launch_.parameters.data(), extra != nullptr ? extra[1] : parameters[0], launch_.bytes);
    return abi::kSuccess;
  };
  const auto allocate = [](DevicePointer* address, std::size_t bytes) {
    const DevicePointer place = next_memory_.fetch_add((bytes + 511) / 512 * 512, std::memory_order_relaxed);
    *address = kDeviceMemory | (current_ == kContext(1) ? 1ULL << kDeviceShift : 0) | place;
    return abi::kSuccess;
  };
  api_.mem_alloc = allocate;
  api_.mem_alloc_async = [](DevicePointer* address, std::size_t, StreamHandle) {
    return *address = kDeviceMemory | 1ULL << 44, abi::kSuccess;
  };
  api_.mem_free = [](DevicePointer) { return abi::kSuccess; };
  api_.mem_free_async = [](DevicePointer, StreamHandle) { return abi::kSuccess; };
  api_.memcpy_htod_async = [](DevicePointer, const void*, std::size_t, StreamHandle) { return abi::kSuccess; };
  api_.memcpy_dtoh_async = [](void*, DevicePointer, std::size_t, StreamHandle) { return abi::kSuccess; };
  api_.memset_d8_async = [](DevicePointer, unsigned char, std::size_t, StreamHandle) { return abi::kSuccess; };
  api_.stream_create = [](StreamHandle* stream, unsigned) {
    return *stream = reinterpret_cast<StreamHandle>(0x5000), abi::kSuccess;
  };
  api_.stream_destroy = [](StreamHandle) { return abi::kSuccess; };
  api_.stream_synchronize = [](StreamHandle) { return abi::kSuccess; };
  api_.thread_exchange_stream_capture_mode = [](int*) { return abi::kSuccess; };
  api_.pointer_get_attributes = [](unsigned count, int* which, void** values, DevicePointer address) {
    ++pointer_queries_;
    const bool ours = (address & kDeviceMemory) != 0;
    for (unsigned i = 0; i < count; ++i) {
      if (which[i] == abi::kPointerMemoryType) *static_cast<unsigned*>(values[i]) = ours ? abi::kMemoryTypeDevice : 0;
      if (which[i] == abi::kPointerBufferId) *static_cast<DevicePointer*>(values[i]) = ours ? address : 0;
      if (which[i] == abi::kPointerIsManaged) *static_cast<unsigned*>(values[i]) = 0;
      if (which[i] == abi::kPointerDeviceOrdinal)
        *static_cast<int*>(values[i]) = static_cast<int>(address >> kDeviceShift & 1);
    }
    return abi::kSuccess;
  };
  set_driver_for_testing(&api_);
}

}  // namespace epifuse::runtime
