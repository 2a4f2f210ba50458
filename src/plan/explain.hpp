// A plan in words and numbers: what `epifuse dump --emit plan` prints. Called by api/.
#pragma once

#include <span>
#include <string>

#include <epifuse/inspect.hpp>

#include "plan/bind/views.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

PlanSummary summarise(const ir::Program& program, const Plan& plan, std::span<const OutputView> outputs,
                      std::span<const TensorView> inputs, const Machine& machine = {});

/// Counts operands once that are other views of the same rows, where a thread group holds a row: their elements come
/// from a cache.
void count_rows_once(PlanSummary& summary, const Lowered& lowered, const Plan& plan);

/// The same of a product that hosts the chain. `chain` is the summary of the chain as a kernel of its own, whose first
/// operand is the product.
PlanSummary summarise(const Inside& inside, const PlanSummary& chain, const Machine& machine);

/// The summary for people; bandwidth in bytes per second and the compiled kernel as far as known (0: not).
std::string to_text(const PlanSummary& summary, double bandwidth, const KernelResources& resources);

}  // namespace epifuse::plan
