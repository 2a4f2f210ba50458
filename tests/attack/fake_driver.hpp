// A driver for attacks on the process: two GPUs that run nothing, but keep account of contexts, modules and memory,
// notice what is used in the wrong context or after its end, and fail when told to. Any number of threads, and no lock
// on any path: a lock would order what the engine under attack must order itself.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/driver.hpp"

namespace attack {

using epifuse::runtime::ContextHandle;

/// What can be told to fail.
enum class Call { retain, load, get_function, alloc, alloc_async, fill, copy, launch, synchronize, other };

/// What exists and what happened. Memory and modules may be given back by any thread.
struct Account {
  std::atomic<std::int64_t> contexts{0};  ///< references to primary contexts
  std::atomic<std::int64_t> modules{0};
  std::atomic<std::int64_t> allocations{0};
  std::atomic<std::int64_t> bytes{0};  ///< each allocation as the next power of two
  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> calls{0};  ///< of every function
  /// A module, kernel or memory in a context that is not its own; anything of a context that was destroyed, itself too;
  /// a reference to a context given back that the driver does not count.
  std::atomic<std::uint64_t> misuses{0};
};

/// One at a time, as the functions of a driver take no `this`.
class FakeDriver {
 public:
  static constexpr int kDevices = 2;

  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;

  const Account& account() const noexcept;
  /// The next `times` calls of that kind return `result`.
  void fail_next(Call call, int result, int times = 1) noexcept;
  /// A kernel of the application's faults: from now on every call on the device's primary context returns that.
  void fault(int device, int result) noexcept;
  /// Undoes fault(), as a process that starts anew does.
  void heal(int device) noexcept;
  /// A context that the application makes and makes current in this thread; and its end. If it is this thread's current
  /// one it is popped, elsewhere it stays current. The next one that is made has the same handle and begins with the
  /// same addresses.
  ContextHandle make_context(int device);
  void destroy_context(ContextHandle context) noexcept;
  /// The application resets a primary context, as cudaDeviceReset does: it ends, and begins anew, with the same
  /// addresses, when it is retained the next time.
  void reset(int device) noexcept;
  void pop_context() noexcept;
  /// How many contexts lie on this thread's stack.
  static std::size_t depth() noexcept;
  /// The process exits: from now on every call returns DEINITIALIZED.
  void shut_down() noexcept;

 private:
  epifuse::runtime::DriverApi api_;
};

}  // namespace attack
