// Cases of windows and slices behind norms and softmax: what is written has other elements than the rows whose
// statistics it needs. The expected values are definitions, written down here as loops over places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The views that cases are drawn of.
const std::vector<std::string>& written_functions();
/// A case whose `used` names the view. Each is one kernel.
ViewCase draw_written_function(std::uint64_t seed);
/// The same with rows that a block, or the blocks of a cluster, hold in shared memory, and some that are read in
/// rounds.
ViewCase draw_written_of_long_rows(std::uint64_t seed);

}  // namespace epifuse::test
