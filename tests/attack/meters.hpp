// Memory of this process, for the attacks that do a thing many times over and look at what is left.
#pragma once

#include <malloc.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>

namespace attack {

/// What malloc has given out.
inline std::int64_t heap_bytes() {
  const auto info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

/// What the process holds, without what malloc keeps for later.
inline std::int64_t resident_bytes() {
  ::malloc_trim(0);
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

}  // namespace attack
