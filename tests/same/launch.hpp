// A launch as one line of JSON: a chain, views of its operands and results, and the device. What tests/same exchanges
// between two commits, so that both plan exactly the same thing.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <epifuse/tensor.hpp>

#include "plan/plan.hpp"

namespace epifuse::same {

struct Launch {
  std::string id;  ///< who made the case, and which one it is
  std::string chain;
  std::vector<TensorView> inputs;  ///< in the order of the chain's operands; `data` is an address, no memory
  std::vector<OutputView> outputs;
  plan::Views views = plan::Views::real;
  plan::Machine machine;
};

std::string to_line(const Launch& launch);
/// Throws std::exception for a line that is none. A result without a shape gets the chain's own, dense or
/// channels-last.
Launch from_line(std::string_view line);

}  // namespace epifuse::same
