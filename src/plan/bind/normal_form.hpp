// The normal form of an iteration space: no dimension of one element, memory order, and as few dimensions as possible.
// For space.cpp.
#pragma once

#include "plan/bind/space.hpp"

namespace epifuse::plan {

/// Makes the dimensions of `shape`, which operands and spans of `space` count in, those of the normal form, in which
/// they count from then on: dimensions of one element are dropped, the others ordered as they lie in memory, and
/// neighbours merged through which all outputs and all operands that are read step alike.
void normalise(Space& space, const Dims& shape);

}  // namespace epifuse::plan
