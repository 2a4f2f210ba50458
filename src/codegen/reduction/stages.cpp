// Writes what is known per row and what each pass accumulates: accumulators are sections of
// templates/reduction/accumulate.cuh. Called by reduction.cpp.
#include "codegen/reduction/stages.hpp"

#include <vector>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/reduction/accumulators.hpp"
#include "codegen/reduction/grid_chain.hpp"
#include "codegen/source.hpp"
#include "ir/marks.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;
using plan::Accumulator;
using plan::AccumulatorKind;
using plan::NodeRole;
using plan::Scope;

namespace {

// Two columns to the right.
std::string indented(const std::string& lines) {
  std::string out;
  for (std::size_t begin = 0; begin < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', begin), lines.size() - 1) + 1;
    out += (lines[begin] == '#' ? "" : "  ") + lines.substr(begin, end - begin);
    begin = end;
  }
  return out;
}

// Statements for each of a thread's rows, the index of which is `k`, or for its only one.
std::string each_row(bool is_one, std::string_view indent, const std::string& statements) {
  if (is_one) return statements;
  return fmt::format("#pragma unroll\n{0}for (int k = 0; k < kRows; ++k) {{\n{1}{0}}}\n", indent, indented(statements));
}

// The same for each of the steps that an accumulator takes at once, the index of which is `g`.
std::string each_step(bool is_one, std::string_view indent, const std::string& statements) {
  if (is_one) return statements;
  return fmt::format("#pragma unroll\n{0}for (int g = 0; g < kStepsAtOnce; ++g) {{\n{1}{0}}}\n", indent,
                     indented(statements));
}

}  // namespace

void ReductionStages::require_accumulators(Prelude& prelude) const {
  const bool is_cheap = chain_.arithmetic().cheap_rows;
  for (const Accumulator& accumulator : reduction_.structure.accumulators) {
    if (accumulator.kind == AccumulatorKind::max_sumexp) prelude.require(is_cheap ? "fast_exp_below" : "exp_below");
    if (accumulator.kind == AccumulatorKind::moments) prelude.require(is_cheap ? "fast_over_count" : "over_count");
    prelude.require(is_mean_first(accumulator) ? "held_moments" : text_of(accumulator.kind).section);
  }
  if (passes_.held_accumulator() >= 0) prelude.require("held_sumexp");
}

bool ReductionStages::is_row_operation(std::size_t i) const {
  const Node& node = program_.nodes()[i];
  return of_rows_[i] && ir::is_computed(node.op) && reduction_.structure.nodes[i].scope == Scope::row;
}

bool ReductionStages::is_row_operand(std::size_t input) const {
  if (!passes_.is_input_of(input, Scope::row)) return false;
  for (std::size_t i = 0; i < of_rows_.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (ir::is_operand(node.op) && static_cast<std::size_t>(node.ordinal) == input) return of_rows_[i];
  }
  return false;
}

// All but what only grid reductions are computed from.
plan::Marks ReductionStages::needed_of_rows() const {
  plan::Marks needed(program_.nodes().size(), false);
  for (const ir::Result& result : program_.results())
    needed[static_cast<std::size_t>(result.value)] =
        chain_.role(result.value).scope != Scope::grid && chain_.role(result.value).scope != Scope::column;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    if (reduction_.structure.nodes[i].accumulator >= 0)
      needed[static_cast<std::size_t>(program_.nodes()[i].args[0])] = true;
  }
  ir::mark_arguments(program_.nodes(), needed, [](std::size_t) { return false; });
  return needed;
}

std::string ReductionStages::row() {
  std::string members;
  std::string vectors;
  std::string loads;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!is_row_operand(i)) continue;
    const std::string name = input_name(program_, i);
    const std::string_view type = type_of(input_kinds_[i]);
    members += fmt::format("  {} {};\n", type, name);
    if (passes_.is_vector_of_rows(kernel_.inputs[i])) {
      vectors += fmt::format(
          "  Packet<{0}> in_rows_{1};\n  load_words<{2}, CacheHint::none>(in_rows_{1}, p.{1} + row_offset(place, "
          "p.strides_{1}, 0));\n",
          storage_type(kernel_.inputs[i].dtype), name, kernel_.inputs[i].width);
      loads += fmt::format("  row.{0} = in_rows_{0}.template real<{1}>(k);\n", name, type);
      continue;
    }
    const auto offset = [&](std::string_view of) {
      return fmt::format("row_offset(place, p.strides_{}, existing_row(place, {}))", of, row_index());
    };
    loads += fmt::format("  row.{0} = {2}to_real<{1}>({3});\n", name, type,
                         reduction_.structure.grid != 0 ? fmt::format("!place.exists ? {}(0) : ", type) : "",
                         element_of(program_, kernel_, i, offset));
  }
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    if (is_row_operation(i)) members += fmt::format("  {} t{};\n", type_of(chain_.kind(static_cast<Value>(i))), i);
  }
  loads += row_operations(0);
  if (loads.empty())
    return fmt::format(
        "// What is known per row.\nstruct Row {{\n{}}};\n\n"
        "__device__ __forceinline__ void load_rows(const Params&, const Uniforms&, const Place&, Row (&)[kRows]) "
        "{{}}\n\n",
        members);
  return fmt::format(
      "// What is known per row.\nstruct Row {{\n{}}};\n\n"
      "__device__ __forceinline__ void load_rows(const Params& p, const Uniforms& uniforms, const Place& "
      "place, "
      "Row (&rows)[kRows]) {{\n{}{}}}\n\n",
      members, vectors,
      each_row(has_one_row(), "  ", fmt::format("  [[maybe_unused]] Row& row = rows[{}];\n{}", row_index(), loads)));
}

bool ReductionStages::is_result_vector_of_rows(std::size_t output) const {
  return passes_.is_vector_of_rows(kernel_.outputs[output]) && reduction_.missing[output] == 0 &&
         program_.scatter_of(output) == nullptr;
}

std::string ReductionStages::write_rows() const {
  std::string body;
  std::string packets;
  std::string stores;
  bool uses_uniforms = false;  // an operand of one element is a result as it is
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (chain_.role(value).scope != Scope::row) continue;
    const Node& node = program_.node(chain_.unshaped(value));
    uses_uniforms =
        uses_uniforms || (ir::is_operand(node.op) &&
                          kernel_.inputs[static_cast<std::size_t>(node.ordinal)].access == plan::Access::uniform);
    if (is_result_vector_of_rows(i)) {
      const std::string name = output_name(program_, i);
      const std::string_view type = storage_type(kernel_.outputs[i].dtype);
      packets += fmt::format("  Packet<{}> rows_{};\n", type, name);
      body += fmt::format("    rows_{}.put(k, from_real<{}>({}));\n", name, type, chain_.reference(value));
      stores += fmt::format("  store_words<{0}>(rows_{1}, p.{1} + row_offset(place, p.strides_{1}, 0));\n",
                            kernel_.outputs[i].width, name);
      continue;
    }
    const OffsetText offset = [](std::string_view of) { return fmt::format("row_offset(place, p.strides_{}, k)", of); };
    body += write_one(program_, kernel_, i, offset, "place.at", reduction_.missing[i], "    ", chain_.reference(value));
  }
  if (body.empty())
    return "__device__ __forceinline__ void write_rows(const Params&, const Place&, const Row (&)[kRows]) {}\n\n";
  // Vectors of rows exist as a whole, or not at all.
  const bool has_vectors = !packets.empty();
  return "// Results of one element per row: one thread of the group writes them.\n"
         "__device__ __forceinline__ void write_rows(const Params& p, const Place& place, const Row (&rows)[kRows]) "
         "{\n" +
         fmt::format("  if (!is_leader(place){}) return;\n", has_vectors ? " || !row_exists(place, 0)" : "") +
         std::string(uses_uniforms ? "  const Uniforms uniforms = load_uniforms(p);\n" : "") + packets +
         "#pragma unroll\n  for (int k = 0; k < kRows; ++k) {\n" +
         (has_vectors ? "" : "    if (!row_exists(place, k)) continue;\n") + "    const Row& row = rows[k];\n" + body +
         "  }\n" + stores + "}\n\n";
}

// What can be computed once the accumulators of `stage` are known.
std::string ReductionStages::row_operations(int stage) {
  std::string out;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const NodeRole& role = reduction_.structure.nodes[i];
    if (!is_row_operation(i) || role.stage != stage) continue;
    const Node& node = program_.nodes()[i];
    out += fmt::format("  row.t{} = {};\n", i,
                       role.accumulator >= 0 ? result_of(node, role, fmt::format("stage[{}]", row_index()))
                                             : chain_.computation(static_cast<Value>(i)));
  }
  return out;
}

std::string ReductionStages::result_of(const Node& node, const NodeRole& role, std::string_view set) const {
  return codegen::result_of(program_, reduction_, chain_, node, role, set);
}

bool ReductionStages::is_mean_first(const Accumulator& accumulator) const {
  return accumulator.kind == AccumulatorKind::moments && passes_.finds_means_first();
}

bool ReductionStages::holds_exponentials(std::size_t accumulator) const {
  return static_cast<int>(accumulator) == passes_.held_accumulator();
}

// The members of a set of accumulators, and what all sets can do; without the closing brace.
std::string ReductionStages::accumulator_struct(const std::string& name,
                                                const std::vector<std::size_t>& accumulators) const {
  std::string members;
  std::string merges;
  std::string lanes;
  for (const std::size_t i : accumulators) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    members += fmt::format("  {} a{};  // of {}\n",
                           holds_exponentials(i) ? "HeldSumExp"
                           : is_mean_first(a)    ? "HeldMoments"
                                                 : text_of(a.kind).type,
                           i, chain_.reference(a.argument));
    if (!is_mean_first(a)) merges += fmt::format("    a{0}.merge(other.a{0});\n", i);
    lanes += fmt::format("    a{}.template merge_lanes<kFrom, kTo>();\n", i);
  }
  return fmt::format(
      "struct {0} {{\n{1}\n"
      "  __device__ __forceinline__ void merge(const {0}& other) {{\n{2}  }}\n"
      "  template <int kFrom, int kTo>\n  __device__ __forceinline__ void merge_lanes() {{\n{3}  }}\n",
      name, members, merges, lanes);
}

std::string ReductionStages::grid_struct() const {
  if (reduction_.structure.grid == 0) return "// There are no grid reductions.\nstruct GridStage {};\n\n";
  std::vector<std::size_t> accumulators;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size(); ++i) {
    if (reduction_.structure.accumulators[i].grid) accumulators.push_back(i);
  }
  return "// What grid reductions accumulate.\n" + accumulator_struct("GridStage", accumulators) + "};\n\n";
}

// Those of a pass that are of segments, or of rows.
std::vector<std::size_t> ReductionStages::accumulators_of(int pass, bool of_segments) const {
  std::vector<std::size_t> all;
  for (const std::size_t i : passes_.accumulators_of(pass)) {
    if (reduction_.structure.accumulators[i].segment == of_segments) all.push_back(i);
  }
  return all;
}

std::string ReductionStages::stage_struct(int stage) {
  const std::vector<std::size_t> accumulators = accumulators_of(stage - 1, false);
  std::string out = fmt::format("// What pass {} accumulates.\n", stage - 1);
  out += accumulator_struct(fmt::format("Stage{}", stage), accumulators);
  out += fmt::format("  static constexpr bool kGathers = {};\n", passes_.gathers_in(stage - 1));
  out += recenter(accumulators);
  if (passes_.finds_means_first()) out += passes_.find_means(stage);
  out += accumulate(stage, accumulators);
  out += exponentials(stage);
  const std::string known =
      fmt::format("  [[maybe_unused]] Row& row = rows[{}];\n{}", row_index(), row_operations(stage));
  out += fmt::format(
      "  __device__ __forceinline__ static void finish(const Stage{} (&stage)[kRows], const Params& p, const "
      "Uniforms& uniforms, "
      "Row (&rows)[kRows]) {{\n{}  }}\n}};\n\n",
      stage, each_row(has_one_row(), "    ", indented(known)));
  return out;
}

// What threads keep of a pass if not what they loaded: exponentials, whose arguments accumulate() left there.
std::string ReductionStages::exponentials(int stage) const {
  if (!reduction_.is_resident() || reduction_.is_in_shared_memory()) return "";
  const int held = passes_.held_accumulator();
  const bool holds = held >= 0 && reduction_.structure.accumulators[static_cast<std::size_t>(held)].stage == stage;
  std::string out = fmt::format("  static constexpr bool kHoldsExponentials = {};\n", holds);
  if (!holds) return out;
  const std::string name = fmt::format("t{}", passes_.held_exponential());
  // A row's elements of a thread: in an inner reduction those of a step, in an outer one of all steps.
  const std::string takes =
      reduction_.layout.inner_reduction
          ? fmt::format(
                "#pragma unroll\n    for (int step = 0; step < kSteps; ++step) "
                "stage[0].a{}.exponentiate(held[step].{});\n",
                held, name)
          : fmt::format(
                "#pragma unroll\n    for (int e = 0; e < kElements; ++e) {{\n      Real column[kSteps];\n"
                "#pragma unroll\n      for (int step = 0; step < kSteps; ++step) column[step] = "
                "held[step].{1}[e];\n      stage[e].a{0}.exponentiate(column);\n"
                "#pragma unroll\n      for (int step = 0; step < kSteps; ++step) held[step].{1}[e] = "
                "column[step];\n    }}\n",
                held, name);
  const std::string scale = fmt::format("const Real scale = own[{1}].a{0}.scale_to(stage[{1}].a{0});\n", held,
                                        reduction_.layout.inner_reduction ? "0" : "e");
  const std::string rescales =
      reduction_.layout.inner_reduction
          ? fmt::format(
                "    {}#pragma unroll\n    for (int step = 0; step < kSteps; ++step) {{\n#pragma unroll\n"
                "      for (int e = 0; e < kElements; ++e) held[step].{}[e] *= scale;\n    }}\n",
                scale, name)
          : fmt::format(
                "#pragma unroll\n    for (int e = 0; e < kElements; ++e) {{\n      {}#pragma unroll\n"
                "      for (int step = 0; step < kSteps; ++step) held[step].{}[e] *= scale;\n    }}\n",
                scale, name);
  return out + fmt::format(
                   "  __device__ __forceinline__ static void exponentiate(Stage{0} (&stage)[kRows], Held "
                   "(&held)[kSteps]) {{\n{1}  }}\n"
                   "  __device__ __forceinline__ static void rescale(const Stage{0} (&own)[kRows], const Stage{0} "
                   "(&stage)[kRows], Held (&held)[kSteps]) {{\n{2}  }}\n",
                   stage, takes, rescales);
}

std::string ReductionStages::recenter(const std::vector<std::size_t>& accumulators) const {
  std::string recenters;
  for (const std::size_t i : accumulators) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.kind == AccumulatorKind::moments && !is_mean_first(a)) recenters += fmt::format("a{}.recenter(); ", i);
  }
  return fmt::format("  __device__ __forceinline__ void recenter() {{ {}}}\n", recenters);
}

std::string ReductionStages::accumulate(int stage, const std::vector<std::size_t>& accumulators) {
  std::string out = fmt::format(
      "  template <class At>\n  __device__ __forceinline__ static void accumulate(Stage{} (&stage)[kRows], {}const "
      "Params& p, const Uniforms& "
      "uniforms,\n"
      "                                                    const At (&positions)[kStepsAtOnce], {} held, const "
      "Row "
      "(&rows)[kRows], GridStage& grid) {{\n",
      stage, has_segment_means() ? "SegmentStage& of_segment, " : "",
      reduction_.is_in_shared_memory() ? "const Held&" : "Held*");
  for (const std::size_t i : passes_.fed_by(stage - 1))
    out += fmt::format("    Real values_{}[kStepsAtOnce * kElements];\n", i);
  out += passes_.read_hoisted(stage - 1, "    ", "positions[0]");
  out += values_of_steps(stage - 1);
  out += reduction_.layout.inner_reduction ? add_to_row(stage - 1, accumulators) : add_to_columns(accumulators);
  return out + add_to_grid(stage - 1, "positions[g]", "kStepsAtOnce", "    ") + "  }\n";
}

// The elements of the steps that an accumulator takes at once.
std::string ReductionStages::values_of_steps(int pass) {
  const std::string g = has_one_step() ? "0" : "g";
  return each_step(
      has_one_step(), "    ",
      passes_.element_loop(
          pass, "    ", reduction_.is_in_shared_memory() ? fmt::format("held.at({})", g) : fmt::format("held[{}]", g),
          fmt::format("positions[{}]", g), has_one_step() ? "e" : "g * kElements + e"));
}

std::string ReductionStages::add_to_row(int pass, const std::vector<std::size_t>& accumulators) const {
  std::string out = "//@if kMasked\n" + mask_of_steps("mask_of", "") + "//@endif\n";
  for (const std::size_t i : accumulators_of(pass, true))
    out += fmt::format("    of_segment.a{0}.add(values_{0}, mask);\n", i);
  for (const std::size_t i : accumulators) {
    out += fmt::format("    stage[0].a{0}.add(values_{0}/*@if kMasked*/, mask/*@endif*/);\n", i);
    if (!holds_exponentials(i)) continue;
    const std::string keeps = fmt::format(
        "#pragma unroll\n    for (int e = 0; e < kElements; ++e) held[{0}].t{1}[e] = values_{2}[{3}e];\n",
        has_one_step() ? "0" : "g", passes_.held_exponential(), i, has_one_step() ? "" : "g * kElements + ");
    out += each_step(has_one_step(), "    ", keeps);
  }
  return out;
}

// Which values of the steps exist: `mask` is a function of a position and of what else it takes.
std::string ReductionStages::mask_of_steps(std::string_view mask, std::string_view else_takes) const {
  if (has_one_step()) return fmt::format("    const unsigned mask = {}(positions[0]{});\n", mask, else_takes);
  return fmt::format(
      "    unsigned mask = 0;\n#pragma unroll\n    for (int g = 0; g < kStepsAtOnce; ++g)\n"
      "      mask |= {}(positions[g]{}) << (g * kElements);\n",
      mask, else_takes);
}

// In an outer reduction a thread's elements belong to rows side by side.
std::string ReductionStages::add_to_columns(const std::vector<std::size_t>& accumulators) const {
  std::string out =
      "//@if kMasked\n    unsigned mask = 0;\n#pragma unroll\n    for (int g = 0; g < kStepsAtOnce; ++g)\n"
      "      mask |= positions[g].end > 0 ? 1u << g : 0u;\n//@endif\n"
      "#pragma unroll\n    for (int e = 0; e < kElements; ++e) {\n      Real column[kStepsAtOnce];\n";
  for (const std::size_t i : accumulators) {
    out += fmt::format(
        "#pragma unroll\n      for (int g = 0; g < kStepsAtOnce; ++g) column[g] = values_{0}[g * kElements + e];\n"
        "      stage[e].a{0}.add(column/*@if kMasked*/, mask/*@endif*/);\n",
        i);
    if (!holds_exponentials(i)) continue;
    out += fmt::format("#pragma unroll\n      for (int g = 0; g < kStepsAtOnce; ++g) held[g].t{}[e] = column[g];\n",
                       passes_.held_exponential());
  }
  return out + "    }\n";
}

// ---- segments of rows

std::string ReductionStages::segment_struct() {
  const int pass = reduction_.structure.stages - (has_segment_means() ? 1 : 0);
  const std::vector<std::size_t> accumulators = accumulators_of(pass, true);
  std::string out =
      "// What is accumulated of each segment of a row.\n" + accumulator_struct("SegmentStage", accumulators);
  if (has_segment_means()) return out + "};\n\n";  // the row's stage takes vectors for both
  if (reduction_.reduces_segments_by_lanes()) return out + accumulate_held(pass, accumulators) + "};\n\n";
  out += fmt::format("  static constexpr bool kGathers = {};\n", passes_.gathers_in(pass));
  out += recenter(accumulators);
  out += fmt::format(
      "  template <bool kInside, class At>\n  __device__ __forceinline__ void accumulate(const Params& p, const "
      "Uniforms& "
      "uniforms, const Place& place, const Segment& segment,\n                                             const "
      "SegmentOperands& of_segment, const At (&positions)[kStepsAtOnce], {} held,\n"
      "                                             const Row (&rows)[kRows]) {{\n",
      reduction_.is_in_shared_memory() ? "const Held&" : "Held*");
  for (const std::size_t i : accumulators) out += fmt::format("    Real values_{}[kStepsAtOnce * kElements];\n", i);
  out += values_of_steps(pass);
  out += mask_of_steps("mask_within<kInside>", ", place, segment");
  for (const std::size_t i : accumulators) out += fmt::format("    a{0}.add(values_{0}, mask);\n", i);
  return out + "  }\n};\n\n";
}

// One vector, wherever it lies in the row.
std::string ReductionStages::accumulate_held(int pass, const std::vector<std::size_t>& accumulators) {
  std::string out =
      "  __device__ __forceinline__ void accumulate(const Params& p, const Uniforms& uniforms, const SegmentOperands& "
      "of_segment, HeldVector vector,\n                                             unsigned mask, const Row "
      "(&rows)[kRows]) {\n";
  for (const std::size_t i : accumulators) out += fmt::format("    Real values_{}[kElements];\n", i);
  out += passes_.element_loop(pass, "    ", "vector", "", "e");
  for (const std::size_t i : accumulators) out += fmt::format("    a{0}.add(values_{0}, mask);\n", i);
  return out + "  }\n";
}

std::string ReductionStages::segment_operands() const {
  const int pass = reduction_.structure.stages;
  std::string members;
  std::string loads;
  for (const std::size_t i : passes_.inputs_of(pass)) {
    if (!passes_.is_per_segment(pass, i)) continue;
    const std::string name = input_name(program_, i);
    const std::string_view type = type_of(input_kinds_[i]);
    members += fmt::format("  {} {};\n", type, name);
    loads += fmt::format("  of_segment.{0} = to_real<{1}>({2});\n", name, type,
                         element_of(program_, kernel_, i, offset_at(program_, kernel_, "segment.at")));
  }
  return fmt::format(
      "// Operands that all elements of a segment share.\nstruct SegmentOperands {{\n{}}};\n"
      "__device__ __forceinline__ SegmentOperands load_segment(const Params& p, const Segment& segment) {{\n"
      "  SegmentOperands of_segment;\n{}  return of_segment;\n}}\n\n",
      members, loads);
}

bool ReductionStages::is_known_per_segment(std::size_t i) const {
  const NodeRole& role = reduction_.structure.nodes[i];
  return role.scope == Scope::segment || role.per_segment;
}

// What the results of segments are computed from, as far as it is no value of the row.
plan::Marks ReductionStages::needed_of_segment() const {
  plan::Marks needed(program_.nodes().size(), false);
  const auto is_needed = [&](Value value) {
    if (chain_.role(value).scope == Scope::segment) needed[static_cast<std::size_t>(value)] = true;
  };
  for (const ir::Result& result : program_.results()) is_needed(result.value);
  for (const Accumulator& a : reduction_.structure.accumulators) {
    if (a.grid) is_needed(a.argument);
  }
  ir::mark_arguments(program_.nodes(), needed, [&](std::size_t i) {
    return !is_known_per_segment(i) || reduction_.structure.nodes[i].accumulator >= 0;
  });
  for (std::size_t i = 0; i < needed.size(); ++i) needed[i] = needed[i] && is_known_per_segment(i);
  return needed;
}

// A segment's mean takes the place of its elements.
std::string ReductionStages::means_of_segment() const {
  std::string out;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size() && has_segment_means(); ++i) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.segment)
      out += fmt::format(
          "  const Real {} = stage.a{}.total / Real(p.segment_length);  // the mean of the segment's elements\n",
          chain_.reference(a.argument), i);
  }
  return out;
}

// By node: what means are taken of and segment means stand for.
plan::Marks ReductionStages::tops_of_segment_means() const {
  plan::Marks tops(program_.nodes().size(), false);
  for (const Node& node : program_.nodes()) {
    if (!has_segment_means() || node.op != Op::mean) continue;
    const Value top = chain_.unshaped(node.args[0]);
    tops[static_cast<std::size_t>(top)] = chain_.role(top).scope == Scope::segment;
  }
  return tops;
}

// The chain from a segment's mean to a mean is that from the elements' values, unless it meets an infinity: infinite
// elements of both signs have no mean. Then the elements are read.
std::string ReductionStages::mean_of_elements(std::size_t top) {
  plan::Marks needed(program_.nodes().size(), false);
  needed[top] = true;
  ir::mark_arguments(program_.nodes(), needed,
                     [&](std::size_t i) { return reduction_.structure.nodes[i].scope == Scope::row; });
  std::string body;
  for (std::size_t i = 0; i <= top; ++i) {
    const Node& node = program_.nodes()[i];
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (!needed[i] || reduction_.structure.nodes[i].scope == Scope::row) continue;
    if (ir::is_operand(node.op) && passes_.is_input_of(input, Scope::element)) {
      const std::string name = input_name(program_, input);
      const auto at = [&](std::string_view of) -> std::string {
        return kernel_.inputs[input].is_gathered()
                   ? fmt::format("offset_of(segment.at, p.strides_{0}) + i * p.strides_{0}[kCoordinates - 1]", of)
                   : "place.start + segment.first + i";
      };
      body += fmt::format("    const {0} {1} = to_real<{0}>({2});\n", type_of(input_kinds_[input]), name,
                          element_of(program_, kernel_, input, at));
    }
    if (!ir::is_computed(node.op)) continue;
    body += fmt::format("    const {} t{} = {};\n", type_of(chain_.kind(static_cast<Value>(i))), i,
                        chain_.computation(static_cast<Value>(i)));
  }
  return fmt::format(
      "// The mean of a segment's elements, one by one.\n"
      "__device__ __forceinline__ Real mean_of_t{0}(const Params& p, const Uniforms& uniforms, const Place& place, "
      "const Segment& segment, const Row& row) {{\n  Real total = 0;\n#pragma unroll 1\n"
      "  for (Index i = 0; i < p.segment_length; ++i) {{\n{1}    total += t{0};\n  }}\n"
      "  return total / Real(p.segment_length);\n}}\n\n",
      top, body);
}

// What each segment adds to grid reductions.
std::string ReductionStages::add_segment_to_grid() const {
  std::string out;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size(); ++i) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.grid && chain_.role(a.argument).scope == Scope::segment)
      out += fmt::format("  const Real of_segment_{0}[1] = {{{1}}};\n  grid.a{0}.add(of_segment_{0}, 1u);\n", i,
                         chain_.argument(a.argument, Kind::real));
  }
  return out;
}

std::string ReductionStages::write_segment() {
  const plan::Marks needed = needed_of_segment();
  const plan::Marks tops = tops_of_segment_means();
  std::string means;
  std::string body = means_of_segment();
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (needed[i] && ir::is_operand(node.op) && passes_.is_input_of(input, Scope::element)) {
      const std::string name = input_name(program_, input);
      body += fmt::format("  const {0} {1} = to_real<{0}>({2});\n", type_of(input_kinds_[input]), name,
                          element_of(program_, kernel_, input, offset_at(program_, kernel_, "segment.at")));
    }
    if (!needed[i] || !ir::is_computed(node.op)) continue;
    const NodeRole& role = reduction_.structure.nodes[i];
    body +=
        fmt::format("  {}{} t{} = {};\n", tops[i] ? "" : "const ", type_of(chain_.kind(static_cast<Value>(i))), i,
                    role.accumulator >= 0 ? result_of(node, role, "stage") : chain_.computation(static_cast<Value>(i)));
    if (!tops[i]) continue;
    passes_.require("isinf");
    body += fmt::format("  if (ops::isinf(t{0})) t{0} = mean_of_t{0}(p, uniforms, place, segment, row);\n", i);
    means += mean_of_elements(i);
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (chain_.role(value).scope != Scope::segment) continue;
    body += write_one(program_, kernel_, i, offset_at(program_, kernel_, "segment.at"), "segment.at",
                      reduction_.missing[i], "  ", chain_.reference(value));
  }
  return means + fmt::format(
                     "// Results of one element per segment: one thread of those that know it writes them.\n"
                     "__device__ __forceinline__ void write_segment(const Params& p, const Uniforms& uniforms, {}const "
                     "Segment& segment, const SegmentStage& stage, const Row& row{}) {{\n{}}}\n\n",
                     has_segment_means() ? "const Place& place, " : "", has_segment_means() ? ", GridStage& grid" : "",
                     body + add_segment_to_grid());
}

std::string ReductionStages::write_grid() const {
  const auto reads = [&](std::size_t input) { return passes_.is_input_of(input, Scope::row); };
  const auto reduced = [&](const Node& node, const NodeRole& role) { return result_of(node, role, "grid"); };
  return "// Results of grid reductions.\n__device__ __forceinline__ void write_grid(const Params& p, const Uniforms& "
         "uniforms, const Place& "
         "place, const GridStage& grid) {\n" +
         GridChain(chain_).results(Scope::grid, "place.at", reads, reduced) + "}\n\n";
}

std::string ReductionStages::add_to_grid(int pass, std::string_view position, std::string_view count,
                                         const std::string& indent) const {
  if (passes_.grid_of(pass).empty()) return "";
  std::string out =
      fmt::format("{0}unsigned existing = 0;\n#pragma unroll\n{0}for (int g = 0; g < {1}; ++g)\n", indent, count);
  out += fmt::format("{}  existing |= mask_of({}) << (g * kElements);\n", indent, position);
  for (const std::size_t i : passes_.grid_of(pass))
    out += fmt::format("{0}grid.a{1}.add(values_{1}, existing);\n", indent, i);
  return out;
}

}  // namespace epifuse::codegen
