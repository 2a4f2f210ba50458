// What follows from a launch's chain and tensors, remembered for launches of equal tensors. For the files of api/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/dispatch.hpp"
#include "api/engine_impl.hpp"

namespace epifuse {

/// Values by signature, at most so many; a new one replaces another. Any number of threads. Who does not get a slot's
/// lock at once makes the value again, which waits for nobody: not for a thread that a fork() left behind, either.
template <class T>
class Remembered {
 public:
  /// `make` gives the value of the request. What it throws is not remembered.
  template <class Make>
  std::shared_ptr<const T> get(const LaunchRequest& request, const Make& make) {
    const Signature signature(request);
    Slot& slot = slots_[signature.hash() % kSlots];
    std::unique_lock lock(slot.mutex, std::try_to_lock);
    const bool is_kept = lock.owns_lock() && !signature.words().empty();
    if (is_kept && slot.value && std::ranges::equal(slot.signature, signature.words())) return slot.value;
    auto value = std::make_shared<const T>(make());
    if (is_kept) {
      slot.signature.assign(signature.words().begin(), signature.words().end());
      slot.value = value;
    }
    return value;
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::vector<std::uint64_t> signature;
    std::shared_ptr<const T> value;
  };
  static constexpr std::size_t kSlots = 256;
  std::array<Slot, kSlots> slots_;
};

}  // namespace epifuse
