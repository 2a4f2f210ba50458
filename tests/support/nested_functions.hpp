// Cases of reductions whose elements are results of reductions over other dimensions: a softmax of means, a logsumexp
// of maxima. The expected values are their definitions, written down here as loops over places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The outer reductions that cases are drawn of.
const std::vector<std::string>& nested_functions();
/// A case whose `used` names the outer reduction. Each is one kernel.
ViewCase draw_nested_function(std::uint64_t seed);

}  // namespace epifuse::test
