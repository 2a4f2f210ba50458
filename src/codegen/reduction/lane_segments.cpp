// The text of lane segments. A lane keeps what is known of its segment in SegmentValues, as Row keeps what is known of
// a row.
#include "codegen/reduction/lane_segments.hpp"

#include "base/text.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/reduction/accumulators.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Value;
using plan::Accumulator;
using plan::NodeRole;
using plan::Scope;

std::string LaneSegmentsWriter::structs() const {
  std::string values;
  std::string accumulators;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (reduction_.structure.nodes[i].scope != Scope::lane_segment) continue;
    if (ir::is_operand(node.op)) {
      const auto input = static_cast<std::size_t>(node.ordinal);
      values += fmt::format("  {} {};\n", type_of(input_kinds_[input]), input_name(program_, input));
    } else if (ir::is_computed(node.op)) {
      values += fmt::format("  {} t{};\n", type_of(chain_.kind(static_cast<Value>(i))), i);
    }
  }
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size(); ++i) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.lane_segment)
      accumulators += fmt::format("  {} a{};  // of {}\n", text_of(a.kind).type, i, chain_.reference(a.argument));
  }
  return fmt::format(
      "// What is known per segment of a row.\nstruct SegmentValues {{\n{}}};\n\n"
      "// What the lanes of a segment accumulate.\nstruct LaneStage {{\n{}}};\n\n",
      values, accumulators);
}

std::string LaneSegmentsWriter::function(int pass, std::size_t k, const ElementLoop& loop) const {
  if (loop.segments.empty()) return "";
  std::string body;
  for (const Value value : loop.segments) {
    const Node& node = program_.node(value);
    const NodeRole& role = chain_.role(value);
    if (ir::is_operand(node.op)) {
      const auto input = static_cast<std::size_t>(node.ordinal);
      if (!plan::is_value(kernel_.inputs[input].access) || kernel_.inputs[input].access == plan::Access::uniform)
        continue;
      body += fmt::format("  if (position.end > position.begin) of_segment.{0} = to_real<{1}>({2});\n",
                          input_name(program_, input), type_of(input_kinds_[input]),
                          element_of(program_, kernel_, input, offset_at(program_, kernel_, "position.at")));
    } else if (ir::is_computed(node.op)) {
      body += fmt::format("  of_segment.t{} = {};\n", value,
                          role.accumulator >= 0 ? result_of(program_, reduction_, chain_, node, role, "lanes")
                                                : chain_.computation(value));
    }
  }
  return fmt::format(
      "// What pass {0} knows of a segment once its lanes have agreed {1} time{2}.\n"
      "template <class At>\n__device__ __forceinline__ void know_segment_{0}_{1}(const Params& p, const Uniforms& "
      "uniforms, const At& position, const Row& row, const LaneStage& lanes, SegmentValues& of_segment) {{\n{3}}}\n\n",
      pass, k, k == 1 ? "" : "s", body);
}

std::string LaneSegmentsWriter::call(int pass, std::size_t k, const ElementLoop& loop, const std::string& indent,
                                     std::string_view position) const {
  if (loop.segments.empty()) return "";
  return fmt::format("{}know_segment_{}_{}(p, uniforms, {}, rows[0], lanes, of_segment);\n", indent, pass, k, position);
}

std::string LaneSegmentsWriter::agree(const ElementLoop& loop, const std::string& indent,
                                      std::string_view position) const {
  std::string out;
  for (const std::size_t i : loop.lanes) {
    out += fmt::format(
        "{0}lanes.a{1}.add(of_lane_{1}, mask_of({2}));\n{0}lanes.a{1}.template merge_lanes<1, kSegmentLanes>();\n",
        indent, i, position);
  }
  return out;
}

// Results of segments.
std::vector<std::size_t> LaneSegmentsWriter::outputs() const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    if (chain_.role(program_.results()[i].value).scope == Scope::lane_segment) all.push_back(i);
  }
  return all;
}

std::string LaneSegmentsWriter::write_results(const std::string& indent, std::string_view position) const {
  std::string writes;
  for (const std::size_t i : outputs()) {
    const std::string at = fmt::format("{}.at", position);
    writes += write_one(program_, kernel_, i, offset_at(program_, kernel_, at), at, reduction_.missing[i],
                        indent + "  ", chain_.reference(program_.results()[i].value));
  }
  return writes.empty() ? "" : fmt::format("{0}if (writes_segment({1})) {{\n{2}{0}}}\n", indent, position, writes);
}

}  // namespace epifuse::codegen
