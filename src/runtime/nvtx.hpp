// Ranges in a profile: NVTX, where the application has its library loaded. It is neither linked nor loaded from here.
// Called by api/.
#pragma once

#include <string>

namespace epifuse::runtime {

/// Looks whether NVTX is there by now: libnvToolsExt, or its functions in the program itself. Whoever makes an engine
/// does.
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
