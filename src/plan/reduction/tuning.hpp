// The numbers of a kernel that are chosen besides its form: registers, unrolling, batches, cache hints. For the
// planners, which fill them in when everything else of the class is known; codegen writes them.
#pragma once

#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

/// Of a kernel with rows whose class is otherwise complete. Also marks the inputs that are read through the read-only
/// cache.
void tune_reduction(Plan& plan, const ir::Program& program, const Machine& machine);

/// Blocks of that kernel that a multiprocessor is to hold at a time; 0: no number is asked for.
int resident_blocks(const Plan& plan, const ir::Program& program, const Machine& machine);

}  // namespace epifuse::plan
