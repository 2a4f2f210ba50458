// The CPU device: runs a Program over host memory. Called by the engine.
#pragma once

#include <span>

#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::host {

/// Computes the chain over `space` (as plan::bind made it), on all cores or on at most so many threads: results are the
/// same bits on any number. Returns when every result is written.
void execute(const ir::Program& program, const plan::Space& space, std::span<const double> scalars,
             int most_threads = 0);

/// Error(invalid_argument), naming the operation and the operand, unless all indices of the chain are in range.
/// `inputs` are those of the launch.
void check_indices(const ir::Program& program, std::span<const TensorView> inputs);

}  // namespace epifuse::host
