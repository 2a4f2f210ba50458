// What a multiprocessor has, by compute capability. For plans of rows in shared memory, and for what explains plans.
#pragma once

#include <cstdint>

namespace epifuse::plan {

struct Multiprocessor {
  int architecture;  ///< from this one on
  int threads;
  int blocks;
  std::int64_t shared_bytes;
};

/// Of architectures before the first that is known: the first's.
const Multiprocessor& multiprocessor_of(int architecture) noexcept;

}  // namespace epifuse::plan
