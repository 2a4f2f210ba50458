// Kernels that spill many registers are compiled for fewer blocks than they ask for. For compiler.cpp, and for who
// shows what a kernel takes.
#pragma once

#include <string>
#include <vector>

#include "jit/nvrtc.hpp"

namespace epifuse::jit {

struct Compiled {
  std::string source;  ///< what was compiled at last
  std::string image;
  Resources resources;      ///< of a cubin; PTX has none yet
  int resident_blocks = 0;  ///< that `source` asks for instead of what was given; 0: as given
};

/// As Nvrtc::compile(). A cubin that spills more than 48 bytes per thread is compiled anew for half the resident
/// blocks (the second number of __launch_bounds__), and so on: half the blocks may take twice the registers. Spilled
/// values cost more than blocks bring, and ptxas 13.0 makes wrong code of some, which is right at -O1 and without
/// spills: a maximum of products of u16 with 648 bytes spilled missed an element, and two powers beside `all` with 76
/// bytes read the elements of step 5 in step 2 (their index was computed anew from a register that had moved on).
Compiled compile_with_few_spills(const Nvrtc& nvrtc, std::string source, const std::string& name, const Target& target,
                                 std::vector<std::string> options);

}  // namespace epifuse::jit
