// Takes away variables of functions that nothing reads. Called by lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a variable went whose value nothing reads, with what is assigned to it: `float row_of[1];`,
/// `const auto first = [&](int i) { … };`. One whose value is what a call makes stays, since a call may do more.
bool drop_unread_variables(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
