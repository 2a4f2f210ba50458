// What stands in the place of a tensor map where products are run on the CPU. For gemm_model.hpp and the test that
// fills them in.
#pragma once

namespace epifuse::shim {

/// What the 128 bytes of a tensor map hold here.
struct HostMap {
  const unsigned char* data;
  long long extents[3], strides[2];  // as runtime::TensorBoxes
  int box[3];
  int swizzle;
  int bytes;  ///< of an element
  int late;   ///< when copies by it, and products of the launch, are done
};
static_assert(sizeof(HostMap) <= 128);

}  // namespace epifuse::shim
