// The loops over a vector's elements that one pass consists of: one, or several where the lanes of a segment agree on
// its reductions in between. For passes.cpp and lane_segments.cpp.
#pragma once

#include <vector>

#include "plan/plan.hpp"

namespace epifuse::codegen {

/// One of them. Operands, accumulators and results are named by their number.
struct ElementLoop {
  plan::Marks computed;             ///< values of elements
  std::vector<ir::Value> segments;  ///< values of the lane segment that are computed before the loop
  std::vector<ir::Value> taken;     ///< values of elements that loops before it computed
  std::vector<ir::Value> given;     ///< values of elements that loops behind it take
  std::vector<std::size_t> inputs;  ///< operands of elements
  std::vector<std::size_t> fed;     ///< accumulators of the row, of the grid or of columns
  std::vector<std::size_t> outputs;
  std::vector<std::size_t> lanes;  ///< accumulators of lane segments, on which lanes agree behind the loop
};

/// What a pass is for.
struct PassNeeds {
  plan::Marks computed;  ///< values of elements and of lane segments
  std::vector<std::size_t> inputs, fed, outputs;
};

/// Whether a pass computes anything of lane segments.
bool knows_segments(const std::vector<ElementLoop>& loops);
/// The loops of a pass, in their order. Without lane segments there is one.
std::vector<ElementLoop> loops_of(const ir::Program& program, const plan::ReductionClass& reduction,
                                  const PassNeeds& needs);

}  // namespace epifuse::codegen
