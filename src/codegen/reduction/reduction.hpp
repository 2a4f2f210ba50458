// The source of a kernel with rows: chains with reductions. For emit.cpp.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// `kernel_class.body` is a ReductionClass.
std::string emit_reduction(const ir::Program& program, const plan::KernelClass& kernel_class,
                           const std::vector<ir::Kind>& input_kinds);

}  // namespace epifuse::codegen
