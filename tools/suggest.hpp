// What a misspelt subcommand or option may have meant.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

namespace epifuse::tool {

/// " (did you mean 'warm'?)" for the first word of the command line that is no subcommand, or that its subcommand has
/// no option for; else nothing.
std::string suggestion(const CLI::App& app, int argc, char** argv);

}  // namespace epifuse::tool
