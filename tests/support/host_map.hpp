// What stands in the place of a tensor map where products are run on the CPU. For gemm_model.hpp and the test that
// fills them in.
#pragma once

namespace epifuse::shim {

/// What the 128 bytes of a tensor map hold here.
struct HostMap {
  const unsigned char* data;
  long long extents[4] = {}, strides[3] = {};  // as the driver takes them, and of what is not there 1, or any
  int box[4] = {}, steps[4] = {};              // likewise: a box counts the elements between steps, too
  int swizzle;
  int bytes;  ///< of an element
  int late;   ///< when copies by it, and products of the launch, are done
};
static_assert(sizeof(HostMap) <= 128);

}  // namespace epifuse::shim
