// A launch drawn from any bytes: a chain, and tensors whose shapes, strides, types and addresses mostly lie near what
// fits, so that half of all inputs get past the checks and reach the planner. For the fuzz target `plan` and for
// tests/same.
#pragma once

#include <string>
#include <vector>

#include <epifuse/tensor.hpp>

#include "fuzz/targets.hpp"
#include "plan/plan.hpp"

namespace epifuse::fuzz {

struct DrawnLaunch {
  std::string chain;
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  plan::Views views = plan::Views::real;
  plan::Machine machine;
  bool emit_too = false;  ///< a share of them is emitted, since that takes longer than planning
};

/// Throws Error for text that is no chain, and for shapes that its operations refuse.
DrawnLaunch draw_launch(Bytes bytes);

}  // namespace epifuse::fuzz
