// Launches as lines of the list that `epifuse warm` and `epifuse bundle` take. For cuda_engine.cpp.
#pragma once

#include <span>
#include <string>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"
#include "plan/device/machine.hpp"

namespace epifuse {

/// The line whose plan for a GPU like `machine` has the class that this launch's has: shapes, types, strides and the
/// alignment of each address.
std::string launch_line(const ir::Program& program, std::span<const OutputView> outputs,
                        std::span<const TensorView> inputs, const plan::Machine& machine);

/// EPIFUSE_RECORD=FILE: appends the line unless this process has done so. Trouble with the file is a warning in the
/// log.
void record_launch(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
                   const plan::Machine& machine);

}  // namespace epifuse
