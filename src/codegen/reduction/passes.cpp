// Text of one pass's elements. What is read, computed and fed follows from the plan's structure; how an operand moves, from its access.
#include "codegen/reduction/passes.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "codegen/contraction.hpp"
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
  return role(value).scope == Scope::row ? "row." + ChainWriter::variable(value) : ChainWriter::variable(value);
}
std::string ReductionChain::input(std::size_t i) const {
  const std::string name = ChainWriter::input(i);
  if (kernel_.inputs[i].access == Access::uniform) return "uniforms." + name;
  return scope_of_input(i) == Scope::element ? name : "row." + name;
}
std::string GridChain::input(std::size_t i) const {
  return kernel_.inputs[i].access == Access::uniform ? ReductionChain::input(i) : ChainWriter::input(i);
}
std::string ReductionChain::scalar(std::size_t i) const { return "p." + ChainWriter::scalar(i); }
std::string ReductionChain::count(Value value) const { return "p." + ChainWriter::count(value); }
// Elements of a row divided by one number.
std::string ReductionChain::special_form(const Node& node, const std::array<std::string, ir::kMaxArity>& operands) {
  if (node.op != Op::div || role(node.args[0]).scope != Scope::element || !is_per_row(node.args[1])) return {};
  // The quotient of 1 leaves the loop; rounding to few bits hides the product's error.
  if (arithmetic_.cheap_rows) return fmt::format("{} * (Real(1) / {})", operands[0], operands[1]);
  prelude_.require("divide_by_row");
  return fmt::format("detail::divide_by_row({}, {})", operands[0], operands[1]);
}

bool ReductionChain::is_per_row(Value value) const {
  const Op op = program_.node(unshaped(value)).op;
  return role(value).scope == Scope::row && op != Op::constant && op != Op::scalar && op != Op::count;
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

std::string ReductionPasses::access(std::string_view way, const OperandPlan& operand, std::string_view packet,
                                    const std::string& name, std::string_view position) {
  const bool is_gathered = operand.access == Access::gathered;
  if (is_gathered && operand.width > 1) {
    prelude_.require("read_gathered");
    const auto i = static_cast<std::size_t>(&operand - kernel_.inputs.begin());
    return fmt::format(
        "read_gathered<{}>({}, p.strides_{}, {}, p.space, {}, [&](const Index (&at)[kCoordinates]) {{ return {}; "
        "}});\n",
        operand.width, packet, name, position, codegen::out_of_range(operand), row_of(program_, i, offset_at("at")));
  }
  if (operand.access == Access::bounded && operand.width > 1) {
    prelude_.require("read_bounded");
    const auto i = static_cast<std::size_t>(&operand - kernel_.inputs.begin());
    return fmt::format(
        "read_bounded<{0}>({1}, p.{2}, p.strides_{2}, p.origin_{2}, {3}, p.space, [&](const Index (&at)[kCoordinates]) "
        "{{ return {4}; }}, [&](const Index (&at)[kCoordinates]) {{ return {5}; }});\n",
        operand.width, packet, name, position, covered_at(program_, i, "at"),
        codegen::element_of(program_, kernel_, i, offset_at("at")));
  }
  if (is_gathered || operand.access == Access::bounded || operand.access == Access::inside) {
    prelude_.require("read_each");
    const auto i = static_cast<std::size_t>(&operand - kernel_.inputs.begin());
    return fmt::format("read_each({}, {}, p.space, [&](const Index (&at)[kCoordinates]) {{ return {}; }});\n", packet,
                       position, codegen::element_of(program_, kernel_, i, offset_at("at")));
  }
  const bool streamed = plan::is_streamed(operand.access);
  const bool is_random = plan::is_random(operand.access);
  const bool hinted = way == "load" && streamed;  // Held::load says whether the elements will be read again
  if (way == "load") way = "read";
  prelude_.require(fmt::format("{}_{}", way, plan::to_string(operand.access)));
  const bool constant = way == "read" && !hinted && operand.read_only;
  reads_constants_ = reads_constants_ || constant;
  const char* const hint = hinted ? ", kHint" : constant ? ", CacheHint::read_only" : "";
  const std::string width = streamed    ? fmt::format("<{}{}>", operand.width, hint)
                            : is_random ? fmt::format("<{}>", operand.width)
                            : constant  ? "<CacheHint::read_only>"
                                        : "";
  std::string out = fmt::format("{}_{}{}({}", way, plan::to_string(operand.access), width, packet);
  if (operand.access != Access::position) out += fmt::format(", p.{}", name);
  if (operand.is_gathered()) out += fmt::format(", p.strides_{}", name);
  out += fmt::format(", {}", position);
  if (operand.is_gathered()) out += ", p.space";
  return out + ");\n";
}

// Only streamed operands are copied without registers.
std::string ReductionPasses::copy(std::size_t i, const std::string& indent, const std::string& chunks16) {
  const OperandPlan& operand = kernel_.inputs[i];
  const std::string name = input_name(program_, i);
  if (plan::is_streamed(operand.access)) return indent + access("copy", operand, chunks16, name, "position");
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

bool ReductionPasses::is_kept(std::size_t input) const {
  return reduction_.columns && reduction_.residency.hoisted[input];
}
bool ReductionPasses::keeps_any() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (is_kept(i)) return true;
  }
  return false;
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
    if (reduction_.structure.accumulators[i].columns) all.push_back(i);
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

std::string ReductionPasses::held_in_registers() {
  std::string members;
  std::string loads;
  std::string uses;
  prelude_.require("packet");
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!reduction_.residency.held[i]) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    loads += "    " + access("load", kernel_.inputs[i], name, name, "position");
    uses += fmt::format("    {}.forget_uses();\n", name);
  }
  std::string kept;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!is_kept(i)) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};  // the same of all rows\n", storage_type(kernel_.inputs[i].dtype), name);
    kept += "    " + access("read", kernel_.inputs[i], name, name, "position");
    uses += fmt::format("    {}.forget_uses();\n", name);
  }
  for (const Value value : reduction_.residency.saved)
    members += fmt::format("  {} t{}[kElements];\n", type_of(chain_.kind(value)), chain_.unshaped(value));
  if (reduction_.columns)
    members += "  Real sums[kColumnSums][kColumnSegments ? 1 : kElements] = {};  // over the rows so far\n";
  if (!kept.empty())
    kept = fmt::format(
        "  template <class At>\n  __device__ __forceinline__ void load_kept(const Params& p, const At& position) "
        "{{\n{}  }}\n",
        kept);
  const bool any = !loads.empty();
  return fmt::format(
      "// What a thread holds of one step from pass to pass.\nstruct alignas(16) Held {{\n{}\n{}"
      "  template <CacheHint kHint, class At>\n  __device__ __forceinline__ void load(const Params&{}, const At&{}) "
      "{{\n{} "
      " "
      "}}\n"
      "  __device__ __forceinline__ void forget_uses() {{\n{}  }}\n}};\n\n",
      members, kept, any ? " p" : "", any ? " position" : "", loads, uses);
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
    if (plan::is_prefetched(kernel_, i))
      prefetches += fmt::format("  prefetch(p.{} + first, count);\n", input_name(program_, i));
  }
  return "__device__ __forceinline__ void prefetch_held(const Params& p, Index first, Index count) {\n" + prefetches +
         "}\n\n";
}

// ---- elements

// Of the exponentials that are held: nothing else sees their maximum, and nothing but a sum what the accumulator has besides.
bool ReductionPasses::maximum_is_only_subtracted() const {
  if (held_accumulator() < 0) return false;
  const Value difference = program_.node(reduction_.residency.saved[0]).args[0];
  const Value maximum = chain_.unshaped(program_.node(difference).args[1]);
  const auto is_maximum = [&](Value value) { return chain_.unshaped(value) == maximum; };
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const Node& node = program_.nodes()[i];
    const auto value = static_cast<Value>(i);
    const bool shares = reduction_.structure.nodes[i].accumulator == held_accumulator();
    if (shares && value != maximum && node.op != Op::sum) return false;
    if (ir::is_shape(node.op) || value == difference) continue;
    for (int k = 0; k < node.computed_arity(); ++k) {
      if (is_maximum(node.args[static_cast<std::size_t>(k)])) return false;
    }
  }
  return std::ranges::none_of(program_.results(), [&](const ir::Result& result) { return is_maximum(result.value); });
}

// By node: nothing in the pass uses the value but sums over hundreds of elements, or a softmax over as many whose exponentials are held: these
// have the error of the argument's last place anyway. Segments may have few.
plan::Marks ReductionPasses::terms_of(int pass, const plan::Marks& computed) const {
  const int softmax = maximum_is_only_subtracted() ? held_accumulator() : -1;
  plan::Marks terms(computed.size(), kernel_.tuning.cheap_terms && !reduction_.structure.is_segment_pass(pass) &&
                                         outputs_of(pass).empty());
  const auto is_used = [&](Value value) { terms[static_cast<std::size_t>(chain_.unshaped(value))] = false; };
  for (const Value value : reduction_.residency.saved) is_used(value);
  for (const std::size_t i : fed_by(pass)) {
    const Accumulator& a = reduction_.structure.accumulators[i];
    const bool sums = a.kind == AccumulatorKind::sum || a.kind == AccumulatorKind::moments;
    if (!sums && static_cast<int>(i) != softmax) is_used(a.argument);
  }
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!computed[i] || !ir::is_computed(node.op)) continue;
    for (int k = 0; k < node.computed_arity(); ++k) is_used(node.args[static_cast<std::size_t>(k)]);
  }
  return terms;
}

std::string ReductionPasses::element_function(int pass) {
  const plan::Marks computed = plan::computed_in_pass(program_, reduction_.structure, pass, reduction_.residency.saved);
  std::vector<std::string> parameters = {"const Params& p", "const Uniforms& uniforms", "const Row& row"};
  for (const std::size_t i : inputs_of(pass))
    parameters.push_back(fmt::format("{} {}", type_of(input_kinds_[i]), input_name(program_, i)));
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value)) continue;
    parameters.push_back(fmt::format("{}& t{}", type_of(chain_.kind(value)), chain_.unshaped(value)));
  }
  const plan::Marks terms = terms_of(pass, computed);
  std::string body;
  const Contraction contraction(program_, kernel_, chain_, computed, terms);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!computed[i] || contraction.is_inlined(i) || !ir::is_computed(node.op)) continue;
    const auto value = static_cast<Value>(i);
    const bool saved = is_saved(value);
    const std::string contracted = contraction.text(i);
    body +=
        fmt::format("  {}t{} = {};\n", saved ? "" : fmt::format("const {} ", type_of(chain_.kind(value))), i,
                    contracted.empty() ? chain_.computation(value, terms[i], contraction.arguments(i)) : contracted);
  }
  for (const std::size_t i : fed_by(pass)) {
    parameters.push_back(fmt::format("Real& value_{}", i));
    body += fmt::format("  value_{} = {};\n", i,
                        chain_.argument(reduction_.structure.accumulators[i].argument, Kind::real));
  }
  for (const std::size_t i : outputs_of(pass)) {
    const Value value = program_.results()[i].value;
    parameters.push_back(fmt::format("{}& {}", type_of(chain_.kind(value)), output_name(program_, i)));
    body += fmt::format("  {} = {};\n", output_name(program_, i), chain_.reference(value));
  }
  return fmt::format("// One element of pass {}.\n__device__ __forceinline__ void element_{}({}) {{\n{}}}\n\n", pass,
                     pass, fmt::join(parameters, ", "), body);
}

std::string ReductionPasses::element_of(std::size_t input, const std::string& packet) const {
  return fmt::format("{}.real<{}>(e)", packet, type_of(input_kinds_[input]));
}

std::string ReductionPasses::read_hoisted(int pass, const std::string& indent, std::string_view position) {
  std::string out;
  for (const std::size_t i : inputs_of(pass)) {
    if (!reduction_.residency.hoisted[i] || is_kept(i)) continue;
    const std::string name = input_name(program_, i);
    prelude_.require("packet");
    out += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
    out += indent + access("read", kernel_.inputs[i], name, name, position);
  }
  return out;
}

// Of rows in shared memory, where passes have loops: the loop-invariant operands of the last one. They exist or they do not, as the plan promises.
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
  if (members.empty())
    return "// Nothing is loop-invariant.\nstruct Hoisted {};\n"
           "__device__ __forceinline__ Hoisted load_hoisted(const Params&, const Position&) { return {}; }\n\n";
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
  for (const std::size_t i : outputs_of(pass)) {
    const std::string name = output_name(program_, i);
    const std::string_view type = storage_type(kernel_.outputs[i].dtype);
    known += fmt::format("      {} result_{};\n", type_of(chain_.kind(program_.results()[i].value)), i);
    arguments.push_back(fmt::format("result_{}", i));
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
      "    for (int i = 0; i < kBatch; ++i) {{\n{2}      element_{3}({4});\n{5}    }}\n{6}  }}\n{7}}}\n\n",
      reads, results, known, pass, fmt::join(arguments, ", "), keeps, puts, writes);
}

// What a thread holds of a step, back in registers.
std::string ReductionPasses::taken(const std::string& type, const std::string& name, std::string_view held) {
  return fmt::format("{0} {1} = load_held<{0}>({2}.chunks16 + Held::k_{1} * kThreads);\n", type, name, held);
}

std::string ReductionPasses::element_loop(int pass, const std::string& indent, std::string_view held,
                                          std::string_view position, std::string_view values) {
  std::string before;
  std::string inside;
  std::string after;
  std::vector<std::string> arguments = {"p", "uniforms", "rows[kRows == 1 ? 0 : e]"};
  for (const std::size_t i : inputs_of(pass)) {
    const std::string name = input_name(program_, i);
    if (is_kept(i)) {
      arguments.push_back(element_of(i, fmt::format("{}.{}", held, name)));
      continue;
    }
    if (reduction_.residency.hoisted[i]) {
      arguments.push_back(element_of(i, name));
      continue;
    }
    if (is_per_segment(pass, i)) {
      arguments.push_back("of_segment." + name);
      continue;
    }
    std::string packet =
        reduction_.residency.held[i] && !reduction_.is_in_shared_memory() ? fmt::format("{}.{}", held, name) : name;
    if (reduction_.residency.held[i] && reduction_.is_in_shared_memory()) {
      before += indent + taken(fmt::format("Packet<{}>", storage_type(kernel_.inputs[i].dtype)), name, held);
    } else if (!reduction_.residency.held[i]) {
      prelude_.require("packet");
      before += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
      before += indent + access("read", kernel_.inputs[i], name, name, position);
    }
    arguments.push_back(element_of(i, packet));
  }
  const plan::Marks computed = plan::computed_in_pass(program_, reduction_.structure, pass, reduction_.residency.saved);
  std::string keeps;
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value)) continue;
    const std::string name = fmt::format("t{}", chain_.unshaped(value));
    arguments.push_back(reduction_.is_in_shared_memory() ? name + ".values[e]" : fmt::format("{}.{}[e]", held, name));
    if (!reduction_.is_in_shared_memory()) continue;
    const std::string type = fmt::format("Saved<{}>", type_of(chain_.kind(value)));
    if (computed[static_cast<std::size_t>(value)]) {
      before += fmt::format("{}{} {};\n", indent, type, name);
      keeps += fmt::format("{0}store_held({1}.chunks16 + Held::k_{2} * kThreads, {2});\n", indent, held, name);
    } else {
      before += indent + taken(type, name, held);
    }
  }
  for (const std::size_t i : fed_by(pass)) arguments.push_back(fmt::format("values_{}[{}]", i, values));
  for (const std::size_t i : outputs_of(pass)) {
    const std::string name = (is_transposed(i) ? "transposed." : "") + output_name(program_, i);
    const std::string_view type = storage_type(kernel_.outputs[i].dtype);
    prelude_.require("packet");
    if (!is_transposed(i)) before += fmt::format("{}Packet<{}> {};\n", indent, type, name);
    inside += fmt::format("{}  {} result_{};\n", indent, type_of(chain_.kind(program_.results()[i].value)), i);
    arguments.push_back(fmt::format("result_{}", i));
    after += fmt::format("{}  {}.put(e, from_real<{}>(result_{}));\n", indent, name, type, i);
  }
  std::string out = before;
  out += fmt::format("#pragma unroll\n{0}for (int e = 0; e < kElements; ++e) {{\n{1}{0}  element_{2}({3});\n{4}{0}}}\n",
                     indent, inside, pass, fmt::join(arguments, ", "), after);
  out += keeps;
  for (const std::size_t i : outputs_of(pass)) {
    if (is_transposed(i)) continue;
    out += indent + access("write", kernel_.outputs[i], output_name(program_, i), output_name(program_, i), position);
  }
  return out;
}

}  // namespace epifuse::codegen
