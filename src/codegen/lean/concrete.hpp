// The pass that writes templates out for the one type that a kernel needs, and puts helpers outside of their namespace.
// For lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// A type's template with the same arguments everywhere becomes a type; a function's only specialisation becomes the
/// function. An overload for any type goes, where each call has one for its own. Whether anything changed.
bool make_concrete(std::vector<Unit>& units);

/// What stands in `namespace detail`, `ops` or `fast` stands at the top level. A name that has another meaning there,
/// or that CUDA has, gets the namespace's before it: `fast_exp2`.
bool drop_namespaces(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
