// The CUDA context that kernels are loaded into. It is the caller's: EpiFuse makes none of its own, so that pointers
// and streams of PyTorch, the CUDA runtime or another library just work. Called by the engine; shared by modules and
// buffers.
#pragma once

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

/// A context of one device: the calling thread's current one when it belongs to that device (primary or not), else the
/// device's primary context. A primary context is retained and released in the destructor. One that the application
/// made itself with cuCtxCreate is only referred to: the application keeps it alive as long as this object is used.
class Context {
 public:
  /// Throws Error(no_device) when there is no GPU of that number.
  explicit Context(int ordinal);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  ContextHandle handle() const noexcept { return handle_; }
  DeviceHandle device() const noexcept { return device_; }
  int ordinal() const noexcept { return ordinal_; }
  /// False for a context that the application made itself.
  bool is_primary() const noexcept { return retained_; }

  /// The device of the calling thread's current context, or nothing (-1) when it has none.
  static int current_ordinal();

 private:
  bool adopt_current();

  int ordinal_;
  DeviceHandle device_ = 0;
  ContextHandle handle_ = nullptr;
  bool retained_ = false;
};

/// Makes the context current for the scope. One driver call when it is current already; push and pop otherwise, so that
/// the thread's own context is back afterwards.
class ContextGuard {
 public:
  explicit ContextGuard(const Context& context) : ContextGuard(context, ErrorsAre::thrown) {}
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

  /// For destructors: does not throw, and active() is false when the context is gone, or the parent's (is_cut_off()).
  static ContextGuard for_destructor(const Context& context) noexcept { return {context, ErrorsAre::swallowed}; }
  bool active() const noexcept { return active_; }

 private:
  enum class ErrorsAre : bool { thrown, swallowed };
  ContextGuard(const Context& context, ErrorsAre errors);

  bool active_ = false;
  bool pushed_ = false;
};

}  // namespace epifuse::runtime
