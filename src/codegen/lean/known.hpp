// Writes out what is known when a source is emitted: constants of 0, 1, true and false, the branches that they choose,
// and loops of one turn. Called by lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether anything changed. `unrolls`: loops of one turn go also behind `#pragma unroll`.
bool write_out_known(std::vector<Unit>& units, bool unrolls);

}  // namespace epifuse::codegen::lean
