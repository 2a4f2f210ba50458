// What happens at a repeated launch. The first launch of some tensors is planned; what came of it, a Call, is
// remembered under the launch's Signature, and every later launch that has an equal one only fills in addresses and
// scalars. For cuda_engine.cpp.
//
// Nothing here takes a lock, allocates, or lets threads wait for each other's cache lines.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <epifuse/engine.hpp>

#include "api/engine_impl.hpp"
#include "api/kernels.hpp"
#include "base/inline_vector.hpp"
#include "runtime/memory.hpp"

namespace epifuse {

/// All of a launch that decides its plan, as words: the chain's fingerprint, and of each tensor the type, shape,
/// strides, and of the address what alignment it has. Equal signatures, equal plans: nothing in it is an address, so
/// nothing that is freed and made anew is mistaken.
class Signature {
 public:
  explicit Signature(const LaunchRequest& request) noexcept;
  /// None where the launch has too many tensors to be remembered.
  std::span<const std::uint64_t> words() const noexcept { return {words_.data(), size_}; }
  /// Not 0.
  std::uint64_t hash() const noexcept { return hash_; }

  static constexpr std::size_t kMostWords = 176;

 private:
  static constexpr std::size_t kWordsOfTensor = 1 + 2 * kMaxRank;

  std::array<std::uint64_t, kMostWords> words_;
  std::size_t size_ = 0;
  std::uint64_t hash_ = 1;
};

/// A planned launch: what is left to do is to check and fill in what may differ the next time.
struct Call {
  const LoadedKernel* kernel = nullptr;  ///< null: nothing to launch
  std::uint32_t blocks = 0;
  std::uint32_t threads = 0;
  std::uint32_t shared_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t zeroed_bytes = 0;
  std::uint64_t moved_bytes = 0;                     ///< as KernelStats::bytes
  base::InlineVector<std::uint64_t, 64> parameters;  ///< without addresses and scalars; as words

  /// How far apart, in bytes from element 0 to element 0, an output and another tensor may lie.
  struct Distance {
    std::int64_t
        checked;         ///< here the planner looked at every element: the same view in place, or views that interleave
    std::int64_t below;  ///< at most: the other one ends before the output begins
    std::int64_t above;  ///< at least: it begins behind the output's end
    bool allows(std::int64_t distance) const noexcept {
      return distance == checked || distance <= below || distance >= above;
    }
  };
  /// Of each output: to the outputs before it, and to all inputs.
  base::InlineVector<Distance, 16> distances;

  /// The distances of a launch whose plan was made, and so whose overlaps were found legal.
  void set_distances(const plan::Space& space);
};

/// Calls by signature: 2-KiB slots, four to a set; a call that finds its set full replaces one that was not found
/// lately. Readers compare a slot in its place, copy what they fill in, and then see by its version whether a writer
/// was at it meanwhile, which counts as not found.
class CallTable {
 public:
  CallTable();
  /// The call for that request, without its distances. False where there is none, or if the tensors may overlap
  /// otherwise than in the launch that was planned.
  bool find(const Signature& signature, const LaunchRequest& request, Call& call) noexcept;
  void store(const Signature& signature, const Call& call) noexcept;

 private:
  static constexpr std::size_t kSlots = 512;
  static constexpr std::size_t kWays = 4;
  static constexpr std::size_t kWords = 255;
  struct Slot {
    std::atomic<std::uint64_t> version{0};  // odd: being written; 0: empty
    std::array<std::atomic<std::uint64_t>, kWords> words{};
  };
  std::size_t victim(std::size_t first) noexcept;
  static bool read(const Slot& slot, const Signature& signature, const LaunchRequest& request, Call& call) noexcept;
  static std::size_t first_of_set(std::uint64_t hash) noexcept { return hash % (kSlots / kWays) * kWays; }

  std::array<std::atomic<std::uint64_t>, kSlots> hashes_{};  // of what the slots hold: one cache line tells a set
  std::array<std::atomic<bool>, kSlots> used_{};             // since it was last considered for replacement
  std::unique_ptr<std::array<Slot, kSlots>> slots_;
  std::atomic<std::size_t> hand_{0};
};

/// What launches write, several copies of it, so that threads do not write the same cache lines: a count, and the
/// addresses that the driver was asked about. Asking costs more than the rest of a launch.
class alignas(64) Lane {
 public:
  /// The first lanes have one thread each, the other threads share the rest.
  static constexpr std::size_t kOwned = kLanes / 2;
  static std::size_t of_this_thread() noexcept;

  /// Memory of this address was asked about not long ago, and was this device's. An address may be freed and come back
  /// as other memory, so it is not believed for ever: EpiFuse's own frees end it, and so does every 1024th launch.
  bool knows(const void* address) const noexcept {
    return known_[place(address)].load(std::memory_order_relaxed) == reinterpret_cast<std::uintptr_t>(address);
  }
  void learn(const void* address) noexcept {
    known_[place(address)].store(reinterpret_cast<std::uintptr_t>(address), std::memory_order_relaxed);
  }
  /// To be called at the beginning of each launch. True where the addresses are not believed any more, and so nothing
  /// else of the kind.
  bool begin_launch() noexcept {
    const std::uint64_t frees = runtime::frees();
    if (frees == frees_.load(std::memory_order_relaxed) &&
        launches() - forgotten_at_.load(std::memory_order_relaxed) < kBelievedLaunches) [[likely]]
      return false;
    forget(frees);
    return true;
  }
  /// `owned`: no other thread has this lane. Then no atomic addition, which waits until what the driver wrote to the
  /// GPU has left the processor.
  void count_launch(bool owned) noexcept { add(launches_, 1, owned); }
  std::uint64_t launches() const noexcept { return launches_.load(std::memory_order_relaxed); }

 private:
  void forget(std::uint64_t frees) noexcept;

  static constexpr std::size_t kAddresses = 256;
  static constexpr std::uint64_t kBelievedLaunches = 1024;
  static std::size_t place(const void* address) noexcept {
    const std::uint64_t bits = reinterpret_cast<std::uintptr_t>(address) * 0x9e3779b97f4a7c15;
    return bits >> 56;
  }
  static_assert(kAddresses == 1U << (64 - 56));

  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> forgotten_at_{0};  // launches_ then
  std::atomic<std::uint64_t> frees_{0};         // runtime::frees() then
  std::array<std::atomic<std::uintptr_t>, kAddresses> known_{};
};

/// Fills in addresses and scalars, which spends the call, and queues the kernel. The context is current. `workspace` is
/// memory as the call asks for, or null.
void start(Call& call, const LaunchRequest& request, void* workspace);

}  // namespace epifuse
