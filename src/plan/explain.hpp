// A plan in words and numbers: what `epifuse dump --emit plan` prints. Called by api/.
#pragma once

#include <span>
#include <string>

#include <epifuse/inspect.hpp>

#include "plan/bind/views.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

/// `lowered` is what views made the program of; null where there were none.
PlanSummary summarise(const ir::Program& program, const Plan& plan, std::span<const OutputView> outputs,
                      std::span<const TensorView> inputs, const Machine& machine = {},
                      const Lowered* lowered = nullptr);

/// The same of a product that hosts the chain. `chain` is the summary of the chain as a kernel of its own, whose first
/// operand is the product.
PlanSummary summarise(const Inside& inside, const PlanSummary& chain, const Machine& machine);

/// The summary for people; bandwidth in bytes per second and the compiled kernel as far as known (0: not).
std::string to_text(const PlanSummary& summary, double bandwidth, const KernelResources& resources);

}  // namespace epifuse::plan
