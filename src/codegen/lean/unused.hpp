// Takes away what nothing uses: parameters, variables, types without members and functions without statements.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether anything went. Functions of one name and as many parameters count as one: a parameter goes from all of them and from all calls, if
/// none of them uses it. So does one whose type has no members.
bool drop_unused_parameters(std::vector<Unit>& units);

/// Calls of functions that do nothing, variables that nothing reads, loops and branches with nothing in them.
bool drop_idle_statements(std::vector<Unit>& units);

/// Functions of types that nothing calls.
bool drop_unused_members(std::vector<Unit>& units);

/// Lists of parameters and arguments in lines of 120 columns.
void wrap_lists(Unit& unit);

}  // namespace epifuse::codegen::lean
