// Whether the sentence of an error speaks of what the user wrote. Called by the checks of drawn programs and by their
// test.
#pragma once

#include <optional>
#include <string>

#include "generator/program.hpp"

namespace epifuse::test {

/// What is wrong with the sentence of a refusal of this text, if anything: a name in quotes that does not stand in the
/// text, or a number that no tensor of a program can have.
std::optional<std::string> misnamed(const std::string& sentence, const NamedText& named);

}  // namespace epifuse::test
