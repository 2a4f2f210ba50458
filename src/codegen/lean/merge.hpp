// Merges functions that only hand on, or that one place calls, into their callers. Called by lean.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a function went: one that only calls another with its own parameters, or a function without a result that is called in one place. Its
/// comment stands above the statements that take the call's place.
bool merge_functions(std::vector<Unit>& units, std::string_view entry);

}  // namespace epifuse::codegen::lean
