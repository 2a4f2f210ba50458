// Pushes the views of a chain down to its operands (lower.cpp). For lowered.cpp, which makes of that what is planned.
#pragma once

#include <span>

#include "plan/bind/results.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {

Lowered push_down(const ir::Program& program, std::span<const TensorView> inputs, Slicing slicing);

}  // namespace epifuse::plan
