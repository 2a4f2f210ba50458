// Takes away hooks that do nothing, and members that nothing calls. Called by lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a statement went that only calls an empty function: `end_grid(p, grid);`, also behind `if constexpr (…)`. An
/// argument that calls something keeps the statement.
bool drop_idle_calls(std::vector<Unit>& units);

/// Whether a member function went whose name stands nowhere else.
bool drop_unused_members(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
