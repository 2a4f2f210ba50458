// The source of a kernel of a chain without reductions. For emit.cpp.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// `kernel_class.body` is a PointwiseClass.
std::string emit_pointwise(const ir::Program& program, const plan::KernelClass& kernel_class,
                           const std::vector<ir::Kind>& input_kinds);

}  // namespace epifuse::codegen
