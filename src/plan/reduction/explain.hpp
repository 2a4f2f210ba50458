// Plans with rows in words and numbers. For plan/explain.cpp, and for the drivers of this folder, each of which says
// why it has the rows.
#pragma once

#include <string>

#include <epifuse/inspect.hpp>

#include "plan/plan.hpp"

namespace epifuse::plan {

ReductionSummary summarise_reduction(const ir::Program& program, const Plan& plan);
std::string why_reduction(const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
/// Why a driver has the rows: beside its planner.
std::string why(const Resident& driver, const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
std::string why(const RowsPerGroup& driver, const Plan& plan, const ReductionSummary& reduction,
                const Machine& machine);
std::string why(const ResidentShared& driver, const Plan& plan, const ReductionSummary& reduction,
                const Machine& machine);
std::string why(const Looped& driver, const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
std::string why(const BySegments& driver, const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
std::string why(const Split& driver, const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
std::string why(const SplitResident& driver, const Plan& plan, const ReductionSummary& reduction,
                const Machine& machine);
/// Why no thread group holds the rows: how the reasons of other drivers begin.
std::string why_unheld(const Plan& plan, const ReductionSummary& reduction, const Machine& machine);
/// What a chain with rows adds to the reason for an operand's access.
std::string why_reduction_operand(const ir::Program& program, const Plan& plan, std::size_t input);
std::string why_reduction_result(const ir::Program& program, const Plan& plan, std::size_t output);
/// Passes that fetch an operand; 1 for one that is held.
int reads_of(const ir::Program& program, const Plan& plan, std::size_t input);
/// Lines of the plan's text, each "word   sentence\n".
std::string to_text(const ReductionSummary& reduction);

}  // namespace epifuse::plan
