// NVTX's C functions, found by name. Both have been the same since its first version.
#include "runtime/nvtx.hpp"

#include <dlfcn.h>

#include <atomic>

namespace epifuse::runtime {
namespace {

using Push = int (*)(const char*);
using Pop = int (*)();

// `pop` is written before `push`, which is read first.
std::atomic<Push> push{nullptr};
std::atomic<Pop> pop{nullptr};

void take(void* library) noexcept {
  void* const found_push = ::dlsym(library, "nvtxRangePushA");
  void* const found_pop = ::dlsym(library, "nvtxRangePop");
  if (found_push == nullptr || found_pop == nullptr) return;
  pop.store(reinterpret_cast<Pop>(found_pop), std::memory_order_relaxed);
  push.store(reinterpret_cast<Push>(found_push), std::memory_order_release);
}

}  // namespace

void find_nvtx() noexcept {
  if (push.load(std::memory_order_acquire) != nullptr) return;
  take(RTLD_DEFAULT);
  if (push.load(std::memory_order_acquire) != nullptr) return;
  // The reference that this takes stays: the functions are called from now on.
  if (void* const library = ::dlopen("libnvToolsExt.so.1", RTLD_LAZY | RTLD_NOLOAD)) take(library);
}

NvtxRange::NvtxRange(const std::string& name) noexcept {
  if (const Push begin = push.load(std::memory_order_acquire)) {
    begin(name.c_str());
    begun_ = true;
  }
}

NvtxRange::~NvtxRange() {
  if (begun_) pop.load(std::memory_order_relaxed)();
}

}  // namespace epifuse::runtime
