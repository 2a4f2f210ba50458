// Ranges in a profile: NVTX. Nothing of it is linked: a profiler is asked for as NVTX 3 does, by its headers where the
// build found them; else the application's libnvToolsExt serves, which is not loaded from here. Called by api/.
#pragma once

#include <string>

namespace epifuse::runtime {

/// Looks for a profiler that has injected itself, and then for libnvToolsExt, or its functions in the program itself.
/// Whoever makes an engine does. The first call in a process decides about the profiler; the library may come later.
void find_nvtx() noexcept;

/// A range of the calling thread, as long as the object lives. Without NVTX one comparison.
class NvtxRange {
 public:
  explicit NvtxRange(const std::string& name) noexcept;
  ~NvtxRange();
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

 private:
  bool begun_ = false;
};

}  // namespace epifuse::runtime
