// Of a chain without views what ir::Bounds says: which elements of operands exist, and which of them indices name. For
// space.cpp.
#pragma once

#include <span>

#include "plan/bind/space.hpp"

namespace epifuse::plan {

/// What lies in memory, from where on, and where indices say what is read. `inputs` are those of the launch; the space
/// has their strides.
void set_bounds(Space& space, const ir::Program& program, std::span<const TensorView> inputs);
/// Where indices say what is written. `outputs` are those of the launch; the space has their strides as_written().
void set_scatters(Space& space, const ir::Program& program, std::span<const OutputView> outputs);

}  // namespace epifuse::plan
