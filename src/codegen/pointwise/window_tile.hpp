// Kernels of windows that overlap, which share what is computed of each element. For pointwise.cpp.
#pragma once

#include <string>
#include <vector>

#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// `kernel_class.body` is a PointwiseClass of WindowTile.
std::string emit_window_tile(const ir::Program& program, const plan::KernelClass& kernel_class,
                             const std::vector<ir::Kind>& input_kinds);

}  // namespace epifuse::codegen
