// A driver that only remembers what it was asked: two devices, a stack of contexts for the (one) calling thread,
// counters. For tests of runtime/ and of dispatch without a GPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runtime/driver.hpp"

namespace epifuse::runtime {

/// What the stub driver knows and was told. One at a time: the functions of a driver take no `this`.
struct StubDriver {
  StubDriver();
  ~StubDriver();
  StubDriver(const StubDriver&) = delete;
  StubDriver& operator=(const StubDriver&) = delete;

  /// A context that the application made on that device.
  ContextHandle make_context(int device);
  ContextHandle current() const { return stack.empty() ? nullptr : stack.back(); }

  DriverApi api;
  std::map<ContextHandle, int> devices;  ///< of every live context
  std::vector<ContextHandle> stack;
  std::map<int, ContextHandle> primary;
  std::map<int, int> retained;
  std::map<ModuleHandle, ContextHandle> modules;
  std::map<DevicePointer, ContextHandle> allocations;
  std::vector<std::string> calls;   ///< the names of those that change something
  std::map<std::string, int> fail;  ///< what a call returns instead of success
  std::vector<char> launched;       ///< the parameters of the last launch
  unsigned grid = 0, block = 0, shared = 0;
  StreamHandle stream = nullptr;
  bool capturing = false;
  bool numbers_memory = true;
  int capture_mode = 0;                  ///< of the thread
  std::vector<int> modes_of_allocation;  ///< that mode at each allocation
  std::size_t handles = 0x1000;

  template <class Handle>
  Handle new_handle() {
    return reinterpret_cast<Handle>(handles += 0x10);
  }
  /// Notes the call; what `fail` says for it, else success.
  int answer(const char* call) {
    calls.emplace_back(call);
    const auto it = fail.find(call);
    return it == fail.end() ? abi::kSuccess : it->second;
  }
  /// Of memory, by its address; 0 of what is not allocated, or went with its context.
  std::uint64_t number_of(DevicePointer address) const {
    const auto it = allocations.find(address);
    return it == allocations.end() || !devices.contains(it->second) ? 0 : address;
  }
  std::size_t count(const std::string& call) const {
    std::size_t n = 0;
    for (const std::string& made : calls) n += made == call;
    return n;
  }
};

namespace stub {
inline StubDriver* self = nullptr;

inline void fill_devices(DriverApi& api) {
  api.init = [](unsigned) { return self->answer("init"); };
  api.driver_get_version = [](int* version) { return *version = 12080, abi::kSuccess; };
  api.get_error_name = [](int, const char** name) { return *name = "CUDA_ERROR_OF_THE_STUB", abi::kSuccess; };
  api.get_error_string = [](int, const char** text) { return *text = "text of the stub", abi::kSuccess; };
  api.device_get_count = [](int* count) { return *count = 2, abi::kSuccess; };
  // Handles that are not ordinals, so that mistaking one for the other shows.
  api.device_get = [](DeviceHandle* device, int ordinal) {
    return *device = 100 + ordinal, self->answer("device_get");
  };
  api.device_get_name = [](char* name, int, DeviceHandle) { return std::strcpy(name, "Stub"), abi::kSuccess; };
  api.device_get_pci_bus_id = [](char* id, int, DeviceHandle) {
    return std::strcpy(id, "0000:01:00.0"), abi::kSuccess;
  };
  api.device_get_attribute = [](int* value, int which, DeviceHandle) {
    switch (which) {
      case abi::kComputeCapabilityMajor:
        return *value = 9, abi::kSuccess;
      case abi::kComputeCapabilityMinor:
        return *value = 0, abi::kSuccess;
      case abi::kMemoryClockRate:
        return *value = 2619000, abi::kSuccess;
      case abi::kGlobalMemoryBusWidth:
        return *value = 5120, abi::kSuccess;
      default:
        return *value = 1000 + which, abi::kSuccess;
    }
  };
  api.device_total_mem = [](std::size_t* bytes, DeviceHandle) { return *bytes = 1ULL << 36, abi::kSuccess; };
}

inline void fill_contexts(DriverApi& api) {
  api.ctx_get_current = [](ContextHandle* context) {
    *context = self->current();
    return self->fail.contains("ctx_get_current") ? self->fail["ctx_get_current"] : abi::kSuccess;
  };
  api.ctx_set_current = [](ContextHandle context) {
    if (!self->stack.empty()) self->stack.pop_back();
    if (context != nullptr) self->stack.push_back(context);
    return self->answer("ctx_set_current");
  };
  api.ctx_push_current = [](ContextHandle context) {
    if (!self->devices.contains(context)) return self->answer("push"), abi::kInvalidContext;
    self->stack.push_back(context);
    return self->answer("push");
  };
  api.ctx_pop_current = [](ContextHandle* context) {
    if (self->stack.empty()) return abi::kInvalidContext;
    *context = self->stack.back();
    self->stack.pop_back();
    return self->answer("pop");
  };
  api.ctx_get_device = [](DeviceHandle* device) {
    if (self->stack.empty()) return abi::kInvalidContext;
    *device = 100 + self->devices.at(self->current());
    return abi::kSuccess;
  };
  api.device_primary_ctx_get_state = [](DeviceHandle device, unsigned* flags, int* active) {
    *flags = 0;
    *active = self->retained[device - 100] > 0 ? 1 : 0;
    return abi::kSuccess;
  };
  api.device_primary_ctx_retain = [](ContextHandle* context, DeviceHandle device) {
    const int ordinal = device - 100;
    if (!self->primary.contains(ordinal)) self->primary[ordinal] = self->make_context(ordinal);
    *context = self->primary[ordinal];
    ++self->retained[ordinal];
    return self->answer("retain");
  };
  api.device_primary_ctx_release = [](DeviceHandle device) {
    --self->retained[device - 100];
    return self->answer("release");
  };
}

inline void fill_modules(DriverApi& api) {
  api.module_load_data_ex = [](ModuleHandle* module, const void* image, unsigned count, int* options, void** values) {
    const int result = self->answer("module_load");
    if (result != abi::kSuccess && count == 2 && options[0] == abi::kJitErrorLogBuffer)
      std::strcpy(static_cast<char*>(values[0]), "log of the stub");
    *module = self->new_handle<ModuleHandle>();
    if (result == abi::kSuccess && *static_cast<const char*>(image) != '\0') self->modules[*module] = self->current();
    return result;
  };
  api.module_unload = [](ModuleHandle module) {
    if (self->modules.at(module) != self->current()) return self->answer("module_unload"), abi::kInvalidContext;
    self->modules.erase(module);
    return self->answer("module_unload");
  };
  api.module_get_function = [](FunctionHandle* function, ModuleHandle, const char* name) {
    *function = self->new_handle<FunctionHandle>();
    return std::string(name) == "kernel" ? abi::kSuccess : abi::kNotFound;
  };
  api.func_get_attribute = [](int* value, int which, FunctionHandle) { return *value = 10 + which, abi::kSuccess; };
  api.func_set_attribute = [](FunctionHandle, int, int) { return self->answer("func_set_attribute"); };
  api.occupancy_max_active_blocks = [](int* blocks, FunctionHandle, int threads, std::size_t) {
    return *blocks = 2048 / threads, abi::kSuccess;
  };
  api.launch_kernel = [](FunctionHandle, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                         unsigned shared, StreamHandle stream, void** parameters, void** extra) {
    if (parameters != nullptr || gy * gz * by * bz != 1) return abi::kInvalidValue;
    if (extra[0] != reinterpret_cast<void*>(abi::kLaunchParamBufferPointer) ||
        extra[2] != reinterpret_cast<void*>(abi::kLaunchParamBufferSize) || extra[4] != nullptr)
      return abi::kInvalidValue;
    const char* const bytes = static_cast<const char*>(extra[1]);
    self->launched.assign(bytes, bytes + *static_cast<const std::size_t*>(extra[3]));
    self->grid = gx;
    self->block = bx;
    self->shared = shared;
    self->stream = stream;
    return self->answer("launch");
  };
}

inline void fill_memory(DriverApi& api) {
  api.mem_alloc = [](DevicePointer* address, std::size_t) {
    *address = reinterpret_cast<DevicePointer>(self->new_handle<void*>());
    self->modes_of_allocation.push_back(self->capture_mode);
    const int result = self->answer("mem_alloc");
    if (result == abi::kSuccess) self->allocations[*address] = self->current();
    return result;
  };
  api.mem_free = [](DevicePointer address) {
    return self->allocations.erase(address) == 1 ? self->answer("mem_free") : abi::kInvalidValue;
  };
  api.memcpy_htod_async = [](DevicePointer, const void*, std::size_t, StreamHandle) { return self->answer("htod"); };
  api.memcpy_dtoh_async = [](void*, DevicePointer, std::size_t, StreamHandle) { return self->answer("dtoh"); };
  api.memcpy_dtod_async = [](DevicePointer, DevicePointer, std::size_t, StreamHandle) { return self->answer("dtod"); };
  api.memset_d8_async = [](DevicePointer, unsigned char, std::size_t, StreamHandle) { return self->answer("memset"); };
  // 0x1xxx is host memory that CUDA knows nothing of, as far as this driver is concerned: only these three are known.
  api.pointer_get_attributes = [](unsigned count, int* which, void** values, DevicePointer address) {
    const unsigned type = address == 0xd000 || address == 0xa000 ? 2 : address == 0xc000 ? 1 : 0;
    for (unsigned i = 0; i < count; ++i) {
      if (which[i] == abi::kPointerMemoryType) *static_cast<unsigned*>(values[i]) = type;
      if (which[i] == abi::kPointerBufferId && self->numbers_memory)
        *static_cast<std::uint64_t*>(values[i]) = self->number_of(address);
      if (which[i] == abi::kPointerIsManaged) *static_cast<unsigned*>(values[i]) = address == 0xa000;
      if (which[i] == abi::kPointerDeviceOrdinal) *static_cast<int*>(values[i]) = type == 0 ? -2 : 1;
    }
    return self->fail.contains("pointer") ? self->fail["pointer"] : abi::kSuccess;
  };
}

inline void fill_streams(DriverApi& api) {
  api.stream_create = [](StreamHandle* stream, unsigned) {
    return *stream = self->new_handle<StreamHandle>(), self->answer("stream_create");
  };
  api.stream_destroy = [](StreamHandle) { return self->answer("stream_destroy"); };
  api.stream_synchronize = [](StreamHandle) { return self->answer("stream_synchronize"); };
  api.stream_begin_capture = [](StreamHandle, int) { return self->capturing = true, self->answer("begin_capture"); };
  api.thread_exchange_stream_capture_mode = [](int* mode) {
    return std::swap(self->capture_mode, *mode), abi::kSuccess;
  };
  api.stream_end_capture = [](StreamHandle, GraphHandle* graph) {
    self->capturing = false;
    return *graph = self->new_handle<GraphHandle>(), self->answer("end_capture");
  };
  api.graph_instantiate = [](GraphExecHandle* graph, GraphHandle, unsigned long long) {
    return *graph = self->new_handle<GraphExecHandle>(), self->answer("graph_instantiate");
  };
  api.graph_launch = [](GraphExecHandle, StreamHandle) { return self->answer("graph_launch"); };
  api.graph_exec_destroy = [](GraphExecHandle) { return self->answer("graph_exec_destroy"); };
  api.graph_destroy = [](GraphHandle) { return self->answer("graph_destroy"); };
  api.event_create = [](EventHandle* event, unsigned) {
    return *event = self->new_handle<EventHandle>(), self->answer("event_create");
  };
  api.event_record = [](EventHandle, StreamHandle) { return self->answer("event_record"); };
  api.event_synchronize = [](EventHandle) { return self->answer("event_synchronize"); };
  api.event_elapsed_time = [](float* time, EventHandle, EventHandle) { return *time = 1.5F, abi::kSuccess; };
  api.event_destroy = [](EventHandle) { return self->answer("event_destroy"); };
}
}  // namespace stub

inline StubDriver::StubDriver() {
  stub::fill_devices(api);
  stub::fill_contexts(api);
  stub::fill_modules(api);
  stub::fill_memory(api);
  stub::fill_streams(api);
  stub::self = this;
  set_driver_for_testing(&api);
}

inline StubDriver::~StubDriver() {
  set_driver_for_testing(nullptr);
  stub::self = nullptr;
}

inline ContextHandle StubDriver::make_context(int device) {
  const auto context = new_handle<ContextHandle>();
  devices[context] = device;
  return context;
}

}  // namespace epifuse::runtime
