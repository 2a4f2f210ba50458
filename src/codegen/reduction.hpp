// The source of a kernel with rows: chains with reductions. For emit.cpp.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace epifuse::codegen {

std::string emit_reduction(const ir::Program& program, const plan::KernelClass& kernel_class,
                           const std::vector<ir::Kind>& input_kinds);

}  // namespace epifuse::codegen
