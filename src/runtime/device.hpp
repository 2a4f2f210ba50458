// What GPUs there are and what they can do. Called by the engine (schedules need the numbers) and the tool.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

struct DeviceInfo {
  int ordinal = 0;
  DeviceHandle handle = 0;
  std::string name;
  std::string pci_bus_id;
  int architecture = 0;  ///< 10 * major + minor: 90 is sm_90
  int multiprocessors = 0;
  int max_threads_per_block = 0;
  int max_threads_per_multiprocessor = 0;
  int shared_memory_per_block_optin = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t memory_bytes = 0;
  int memory_clock_khz = 0;
  int bus_width_bits = 0;
  int driver_version = 0;  ///< 12080 is 12.8

  /// What the memory's clock and width promise, in bytes per second: 0 where the driver does not tell (some integrated
  /// GPUs).
  double peak_bandwidth() const noexcept { return 2.0 * memory_clock_khz * 1000.0 * bus_width_bits / 8.0; }
};

/// How many GPUs the process may use (CUDA_VISIBLE_DEVICES counts). Throws as driver() does.
int device_count();

/// Throws Error(no_device) when there is no GPU of that number.
DeviceInfo device_info(int ordinal);

/// All of them, in the driver's order.
std::vector<DeviceInfo> devices();

}  // namespace epifuse::runtime
