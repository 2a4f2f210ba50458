// A chain behind a reduced group of columns in two functions: what all elements of the group share, computed once, and
// an element of that. Called by gemm.cpp.
#pragma once

#include <string>
#include <vector>

#include "codegen/prelude.hpp"
#include "ir/program.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// The functions `share_group` and `host_element` of the skeletons in templates/gemm/, and the constant kShared. The
/// chain's first operand is the element's held value, the others are what its group is reduced to, and its one result
/// is the element.
std::string share_values(const ir::Program& elements, const plan::KernelClass& kernel, Prelude& prelude);

}  // namespace epifuse::codegen
