// The CPU device's chains with reductions or shape operations: one pass over the data per stage of reductions, then one
// that writes. Called by execute.cpp.
#pragma once

#include <span>

#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::host {

/// As execute (execute.hpp). Real is the compute type: float or double.
template <class Real>
void execute_passes(const ir::Program& program, const plan::Space& space, std::span<const double> scalars,
                    int most_threads);

}  // namespace epifuse::host
