// Draws the chain of a ReductionFamily.
#pragma once

#include "support/random.hpp"
#include "support/reduction_case.hpp"

namespace epifuse::test {

struct DrawnChain {
  Chain chain;
  std::vector<Source> sources;  ///< of the chain's inputs
};

/// `truths`: inputs of type bool.
DrawnChain draw_reduction_chain(Random& random, const Frame& frame, std::vector<Source> sources,
                                const std::vector<bool>& truths);

}  // namespace epifuse::test
