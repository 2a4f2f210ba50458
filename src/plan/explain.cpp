// Every decision of plan.cpp, said in a sentence.
#include "plan/explain.hpp"

#include <algorithm>

#include "base/text.hpp"

namespace epifuse::plan {
namespace {

std::string why_schedule(const Plan& plan) {
  if (plan.kernel_class.schedule == Schedule::rows) {
    return "an output has gaps, steps or an order of its own, so each row of the innermost dimension is walked on its "
           "own";
  }
  if (plan.kernel_class.coordinates == 0)
    return "everything lies in memory as the output does: one index serves all operands";
  return "the outputs are dense, so threads walk them in one line; only broadcast or strided operands need coordinates";
}

std::string why_operand(const OperandPlan& operand, const Walk& walk, const KernelClass& kernel) {
  const auto size = static_cast<int>(size_of(operand.dtype));
  switch (operand.access) {
    case Access::unused:
      return "no result depends on it: never read";
    case Access::uniform:
      return "one element for all: read once per thread";
    case Access::row:
      return "constant along the innermost dimension: one read per group of elements, from cache";
    case Access::strided:
      return "steps along the innermost dimension: element by element";
    case Access::contiguous:
      return fmt::format(
          "steps of one along the innermost dimension: {} bytes at a time where the row's address allows",
          operand.width * size);
    case Access::linear:
      break;
  }
  const int wanted = std::min(kernel.elements, 16 / size);
  if (operand.width == wanted)
    return fmt::format("as the iteration space runs: {} bytes at a time", operand.width * size);
  return fmt::format("as the iteration space runs, but its address {} allows only {} bytes at a time",
                     fmt::ptr(walk.data), operand.width * size);
}

OperandSummary describe(const std::string& name, const TensorView& view, const OperandPlan& operand, const Walk& walk,
                        const Plan& plan) {
  OperandSummary summary;
  summary.name = name;
  summary.dtype = view.dtype;
  summary.shape = view.shape;
  summary.strides = view.strides;
  summary.access = to_string(operand.access);
  summary.bytes_per_access = operand.width * static_cast<int>(size_of(operand.dtype));
  summary.bytes = bytes_of(walk, plan.space);
  summary.why = why_operand(operand, walk, plan.kernel_class);
  return summary;
}

}  // namespace

PlanSummary summarise(const ir::Program& program, const Plan& plan, std::span<const OutputView> outputs,
                      std::span<const TensorView> inputs) {
  const KernelClass& kernel = plan.kernel_class;
  PlanSummary summary;
  summary.schedule = to_string(kernel.schedule);
  summary.why = why_schedule(plan);
  summary.compute_type = kernel.f64 ? "f64" : "f32";
  for (const std::int64_t extent : plan.space.extents) {
    if (extent != 1) summary.space.push_back(extent);
  }
  summary.coordinates = kernel.coordinates;
  summary.index_bits = kernel.wide_index ? 64 : 32;
  summary.elements_per_access = kernel.elements;
  summary.steps = kernel.steps;
  summary.threads = plan.threads;
  summary.blocks = plan.blocks;
  summary.elements = static_cast<std::uint64_t>(plan.space.elements);
  summary.bytes_read = 0;
  summary.bytes_written = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    summary.operands.push_back(describe(program.inputs()[i], inputs[i], kernel.inputs[i], plan.space.inputs[i], plan));
    summary.bytes_read += summary.operands.back().bytes;
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    summary.operands.push_back(
        describe(program.result_name(i), outputs[i], kernel.outputs[i], plan.space.outputs[i], plan));
    summary.bytes_written += summary.operands.back().bytes;
  }
  summary.instructions = instructions_of(program);
  summary.kernel_class = to_string(kernel);
  return summary;
}

std::string to_text(const PlanSummary& plan, double bandwidth, int registers) {
  const auto bytes = static_cast<double>(plan.bytes_read + plan.bytes_written);
  std::string out;
  out += fmt::format("schedule         {}: {}\n", plan.schedule, plan.why);
  out +=
      fmt::format("iteration space  {}, {} elements, innermost dimension last\n", to_string(plan.space), plan.elements);
  out += fmt::format("compute type     {}; about {} instructions per element\n", plan.compute_type, plan.instructions);
  out += fmt::format("index            {} bits, {} coordinates\n", plan.index_bits, plan.coordinates);
  out += fmt::format("threads          {} consecutive elements at a time, {} step{} per tile\n",
                     plan.elements_per_access, plan.steps, plan.steps == 1 ? "" : "s");
  out += fmt::format("grid             {} blocks of {} threads\n", plan.blocks, plan.threads);
  if (registers > 0) out += fmt::format("registers        {} per thread\n", registers);
  out += "operands\n";
  const std::size_t width =
      std::ranges::max(plan.operands, {}, [](const OperandSummary& o) { return o.name.size(); }).name.size();
  std::size_t shape_width = 0;
  for (const OperandSummary& operand : plan.operands)
    shape_width = std::max(shape_width, to_string(operand.shape).size());
  for (const OperandSummary& operand : plan.operands) {
    out += fmt::format("  {:<{}}  {:<6} {:<{}}  {:<10} {:>2} bytes per access  {:>9}  {}\n", operand.name, width,
                       to_string(operand.dtype), to_string(operand.shape), shape_width, operand.access,
                       operand.bytes_per_access, base::format_bytes(static_cast<double>(operand.bytes)), operand.why);
  }
  out += fmt::format("traffic          {} read, {} written\n", base::format_bytes(static_cast<double>(plan.bytes_read)),
                     base::format_bytes(static_cast<double>(plan.bytes_written)));
  if (bandwidth > 0) {
    out += fmt::format("time             {:.2f} µs at {}/s: no kernel can be faster\n", bytes / bandwidth * 1e6,
                       base::format_bytes(bandwidth));
  }
  out += fmt::format("class            {}\n", plan.kernel_class);
  return out;
}

}  // namespace epifuse::plan
