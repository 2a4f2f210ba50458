// Writes what is particular to a chain's column sums. Sums are numbered by their accumulators' order; products, maxima
// and other numbers that combine two by two stand for sums, too.
#include "codegen/reduction/column_sums.hpp"

#include <vector>

#include <spdlog/fmt/ranges.h>

#include "codegen/reduction/accumulators.hpp"
#include "codegen/reduction/grid_chain.hpp"
#include "plan/planning.hpp"

namespace epifuse::codegen {

using ir::Node;
using ir::Op;
using plan::AccumulatorKind;
using plan::NodeRole;
using plan::Scope;

std::vector<AccumulatorKind> ColumnSumsWriter::kinds() const {
  std::vector<AccumulatorKind> all;
  for (const std::size_t i : passes_.columns_of(reduction_.structure.output_pass))
    all.push_back(reduction_.structure.accumulators[i].kind);
  return all;
}

std::string ColumnSumsWriter::member() const {
  std::string first;
  if (!plan::are_column_sums(reduction_.structure)) {
    std::vector<std::string> all;
    const auto elements = static_cast<std::size_t>(plan::columns_of_vector(kernel_));
    for (const AccumulatorKind kind : kinds())
      all.push_back(fmt::format("{{{}}}", fmt::join(std::vector(elements, text_of(kind).identity), ", ")));
    first = fmt::format("{}", fmt::join(all, ", "));
  }
  return fmt::format("  Real sums[kColumnSums][kVectorColumns] = {{{}}};  // over the rows so far\n", first);
}

std::string ColumnSumsWriter::combine() const {
  if (plan::are_column_sums(reduction_.structure)) return "";
  std::string identities;
  std::string results;
  const std::vector<AccumulatorKind> all = kinds();
  for (std::size_t sum = 0; sum < all.size(); ++sum) {
    const std::string condition = sum + 1 < all.size() ? fmt::format("if (sum == {}) ", sum) : "";
    identities += fmt::format("  {}return {};\n", condition, text_of(all[sum]).identity);
    results += fmt::format("  {}return {}::combined(a, b);\n", condition, text_of(all[sum]).type);
  }
  return fmt::format(
      "// Of one number that threads keep of a column: what it begins with, and two of them combined.\n"
      "__device__ __forceinline__ Real identity_of_column(int{0}) {{\n{1}}}\n"
      "__device__ __forceinline__ Real combine_columns(int{0}, Real a, Real b) {{\n{2}}}\n\n",
      all.size() > 1 ? " sum" : "", identities, results);
}

std::string ColumnSumsWriter::add() const {
  const std::vector<std::size_t> accumulators = passes_.columns_of(reduction_.structure.output_pass);
  std::string out =
      "#pragma unroll\n  for (int e = 0; e < kElements; ++e) {\n"
      "    if (e < position.begin || e >= position.end) continue;\n";
  for (std::size_t sum = 0; sum < accumulators.size(); ++sum) {
    const std::string own = fmt::format("held.sums[{}][kVectorColumns == 1 ? 0 : e]", sum);
    const std::string value = fmt::format("values_{}[e]", accumulators[sum]);
    const AccumulatorKind kind = reduction_.structure.accumulators[accumulators[sum]].kind;
    out += kind == AccumulatorKind::sum
               ? fmt::format("    {} += {};\n", own, value)
               : fmt::format("    {0} = {1}::combined({0}, {2});\n", own, text_of(kind).type, value);
  }
  return out + "  }\n";
}

std::string ColumnSumsWriter::sum_of(const Node& node, const NodeRole& role) const {
  const std::vector<std::size_t> accumulators = passes_.columns_of(reduction_.structure.output_pass);
  std::size_t sum = 0;
  while (accumulators[sum] != static_cast<std::size_t>(role.accumulator)) ++sum;
  const std::string total = fmt::format("sums[{}]", sum);
  if (node.op == Op::any || node.op == Op::all) return total + " != Real(0)";
  if (node.op != Op::mean) return total;
  const std::string_view of_row = !reduction_.layout.inner_reduction    ? " * Real(p.row_columns)"
                                  : reduction_.columns->coordinates > 0 ? " * Real(p.column_vectors * kElements)"
                                                                        : "";
  return fmt::format("{} / (Real(p.rows > 0 ? p.rows_per_result : 0){})", total, of_row);
}

std::string ColumnSumsWriter::write_column() const {
  const auto reads = [&](std::size_t input) {
    const plan::Access access = kernel_.inputs[input].access;
    return access != plan::Access::uniform && access != plan::Access::unused;
  };
  const bool in_runs = reduction_.structure.has_column_runs();
  const auto reduced = [&](const Node& node, const NodeRole& role) {
    return in_runs ? result_of(program_, reduction_, passes_.chain(), node, role, "stage") : sum_of(node, role);
  };
  return fmt::format(
             "// Results of one column: {} of the rows of a result.\n"
             "__device__ __forceinline__ void write_column(const Params& p, const Uniforms& uniforms, Index result, "
             "Index column, const {}) {{\n  Index at[kCoordinates] = {{}};\n"
             "  split<0, kOuter>(result * p.{}, p.space, at);\n  split<kOuter, {}>(column, p.space, at);\n",
             in_runs ? "a segment" : "an element", in_runs ? "SegmentStage& stage" : "Real (&sums)[kColumnSums]",
             in_runs ? "result_step" : "rows_per_result", in_runs ? "kSegmentCoordinates" : "kColumnCoordinates") +
         GridChain(passes_.chain()).results(Scope::column, "at", reads, reduced) + "}\n\n";
}

}  // namespace epifuse::codegen
