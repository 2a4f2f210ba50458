// Which units a kernel reaches, and in which order a reader gets them.
#pragma once

#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// What `entry` needs: of overloads all that take as many arguments, of specialisations those whose types are reached.
std::vector<Unit> reached(std::vector<Unit> units, std::string_view entry);

/// Constants, types and parameters, then what computes, below what it calls; a namespace is left when it has nothing
/// more that could follow.
std::vector<const Unit*> in_reading_order(const std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
