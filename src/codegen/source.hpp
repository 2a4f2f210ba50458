// Parts of the source that pointwise kernels and reductions share. For the emitters of pointwise/ and reduction/.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace epifuse::codegen {

/// The comment that a source begins with: chain, plan, operands.
std::string write_header(const ir::Program& program, const plan::KernelClass& kernel);
/// `struct Params`.
std::string write_params(const ir::Program& program, const plan::KernelClass& kernel);
/// `struct Uniforms` and load_uniforms(): operands of one element, read once per thread.
std::string write_uniforms(const ir::Program& program, const plan::KernelClass& kernel,
                           const std::vector<ir::Kind>& input_kinds);

}  // namespace epifuse::codegen
