// What the attacks on a process with a real GPU share. They run as GoogleTests (ctest's label gpu), and through
// attack.py, which gives each a process of its own and collects the figures. ATTACK_LONG in the environment: as often
// as issue 5 asks, else a slice.
#pragma once

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>

#include "lives.hpp"
#include "meters.hpp"
#include "runtime/context.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"

namespace attack {

namespace runtime = epifuse::runtime;

inline bool is_long() { return std::getenv("ATTACK_LONG") != nullptr; }

/// An engine whose kernels are kept in memory only, or in `cache` too.
inline Engine make_gpu_engine(const std::filesystem::path& cache = {}, int device = 0) {
  return Engine(Device::cuda(device),
                {.disk_cache = !cache.empty(),
                 .cache_directory = cache.empty() ? std::nullopt : std::optional<std::filesystem::path>(cache)});
}

/// A private folder for a cache, gone with the object.
class Folder {
 public:
  Folder() : path_(std::filesystem::temp_directory_path() / ("epifuse-attack-gpu-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// A function of the driver that the library itself does not call.
template <class Function>
Function driver_function(const char* symbol) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW);
  void* const found = library == nullptr ? nullptr : ::dlsym(library, symbol);
  if (found == nullptr) throw std::runtime_error(std::string("the driver lacks ") + symbol);
  return reinterpret_cast<Function>(found);
}

/// Bytes of device 0 that are in use, by whichever process.
inline std::int64_t device_bytes() {
  const auto info = driver_function<int (*)(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
  const runtime::Context context(0);
  const runtime::ContextGuard guard(context);
  std::size_t free = 0;
  std::size_t total = 0;
  runtime::check(info(&free, &total), "ask for the free memory");
  return static_cast<std::int64_t>(total - free);
}

inline int gpu_count() { return static_cast<int>(epifuse::system_report().devices.size()); }

/// Skips where there is no GPU. Death tests of these tests run in processes that start anew: CUDA does not survive a
/// fork.
class OnAGpu : public testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const epifuse::SystemReport report = epifuse::system_report();
    if (report.devices.empty()) GTEST_SKIP() << "no GPU";
    if (!report.nvrtc) GTEST_SKIP() << "no NVRTC";
  }
};

}  // namespace attack
