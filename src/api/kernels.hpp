// The kernels of one engine, by chain and class, and what they are compiled from. For cuda_engine.cpp, inspect.cpp and precompile.cpp.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/params.hpp"
#include "ir/program.hpp"
#include "jit/source.hpp"
#include "plan/plan.hpp"
#include "runtime/module.hpp"

namespace epifuse {

/// A kernel on the device.
struct LoadedKernel {
  runtime::Module module;
  runtime::Kernel kernel;
  codegen::ParameterLayout layout;
  std::string name;  ///< codegen::kernel_name()
};

/// The source of a plan's kernel. It is made lean where nobody has its image.
jit::Source source_of(const ir::Program& program, const plan::Plan& plan);

/// Which kernel: the chain, and all else that decides its text.
struct KernelKey {
  ir::Fingerprint chain;
  plan::ClassCode kernel_class;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};
struct KernelKeyHash {
  std::size_t operator()(const KernelKey& key) const noexcept;
};

/// Any number of threads. Kernels stay where they are until the table is destroyed.
class KernelTable {
 public:
  /// Null if it is not loaded. Takes no lock.
  const LoadedKernel* find(const KernelKey& key) const noexcept;

  /// One thread loads, the others wait for it. A failure reaches all of them and is forgotten, so that the next call tries again.
  const LoadedKernel& find_or_load(const KernelKey& key, const std::function<LoadedKernel()>& load);

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }

 private:
  // Entries are only ever added, at the head of their bucket's list: a reader needs no lock.
  struct Entry {
    KernelKey key;
    LoadedKernel kernel;
    const Entry* next;
  };
  static constexpr std::size_t kBuckets = 256;

  const LoadedKernel& add(const KernelKey& key, LoadedKernel kernel);

  std::array<std::atomic<const Entry*>, kBuckets> buckets_{};
  std::atomic<std::size_t> size_{0};
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<const Entry>> entries_;
  std::unordered_map<KernelKey, std::shared_future<const LoadedKernel*>, KernelKeyHash> loading_;
};

}  // namespace epifuse
