// Options of the subcommands that are read here and not by CLI11, which takes part of a number for the whole, and wraps
// what is out of range. Each refuses what it does not understand in one sentence: the option, what was found, what was
// expected.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <epifuse/engine.hpp>
#include <epifuse/inspect.hpp>

namespace epifuse::tool {

/// --json and the like: there or not, without a value.
CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& value, const std::string& help);
/// An integer from 0 to `most`. The default is what `value` holds.
void add_integer(CLI::App& command, const std::string& name, std::uint64_t& value, std::uint64_t most,
                 const std::string& help);
/// A number from `least` to `most`; 0 in `value` shows no default.
void add_number(CLI::App& command, const std::string& name, double& value, double least, double most,
                const std::string& help);
/// A text that is not empty; `expected` says what it shall be: "a file name".
CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value, const std::string& expected,
                      const std::string& help);

/// --seed, --threads, --device
void add_seed(CLI::App& command, std::uint64_t& seed);
void add_threads(CLI::App& command, std::uint64_t& threads);
void add_device(CLI::App& command, std::string& device);
/// A GPU that need not be here: sm_90, 90; with its multiprocessors sm_90:114, the bytes of its L2 cache
/// sm_90:114:52428800, and the bytes per second of its memory sm_90:114:52428800:2039000000000.
PlanTarget parse_target(const std::string& text);
/// --arch with a list of them; appends.
void add_targets(CLI::App& command, std::vector<PlanTarget>& targets, const std::string& help);
/// What --device names: "auto" is the first GPU, or the CPU where there is no usable one.
Device chosen_device(const std::string& device);

}  // namespace epifuse::tool
