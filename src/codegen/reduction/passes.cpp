// Text of one pass's elements. What is read, computed and fed follows from the plan's structure; how an operand moves,
// from its access.
#include "codegen/reduction/passes.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "codegen/offsets.hpp"
#include "codegen/params.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;
using plan::Access;
using plan::Accumulator;
using plan::AccumulatorKind;
using plan::NodeRole;
using plan::OperandPlan;
using plan::Scope;

const NodeRole& ReductionChain::role(Value value) const {
  return kernel_.reduction()->structure.nodes[static_cast<std::size_t>(unshaped(value))];
}
Scope ReductionChain::scope_of_input(std::size_t i) const {
  return plan::scope_of_input(program_, kernel_.reduction()->structure, i);
}

std::string ReductionChain::variable(Value value) const {
  const Scope scope = role(value).scope;
  return (scope == Scope::row            ? "row."
          : scope == Scope::lane_segment ? "of_segment."
                                         : "") +
         ChainWriter::variable(value);
}
std::string ReductionChain::input(std::size_t i) const {
  const std::string name = ChainWriter::input(i);
  if (kernel_.inputs[i].access == Access::uniform) return "uniforms." + name;
  const Scope scope = scope_of_input(i);
  const bool is_variable = scope == Scope::element || scope == Scope::written;
  return (is_variable ? "" : scope == Scope::lane_segment ? "of_segment." : "row.") + name;
}
std::string ReductionChain::scalar(std::size_t i) const { return "p." + ChainWriter::scalar(i); }
std::string ReductionChain::count(Value value) const { return "p." + ChainWriter::count(value); }
// Elements of a row divided by one number.
std::string ReductionChain::special_form(const Node& node, const std::array<std::string, ir::kMaxArity>& operands) {
  const Scope scope = role(node.args[0]).scope;
  if (node.op != Op::div || (scope != Scope::element && scope != Scope::written) || !is_per_row(node.args[1]))
    return {};
  // The quotient of 1 leaves the loop; rounding to few bits hides the product's error.
  if (arithmetic_.cheap_rows) return fmt::format("{} * (Real(1) / {})", operands[0], operands[1]);
  prelude_.require("divide_by_row");
  return fmt::format("detail::divide_by_row({}, {})", operands[0], operands[1]);
}

bool ReductionChain::is_per_row(Value value) const {
  const Op op = program_.node(unshaped(value)).op;
  return role(value).scope == Scope::row && op != Op::constant && op != Op::scalar && op != Op::count;
}

namespace {

std::string first_of_missing(const plan::KernelClass& kernel, std::uint32_t missing, std::string_view at) {
  std::vector<std::string> conditions;
  for (int d = 0; d < kernel.coordinates; ++d) {
    if ((missing >> d & 1U) == 0) continue;
    const bool innermost = !kernel.reduction()->layout.inner_reduction && d + 1 == kernel.coordinates;
    conditions.push_back(fmt::format("{}[{}]{} == 0", at, d, innermost ? " + k" : ""));
  }
  return conditions.empty() ? "" : fmt::format("if ({}) ", fmt::join(conditions, " && "));
}

}  // namespace

std::string write_one(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                      const OffsetText& offset, std::string_view at, std::uint32_t missing, std::string_view indent,
                      const std::string& value) {
  return written_at(program, kernel, i, offset, "", indent, [&](const std::string& base) {
    return fmt::format("{}{}[{}] = from_real<{}>({});\n", first_of_missing(kernel, missing, at), base,
                       kernel.outputs[i].access == Access::uniform ? "0" : offset(output_name(program, i)),
                       storage_type(kernel.outputs[i].dtype), value);
  });
}

ReductionPasses::ReductionPasses(const ir::Program& program, const plan::KernelClass& kernel,
                                 const std::vector<Kind>& input_kinds, Prelude& prelude)
    : program_(program),
      kernel_(kernel),
      reduction_(*kernel_.reduction()),
      input_kinds_(input_kinds),
      prelude_(prelude),
      chain_(program, kernel, input_kinds, prelude) {}

bool ReductionPasses::is_input_of(std::size_t i, Scope scope) const {
  const Access access = kernel_.inputs[i].access;
  return plan::is_value(access) && access != Access::uniform && chain_.scope_of_input(i) == scope;
}

// Vectors as wide as a thread has rows divide the rows side by side: all rows of a thread exist, or none.
bool ReductionPasses::is_vector_of_rows(const OperandPlan& operand) const {
  const plan::RowLayout& layout = reduction_.layout;
  return !layout.inner_reduction && !layout.striped && reduction_.structure.grid == 0 &&
         operand.access == Access::contiguous && operand.width > 1 && operand.width == kernel_.elements;
}

std::string ReductionPasses::access(std::string_view way, const OperandPlan& operand, std::string_view packet,
                                    const std::string& name, std::string_view position, const std::string& base) {
  const bool is_gathered = operand.access == Access::gathered;
  if (is_gathered && finds_row(index_of(operand))) {
    prelude_.require("read_of_row");
    return fmt::format("read_of_row<{}>({}, indexed.{}, {}, {});\n", operand.width, packet, name,
                       offset_at(fmt::format("{}.at", position))(name), codegen::out_of_range(operand));
  }
  if (is_gathered && operand.width > 1) {
    prelude_.require("read_gathered");
    const std::size_t i = index_of(operand);
    return fmt::format(
        "read_gathered<{}>({}, p.strides_{}, {}, p.space, {}, [&](const Index (&at)[kCoordinates]) {{ return {}; "
        "}});\n",
        operand.width, packet, name, position, codegen::out_of_range(operand), row_of(program_, i, offset_at("at")));
  }
  if (operand.access == Access::bounded && operand.width > 1) {
    prelude_.require("read_bounded");
    const std::size_t i = index_of(operand);
    return fmt::format(
        "read_bounded<{0}>({1}, p.{2}, p.strides_{2}, {6}, {3}, p.space, [&](const Index (&at)[kCoordinates]) "
        "{{ return {4}; }}, [&](const Index (&at)[kCoordinates]) {{ return {5}; }});\n",
        operand.width, packet, name, position, covered_at(program_, kernel_, i, offset_at("at")),
        codegen::element_of(program_, kernel_, i, offset_at("at")),
        origin_at(program_, i, offset_at(fmt::format("{}.at", position))));
  }
  if (is_gathered || operand.access == Access::bounded || operand.access == Access::inside) {
    prelude_.require("read_each");
    const std::size_t i = index_of(operand);
    return fmt::format("read_each({}, {}, p.space, [&](const Index (&at)[kCoordinates]) {{ return {}; }});\n", packet,
                       position, codegen::element_of(program_, kernel_, i, offset_at("at")));
  }
  if (is_packed(operand.dtype)) {
    const char* const packed = way == "write" ? "write_packed" : "read_packed";
    prelude_.require(packed);
    return fmt::format("{0}({1}, p.{2} + {3} / 2, {4});\n", packed, packet, name,
                       packed_offset(operand, name, position, offset_at(fmt::format("{}.at", position))), position);
  }
  if (operand.access == Access::position && operand.moves != 0) {
    prelude_.require("read_position_of_line");
    return fmt::format("read_position_of_line({}, p.strides_{}, {}, p.space);\n", packet, name, position);
  }
  const bool streamed = plan::is_streamed(operand.access);
  const bool is_random = plan::is_random(operand.access);
  const bool hinted = way == "load" && streamed;  // Held::load says whether the elements will be read again
  if (way == "load") way = "read";
  prelude_.require(fmt::format("{}_{}", way, plan::to_string(operand.access)));
  const bool constant = way == "read" && !hinted && operand.read_only;
  reads_constants_ = reads_constants_ || constant;
  const char* const hint = hinted ? ", kHint" : constant ? ", CacheHint::read_only" : "";
  if (operand.access == Access::contiguous && operand.moves != 0) {
    prelude_.require("packet");
    return fmt::format("load_words<{}{}>({}, p.{} + {});\n", operand.width, *hint == '\0' ? ", CacheHint::none" : hint,
                       packet, name, offset_at(fmt::format("{}.at", position))(name));
  }
  const std::string width = streamed    ? fmt::format("<{}{}>", operand.width, hint)
                            : is_random ? fmt::format("<{}>", operand.width)
                            : constant  ? "<CacheHint::read_only>"
                                        : "";
  std::string out = fmt::format("{}_{}{}({}", way, plan::to_string(operand.access), width, packet);
  if (operand.access != Access::position) out += ", " + (base.empty() ? "p." + name : base);
  if (operand.is_gathered()) out += fmt::format(", p.strides_{}", name);
  out += fmt::format(", {}", position);
  if (operand.is_gathered()) out += ", p.space";
  return out + ");\n";
}

// Only streamed operands are copied without registers.
std::string ReductionPasses::copy(std::size_t i, const std::string& indent, const std::string& chunks16) {
  const OperandPlan& operand = kernel_.inputs[i];
  const std::string name = input_name(program_, i);
  if (operand.run) return copied_run(i, indent, chunks16);
  if (plan::is_streamed(operand.access) && !is_packed(operand.dtype))
    return indent + access("copy", operand, chunks16, name, "position");
  return fmt::format("{0}Packet<{1}> {2};\n{0}{3}{0}store_held({4}, {2});\n", indent, storage_type(operand.dtype), name,
                     access("read", operand, name, name, "position"), chunks16);
}

bool ReductionPasses::gathers_in(int pass) const {
  const auto is_gathered = [&](std::size_t i) {
    return !reduction_.residency.held[i] && kernel_.inputs[i].is_gathered() && !is_per_segment(pass, i);
  };
  return std::ranges::any_of(inputs_of(pass), is_gathered) ||
         std::ranges::any_of(outputs_of(pass), [&](std::size_t i) { return kernel_.outputs[i].is_gathered(); });
}
bool ReductionPasses::load_gathers() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (reduction_.residency.held[i] && kernel_.inputs[i].is_gathered()) return true;
  }
  return false;
}
bool ReductionPasses::gathers() const {
  if (load_gathers()) return true;
  for (int pass = 0; pass <= reduction_.structure.output_pass; ++pass) {
    const auto is_gathered = [&](std::size_t i) { return kernel_.inputs[i].is_gathered() && !is_per_segment(pass, i); };
    if (std::ranges::any_of(inputs_of(pass), is_gathered)) return true;
  }
  return std::ranges::any_of(outputs_of(reduction_.structure.output_pass),
                             [&](std::size_t i) { return kernel_.outputs[i].is_gathered() && !is_transposed(i); });
}

bool ReductionPasses::is_common(std::size_t input) const {
  return reduction_.columns && reduction_.residency.hoisted[input];
}
bool ReductionPasses::has_common() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (is_common(i)) return true;
  }
  return false;
}

// Values of 16 bits: sums of as many as lanes hold are exact, or nearly. (Kernels of 8 bits spilled more.)
bool ReductionPasses::finds_means_first() const {
  if (!reduction_.holds_full_rows() || reduction_.threads.group > 32 || reduction_.cluster() > 1 || kernel_.f64)
    return false;
  const auto& accumulators = reduction_.structure.accumulators;
  const auto is_of_moments = [](const Accumulator& a) { return a.kind == AccumulatorKind::moments; };
  return std::ranges::any_of(accumulators, is_of_moments) &&
         std::ranges::all_of(accumulators, [&](const Accumulator& a) {
           const Node& argument = program_.node(chain_.unshaped(a.argument));
           if (!is_of_moments(a)) return true;
           if (!ir::is_operand(argument.op)) return false;
           const auto input = static_cast<std::size_t>(argument.ordinal);
           return reduction_.residency.held[input] && is_floating(kernel_.inputs[input].dtype) &&
                  size_of(kernel_.inputs[input].dtype) == 2;
         });
}

std::string ReductionPasses::find_means(int stage) const {
  std::string body;
  for (const std::size_t i : accumulators_of(stage - 1)) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.kind != AccumulatorKind::moments) continue;
    const auto input = static_cast<std::size_t>(program_.node(chain_.unshaped(a.argument)).ordinal);
    body += fmt::format(
        "    Real sums_{0}[kSteps];\n#pragma unroll\n    for (int step = 0; step < kSteps; ++step) {{\n"
        "      Real values[kElements];\n#pragma unroll\n"
        "      for (int e = 0; e < kElements; ++e) values[e] = held[step].{1}.template real<Real>(e);\n"
        "      sums_{0}[step] = tree_sum(values);\n    }}\n    stage[0].a{0}.find_mean(sums_{0});\n",
        i, input_name(program_, input));
  }
  const bool any = !body.empty();
  return fmt::format(
      "  __device__ __forceinline__ static void find_means(Stage{} (&{})[kRows], const Held (&{})[kSteps]) {{\n{}  "
      "}}\n",
      stage, any ? "stage" : "", any ? "held" : "", body);
}

bool ReductionPasses::is_saved(Value value) const {
  return std::ranges::find(reduction_.residency.saved, value) != reduction_.residency.saved.end();
}

int ReductionPasses::held_accumulator() const {
  return reduction_.residency.saved.size() == 1
             ? plan::accumulator_of_exponential(program_, reduction_.structure, reduction_.residency.saved[0])
             : -1;
}
// The first pass does not know a held exponential yet.
bool ReductionPasses::is_seen_by(int pass, Value saved) const { return pass >= chain_.role(saved).stage; }

std::vector<std::size_t> ReductionPasses::accumulators_of(int pass) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size(); ++i) {
    if (!reduction_.structure.accumulators[i].ends_with_grid() &&
        reduction_.structure.accumulators[i].stage == pass + 1)
      all.push_back(i);
  }
  return all;
}
std::vector<std::size_t> ReductionPasses::grid_of(int pass) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size() && pass == reduction_.structure.output_pass;
       ++i) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.grid && chain_.role(a.argument).scope == Scope::element) all.push_back(i);
  }
  return all;
}
std::vector<std::size_t> ReductionPasses::columns_of(int pass) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < reduction_.structure.accumulators.size() && pass == reduction_.structure.output_pass;
       ++i) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    if (a.columns && !a.in_runs()) all.push_back(i);
  }
  return all;
}
std::vector<std::size_t> ReductionPasses::fed_by(int pass) const {
  std::vector<std::size_t> all = accumulators_of(pass);
  for (const std::size_t i : columns_of(pass)) all.push_back(i);
  for (const std::size_t i : grid_of(pass)) all.push_back(i);
  return all;
}
std::vector<std::size_t> ReductionPasses::outputs_of(int pass) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < kernel_.outputs.size() && pass == reduction_.structure.output_pass; ++i) {
    if (chain_.role(program_.results()[i].value).scope == Scope::element) all.push_back(i);
  }
  return all;
}
bool ReductionPasses::is_per_segment(int pass, std::size_t input) const {
  return reduction_.structure.is_segment_pass(pass) && !reduction_.residency.held[input] &&
         plan::role_of_input(program_, reduction_.structure, input).per_segment;
}
// Operands of elements that a pass reads.
std::vector<std::size_t> ReductionPasses::inputs_of(int pass) const {
  const plan::Marks read = plan::inputs_of_pass(program_, reduction_.structure, pass, reduction_.residency.saved);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i] && is_input_of(i, Scope::element)) all.push_back(i);
  }
  return all;
}

// ---- what a thread holds

bool ReductionPasses::finds_row(std::size_t input) const {
  const OperandPlan& operand = kernel_.inputs[input];
  if (operand.access != Access::gathered || operand.width == 1 || !reduction_.residency.held[input] ||
      !reduction_.holds_full_rows())
    return false;
  const ir::Bounds& bounds = program_.bounds()[input];
  return bounds.by.empty() && bounds.wraps.empty() && std::ranges::all_of(bounds.gathers, [&](const auto& gather) {
           return kernel_.inputs[static_cast<std::size_t>(gather.index)].per_row;
         });
}
bool ReductionPasses::finds_rows() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (finds_row(i)) return true;
  }
  return false;
}

std::string ReductionPasses::indexed_rows() const {
  std::string members;
  std::string rows;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!finds_row(i)) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  const {}* {};\n", storage_type(kernel_.inputs[i].dtype), name);
    rows += fmt::format("  indexed.{} = {};\n", name, row_of(program_, i, offset_at("place.at")));
  }
  return fmt::format(
      "// Where the rows begin that indices name; null where an index is out of range.\nstruct IndexedRows {{\n{}}};\n"
      "__device__ __forceinline__ IndexedRows find_indexed_rows(const Params& p, const Place& place) {{\n"
      "  IndexedRows indexed;\n{}  return indexed;\n}}\n\n",
      members, rows);
}

std::string ReductionPasses::held_in_registers(std::string_view of_columns) {
  std::string members;
  std::string loads;
  std::string uses;
  prelude_.require("packet");
  const std::string rows = finds_rows() ? indexed_rows() : "";
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!reduction_.residency.held[i]) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    if (kernel_.inputs[i].access == Access::run) loads += run_read(i, "    ", "position");
    if (!kernel_.inputs[i].run) loads += "    " + access("load", kernel_.inputs[i], name, name, "position");
    uses += fmt::format("    {}.forget_uses();\n", name);
  }
  std::string common;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!is_common(i)) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};  // the same of all rows\n", storage_type(kernel_.inputs[i].dtype), name);
    common += "    " + access("read", kernel_.inputs[i], name, name, "position");
    uses += fmt::format("    {}.forget_uses();\n", name);
  }
  for (const Value value : reduction_.residency.saved)
    members += fmt::format("  {} t{}[kElements];\n", type_of(chain_.kind(value)), chain_.unshaped(value));
  members += of_columns;
  if (!common.empty())
    common = fmt::format(
        "  template <class At>\n  __device__ __forceinline__ void load_common(const Params& p, const At& position) "
        "{{\n{}  }}\n",
        common);
  const bool any = !loads.empty();
  return rows + fmt::format(
                    "// What a thread holds of one step from pass to pass.\nstruct alignas(16) Held {{\n{}\n{}"
                    "  template <CacheHint kHint, class At>\n  __device__ __forceinline__ void load(const Params&{},{} "
                    "const At&{}) "
                    "{{\n{} "
                    " "
                    "}}\n"
                    "  __device__ __forceinline__ void forget_uses() {{\n{}  }}\n}};\n\n",
                    members, common, any ? " p" : "", finds_rows() ? " const IndexedRows& indexed," : "",
                    any ? " position" : "", loads, uses);
}

std::string ReductionPasses::held_vector_struct() {
  const int pass = reduction_.structure.stages;
  std::string members;
  std::string copies;
  for (const std::size_t i : inputs_of(pass)) {
    if (!reduction_.residency.held[i]) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    copies += fmt::format("  vector.{0} = held.{0};\n", name);
  }
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value)) continue;
    members += fmt::format("  {} t{}[kElements];\n", type_of(chain_.kind(value)), chain_.unshaped(value));
    copies += fmt::format("#pragma unroll\n  for (int e = 0; e < kElements; ++e) vector.t{0}[e] = held.t{0}[e];\n",
                          chain_.unshaped(value));
  }
  return fmt::format(
      "// What the pass over segments needs of a vector.\nstruct alignas(16) HeldVector {{\n{}}};\n"
      "__device__ __forceinline__ HeldVector held_vector_of(const Held& held) {{\n  HeldVector vector;\n{}  return "
      "vector;\n}}\n\n",
      members, copies);
}

// In shared memory what is saved takes the place of operands that nothing else needs.
std::string ReductionPasses::held_in_shared_memory() {
  std::string places;
  std::string loads;
  std::string next = "0";
  prelude_.require("chunks16");
  const auto place = [&](const std::string& name, const std::string& type) {
    places += fmt::format("  static constexpr int k_{0} = {1}, k_after_{0} = k_{0} + sizeof({2}) / sizeof(Chunk16);\n",
                          name, next, type);
    next = "k_after_" + name;
  };
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!reduction_.residency.held[i]) continue;
    const std::string name = input_name(program_, i);
    place(name, fmt::format("Packet<{}>", storage_type(kernel_.inputs[i].dtype)));
    loads += copy(i, "    ", fmt::format("chunks16 + k_{} * kThreads", name));
  }
  std::string all = next;
  if (plan::saved_replaces_held(program_, reduction_)) next = "0";
  for (const Value value : reduction_.residency.saved)
    place(fmt::format("t{}", chain_.unshaped(value)), fmt::format("Saved<{}>", type_of(chain_.kind(value))));
  if (next != all) all = fmt::format("{0} > {1} ? {0} : {1}", all, next);
  return fmt::format(
      "// What a thread holds of one step from pass to pass.\nstruct Held {{\n{}  static constexpr int kChunks16 = "
      "{};\n  Chunk16* chunks16;  // of one step, kThreads apart\n\n"
      "  __device__ __forceinline__ Held at(int step) const {{ return {{chunks16 + step * (kChunks16 * kThreads)}}; "
      "}}\n"
      "  template <CacheHint kHint, class At>\n  __device__ __forceinline__ void load(const Params& p, const At& "
      "position) "
      "const {{\n{}  }}\n}};\n\n",
      places, all, loads);
}

std::string ReductionPasses::prefetch_held() const {
  std::string prefetches;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!plan::is_prefetched(kernel_, i)) continue;
    const std::string_view half = is_packed(kernel_.inputs[i].dtype) ? " / 2" : "";
    prefetches += fmt::format("  prefetch(p.{0} + first{1}, count{1});\n", input_name(program_, i), half);
  }
  return "__device__ __forceinline__ void prefetch_held(const Params& p, Index first, Index count) {\n" + prefetches +
         "}\n\n";
}

// ---- what a thread reads once

std::string ReductionPasses::read_hoisted(int pass, const std::string& indent, std::string_view position) {
  std::string out;
  for (const std::size_t i : inputs_of(pass)) {
    if (!reduction_.residency.hoisted[i] || is_common(i)) continue;
    const std::string name = input_name(program_, i);
    prelude_.require("packet");
    out += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
    out += indent + access("read", kernel_.inputs[i], name, name, position);
  }
  return out;
}

bool ReductionPasses::hoists() const {
  return reduction_.is_in_shared_memory() &&
         std::ranges::any_of(inputs_of(reduction_.structure.output_pass),
                             [&](std::size_t i) { return reduction_.residency.hoisted[i]; });
}

// Of rows in shared memory, where passes have loops: the loop-invariant operands of the last one. They exist or they do
// not, as the plan promises.
std::string ReductionPasses::hoisted_struct() {
  std::string members;
  std::string reads;
  for (const std::size_t i : inputs_of(reduction_.structure.output_pass)) {
    if (!reduction_.residency.hoisted[i]) continue;
    const std::string name = input_name(program_, i);
    prelude_.require("packet");
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    reads += "    " + access("read", kernel_.inputs[i], "hoisted." + name, name, "known<true>(first)");
  }
  if (members.empty()) return "";
  return fmt::format(
      "// Loop-invariant operands, read with a thread's first vector.\nstruct Hoisted {{\n{}}};\n"
      "__device__ __forceinline__ Hoisted load_hoisted(const Params& p, const Position& first) {{\n  Hoisted "
      "hoisted{{}};\n  if (first.in_bounds) {{\n{}  }}\n  return hoisted;\n}}\n\n",
      members, reads);
}

// By the names that element_loop() knows.
std::string ReductionPasses::take_hoisted() const {
  std::string out;
  for (const std::size_t i : inputs_of(reduction_.structure.output_pass)) {
    if (!reduction_.residency.hoisted[i]) continue;
    out += fmt::format("  const Packet<{0}>& {1} = hoisted.{1};\n", storage_type(kernel_.inputs[i].dtype),
                       input_name(program_, i));
  }
  return out;
}

// Element by element of all steps, not step by step: a line's elements leave the registers as soon as they are known.
std::string ReductionPasses::write_batch() {
  const int pass = reduction_.structure.output_pass;
  const std::string position = "known<true>(locate(p, place, chunk, first + i))";
  std::string reads = read_hoisted(pass, "  ", "known<true>(locate(p, place, chunk, first))");
  std::string results;
  std::string known;
  std::string keeps;
  std::string puts;
  std::string writes;
  std::vector<std::string> arguments = {"p", "uniforms", "rows[kRows == 1 ? 0 : e]"};
  const auto loop = [](std::string_view body) {
    return fmt::format("#pragma unroll\n  for (int i = 0; i < kBatch; ++i) {}", body);
  };
  for (const std::size_t i : inputs_of(pass)) {
    const std::string name = input_name(program_, i);
    const std::string_view type = storage_type(kernel_.inputs[i].dtype);
    if (reduction_.residency.hoisted[i]) {
      arguments.push_back(element_of(i, name));
    } else if (reduction_.residency.held[i]) {
      arguments.push_back(element_of(i, fmt::format("held[i * kApart].{}", name)));
    } else {
      reads += fmt::format("  Packet<{}> {}[kBatch];\n", type, name);
      reads += loop(access("read", kernel_.inputs[i], name + "[i]", name, position));
      arguments.push_back(element_of(i, name + "[i]"));
    }
  }
  for (const Value value : reduction_.residency.saved)
    arguments.push_back(fmt::format("held[i * kApart].t{}[e]", chain_.unshaped(value)));
  const bool returns = returns_value(loops_of(program_, reduction_, needs_of(pass))[0]);
  for (const std::size_t i : outputs_of(pass)) {
    const std::string name = output_name(program_, i);
    const std::string_view type = storage_type(kernel_.outputs[i].dtype);
    known += fmt::format("      {} result_{}{}", type_of(chain_.kind(program_.results()[i].value)), i,
                         returns ? " = " : ";\n");
    if (!returns) arguments.push_back(fmt::format("result_{}", i));
    if (is_transposed(i)) {
      results += fmt::format("    {} {}[kBatch];\n", type, name);
      keeps += fmt::format("      {}[i] = from_real<{}>(result_{});\n", name, type, i);
      puts += fmt::format("    put_batch(tile.{0}, place, e, {0});\n", name);
    } else {
      reads += fmt::format("  Packet<{}> {}[kBatch];\n", type, name);
      keeps += fmt::format("      {}[i].put(e, from_real<{}>(result_{}));\n", name, type, i);
      writes += loop(access("write", kernel_.outputs[i], name + "[i]", name, position));
    }
  }
  return fmt::format(
      "// Results of a batch of full vectors; its steps stand kApart apart.\n"
      "template <int kApart>\n"
      "__device__ __forceinline__ void write_batch(const Params& p, const Uniforms& uniforms, const Place& place, "
      "Index chunk, int first,\n                                            Held* held, const Row (&rows)[kRows], "
      "TransposedTile& tile) {{\n{0}#pragma unroll\n  for (int e = 0; e < kElements; ++e) {{\n{1}#pragma unroll\n"
      "    for (int i = 0; i < kBatch; ++i) {{\n{2}element_{3}({4});\n{5}    }}\n{6}  }}\n{7}}}\n\n",
      reads, results, known + (returns ? "" : "      "), pass, fmt::join(arguments, ", "), keeps, puts, writes);
}

}  // namespace epifuse::codegen
