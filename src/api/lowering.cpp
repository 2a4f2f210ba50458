// A slot for each hash. Who does not get the lock at once lowers again, which waits for nobody: not for a thread that a fork() left behind,
// either.
#include "api/lowering.hpp"

#include <algorithm>

#include "api/dispatch.hpp"

namespace epifuse {

std::shared_ptr<const plan::Lowered> LoweringTable::get(const LaunchRequest& request) {
  const Signature signature(request);
  Slot& slot = slots_[signature.hash() % kSlots];
  std::unique_lock lock(slot.mutex, std::try_to_lock);
  const bool is_kept = lock.owns_lock() && !signature.words().empty();
  if (is_kept && slot.lowered && std::ranges::equal(slot.signature, signature.words())) return slot.lowered;
  auto lowered = std::make_shared<const plan::Lowered>(plan::lower(request.program, request.inputs));
  if (is_kept) {
    slot.signature.assign(signature.words().begin(), signature.words().end());
    slot.lowered = lowered;
  }
  return lowered;
}

}  // namespace epifuse
