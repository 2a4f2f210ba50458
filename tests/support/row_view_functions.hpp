// Cases of what was computed from whole rows, norms and softmax, and is read through views: rotary embedding behind a
// norm, rows back to front. The expected values are their definitions, written down here as loops over places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The views that cases are drawn of.
const std::vector<std::string>& row_view_functions();
/// A case whose `used` names the view. Each is one kernel.
ViewCase draw_row_view_function(std::uint64_t seed);

}  // namespace epifuse::test
