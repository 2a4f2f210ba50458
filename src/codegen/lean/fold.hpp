// Folds what the class decides: constants of no weight, branches and loops of one turn. Called by lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a text became shorter. Truth values and constants that are 0 or 1 stand for themselves; then expressions are simplified
/// (expressions.hpp), an `if` of a known condition becomes its branch, a loop of one turn its body, and what stands behind a `return` goes.
bool fold_constants(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
