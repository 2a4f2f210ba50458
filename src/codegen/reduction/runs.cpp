// Operands and results of elements that take turns in memory: what moves the run of a vector, and what takes it apart
// or puts it together in registers. For elements.cpp and passes.cpp; templates/reduction/packet.cuh has the functions.
#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

using plan::Access;
using plan::OperandPlan;

namespace {

// The operands of a run, in the order of their elements.
template <class Operands>
std::vector<std::size_t> members_of_run(const Operands& operands, int reader) {
  std::vector<std::size_t> members(static_cast<std::size_t>(operands[static_cast<std::size_t>(reader)].run->step));
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto& run = operands[i].run;
    if (run && run->reader == reader) members[static_cast<std::size_t>(run->first)] = i;
  }
  return members;
}

std::string declared(const OperandPlan& operand, const std::string& name, std::string_view indent) {
  return fmt::format("{}PacketRun<{}, {}> run_{};\n", indent, storage_type(operand.dtype), operand.run->step, name);
}

}  // namespace

std::string ReductionPasses::run_read(std::size_t i, const std::string& indent, std::string_view position) {
  prelude_.require("read_run");
  const int reader = kernel_.inputs[i].run->reader;
  const OperandPlan& operand = kernel_.inputs[static_cast<std::size_t>(reader)];
  const std::string name = input_name(program_, static_cast<std::size_t>(reader));
  std::string out = declared(operand, name, indent);
  out += fmt::format("{0}read_run<{1}>(run_{2}, p.{2}, p.strides_{2}, {3});\n", indent, operand.width, name, position);
  for (const std::size_t member : members_of_run(kernel_.inputs, reader))
    out += fmt::format("{}run_{}.take<{}>({});\n", indent, name, kernel_.inputs[member].run->first,
                       input_name(program_, member));
  return out;
}

std::string ReductionPasses::packets_of_run(std::size_t i, const std::string& indent) const {
  std::string out;
  for (const std::size_t member : members_of_run(kernel_.inputs, kernel_.inputs[i].run->reader))
    out += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[member].dtype),
                       input_name(program_, member));
  return out;
}

// All of it with its first operand: each of the others finds its packet there.
std::string ReductionPasses::copied_run(std::size_t i, const std::string& indent, const std::string& chunks16) {
  const std::vector<std::size_t> members = members_of_run(kernel_.inputs, kernel_.inputs[i].run->reader);
  const std::string name = input_name(program_, i);
  std::string out;
  if (i == *std::ranges::min_element(members)) out += packets_of_run(i, indent) + run_read(i, indent, "position");
  return out + fmt::format("{}store_held({}, {});\n", indent, chunks16, name);
}

bool ReductionPasses::is_first_of_run(std::size_t i, const std::vector<std::size_t>& inputs) const {
  const auto has_it = [&](std::size_t other) {
    const auto& run = kernel_.inputs[other].run;
    return run && run->reader == kernel_.inputs[i].run->reader;
  };
  return *std::ranges::find_if(inputs, has_it) == i;
}

std::string ReductionPasses::run_written(std::size_t output, const std::string& indent, std::string_view position) {
  prelude_.require("write_run");
  const OperandPlan& operand = kernel_.outputs[output];
  const std::string name = output_name(program_, output);
  std::string out = declared(operand, name, indent);
  for (const std::size_t member : members_of_run(kernel_.outputs, static_cast<int>(output)))
    out += fmt::format("{}run_{}.put<{}>({});\n", indent, name, kernel_.outputs[member].run->first,
                       output_name(program_, member));
  return out +
         fmt::format("{0}write_run<{1}>(run_{2}, p.{2}, p.strides_{2}, {3});\n", indent, operand.width, name, position);
}

}  // namespace epifuse::codegen
