// Two ways to a profiler. NVTX 3 is headers alone: they load the library that the profiler names in
// NVTX_INJECTION64_PATH, and ranges go to a domain of their own. CMake defines EPIFUSE_NVTX3 where it found them. The
// other is the libnvToolsExt that applications loaded before: its two functions are found by name, and have been the
// same since its first version.
#include "runtime/nvtx.hpp"

#include <dlfcn.h>

#include <atomic>

#ifdef EPIFUSE_NVTX3
#include <nvtx3/nvToolsExt.h>
#endif

namespace epifuse::runtime {
namespace {

using Push = int (*)(const char*);
using Pop = int (*)();

// `pop` is written before `push`, which is read first.
std::atomic<Push> push{nullptr};
std::atomic<Pop> pop{nullptr};

void take(Push found_push, Pop found_pop) noexcept {
  if (found_push == nullptr || found_pop == nullptr) return;
  pop.store(found_pop, std::memory_order_relaxed);
  push.store(found_push, std::memory_order_release);
}

void take_from(void* library) noexcept {
  take(reinterpret_cast<Push>(::dlsym(library, "nvtxRangePushA")),
       reinterpret_cast<Pop>(::dlsym(library, "nvtxRangePop")));
}

#ifdef EPIFUSE_NVTX3
// Null without a profiler.
nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t created = nvtxDomainCreateA("EpiFuse");
  return created;
}

int push_to_domain(const char* name) {
  nvtxEventAttributes_t range{};
  range.version = NVTX_VERSION;
  range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  range.messageType = NVTX_MESSAGE_TYPE_ASCII;
  range.message.ascii = name;
  return nvtxDomainRangePushEx(domain(), &range);
}

int pop_of_domain() { return nvtxDomainRangePop(domain()); }
#endif

bool is_found() noexcept { return push.load(std::memory_order_acquire) != nullptr; }

}  // namespace

void find_nvtx() noexcept {
  if (is_found()) return;
#ifdef EPIFUSE_NVTX3
  if (domain() != nullptr) return take(push_to_domain, pop_of_domain);
#endif
  take_from(RTLD_DEFAULT);
  if (is_found()) return;
  // The reference that this takes stays: the functions are called from now on.
  if (void* const library = ::dlopen("libnvToolsExt.so.1", RTLD_LAZY | RTLD_NOLOAD)) take_from(library);
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
