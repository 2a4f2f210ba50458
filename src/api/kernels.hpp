// The kernels of one engine, by chain and class, and what they are compiled from. For cuda_engine.cpp, inspect.cpp and
// precompile.cpp.
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
#include "plan/gemm/gemm.hpp"
#include "plan/plan.hpp"
#include "runtime/module.hpp"

namespace epifuse {

/// Adds to what one thread writes (`owned`), or several do. One thread needs no atomic addition, which waits until what
/// the driver wrote to the GPU has left the processor.
inline void add(std::atomic<std::uint64_t>& count, std::uint64_t more, bool owned) noexcept {
  if (owned)
    count.store(count.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  else
    count.fetch_add(more, std::memory_order_relaxed);
}

/// Copies of what launches write, so that threads do not write the same cache lines (dispatch.hpp).
constexpr std::size_t kLanes = 32;

/// What the launches of one kernel have done, a copy for each lane.
class Tally {
 public:
  void count(std::size_t lane, std::uint64_t bytes, bool owned) noexcept {
    add(lanes_[lane].launches, 1, owned);
    add(lanes_[lane].bytes, bytes, owned);
  }
  std::uint64_t launches() const noexcept { return sum(&Counts::launches); }
  std::uint64_t bytes() const noexcept { return sum(&Counts::bytes); }

 private:
  struct alignas(64) Counts {
    std::atomic<std::uint64_t> launches{0}, bytes{0};
  };
  std::uint64_t sum(std::atomic<std::uint64_t> Counts::*count) const noexcept {
    std::uint64_t total = 0;
    for (const Counts& lane : lanes_) total += (lane.*count).load(std::memory_order_relaxed);
    return total;
  }
  std::array<Counts, kLanes> lanes_;
};
/// A kernel on the device.
struct LoadedKernel {
  runtime::Module module;
  runtime::Kernel kernel;
  codegen::ParameterLayout layout;
  std::string name;                         ///< codegen::kernel_name()
  std::string chain, kernel_class, origin;  ///< as in KernelStats
  std::unique_ptr<Tally> tally = std::make_unique<Tally>();
};

/// The source of a plan's kernel. It is made lean where nobody has its image.
jit::Source source_of(const ir::Program& program, const plan::Plan& plan);
/// The same of a product that hosts the chain.
jit::Source source_of(const ir::Program& program, const plan::GemmPlan& plan);

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

  /// One thread loads, the others wait for it. A failure reaches all of them and is forgotten, so that the next call
  /// tries again.
  const LoadedKernel& find_or_load(const KernelKey& key, const std::function<LoadedKernel()>& load);

  /// All that are loaded.
  std::vector<const LoadedKernel*> all() const;

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
  mutable std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<const Entry>> entries_;
  std::unordered_map<KernelKey, std::shared_future<const LoadedKernel*>, KernelKeyHash> loading_;
};

}  // namespace epifuse
