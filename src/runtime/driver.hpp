// The CUDA driver, loaded when first needed: EpiFuse links nothing of CUDA and starts on a machine without it.
// Called by the rest of runtime/, and by whoever needs a driver call that has no wrapper here.
#pragma once

#include <atomic>
#include <string>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

/// The oldest driver interface that is accepted, as cuDriverGetVersion counts: 1000 * major + 10 * minor.
inline constexpr int kOldestDriver = 12000;

namespace detail {
extern std::atomic<const DriverApi*> active_driver;
const DriverApi& open_driver();
[[noreturn]] void throw_driver_error(int result, const char* what);
}  // namespace detail

/// The driver's functions. The first call opens libcuda.so.1 (or the file that EPIFUSE_LIBCUDA names) and initialises
/// it; later ones cost one load. Throws Error(no_driver), Error(driver_too_old) or Error(no_device), each time; in a
/// process that is_cut_off(), Error(device_failed). Thread-safe.
inline const DriverApi& driver() {
  const DriverApi* api = detail::active_driver.load(std::memory_order_acquire);
  return api != nullptr ? *api : detail::open_driver();
}

/// True in a process that was forked after its parent had begun to open the driver. CUDA does not work there, and locks
/// may be held by threads that were not forked: no call reaches the driver from here on, and destructors leave what
/// they own to the parent.
bool is_cut_off() noexcept;

/// Throws Error(device_failed) when is_cut_off(). One load: for the first line of whatever would use the driver later.
void require_driver_of_this_process();

/// The version that the driver implements, as cuDriverGetVersion counts.
int driver_version();

/// "12.8" from 12080.
std::string format_driver_version(int version);

/// Throws when `result` is not success: Error(out_of_memory), Error(no_device) or Error(device_failed), with the
/// driver's name and text for it and what to do. `what` completes "CUDA could not …": "load the kernel". A sticky error
/// is told as what it is, the failure of earlier work.
inline void check(int result, const char* what) {
  if (result != abi::kSuccess) [[unlikely]]
    detail::throw_driver_error(result, what);
}

/// True for an error after which the context is lost: every later call on it fails the same way.
bool is_sticky(int result) noexcept;

/// True when the driver or the context is gone already, which is no news to a destructor.
bool is_teardown(int result) noexcept;

/// From now on driver() is that table; null: the real driver again. For tests and for measuring dispatch without a GPU.
/// No other thread may be calling runtime/ meanwhile, and every object made with one table must die under the same.
void set_driver_for_testing(const DriverApi* api) noexcept;

}  // namespace epifuse::runtime
