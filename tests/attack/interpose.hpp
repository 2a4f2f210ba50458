// What the layer of interpose.cpp does when it is loaded with LD_PRELOAD; the worker finds these by dlsym().
#pragma once

#include <cstdint>

namespace attack {

/// At the armed call number `at` (from 1; 0: never): die, die after half of a write, write half, or fail with an errno.
enum Deed : int { deed_kill = -1, deed_tear = -2, deed_short = -3 };

/// Calls are counted, and struck, from here on.
using Arm = void (*)(std::uint64_t at, int deed);
/// Not any more. The number of calls since arm().
using Disarm = std::uint64_t (*)();
/// Directory entries read since the layer was loaded, armed or not.
using Scanned = std::uint64_t (*)();

}  // namespace attack
