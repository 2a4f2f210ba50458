// Program + Plan → one self-contained CUDA source, and the bytes of the struct that its kernel takes. Pure functions.
// Called by api/ (and the tests that run emitted text on the CPU).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/lean/lean.hpp"
#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// The entry point of a source before emit() gives it its own name: `extern "C" __global__ void
/// epifuse_kernel(Params)`.
inline constexpr const char* kKernelName = "epifuse_kernel";

/// The entry point's name, which profilers show: the schedule, the first operations or composites, however they were
/// written, the types of the first operand and result, and a hash of chain and class:
/// "epifuse_resident_softmax_f16_f16_b52d46".
std::string kernel_name(const ir::Program& program, const plan::KernelClass& kernel_class);

/// What the emitters put together, before it is made lean; it depends on the chain and on plan.kernel_class only. With
/// what lean_passes() says it tells sources apart, for a tenth of what emit() costs.
std::string draft(const ir::Program& program, const plan::KernelClass& kernel_class,
                  const std::vector<ir::Kind>& input_kinds);

/// The whole source: the draft, made lean.
std::string emit(const ir::Program& program, const plan::KernelClass& kernel_class,
                 const std::vector<ir::Kind>& input_kinds, Compilers compilers = Compilers::cuda);

/// The kernel's parameter: the fields of the emitted `struct Params`, laid out as C does.
/// `workspace` is device memory as plan.workspace asks for.
std::vector<std::byte> pack(const ir::Program& program, const plan::Plan& plan, std::span<const double> scalars,
                            const void* workspace = nullptr);

}  // namespace epifuse::codegen
