// Takes away types that hold nothing, and what hands their values on. Called by lean.cpp.
#pragma once

#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// Whether a type went that is written `struct Uniforms {};`: with it go parameters of the type, variables `Uniforms
/// uniforms;`, members and the arguments that name one of them. A type that stands anywhere else stays, and so does one
/// whose variables' names mean anything else.
bool drop_stateless_types(std::vector<Unit>& units);

}  // namespace epifuse::codegen::lean
