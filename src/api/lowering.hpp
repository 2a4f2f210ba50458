// What chains with views become where tensors are known, remembered for launches of equal tensors. For engine.cpp and inspect.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "api/engine_impl.hpp"
#include "plan/bind/views.hpp"

namespace epifuse {

/// Lowered chains by signature, at most so many; a new one replaces another. Any number of threads.
class LoweringTable {
 public:
  /// Of the request the chain and the inputs count. Throws what plan::lower() throws.
  std::shared_ptr<const plan::Lowered> get(const LaunchRequest& request);

 private:
  struct Slot {
    std::mutex mutex;
    std::vector<std::uint64_t> signature;
    std::shared_ptr<const plan::Lowered> lowered;
  };
  static constexpr std::size_t kSlots = 256;
  std::array<Slot, kSlots> slots_;
};

}  // namespace epifuse
