// Cases of what is read at indices: tables, embeddings, classes and positions. The expected values come from PyTorch's
// definitions, written down here as loops over places.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// The functions that cases are drawn of.
const std::vector<std::string>& index_functions();
/// A case whose `used` names the function. All indices are in range.
ViewCase draw_index_function(std::uint64_t seed);

}  // namespace epifuse::test
