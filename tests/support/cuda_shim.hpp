// Lets an ordinary C++ compiler build emitted CUDA text and run it: the keywords, the coordinates of the running thread, and the
// builtins that the text's portable branches use. Included before the text; the text itself is compiled as it stands.
//
// A kernel runs block by block and, within a block, thread by thread, each to its end. That is all that pointwise kernels need; a kernel
// whose threads wait for each other would need run_block() to switch between them.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstring>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

namespace epifuse::shim {

struct Coordinates {
  unsigned x = 0, y = 0, z = 0;
};

// Thread-local, so that several kernels may run at once in one process.
inline thread_local Coordinates thread_index, block_index, block_extent, grid_extent;

template <class Body>
void run_block(unsigned threads, const Body& body) {
  for (thread_index.x = 0; thread_index.x < threads; ++thread_index.x) body();
}

/// Runs `kernel` on a grid of one dimension. False if its parameter struct has not that many bytes.
template <class Params>
bool run_grid(void (*kernel)(Params), unsigned blocks, unsigned threads, const void* bytes, std::size_t size) {
  if (size != sizeof(Params)) return false;
  Params params;
  std::memcpy(&params, bytes, size);
  grid_extent = {blocks, 1, 1};
  block_extent = {threads, 1, 1};
  for (block_index.x = 0; block_index.x < blocks; ++block_index.x) run_block(threads, [&] { kernel(params); });
  return true;
}

}  // namespace epifuse::shim

#define threadIdx (::epifuse::shim::thread_index)
#define blockIdx (::epifuse::shim::block_index)
#define blockDim (::epifuse::shim::block_extent)
#define gridDim (::epifuse::shim::grid_extent)

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}
