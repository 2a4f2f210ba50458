// Writes what is particular to a chain's column sums. Sums are numbered by their accumulators' order.
#include "codegen/reduction/column_sums.hpp"

#include <spdlog/fmt/fmt.h>

#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "ir/marks.hpp"

namespace epifuse::codegen {

using ir::Node;
using ir::Op;
using ir::Value;
using plan::NodeRole;
using plan::Scope;

std::string ColumnSumsWriter::add() const {
  const std::vector<std::size_t> accumulators = passes_.columns_of(reduction_.structure.output_pass);
  std::string out =
      "#pragma unroll\n  for (int e = 0; e < kElements; ++e) {\n"
      "    if (e < position.begin || e >= position.end) continue;\n";
  for (std::size_t sum = 0; sum < accumulators.size(); ++sum)
    out += fmt::format("    held.sums[{}][kColumnSegments ? 0 : e] += values_{}[e];\n", sum, accumulators[sum]);
  return out + "  }\n";
}

// What the results of columns are computed from: their sums, and operands.
plan::Marks ColumnSumsWriter::needed() const {
  plan::Marks needed(program_.nodes().size(), false);
  for (const ir::Result& result : program_.results())
    needed[static_cast<std::size_t>(result.value)] = passes_.chain().role(result.value).scope == Scope::column;
  ir::mark_arguments(program_.nodes(), needed,
                     [&](std::size_t i) { return reduction_.structure.nodes[i].accumulator >= 0; });
  return needed;
}

std::string ColumnSumsWriter::sum_of(const Node& node, const NodeRole& role) const {
  const std::vector<std::size_t> accumulators = passes_.columns_of(reduction_.structure.output_pass);
  std::size_t sum = 0;
  while (accumulators[sum] != static_cast<std::size_t>(role.accumulator)) ++sum;
  const std::string total = fmt::format("sums[{}]", sum);
  if (node.op != Op::mean) return total;
  const std::string_view of_row = reduction_.columns->coordinates > 0 ? " * Real(p.column_vectors * kElements)" : "";
  return fmt::format("{} / (Real(p.rows > 0 ? p.rows_per_result : 0){})", total, of_row);
}

std::string ColumnSumsWriter::write_column() const {
  GridChain chain(passes_.chain());
  const plan::Marks needed = this->needed();
  std::string body;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!needed[i]) continue;
    if (ir::is_operand(node.op)) {
      const auto input = static_cast<std::size_t>(node.ordinal);
      const plan::Access access = kernel_.inputs[input].access;
      if (access == plan::Access::uniform || access == plan::Access::unused) continue;
      const std::string name = input_name(program_, input);
      body += fmt::format("  const {0} {1} = to_real<{0}>({2});\n", type_of(input_kinds_[input]), name,
                          element_of(program_, kernel_, input, offset_at(program_, kernel_, "at")));
    }
    if (!ir::is_computed(node.op)) continue;
    const NodeRole& role = reduction_.structure.nodes[i];
    const auto value = static_cast<Value>(i);
    body += fmt::format("  const {} t{} = {};\n", type_of(chain.kind(value)), i,
                        role.accumulator >= 0 ? sum_of(node, role) : chain.computation(value));
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (chain.role(value).scope != Scope::column) continue;
    body += write_one(program_, kernel_, i, offset_at(program_, kernel_, "at"), "at", 0, "  ", chain.reference(value));
  }
  return "// Results of one column: an element of the rows of a result.\n"
         "__device__ __forceinline__ void write_column(const Params& p, const Uniforms& uniforms, Index result, Index "
         "column, const Real (&sums)[kColumnSums]) {\n  Index at[kCoordinates] = {};\n"
         "  split<0, kOuter>(result * p.rows_per_result, p.space, at);\n  split<kOuter, kColumnCoordinates>(column, "
         "p.space, at);\n" +
         body + "}\n\n";
}

}  // namespace epifuse::codegen
