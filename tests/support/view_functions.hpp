// Cases of the functions that are made of views: pooling, joining, positions and what stands on them. The expected
// values come from PyTorch's definitions, written down here as loops over indices.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The functions that cases are drawn of.
const std::vector<std::string>& view_functions();
/// A case whose `used` names the function.
ViewCase draw_view_function(std::uint64_t seed);

}  // namespace epifuse::test
