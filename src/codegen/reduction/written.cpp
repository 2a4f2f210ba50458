// One element at a time: neighbouring threads have neighbours, so that what a warp reads and writes lies side by side.
#include "codegen/reduction/written.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "codegen/contraction.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "plan/analysis/accuracy.hpp"

namespace epifuse::codegen {

using ir::Node;
using ir::Value;
using plan::Scope;

bool WrittenElements::reads_staged() const {
  return std::ranges::any_of(
      kernel_.inputs, [](const plan::OperandPlan& input) { return input.staged_row != plan::OperandPlan::kOwn; });
}

// Where a row lies in shared memory, the offset counts from its beginning.
std::string WrittenElements::element(std::size_t input) const {
  const plan::OperandPlan& operand = kernel_.inputs[input];
  const OffsetText offset = offset_at(program_, kernel_, "at");
  if (operand.staged_row == plan::OperandPlan::kOwn) return element_of(program_, kernel_, input, offset);
  const std::string name = input_name(program_, input);
  return fmt::format("staged_element<{}, Held::k_{}>(place, staged, p.place_in_row_{} + {})",
                     storage_type(operand.dtype), input_name(program_, static_cast<std::size_t>(operand.staged_row)),
                     name, offset(name));
}

std::string WrittenElements::function() const {
  const plan::Marks computed = plan::computed_when_written(program_, kernel_.reduction()->structure);
  return fmt::format(
      "// One element of what is written in place of a row's.\n"
      "__device__ __forceinline__ void write_element(const Params& p, const Uniforms& uniforms, {}const Row& row, "
      "const Index (&at)[kCoordinates]) {{\n{}{}{}}}\n\n",
      reads_staged() ? "const Place& place, const Chunk16* staged, " : "", reads(computed), values(computed), writes());
}

std::string WrittenElements::reads(const plan::Marks& computed) const {
  std::string lines;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!computed[i] || !ir::is_operand(node.op)) continue;
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (kernel_.inputs[input].access == plan::Access::uniform) continue;
    lines += fmt::format("  const {0} {1} = to_real<{0}>({2});\n", type_of(input_kinds_[input]),
                         input_name(program_, input), element(input));
  }
  return lines;
}

std::string WrittenElements::values(const plan::Marks& computed) const {
  const plan::Marks terms(computed.size(), false);
  const Contraction contraction(program_, kernel_, chain_, computed, terms);
  std::string lines;
  for (std::size_t i = 0; i < computed.size(); ++i) {
    if (!computed[i] || contraction.is_inlined(i) || !ir::is_computed(program_.nodes()[i].op)) continue;
    const auto value = static_cast<Value>(i);
    const std::string contracted = contraction.text(i);
    lines += fmt::format("  const {} t{} = {};\n", type_of(chain_.kind(value)), i,
                         contracted.empty() ? chain_.computation(value, false, contraction.arguments(i)) : contracted);
  }
  return lines;
}

std::string WrittenElements::writes() const {
  std::string lines;
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    if (!kernel_.outputs[i].written) continue;
    const Value stored = plan::stored_value(program_, i, kernel_.outputs[i].dtype);
    lines +=
        write_one(program_, kernel_, i, offset_at(program_, kernel_, "at"), "at", 0, "  ", chain_.reference(stored));
  }
  return lines;
}

}  // namespace epifuse::codegen
