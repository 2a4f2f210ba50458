// Counts what threads take from the heap: heap_count.cpp replaces operator new of the program that it is linked into.
#pragma once

#include <cstdint>

namespace bench {

/// Of the calling thread, since it began.
std::uint64_t heap_allocations() noexcept;

}  // namespace bench
