// What the tests on the fake driver share: engines whose kernels come from the fake NVRTC, and what must be left of
// them.
#pragma once

#include "fake_driver.hpp"
#include "lives.hpp"

namespace attack {

/// An engine whose kernels come from the fake NVRTC and are kept in memory only.
inline Engine make_engine(int device = 0) {
  // Once, before there are threads; and instead of the real one, which ./dev test names there where the loader does not
  // know it.
  [[maybe_unused]] static const int kNamed = ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  return Engine(Device::cuda(device), {.disk_cache = false, .cache_directory = {}});
}

/// Nothing is left on either device, and nothing was used where it may not be.
inline void expect_clean(const FakeDriver& driver) {
  EXPECT_EQ(driver.account().contexts, 0);
  EXPECT_EQ(driver.account().modules, 0);
  EXPECT_EQ(driver.account().allocations, 0);
  EXPECT_EQ(driver.account().bytes, 0);
  EXPECT_EQ(driver.account().misuses, 0U);
  EXPECT_EQ(FakeDriver::depth(), 0U);
}

}  // namespace attack
