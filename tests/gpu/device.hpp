// The GPU of these tests: skips where there is none, and shortcuts to the driver.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "runtime/driver.hpp"
#include "runtime/memory.hpp"

namespace epifuse::test {

/// Why the GPU tests cannot run; empty where they can.
inline std::string missing_gpu() {
  try {
    const Engine engine(Device::cuda(0));
  } catch (const Error& error) {
    return error.what();
  }
  const SystemReport report = system_report();
  return report.nvrtc ? "" : "no NVRTC";
}

class OnGpu : public testing::Test {
 protected:
  void SetUp() override {
    static const std::string missing = missing_gpu();
    if (!missing.empty()) GTEST_SKIP() << "no GPU: " << missing;
    // The disk cache is another test's subject, and would hide what compiles.
    engine_ =
        std::make_unique<Engine>(Device::cuda(0), EngineOptions{.disk_cache = false, .cache_directory = std::nullopt});
    context_ = std::make_shared<runtime::Context>(0);
    guard_ = std::make_unique<runtime::ContextGuard>(*context_);
  }
  void TearDown() override {
    if (engine_) engine_->synchronize();
  }

  Engine& engine() { return *engine_; }
  const runtime::SharedContext& context() const { return context_; }

 private:
  std::unique_ptr<Engine> engine_;
  runtime::SharedContext context_;
  std::unique_ptr<runtime::ContextGuard> guard_;
};

/// Bytes of device memory from anywhere in an allocation.
inline void peek(void* host, const void* device, std::size_t bytes) {
  const auto address = static_cast<runtime::DevicePointer>(reinterpret_cast<std::uintptr_t>(device));
  runtime::check(runtime::driver().memcpy_dtoh_async(host, address, bytes, nullptr), "copy from the device");
  runtime::check(runtime::driver().stream_synchronize(nullptr), "copy from the device");
}

template <class T>
std::vector<T> contents(const Array& array) {
  std::vector<T> values(array.size_bytes() / sizeof(T));
  array.download(values.data());
  return values;
}

}  // namespace epifuse::test
