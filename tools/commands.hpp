// The subcommands. Each registers its arguments and, as the callback, what it does.
#pragma once

#include <CLI/CLI.hpp>

namespace epifuse::tool {

void add_run(CLI::App& app);
void add_dump(CLI::App& app);
void add_bench(CLI::App& app);
void add_ops(CLI::App& app);
void add_cache(CLI::App& app);
void add_warm(CLI::App& app);
void add_bundle(CLI::App& app);
void add_doctor(CLI::App& app);
/// What is made of the others' help: last of all.
void add_completion(CLI::App& app);
void add_man(CLI::App& app);

}  // namespace epifuse::tool
