// Functions that only call another, or that one place calls: their statements stand there. Called by lean.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a function went. `entry` stays, and so do operations, which a reader knows by name. `branches`: also
/// functions that branch, whose arguments are no plain names, or that change what they are given.
bool write_in_place(std::vector<Unit>& units, std::string_view entry, bool branches);

}  // namespace epifuse::codegen::lean
