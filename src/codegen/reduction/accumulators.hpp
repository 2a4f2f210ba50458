// How accumulators are written: their types in templates/reduction/accumulate.cuh, and what reductions take of them.
// For stages.cpp and lane_segments.cpp.
#pragma once

#include <string>
#include <string_view>

#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

struct AccumulatorText {
  std::string_view section;
  std::string_view type;
  std::string_view identity;  ///< the number that it begins with; empty where it is more than one
};
const AccumulatorText& text_of(plan::AccumulatorKind kind);

/// A reduction's result, from its accumulator, a member of `set`.
std::string result_of(const ir::Program& program, const plan::ReductionClass& reduction, const ReductionChain& chain,
                      const ir::Node& node, const plan::NodeRole& role, std::string_view set);

}  // namespace epifuse::codegen
