// Resolves what a source's constants decide: conditions, and factors and terms that change nothing.
#pragma once

#include <vector>

#include "codegen/lean/evaluate.hpp"
#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Constants of the source whose values are known, those of its types, and enumerators.
Known known_constants(const std::vector<Unit>& units);

/// Whether anything of the unit was resolved: an `if` or a `?:` whose condition is known, a known part of a condition, a product with 1, a
/// sum with 0, what stands behind a return.
bool fold(Unit& unit, const Known& known);

}  // namespace epifuse::codegen::lean
