// What a launch of a product is given where it is run on the CPU: what stands in the place of a tensor map, and when
// asynchronous work is done. For gemm_model.hpp and the tests that fill them in.
#pragma once

namespace epifuse::shim {

/// When copies and products that a launch does not wait for are done.
enum class When : int {
  early,     ///< at once
  late,      ///< when somebody waits for them
  at_random  ///< at once, when somebody waits, or between, in an order that a number says
};

/// What the 128 bytes of a tensor map hold here.
struct HostMap {
  const unsigned char* data;
  long long extents[4] = {}, strides[3] = {};  // as the driver takes them, and of what is not there 1, or any
  int box[4] = {}, steps[4] = {};              // likewise: a box counts the elements between steps, too
  int swizzle;
  int bytes;  ///< of an element
};
static_assert(sizeof(HostMap) <= 128);

}  // namespace epifuse::shim
