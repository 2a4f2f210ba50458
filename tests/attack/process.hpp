// What the tests of the process under attack share: engines on the fake driver with the fake NVRTC, and what they refuse.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include <epifuse/epifuse.hpp>

#include "fake_driver.hpp"

namespace attack {

using epifuse::Device;
using epifuse::DType;
using epifuse::Engine;
using epifuse::Epilogue;
using epifuse::Error;
using epifuse::ErrorCode;

/// An engine whose kernels come from the fake NVRTC and are kept in memory only.
inline Engine make_engine(int device = 0) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 0);
  return Engine(Device::cuda(device), {.disk_cache = false, .cache_directory = {}});
}

inline Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::io, "nothing was thrown"};
}

inline testing::AssertionResult says(const Error& error, ErrorCode code, const std::string& part) {
  const bool right = error.code() == code && std::string(error.what()).find(part) != std::string::npos;
  return (right ? testing::AssertionSuccess() : testing::AssertionFailure())
         << to_string(error.code()) << ": " << error.what();
}

/// A chain that many blocks share, so that a launch needs a workspace, and its tensors.
struct Sum {
  explicit Sum(Engine& engine) : in(engine.empty(DType::f32, {kElements})), out(engine.empty(DType::f32, {})) {}
  void launch(Engine& engine) { engine.launch(tail, nullptr, out, {in}); }

  static constexpr std::int64_t kElements = 1 << 22;
  Epilogue tail = Epilogue::parse("sum(x)");
  epifuse::Array in;
  epifuse::Array out;
};

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
