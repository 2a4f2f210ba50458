// Cases of views that another program drew and knows the results of: python/tests/support/view_cases_emitted.py, whose
// oracle is PyTorch.
#pragma once

#include <string>
#include <vector>

#include "support/views.hpp"

namespace epifuse::test {

/// A JSON array of `{"text", "inputs": [{"type", "shape", "values"}], "shape", "values", "tolerance"}`. Operands are
/// named x0, x1, … in the text. Throws what the parser of JSON throws.
std::vector<ViewCase> read_view_cases(const std::string& path);

}  // namespace epifuse::test
