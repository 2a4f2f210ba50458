// Functions that only call another, or that one place calls: their statements stand there. Called by lean.cpp.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a function went. `entry` stays, and so do functions of namespaces, which a reader knows by name.
bool write_in_place(std::vector<Unit>& units, std::string_view entry);

}  // namespace epifuse::codegen::lean
