// Which of the command line's operands belong to which pass, and the way of the data from one to the other.
#include "backward.hpp"

#include <algorithm>

#include "support.hpp"

namespace epifuse::tool {
namespace {

bool is_left_by_forward(const GradientOperand& operand) {
  return operand.source == GradientSource::result || operand.source == GradientSource::saved;
}

// "dout" of "dout=@dy.npy".
std::string_view name_of(std::string_view text) { return text.substr(0, text.find('=')); }

// What the command line says of the gradient of a result.
Input given_gradient(const std::string& text, const TensorInfo& result) {
  Input input = parse_input(text);
  if (input.info.shape != result.shape) {
    refuse("operand '{}' has shape {}; expected {}, that of '{}', whose gradient it is", input.info.name,
           to_string(input.info.shape), to_string(result.shape), result.name);
  }
  return input;
}

}  // namespace

BackwardTask make_backward_task(const TaskOptions& options) {
  if (!options.in_place.empty()) refuse("--inplace {}: found --gradient, too; expected one of them", options.in_place);
  TaskOptions forward = options;
  forward.gradient.clear();
  const Gradient gradient = gradient_of(parse_chain(forward), options);
  const auto is_gradient = [&](const std::string& text) {
    return std::ranges::any_of(gradient.operands, [&](const GradientOperand& operand) {
      return operand.source == GradientSource::gradient && operand.name == name_of(text);
    });
  };
  std::erase_if(forward.values, is_gradient);
  Task first = make_task(forward);
  Task task = backward_task(first, gradient, options.gradient);
  for (std::size_t i = 0; i < gradient.operands.size(); ++i) {
    const GradientOperand& operand = gradient.operands[i];
    if (operand.source == GradientSource::saved) first.outputs.push_back(task.inputs[i].info);
    const auto has_name = [&](const std::string& text) { return name_of(text) == operand.name; };
    const auto text = std::ranges::find_if(options.values, has_name);
    if (operand.source == GradientSource::gradient && text != options.values.end())
      task.inputs[i] = given_gradient(*text, first.outputs[operand.index]);
  }
  first.tail = by_position(gradient.forward);
  return {std::move(first), std::move(task)};
}

HostData load_backward(Engine& engine, const BackwardTask& backward, std::uint64_t seed) {
  const std::vector<GradientOperand>& operands = backward.task.gradient->operands;
  HostData forward;
  if (std::ranges::any_of(operands, is_left_by_forward)) {
    forward = load_all(backward.forward, seed);
    execute(engine, backward.forward, forward);
  }
  HostData data;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    data.inputs.push_back(is_left_by_forward(operands[i]) ? std::move(forward.outputs[operands[i].index])
                                                          : load(backward.task.inputs[i], seed));
  }
  for (const TensorInfo& output : backward.task.outputs) data.outputs.push_back(memory_for(output));
  return data;
}

}  // namespace epifuse::tool
