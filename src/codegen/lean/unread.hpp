// Variables that are given values which nobody reads.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether any went, with the calls that found their values out: of functions that do nothing else.
bool drop_unread_variables(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
