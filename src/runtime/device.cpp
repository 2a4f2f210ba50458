// Device attributes, asked once by whoever keeps the DeviceInfo. Called by api/ and the tool.
#include "runtime/device.hpp"

#include <array>

#include "base/text.hpp"
#include "runtime/driver.hpp"

namespace epifuse::runtime {
namespace {

int attribute(DeviceHandle device, int which) {
  int value = 0;
  check(driver().device_get_attribute(&value, which, device), "read an attribute of the GPU");
  return value;
}

}  // namespace

int device_count() {
  int count = 0;
  check(driver().device_get_count(&count), "count the GPUs");
  return count;
}

DeviceInfo device_info(int ordinal) {
  const DriverApi& api = driver();
  DeviceInfo info;
  info.ordinal = ordinal;
  if (const int count = device_count(); ordinal < 0 || ordinal >= count) {
    base::fail(ErrorCode::no_device, "there is no GPU {}; {} of them can be used (CUDA_VISIBLE_DEVICES counts), from 0",
               ordinal, count);
  }
  check(api.device_get(&info.handle, ordinal), "get the GPU");
  std::array<char, 256> text{};
  check(api.device_get_name(text.data(), static_cast<int>(text.size()), info.handle), "read the GPU's name");
  info.name = text.data();
  check(api.device_get_pci_bus_id(text.data(), static_cast<int>(text.size()), info.handle),
        "read the GPU's bus address");
  info.pci_bus_id = text.data();
  std::size_t bytes = 0;
  check(api.device_total_mem(&bytes, info.handle), "read the GPU's memory size");
  info.memory_bytes = static_cast<std::int64_t>(bytes);
  info.architecture =
      10 * attribute(info.handle, abi::kComputeCapabilityMajor) + attribute(info.handle, abi::kComputeCapabilityMinor);
  info.multiprocessors = attribute(info.handle, abi::kMultiprocessorCount);
  info.max_threads_per_block = attribute(info.handle, abi::kMaxThreadsPerBlock);
  info.max_threads_per_multiprocessor = attribute(info.handle, abi::kMaxThreadsPerMultiprocessor);
  info.shared_memory_per_block_optin = attribute(info.handle, abi::kMaxSharedMemoryPerBlockOptin);
  info.l2_bytes = attribute(info.handle, abi::kL2CacheSize);
  info.memory_clock_khz = attribute(info.handle, abi::kMemoryClockRate);
  info.bus_width_bits = attribute(info.handle, abi::kGlobalMemoryBusWidth);
  info.driver_version = driver_version();
  return info;
}

std::vector<DeviceInfo> devices() {
  std::vector<DeviceInfo> result;
  const int count = device_count();
  result.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ++ordinal) result.push_back(device_info(ordinal));
  return result;
}

}  // namespace epifuse::runtime
