// Cases of windows that are dimensions: unfold, and pools of more elements than are taken apart. The expected values
// are their definitions, written down here as loops over places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The functions that cases are drawn of.
const std::vector<std::string>& large_windows();
/// A case whose `used` names the function. Each is one kernel.
ViewCase draw_large_windows(std::uint64_t seed);

}  // namespace epifuse::test
