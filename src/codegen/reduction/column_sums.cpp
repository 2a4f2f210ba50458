// Writes what is particular to a chain's column sums. Sums are numbered by their accumulators' order.
#include "codegen/reduction/column_sums.hpp"

#include <vector>

#include <spdlog/fmt/fmt.h>

#include "codegen/reduction/grid_chain.hpp"

namespace epifuse::codegen {

using ir::Node;
using ir::Op;
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
  const auto reads = [&](std::size_t input) {
    const plan::Access access = kernel_.inputs[input].access;
    return access != plan::Access::uniform && access != plan::Access::unused;
  };
  const auto reduced = [&](const Node& node, const NodeRole& role) { return sum_of(node, role); };
  return "// Results of one column: an element of the rows of a result.\n"
         "__device__ __forceinline__ void write_column(const Params& p, const Uniforms& uniforms, Index result, Index "
         "column, const Real (&sums)[kColumnSums]) {\n  Index at[kCoordinates] = {};\n"
         "  split<0, kOuter>(result * p.rows_per_result, p.space, at);\n  split<kOuter, kColumnCoordinates>(column, "
         "p.space, at);\n" +
         GridChain(passes_.chain()).results(Scope::column, "at", reads, reduced) + "}\n\n";
}

}  // namespace epifuse::codegen
