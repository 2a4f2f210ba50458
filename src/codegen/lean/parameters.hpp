// Parameters of functions and templates that say nothing: all calls give the same, or nobody reads it. Called by
// lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a parameter went. What it always was stands in its place.
bool drop_parameters(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
