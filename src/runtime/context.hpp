// The CUDA context that kernels are loaded into. It is the caller's: EpiFuse makes none of its own, so that pointers
// and streams of PyTorch, the CUDA runtime or another library just work. Called by the engine; shared by modules and
// buffers.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

/// A context of one device: the calling thread's current one when it belongs to that device (primary or not), else the
/// device's primary context. A primary context is retained and released in the destructor. One that the application
/// made itself with cuCtxCreate is only referred to, and may be destroyed under this object; a primary one may be
/// reset. Either takes with it all modules and memory, whose handles may not be given to the driver any more, and of a
/// destroyed context not its own handle either: it is freed memory by then, or a new context. What does live exactly as
/// long as the context is a small allocation in it, the witness, and the driver can be asked by an address whether that
/// is still the same.
class Context {
 public:
  /// Throws Error(no_device) when there is no GPU of that number, Error(out_of_memory) where no witness can be had in a
  /// context of the application's (a primary one goes without).
  explicit Context(int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextHandle handle() const noexcept { return handle_; }
  DeviceHandle device() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  /// False for a context that the application made itself.
  bool is_primary() const noexcept { return retained_; }
  /// Success; kContextIsDestroyed once the context was destroyed or reset, whatever has its handle now; or the error
  /// that the driver answers with. Costs a driver call, and hands no handle to it.
  int life(const DriverApi& api) const noexcept;
  /// Whether life() has said so: from then on every guard refuses, at no cost.
  bool has_ended() const noexcept { return ended_.load(std::memory_order_relaxed); }

  /// The device of the calling thread's current context, or nothing (-1) when it has none.
  static int current_ordinal();

 private:
  bool adopt_current();
  int take_witness();

  int ordinal_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  bool retained_ = false;
  mutable std::atomic<bool> ended_{false};
  DevicePointer witness_ = 0;     // an address of the context's memory
  std::uint64_t witness_id_ = 0;  // the driver's number of that memory, which no other one ever has
};

/// Makes the context current for the scope, if it lives. One driver call when it is current already; push and pop
/// otherwise, so that the thread's own context is back afterwards; and one to ask whether it lives.
class ContextGuard {
 public:
  /// Throws Error(device_failed) for a context that was destroyed or reset.
  explicit ContextGuard(const Context& context) : ContextGuard(context, ErrorsAre::thrown, true) {}
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

  /// For launches. A primary context, which we keep alive, is asked only when `looks`: every so often.
  static ContextGuard for_launch(const Context& context, bool looks) {
    return {context, ErrorsAre::thrown, looks || !context.is_primary() || context.has_ended()};
  }
  /// For destructors: does not throw, and active() is false when the context is gone, or the parent's (is_cut_off()).
  static ContextGuard for_destructor(const Context& context) noexcept { return {context, ErrorsAre::swallowed, true}; }
  bool active() const noexcept { return active_; }

 private:
  enum class ErrorsAre : bool { thrown, swallowed };
  ContextGuard(const Context& context, ErrorsAre errors, bool looks);

  bool active_ = false;
  bool pushed_ = false;
};

}  // namespace epifuse::runtime
