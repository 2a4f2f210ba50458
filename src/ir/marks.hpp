// What some values are computed from. For the planner and codegen, which each stop elsewhere.
#pragma once

#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// Marks the arguments of each marked value, and theirs in turn, but for those of which only the shape counts.
/// stops(i): the value i is known already, so that what it is computed from is not needed for its sake. `marks` has an
/// entry for each node, or for the first ones.
template <class Marks, class Stops>
void mark_arguments(const std::vector<Node>& nodes, Marks& marks, const Stops& stops) {
  for (std::size_t i = marks.size(); i-- > 0;) {
    if (!marks[i] || stops(i)) continue;
    for (int k = 0; k < nodes[i].computed_arity(); ++k)
      marks[static_cast<std::size_t>(nodes[i].args[static_cast<std::size_t>(k)])] = true;
  }
}

}  // namespace epifuse::ir
