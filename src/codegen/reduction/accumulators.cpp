// The text of accumulators' types and results.
#include "codegen/reduction/accumulators.hpp"

#include <array>

#include "base/text.hpp"

namespace epifuse::codegen {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using plan::Accumulator;
using plan::AccumulatorKind;
using plan::NodeRole;
using plan::ReductionClass;
using plan::Scope;

constexpr std::array<AccumulatorText, 8> kAccumulators = {{{"sum", "Sum", "0"},
                                                           {"product", "Product", "1"},
                                                           {"maximum_of", "Maximum", "-infinity()"},
                                                           {"minimum_of", "Minimum", "infinity()"},
                                                           {"any_of", "Any", "0"},
                                                           {"all_of", "All", "1"},
                                                           {"moments", "Moments", ""},
                                                           {"max_sumexp", "MaxSumExp", ""}}};

std::string count_of(const ReductionClass& reduction, const ReductionChain& chain, const NodeRole& role) {
  const Accumulator& a = reduction.structure.accumulators[static_cast<std::size_t>(role.accumulator)];
  if (a.lane_segment) return "Real(kSegmentLanes * kElements)";
  if (a.in_runs()) return "(Real(p.rows > 0 ? p.rows_per_result : 0) * Real(p.segment_length))";
  if (!a.grid) return a.segment ? "Real(p.segment_length)" : "Real(p.row_length)";
  const Scope of = chain.role(a.argument).scope;
  std::string count = of == Scope::element   ? "Real(p.row_length) * "
                      : of == Scope::segment ? "Real(p.segments_per_row) * "
                                             : "";
  count += "Real(p.rows > 0 ? p.rows_per_result : 0)";  // of no rows at all a result is made too, as if they were one
  if (!reduction.layout.inner_reduction) count += " * Real(p.row_columns)";
  return "(" + count + ")";
}

// sum(exp(v - where(isinf(m), 0, m))) rather than sum(exp(v - m)).
bool is_guarded(const Program& program, const ReductionChain& chain, const Node& sum) {
  const Node& difference = program.node(program.node(sum.args[0]).args[0]);
  return program.node(chain.unshaped(difference.args[1])).op == Op::where;
}

}  // namespace

const AccumulatorText& text_of(AccumulatorKind kind) { return kAccumulators[static_cast<std::size_t>(kind)]; }

std::string result_of(const Program& program, const ReductionClass& reduction, const ReductionChain& chain,
                      const Node& node, const NodeRole& role, std::string_view set) {
  const std::string name = fmt::format("{}.a{}", set, role.accumulator);
  switch (reduction.structure.accumulators[static_cast<std::size_t>(role.accumulator)].kind) {
    case AccumulatorKind::sum:
      return node.op == Op::mean ? fmt::format("{}.total / {}", name, count_of(reduction, chain, role))
                                 : name + ".total";
    case AccumulatorKind::product:
      return name + ".total";
    case AccumulatorKind::maximum:
      return name + ".largest";
    case AccumulatorKind::minimum:
      return name + ".smallest";
    case AccumulatorKind::any:
    case AccumulatorKind::all:
      return name + ".truth != Real(0)";
    case AccumulatorKind::moments:
      return role.second ? fmt::format("{}.variance(Real({}))", name, node.constant) : name + ".average()";
    case AccumulatorKind::max_sumexp:
      return !role.second ? name + ".largest"
                          : name + (is_guarded(program, chain, node) ? ".guarded_sumexp()" : ".sumexp()");
  }
  return {};
}

}  // namespace epifuse::codegen
