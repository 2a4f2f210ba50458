// A plan in words and numbers: what `epifuse dump --emit plan` prints. Called by api/.
#pragma once

#include <span>
#include <string>

#include <epifuse/inspect.hpp>

#include "plan/plan.hpp"

namespace epifuse::plan {

PlanSummary summarise(const ir::Program& program, const Plan& plan, std::span<const OutputView> outputs,
                      std::span<const TensorView> inputs);

/// The summary for people; bandwidth in bytes per second and registers per thread as far as known (0: not).
std::string to_text(const PlanSummary& summary, double bandwidth, int registers);

}  // namespace epifuse::plan
