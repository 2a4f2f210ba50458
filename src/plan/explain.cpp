// Every decision of the planner, said in a sentence. Why a schedule was taken stands beside its planner, in pointwise/
// and reduction/; reduction/explain.cpp says what all reductions have in common.
#include "plan/explain.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "plan/analysis/accuracy.hpp"
#include "plan/planning.hpp"
#include "plan/pointwise/pointwise.hpp"
#include "plan/reduction/explain.hpp"
#include "plan/traffic.hpp"

namespace epifuse::plan {
namespace {

std::string why_operand(const OperandPlan& operand, const StridedOperand& strided, const Plan& plan) {
  const KernelClass& kernel = plan.kernel_class;
  const int bytes = size_of(operand.dtype, operand.width);
  const char* cut = kernel.map<Transpose>() != nullptr && kernel.map<Transpose>()->tile_overlap > 0
                        ? "; tiles cut lines where sectors of memory begin"
                        : "";
  const bool is_written = std::ranges::any_of(kernel.outputs, [&](const auto& one) { return &one == &operand; });
  switch (operand.access) {
    case Access::unused:
      return "no result depends on it: never read";
    case Access::uniform:
      return "one element for all: read once per thread";
    case Access::row:
      return "constant along the innermost dimension: one read per vector, from cache";
    case Access::strided:
      return "steps along the innermost dimension: element by element";
    case Access::contiguous:
      if (kernel.reduction()) return fmt::format("steps of one: {} bytes at a time", bytes);
      return fmt::format("steps of one along the innermost dimension: {} bytes at a time{}", bytes,
                         operand.aligned ? "" : " where the row's address allows");
    case Access::hoisted:
      return fmt::format("loop-invariant, the same for all vectors of a thread: read once, {} bytes at a time", bytes);
    case Access::transposed:
      return fmt::format("transposed in shared memory: {} bytes at a time, neighbours by neighbouring threads{}", bytes,
                         cut);
    case Access::transposed_unaligned:
      return fmt::format(
          "transposed in shared memory: {} bytes at a time, but for both ends of a line, which begins anywhere{}",
          bytes, cut);
    case Access::random_linear:
    case Access::random_strided:
      return "random numbers: computed, not read";
    case Access::position:
      return "positions: computed, not read";
    case Access::bounded:
      if (operand.width == 1) return "some of its elements do not exist, or come again: read element by element";
      return fmt::format(
          "some of its elements do not exist, or come again: {} bytes at a time where a vector lies in one line and "
          "the address allows",
          bytes);
    case Access::inside:
      return "which elements exist: computed, not read";
    case Access::gathered:
      if (operand.width == 1) return "read where indices say, element by element";
      return fmt::format(
          "read where an index says, one for each vector: {} bytes at a time where the row's address "
          "allows",
          bytes);
    case Access::index:
      return "says where other operands are read";
    case Access::bound:
      return "which elements exist, or come again: computed, not read";
    case Access::run:
      if (is_written)
        return fmt::format(
            "other slices of the result have its elements' neighbours: a run for all of them, {} bytes at a time",
            bytes);
      return fmt::format("other views have its elements' neighbours: a run for all of them, {} bytes at a time", bytes);
    case Access::of_run: {
      if (is_written) return "written in the run of another slice of the result";
      const int beside = std::max(-operand.run->first, operand.run->first - operand.run->step + 1);
      return fmt::format("taken from a run that another view of the tensor reads{}",
                         beside > 0 ? ", and what stands beside it one by one" : "");
    }
    case Access::tiled:
      return "windows overlap: read for a tile and what its windows span beside it, element by element, into shared "
             "memory";
    case Access::of_tile:
      return "another view of what a tile has in shared memory";
    case Access::linear:
      break;
  }
  const int wanted = most_per_access(operand.dtype, kernel.elements);
  if (kernel.reduction() && kernel.reduction()->layout.tensor_aligned && operand.width == wanted) {
    return fmt::format("as the iteration space runs: {} bytes at a time, but for both ends of a row", bytes);
  }
  if (operand.width == wanted) return fmt::format("as the iteration space runs: {} bytes at a time", bytes);
  if (kernel.reduction() &&
      reinterpret_cast<std::uintptr_t>(strided.data) % static_cast<std::uintptr_t>(size_of(operand.dtype, wanted)) ==
          0) {
    return fmt::format("as the iteration space runs, but lines of {} elements allow only {} bytes at a time",
                       plan.space.extents[plan.space.rank() - 1], bytes);
  }
  return fmt::format("as the iteration space runs, but its address {} allows only {} bytes at a time",
                     fmt::ptr(strided.data), bytes);
}

OperandSummary describe(const std::string& name, const TensorView& view, const OperandPlan& operand,
                        const StridedOperand& strided, const Plan& plan) {
  OperandSummary summary;
  summary.name = name;
  summary.dtype = view.dtype;
  summary.shape = view.shape;
  summary.strides = view.strides;
  summary.access = to_string(operand.access);
  summary.bytes_per_access = size_of(operand.dtype, operand.width);
  const bool is_empty = std::ranges::find(view.shape, 0) != view.shape.end();
  summary.bytes = is_empty ? 0 : bytes_of(strided, space_of(plan, operand));
  summary.reads = 1;
  summary.why = why_operand(operand, strided, plan);
  return summary;
}

// A sentence that stands for itself replaces the reason; one that begins with ';' goes on.
void add_reason(OperandSummary& operand, const std::string& more) {
  if (more.empty()) return;
  operand.why = more.starts_with(';') ? operand.why + more : more;
}

// Of the operands that have an element of their own for every element: what a thread requests before it waits.
int bytes_per_thread(const Plan& plan) {
  int bytes = 0;
  const int rows_per_group = plan.kernel_class.reduction() ? plan.kernel_class.reduction()->rows_per_group() : 1;
  for (std::size_t i = 0; i < plan.space.inputs.size(); ++i) {
    const OperandPlan& input = plan.kernel_class.inputs[i];
    if (input.access == Access::tiled) bytes += moved_bytes(input);  // tiles are filled element by element
    if (is_value(input.access) && input.access != Access::uniform && is_full(plan.space.inputs[i], plan.space))
      bytes += moved_bytes(input) * plan.kernel_class.elements * plan.kernel_class.steps * rows_per_group;
  }
  return bytes;
}

// ---- what a multiprocessor has in flight

std::string resources_text(const PlanSummary& plan, const KernelResources& used) {
  std::string out = fmt::format("registers        {} per thread{}{}\n", used.registers,
                                used.spilled_bytes > 0 ? fmt::format(", and {} bytes spilled", used.spilled_bytes) : "",
                                used.resident_blocks > 0
                                    ? fmt::format("; compiled for {} resident block{}, since more would spill much",
                                                  used.resident_blocks, used.resident_blocks == 1 ? "" : "s")
                                    : "");
  if (used.architecture == 0 || plan.threads == 0) return out;
  if (used.shared_bytes > 0)
    out += fmt::format("shared memory    {} per block\n", base::format_bytes(used.shared_bytes));
  const std::int64_t shared =
      used.shared_bytes + static_cast<std::int64_t>(plan.reduction ? plan.reduction->staged_bytes : 0);
  const auto [blocks, limit] = Machine(used.architecture).occupancy(plan.threads, used.registers, shared);
  out += fmt::format(
      "in flight        {} block{} of {} threads per multiprocessor of sm_{} (limited by {}), {} requested\n", blocks,
      blocks == 1 ? "" : "s", plan.threads, used.architecture, limit,
      base::format_bytes(static_cast<double>(blocks) * plan.threads * plan.bytes_per_thread));
  return out;
}

void explain_arithmetic(PlanSummary& summary, const ir::Program& program, const KernelClass& kernel) {
  const Arithmetic arithmetic = choose_arithmetic(program, kernel);
  summary.instructions = instructions_of(program, arithmetic);
  for (const Formula* formula : arithmetic.formulas) {
    if (formula == nullptr) continue;
    const std::string name(ir::row(formula->op).name);
    if (std::ranges::find(summary.formulas, name) == summary.formulas.end()) summary.formulas.push_back(name);
  }
  summary.added_ulps = 0;
  for (std::size_t r = 0; r < arithmetic.errors.size(); ++r) {
    const Spacing spacing = spacing_of(kernel.outputs[r].dtype);
    const Error& error = arithmetic.errors[r];
    if (error.is_exact()) continue;
    const double ulps = spacing.relative > 0 ? error.relative / spacing.relative + error.absolute / spacing.absolute
                                             : error.total / spacing.absolute;
    summary.added_ulps = std::max(summary.added_ulps, ulps);
  }
}

const char* steps_of(const KernelClass& kernel) {
  if (kernel.reduction() == nullptr) return "tile";
  return kernel.reduction()->is_resident() ? "row" : "round";
}

void tell_views(PlanSummary& summary, const Lowered& lowered) {
  summary.views = lowered.taken_apart;
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) {
    const std::string& name = lowered.program.inputs()[i];
    const std::string& text = lowered.operands[i].text;
    if (name != text) summary.views.push_back(fmt::format("{} is {}", name, text));
  }
  for (std::size_t i = 0; i < lowered.results.size(); ++i) {
    if (!lowered.results[i].taken.empty())
      summary.views.push_back(fmt::format("{} is {}", lowered.program.result_name(i), lowered.results[i].text));
  }
  summary.repeated = lowered.repeated;
}

}  // namespace

PlanSummary summarise(const ir::Program& program, const Plan& plan, std::span<const OutputView> outputs,
                      std::span<const TensorView> inputs, const Machine& machine, const Lowered* lowered) {
  const KernelClass& kernel = plan.kernel_class;
  PlanSummary summary;
  summary.schedule = kernel.schedule();
  if (kernel.reduction()) summary.reduction = summarise_reduction(program, plan);
  summary.why = summary.reduction ? why_reduction(plan, *summary.reduction, machine) : why_pointwise(kernel);
  summary.compute_type = kernel.f64 ? "f64" : "f32";
  for (const std::int64_t extent : plan.space.extents) {
    if (extent != 1) summary.space.push_back(extent);
  }
  summary.coordinates = kernel.coordinates;
  summary.index_bits = kernel.wide_index ? 64 : 32;
  summary.elements_per_access = kernel.elements;
  summary.steps = kernel.steps;
  summary.steps_of = steps_of(kernel);
  summary.threads = plan.threads;
  summary.blocks = plan.blocks;
  summary.reverse_order = plan.reverse_order;
  summary.elements = static_cast<std::uint64_t>(plan.space.elements);
  summary.bytes_read = 0;
  summary.bytes_written = 0;
  summary.bytes_read_again = 0;
  summary.bytes_from_caches = 0;
  summary.workspace_bytes = plan.workspace.bytes;
  summary.bytes_per_thread = bytes_per_thread(plan);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    summary.operands.push_back(describe(program.operand_text(i), inputs[i], kernel.inputs[i],
                                        space_of(plan, kernel.inputs[i]).inputs[i], plan));
    OperandSummary& operand = summary.operands.back();
    if (!kernel.reduction()) continue;
    operand.reads = reads_of(program, plan, i);
    add_reason(operand, why_reduction_operand(program, plan, i));
  }
  if (lowered != nullptr) count_views_once(summary, *lowered, plan, machine);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const OperandSummary& operand = summary.operands[i];
    summary.bytes_read += operand.bytes;
    if (kernel.reduction() && is_full(plan.space.inputs[i], plan.space))
      summary.bytes_read_again += operand.bytes * static_cast<std::uint64_t>(operand.reads - 1);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    summary.operands.push_back(describe(program.result_name(i), outputs[i], kernel.outputs[i],
                                        space_of(plan, kernel.outputs[i]).outputs[i], plan));
    summary.bytes_written += summary.operands.back().bytes;
    if (kernel.reduction()) add_reason(summary.operands.back(), why_reduction_result(program, plan, i));
    if (const ir::Scatter* scatter = program.scatter_of(i)) {
      const auto index_of = [](const ir::Scatter::Along& along) { return static_cast<std::size_t>(along.index); };
      const bool is_at_index = !scatter->is_computed();
      add_reason(summary.operands.back(), is_at_index
                                              ? fmt::format("; where '{}' says, as the elements of a larger tensor",
                                                            program.operand_text(index_of(scatter->along[0])))
                                              : fmt::format("; where '{}' has its row and column", scatter->written));
      const std::string name = fmt::format("'{}' is written", program.result_name(i));
      for (const ir::Scatter::Along& along : scatter->along) {
        std::string& why = summary.operands[index_of(along)].why;
        if (why.ends_with(name)) continue;
        why = why.ends_with("is written") ? why + ", and where " + name : "says where " + name;
      }
    }
  }
  explain_arithmetic(summary, program, kernel);
  summary.kernel_class = to_text(kernel);
  if (lowered != nullptr) {
    count_rows_once(summary, *lowered, plan);
    count_windows_once(summary, *lowered);
    count_rows_read_again(summary, *lowered, plan);
    tell_views(summary, *lowered);
    if (kernel.map<WindowTile>() != nullptr) explain_tile(summary, program, plan);
  }
  return summary;
}

std::string to_text(const PlanSummary& plan, double bandwidth, const KernelResources& resources) {
  const auto bytes = static_cast<double>(plan.bytes_read + plan.bytes_written);
  if (!plan.product.empty()) return plan.product + (resources.registers > 0 ? resources_text(plan, resources) : "");
  std::string out;
  out += fmt::format("schedule         {}: {}\n", plan.schedule, plan.why);
  out +=
      fmt::format("iteration space  {}, {} elements, innermost dimension last\n", to_string(plan.space), plan.elements);
  if (plan.reduction) out += to_text(*plan.reduction);
  out += fmt::format("compute type     {}; about {} instructions per element\n", plan.compute_type, plan.instructions);
  out += fmt::format("index            {} bits, {} coordinates\n", plan.index_bits, plan.coordinates);
  out += fmt::format("threads          {} consecutive elements at a time, {} step{} per {}\n", plan.elements_per_access,
                     plan.steps, plan.steps == 1 ? "" : "s", plan.steps_of);
  out += fmt::format(
      "grid             {} blocks of {} threads{}\n", plan.blocks, plan.threads,
      plan.reverse_order ? ", from the last to the first: what a producer wrote last is still in the L2 cache" : "");
  if (resources.registers > 0) out += resources_text(plan, resources);
  if (!plan.formulas.empty()) {
    out += fmt::format("formulas         cheaper ones for {}: they add at most {:.2g} ulp to a result\n",
                       fmt::join(plan.formulas, ", "), plan.added_ulps);
  }
  for (const std::string& product : plan.products) out += fmt::format("product          {}\n", product);
  if (!plan.views.empty()) out += fmt::format("views            {}\n", fmt::join(plan.views, ", "));
  if (!plan.repeated.empty()) out += fmt::format("computed again   {}\n", fmt::join(plan.repeated, ", "));
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
  if (plan.bytes_from_caches > 0) {
    out += fmt::format("from caches      {}, of elements that several views read\n",
                       base::format_bytes(static_cast<double>(plan.bytes_from_caches)));
  }
  if (plan.bytes_read_again > 0) {
    out += fmt::format("read again       {} by later passes\n",
                       base::format_bytes(static_cast<double>(plan.bytes_read_again)));
  }
  if (plan.workspace_bytes > 0)
    out += fmt::format("workspace        {}\n", base::format_bytes(static_cast<double>(plan.workspace_bytes)));
  if (bandwidth > 0) {
    out += fmt::format("time             {:.2f} µs at {}/s: no kernel can be faster\n", bytes / bandwidth * 1e6,
                       base::format_bytes(bandwidth));
  }
  out += fmt::format("class            {}\n", plan.kernel_class);
  return out;
}

}  // namespace epifuse::plan
