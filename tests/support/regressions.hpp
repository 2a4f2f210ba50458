// Cases that once failed, as lines of text: what ./dev soak writes, and what the fixed tests read from
// tests/regressions/cases.inc.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// One line of JSON that holds all of a case. The chain stands there step by step, not as text of the language, so that
/// what the library makes of such text has no part in what is expected.
std::string to_line(const Case& test);
/// The case again. Throws std::exception if the line is none.
Case from_line(std::string_view line);

/// The checked-in lines.
std::vector<Case> regression_cases();

}  // namespace epifuse::test
