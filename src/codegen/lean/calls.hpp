// Takes away parameters that tell a function nothing: what all calls pass, and what it does not ask. Called by lean.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a parameter went: one that the function does not mention, one that is the same number or truth value in all calls, a template's that is
/// the same in all calls, or a type that can only be one (`At`, where all positions have one type). Functions with overloads stay as they are.
bool drop_known_parameters(std::vector<Unit>& units, std::string_view entry);

}  // namespace epifuse::codegen::lean
