// Branches whose condition is known, and loops of one turn or none. Used by known.cpp.
#pragma once

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a statement was resolved: `if constexpr (true) …`, `for (int k = 0; k < 1; ++k) …`; with `unrolls` also such
/// loops behind `#pragma unroll`.
bool resolve_statements(Unit& unit, bool unrolls);

}  // namespace epifuse::codegen::lean
