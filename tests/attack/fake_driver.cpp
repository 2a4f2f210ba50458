// The functions of the fake driver. Addresses carry context and size in bits that no host pointer has, so that neither
// classifying nor freeing one needs a table. There is no memory behind them.
// As with the real one, a context that was destroyed takes its modules and memory along, and the next one may get its
// handle and its addresses.
#include "fake_driver.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

struct CUctx_st {
  int device = 0;
  std::atomic<int> error{0};           // what every call on it returns
  std::atomic<std::uint64_t> life{0};  // a number of its own for each context that has this handle; 0: none has
  std::atomic<std::int64_t> references{0};
  // Of this life.
  std::atomic<std::uint64_t> next_place{0};
  std::atomic<std::int64_t> modules{0};
  std::atomic<std::int64_t> allocations{0};
  std::atomic<std::int64_t> bytes{0};
};
struct CUmod_st {
  CUctx_st* context = nullptr;
  std::uint64_t life = 0;
  std::size_t slot = 0;
};

namespace attack {
namespace {

using namespace epifuse::runtime;
namespace driver_abi = epifuse::runtime::abi;  // the standard library has a namespace abi, too

// An address: bit 50 that it is one, from bit 52 on the logarithm of its size, from bit 58 on the context; below a
// place that is not used again in the context's life.
constexpr DevicePointer kDeviceMemory = 1ULL << 50;
constexpr DevicePointer kPlaces = (1ULL << 48) - 1;
constexpr int kSizeShift = 52;
constexpr int kContextShift = 58;
constexpr std::size_t kContexts = 16;  // handles: the primary ones, then those of contexts that the application makes
constexpr int kFirstHandle = 100;      // handles are no ordinals

constexpr std::int64_t kMostModules = 1 << 15;  // half of the places for them, so that one is found

struct Fault {
  std::atomic<int> result{0};
  std::atomic<int> left{0};
};

struct State {
  Account account;
  std::array<CUctx_st, kContexts> contexts;
  std::atomic<std::uint64_t> lives{0};
  std::array<Fault, static_cast<std::size_t>(Call::other) + 1> faults;
  std::atomic<bool> down{false};
  // Of loaded modules: those of a context that is lost are nobody's to unload, and go with the driver.
  std::array<std::atomic<CUmod_st*>, 1 << 16> modules{};
  std::atomic<std::size_t> next_slot{0};
  ~State() {
    for (const auto& module : modules) delete module.load();
  }
};

State* state = nullptr;

// Of the calling thread. Plain memory: static objects are destroyed after what a thread owns is.
struct Stack {
  std::array<CUctx_st*, 16> contexts;
  std::size_t depth;
  bool empty() const { return depth == 0; }
  CUctx_st* back() const { return contexts.at(depth - 1); }
  void push_back(CUctx_st* context) { contexts.at(depth++) = context; }
  void pop_back() { --depth; }
};
constinit thread_local Stack stack{};

// Of calls that need no context.
int plain() {
  state->account.calls.fetch_add(1, std::memory_order_relaxed);
  return state->down.load(std::memory_order_relaxed) ? driver_abi::kDeinitialized : driver_abi::kSuccess;
}

int injected(Call call) {
  Fault& fault = state->faults[static_cast<std::size_t>(call)];
  if (fault.left.load(std::memory_order_relaxed) <= 0) return driver_abi::kSuccess;
  return fault.left.fetch_sub(1, std::memory_order_relaxed) > 0 ? fault.result.load() : driver_abi::kSuccess;
}

CUctx_st& primary(int device) { return state->contexts.at(static_cast<std::size_t>(device)); }
CUctx_st& primary_of(DeviceHandle device) { return primary(device - kFirstHandle); }
bool is_primary(const CUctx_st* context) { return context - state->contexts.data() < FakeDriver::kDevices; }

void begin(CUctx_st& context) {
  context.next_place = 0;
  context.error = 0;
  context.life = state->lives.fetch_add(1) + 1;
}

void end(CUctx_st& context) {
  context.life = 0;
  state->account.contexts -= context.references.exchange(0);
  state->account.modules -= context.modules.exchange(0);
  state->account.allocations -= context.allocations.exchange(0);
  state->account.bytes -= context.bytes.exchange(0);
}

// Of calls on the current context.
int current(Call call) {
  if (const int result = plain(); result != driver_abi::kSuccess) return result;
  if (stack.empty()) return driver_abi::kInvalidContext;
  if (stack.back()->life.load(std::memory_order_relaxed) == 0) return driver_abi::kContextIsDestroyed;
  if (const int error = stack.back()->error.load(std::memory_order_relaxed); error != 0) return error;
  return injected(call);
}

int misuse() {
  state->account.misuses.fetch_add(1, std::memory_order_relaxed);
  return driver_abi::kInvalidHandle;
}

CUctx_st& context_of(DevicePointer address) { return state->contexts[address >> kContextShift & (kContexts - 1)]; }

// Whether there is memory there. What was freed counts, until its context ends.
bool is_known(DevicePointer address) {
  const CUctx_st& context = context_of(address);
  return (address & kDeviceMemory) != 0 && context.life.load(std::memory_order_relaxed) != 0 &&
         (address & kPlaces) <= context.next_place.load(std::memory_order_relaxed);
}

// Of calls that name memory, or a module (or its kernel).
int current(Call call, DevicePointer address) {
  if (const int result = current(call); result != driver_abi::kSuccess) return result;
  return is_known(address) && &context_of(address) == stack.back() ? driver_abi::kSuccess : misuse();
}
int current(Call call, const CUmod_st* module) {
  if (const int result = current(call); result != driver_abi::kSuccess) return result;
  return module->context == stack.back() && module->life == stack.back()->life ? driver_abi::kSuccess : misuse();
}
int current(Call call, FunctionHandle kernel) { return current(call, reinterpret_cast<ModuleHandle>(kernel)); }

void count(CUctx_st& context, std::int64_t allocations, std::int64_t bytes) {
  context.allocations.fetch_add(allocations, std::memory_order_relaxed);
  context.bytes.fetch_add(bytes, std::memory_order_relaxed);
  state->account.allocations.fetch_add(allocations, std::memory_order_relaxed);
  state->account.bytes.fetch_add(bytes, std::memory_order_relaxed);
}

int allocate(Call call, DevicePointer* address, std::size_t bytes) {
  if (const int result = current(call); result != driver_abi::kSuccess) return result;
  const int log2 = std::max(8, static_cast<int>(std::bit_width(bytes - 1)));
  CUctx_st& context = *stack.back();
  const DevicePointer place = context.next_place.fetch_add(1ULL << log2, std::memory_order_relaxed) >> log2 << log2;
  *address = kDeviceMemory | static_cast<DevicePointer>(&context - state->contexts.data()) << kContextShift |
             static_cast<DevicePointer>(log2) << kSizeShift | (place + (1ULL << log2));
  count(context, 1, std::int64_t{1} << log2);
  return driver_abi::kSuccess;
}

int release(DevicePointer address) {
  if (const int result = current(Call::other, address); result != driver_abi::kSuccess) return result;
  count(*stack.back(), -1, -(std::int64_t{1} << (address >> kSizeShift & 63)));
  return driver_abi::kSuccess;
}

void fill_devices(DriverApi& api) {
  api.init = [](unsigned) { return plain(); };
  api.driver_get_version = [](int* version) { return *version = 12080, plain(); };
  api.get_error_name = [](int, const char** name) { return *name = "CUDA_ERROR_INJECTED", plain(); };
  api.get_error_string = [](int, const char** text) { return *text = "as the test wished", plain(); };
  api.device_get_count = [](int* count) { return *count = FakeDriver::kDevices, plain(); };
  api.device_get = [](DeviceHandle* device, int ordinal) { return *device = kFirstHandle + ordinal, plain(); };
  api.device_get_name = [](char* name, int, DeviceHandle) { return std::strcpy(name, "Fake"), plain(); };
  api.device_get_pci_bus_id = [](char* id, int, DeviceHandle) { return std::strcpy(id, "0000:01:00.0"), plain(); };
  api.device_total_mem = [](std::size_t* bytes, DeviceHandle) { return *bytes = 1ULL << 36, plain(); };
  api.device_get_attribute = [](int* value, int which, DeviceHandle) {
    *value = which == driver_abi::kComputeCapabilityMajor ? 9 : which == driver_abi::kMultiprocessorCount ? 132 : 0;
    return plain();
  };
}

void fill_contexts(DriverApi& api) {
  api.ctx_get_current = [](ContextHandle* context) {
    return *context = stack.empty() ? nullptr : stack.back(), plain();
  };
  api.ctx_push_current = [](ContextHandle context) {
    if (const int result = plain(); result != driver_abi::kSuccess) return result;
    if (context->life.load(std::memory_order_relaxed) == 0)
      return is_primary(context) ? driver_abi::kContextIsDestroyed : misuse();
    stack.push_back(context);
    return driver_abi::kSuccess;
  };
  api.ctx_pop_current = [](ContextHandle* context) {
    if (stack.empty()) return misuse();
    *context = stack.back();
    stack.pop_back();
    return plain();
  };
  api.ctx_get_device = [](DeviceHandle* device) {
    if (stack.empty()) return driver_abi::kInvalidContext;
    if (stack.back()->life == 0) return driver_abi::kContextIsDestroyed;
    return *device = kFirstHandle + stack.back()->device, plain();
  };
  api.device_primary_ctx_get_state = [](DeviceHandle device, unsigned* flags, int* active) {
    *flags = 0;
    *active = primary_of(device).references.load() > 0 ? 1 : 0;
    return plain();
  };
  api.device_primary_ctx_retain = [](ContextHandle* context, DeviceHandle device) {
    if (const int result = plain(); result != driver_abi::kSuccess) return result;
    if (const int result = injected(Call::retain); result != driver_abi::kSuccess) return result;
    CUctx_st& primary = primary_of(device);
    if (primary.life == 0) begin(primary);
    primary.references.fetch_add(1, std::memory_order_relaxed);
    *context = &primary;
    state->account.contexts.fetch_add(1, std::memory_order_relaxed);
    return driver_abi::kSuccess;
  };
  api.device_primary_ctx_release = [](DeviceHandle device) {
    if (const int result = plain(); result != driver_abi::kSuccess) return result;
    if (primary_of(device).references.fetch_sub(1, std::memory_order_relaxed) <= 0) return misuse();
    state->account.contexts.fetch_sub(1, std::memory_order_relaxed);
    return driver_abi::kSuccess;
  };
}

void fill_modules(DriverApi& api) {
  api.module_load_data_ex = [](ModuleHandle* module, const void* image, unsigned, int*, void**) {
    if (const int result = current(Call::load); result != driver_abi::kSuccess) return result;
    if (std::memcmp(image,
                    "\x7f"
                    "ELF",
                    4) != 0)
      return driver_abi::kInvalidImage;
    if (state->account.modules.load(std::memory_order_relaxed) >= kMostModules) return driver_abi::kOutOfMemory;
    *module = new CUmod_st{stack.back(), stack.back()->life};
    CUmod_st* free_slot = nullptr;
    do {
      free_slot = nullptr;
      (*module)->slot = state->next_slot.fetch_add(1, std::memory_order_relaxed) % state->modules.size();
    } while (!state->modules[(*module)->slot].compare_exchange_strong(free_slot, *module, std::memory_order_relaxed));
    (*module)->context->modules.fetch_add(1, std::memory_order_relaxed);
    state->account.modules.fetch_add(1, std::memory_order_relaxed);
    return driver_abi::kSuccess;
  };
  api.module_unload = [](ModuleHandle module) {
    if (const int result = current(Call::other, module); result != driver_abi::kSuccess) return result;
    module->context->modules.fetch_sub(1, std::memory_order_relaxed);
    state->account.modules.fetch_sub(1, std::memory_order_relaxed);
    state->modules[module->slot].store(nullptr, std::memory_order_relaxed);
    delete module;
    return driver_abi::kSuccess;
  };
  // A kernel is its module here: launching one whose module is unloaded shows under the address sanitizer.
  api.module_get_function = [](FunctionHandle* function, ModuleHandle module, const char*) {
    *function = reinterpret_cast<FunctionHandle>(module);
    return current(Call::get_function, module);
  };
  api.func_get_attribute = [](int* value, int which, FunctionHandle function) {
    *value = which == driver_abi::kFunctionMaxThreadsPerBlock ? 1024 : 0;
    return current(Call::other, function);
  };
  api.func_set_attribute = [](FunctionHandle function, int, int) { return current(Call::other, function); };
  api.launch_kernel = [](FunctionHandle function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         StreamHandle, void**, void**) {
    if (const int result = current(Call::launch, function); result != driver_abi::kSuccess) return result;
    state->account.launches.fetch_add(1, std::memory_order_relaxed);
    return driver_abi::kSuccess;
  };
}

void fill_memory(DriverApi& api) {
  api.mem_alloc = [](DevicePointer* address, std::size_t bytes) { return allocate(Call::alloc, address, bytes); };
  api.mem_alloc_async = [](DevicePointer* address, std::size_t bytes, StreamHandle) {
    return allocate(Call::alloc_async, address, bytes);
  };
  api.mem_free = [](DevicePointer address) { return release(address); };
  api.mem_free_async = [](DevicePointer address, StreamHandle) { return release(address); };
  api.memcpy_htod_async = [](DevicePointer to, const void*, std::size_t, StreamHandle) {
    return current(Call::copy, to);
  };
  api.memcpy_dtoh_async = [](void*, DevicePointer from, std::size_t, StreamHandle) {
    return current(Call::copy, from);
  };
  api.memset_d8_async = [](DevicePointer at, unsigned char, std::size_t, StreamHandle) {
    return current(Call::fill, at);
  };
  api.thread_exchange_stream_capture_mode = [](int*) { return plain(); };
  api.stream_synchronize = [](StreamHandle) { return current(Call::synchronize); };
  api.pointer_get_attributes = [](unsigned count, int* which, void** values, DevicePointer address) {
    const bool ours = is_known(address);
    const CUctx_st& context = context_of(address);
    for (unsigned i = 0; i < count; ++i) {
      if (which[i] == driver_abi::kPointerMemoryType)
        *static_cast<unsigned*>(values[i]) = ours ? driver_abi::kMemoryTypeDevice : 0;
      if (which[i] == driver_abi::kPointerIsManaged) *static_cast<unsigned*>(values[i]) = 0;
      if (which[i] == driver_abi::kPointerDeviceOrdinal) *static_cast<int*>(values[i]) = context.device;
      if (which[i] == driver_abi::kPointerBufferId)
        *static_cast<std::uint64_t*>(values[i]) = ours ? context.life << 48 | (address & kPlaces) : 0;
    }
    return plain();
  };
}

}  // namespace

FakeDriver::FakeDriver() {
  fill_devices(api_);
  fill_contexts(api_);
  fill_modules(api_);
  fill_memory(api_);
  state = new State;
  for (int device = 0; device < kDevices; ++device) {
    primary(device).device = device;
    begin(primary(device));
  }
  set_driver_for_testing(&api_);
}

FakeDriver::~FakeDriver() {
  set_driver_for_testing(nullptr);
  stack = {};
  delete state;
  state = nullptr;
}

const Account& FakeDriver::account() const noexcept { return state->account; }

void FakeDriver::fail_next(Call call, int result, int times) noexcept {
  Fault& fault = state->faults[static_cast<std::size_t>(call)];
  fault.result = result;
  fault.left = times;
}

void FakeDriver::fault(int device, int result) noexcept { primary(device).error = result; }

void FakeDriver::heal(int device) noexcept { fault(device, driver_abi::kSuccess); }

ContextHandle FakeDriver::make_context(int device) {
  const auto free = std::find_if(state->contexts.begin() + kDevices, state->contexts.end(),
                                 [](const CUctx_st& context) { return context.life == 0; });
  free->device = device;
  begin(*free);
  stack.push_back(&*free);
  return &*free;
}

void FakeDriver::destroy_context(ContextHandle context) noexcept {
  end(*context);
  if (!stack.empty() && stack.back() == context) stack.pop_back();
}

void FakeDriver::reset(int device) noexcept { end(primary(device)); }

void FakeDriver::pop_context() noexcept { stack.pop_back(); }

std::size_t FakeDriver::depth() noexcept { return stack.depth; }

void FakeDriver::shut_down() noexcept { state->down = true; }

}  // namespace attack
