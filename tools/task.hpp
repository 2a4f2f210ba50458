// What one command line asks for: the chain, its operands in order, its results with their types and layouts. `run`,
// `dump` and `bench` start here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <epifuse/epifuse.hpp>

#include "operands.hpp"

namespace epifuse::tool {

/// The arguments that describe a task.
struct TaskOptions {
  std::string chain;
  std::vector<std::string> values;    ///< name=value
  std::vector<std::string> results;   ///< --out
  std::string in_place;               ///< name of the operand that the first result overwrites; empty: none
  Math math = Math::standard;         ///< --math
  std::vector<std::string> gradient;  ///< --gradient: the operands; empty: the chain itself
};
void add_task_options(CLI::App& command, TaskOptions& options);
/// --gradient
void add_gradient(CLI::App& command, TaskOptions& options);
/// --inplace
void add_in_place(CLI::App& command, TaskOptions& options);
/// Help for `name=value`, at the end of a command's --help.
std::string operand_help();

struct Input {
  TensorInfo info;   ///< as the chain sees it: after conversion
  OperandSpec spec;  ///< where the data comes from
};

struct Task {
  Epilogue tail;                                 ///< takes operands by position
  std::string chain;                             ///< as text, for people
  std::vector<Input> inputs;                     ///< in the order of tail.inputs()
  std::vector<double> scalars;                   ///< in the order of tail.scalars()
  std::vector<TensorInfo> outputs;               ///< in the order of tail.results()
  std::vector<std::optional<std::size_t>> over;  ///< by output the input whose memory it is; empty: none has any
  std::optional<Gradient> gradient = {};         ///< of --gradient: `tail` is its backward chain

  /// The input whose memory output i is.
  std::optional<std::size_t> input_under(std::size_t i) const { return i < over.size() ? over[i] : std::nullopt; }
  /// Views of no memory, for planning: as aligned as the real ones will be, and far from each other.
  std::vector<TensorView> planned_inputs() const;
  std::vector<OutputView> planned_outputs() const;
  /// Plans and emits for the shapes, types, strides and alignments, without memory. Throws for everything that does not
  /// fit.
  Inspection inspect(const PlanTarget& target = {}) const;
};

/// The same chain, which takes operands by position as inputs() lists them: commands have looked up the names.
Epilogue by_position(const Epilogue& tail);
/// The backward pass of a task, with random data for what the forward pass leaves.
Task backward_task(const Task& forward, const Gradient& gradient, const std::vector<std::string>& wrt);
/// The gradient that --gradient asks for; what is wrong with that names the option.
Gradient gradient_of(const Epilogue& tail, const TaskOptions& options);
/// The chain alone: operands may be missing, for what needs no shapes. Scalars are the names with a number for their
/// value.
Epilogue parse_chain(const TaskOptions& options);
/// Whether a chain's text has that word.
bool mentions(std::string_view text, std::string_view name);
/// A tensor operand as the command line writes it.
Input parse_input(const std::string& text);
/// Reads no data, but the headers of .npy files. Names what is unknown or missing.
Task make_task(const TaskOptions& options);
/// The data of an operand: read and converted, or random.
HostTensor load(const Input& input, std::uint64_t seed);

}  // namespace epifuse::tool
