// Whose context is used, and making it current for a scope. Called by api/, modules and buffers.
#include "runtime/context.hpp"

#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/driver.hpp"

namespace epifuse::runtime {
namespace {

// The number that the driver gave the memory at that address; 0 where there is none.
int number_of_memory(const DriverApi& api, DevicePointer address, std::uint64_t& number) noexcept {
  number = 0;
  int which = abi::kPointerBufferId;
  void* value = &number;
  // The plural form: of an address that is not in use most drivers make no error.
  const int result = api.pointer_get_attributes(1, &which, &value, address);
  return result == abi::kInvalidValue ? abi::kSuccess : result;
}

[[noreturn]] void fail_destroyed(int ordinal) {
  base::fail(
      ErrorCode::device_failed,
      "the CUDA context was destroyed or reset, and took along the kernels and the memory that EpiFuse had in it "
      "on GPU {}: make a new engine and new arrays, in a context that lives as long as they do",
      ordinal);
}

}  // namespace

int Context::current_ordinal() {
  const DriverApi& api = driver();
  ContextHandle current = nullptr;
  check(api.ctx_get_current(&current), "ask for the current context");
  if (current == nullptr) return -1;
  DeviceHandle device = 0;
  check(api.ctx_get_device(&device), "ask for the current context's GPU");
  int count = 0;
  check(api.device_get_count(&count), "count the GPUs");
  // Handles of devices are their ordinals in every driver so far, which nothing promises.
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    DeviceHandle candidate = 0;
    check(api.device_get(&candidate, ordinal), "get the GPU");
    if (candidate == device) return ordinal;
  }
  return -1;
}

Context::Context(int ordinal) : ordinal_(ordinal) {
  const DriverApi& api = driver();
  int count = 0;
  check(api.device_get_count(&count), "count the GPUs");
  if (ordinal < 0 || ordinal >= count) {
    base::fail(ErrorCode::no_device, "there is no GPU {}; {} of them can be used (CUDA_VISIBLE_DEVICES counts), from 0",
               ordinal, count);
  }
  check(api.device_get(&device_, ordinal), "get the GPU");
  if (!adopt_current()) {
    check(api.device_primary_ctx_retain(&handle_, device_), "retain the GPU's primary context");
    retained_ = true;
    base::log().debug("GPU {}: the primary context is used", ordinal);
  }
  if (!retained_) {
    check(take_witness(), "allocate in the application's CUDA context");
  } else if (const ContextGuard guard = ContextGuard::for_destructor(*this); guard.active()) {
    take_witness();
  }
}

// The context is current.
int Context::take_witness() {
  const DriverApi& api = driver();
  // No stream uses this memory: a capture on any thread need not forbid it, nor be spoilt.
  int mode = abi::kCaptureModeRelaxed;
  if (const int result = api.thread_exchange_stream_capture_mode(&mode); result != abi::kSuccess) return result;
  int result = api.mem_alloc(&witness_, 1);
  api.thread_exchange_stream_capture_mode(&mode);
  if (result != abi::kSuccess) return witness_ = 0, result;
  result = number_of_memory(api, witness_, witness_id_);
  if (result != abi::kSuccess) api.mem_free(std::exchange(witness_, 0));
  return result;
}

int Context::life(const DriverApi& api) const noexcept {
  if (has_ended()) return abi::kContextIsDestroyed;
  if (witness_ == 0) return abi::kSuccess;
  std::uint64_t found = 0;
  const int result = number_of_memory(api, witness_, found);
  if (result != abi::kSuccess || found == witness_id_) return result;
  ended_.store(true, std::memory_order_relaxed);
  return abi::kContextIsDestroyed;
}

// Takes the current context if it is one of this device.
bool Context::adopt_current() {
  const DriverApi& api = driver();
  ContextHandle current = nullptr;
  check(api.ctx_get_current(&current), "ask for the current context");
  DeviceHandle device = 0;
  if (current == nullptr) return false;
  check(api.ctx_get_device(&device), "ask for the current context's GPU");
  if (device != device_) return false;

  // Is it the primary one? Then a reference keeps it alive under us. Retaining is the only way to tell, and would
  // create a primary context that nobody asked for where none is active.
  unsigned flags = 0;
  int active = 0;
  check(api.device_primary_ctx_get_state(device_, &flags, &active), "ask for the primary context's state");
  if (active != 0) {
    ContextHandle primary = nullptr;
    check(api.device_primary_ctx_retain(&primary, device_), "retain the GPU's primary context");
    retained_ = primary == current;
    if (!retained_) api.device_primary_ctx_release(device_);
  }
  handle_ = current;
  base::log().debug("GPU {}: the current context is used ({})", ordinal_,
                    retained_ ? "primary" : "the application's own");
  return true;
}

Context::~Context() {
  const DriverApi* const api = detail::active_driver.load(std::memory_order_acquire);
  if (api == nullptr) return;  // a forked process: the context is the parent's
  if (life(*api) == abi::kContextIsDestroyed) return;
  if (const ContextGuard guard = ContextGuard::for_destructor(*this); guard.active() && witness_ != 0)
    api->mem_free(witness_);  // fails only where the context is lost, and its memory with it
  if (!retained_) return;
  const int result = api->device_primary_ctx_release(device_);
  // At exit the driver may be gone before static objects are: nothing is left to release then.
  if (result != abi::kSuccess && !is_teardown(result))
    base::log().warn("releasing the context of GPU {} failed with error {}", ordinal_, result);
}

ContextGuard::ContextGuard(const Context& context, ErrorsAre errors, bool looks) {
  if (errors == ErrorsAre::swallowed && is_cut_off()) return;  // the context is the parent's
  const DriverApi& api = driver();
  int result = looks ? context.life(api) : abi::kSuccess;
  if (result == abi::kContextIsDestroyed && errors == ErrorsAre::thrown) fail_destroyed(context.ordinal());
  ContextHandle current = nullptr;
  if (result == abi::kSuccess) result = api.ctx_get_current(&current);
  if (result == abi::kSuccess && current != context.handle()) {
    result = api.ctx_push_current(context.handle());
    pushed_ = result == abi::kSuccess;
  }
  active_ = result == abi::kSuccess;
  if (errors == ErrorsAre::thrown) check(result, "make the context current");
}

ContextGuard::~ContextGuard() {
  if (!pushed_ || is_cut_off()) return;
  ContextHandle popped = nullptr;
  driver().ctx_pop_current(&popped);  // fails only when the driver is gone, and then there is nothing to restore
}

}  // namespace epifuse::runtime
