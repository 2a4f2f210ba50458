// Text of one walk's elements. What is read, computed and fed follows from the plan's structure; how an operand moves, from its access.
#include "codegen/row_walks.hpp"

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
using plan::Extent;
using plan::NodeRole;
using plan::OperandPlan;

const NodeRole& RowChain::role(Value value) const {
  return kernel_.rows->structure.nodes[static_cast<std::size_t>(unshaped(value))];
}
Extent RowChain::extent_of_input(std::size_t i) const {
  return plan::extent_of_input(program_, kernel_.rows->structure, i);
}

std::string RowChain::variable(Value value) const {
  return role(value).extent == Extent::row ? "row." + ChainWriter::variable(value) : ChainWriter::variable(value);
}
std::string RowChain::input(std::size_t i) const {
  const std::string name = ChainWriter::input(i);
  if (kernel_.inputs[i].access == Access::uniform) return "uniforms." + name;
  return extent_of_input(i) == Extent::element ? name : "row." + name;
}
std::string AcrossChain::input(std::size_t i) const {
  return kernel_.inputs[i].access == Access::uniform ? RowChain::input(i) : ChainWriter::input(i);
}
std::string RowChain::scalar(std::size_t i) const { return "p." + ChainWriter::scalar(i); }
std::string RowChain::count(Value value) const { return "p." + ChainWriter::count(value); }
// Elements of a row divided by one number.
std::string RowChain::special_form(const Node& node, const std::array<std::string, ir::kMaxArity>& operands) {
  if (node.op != Op::div || role(node.args[0]).extent != Extent::element || !is_per_row(node.args[1])) return {};
  // The quotient of 1 leaves the loop; rounding to few bits hides the product's error.
  if (arithmetic_.cheap_rows) return fmt::format("{} * (Real(1) / {})", operands[0], operands[1]);
  prelude_.require("divide_by_row");
  return fmt::format("detail::divide_by_row({}, {})", operands[0], operands[1]);
}

bool RowChain::is_per_row(Value value) const {
  const Op op = program_.node(unshaped(value)).op;
  return role(value).extent == Extent::row && op > Op::count;
}

RowWalks::RowWalks(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<Kind>& input_kinds,
                   Prelude& prelude)
    : program_(program),
      kernel_(kernel),
      rows_(*kernel.rows),
      input_kinds_(input_kinds),
      prelude_(prelude),
      chain_(program, kernel, input_kinds, prelude) {}

bool RowWalks::is_input_of(std::size_t i, Extent extent) const {
  const Access access = kernel_.inputs[i].access;
  return access != Access::unused && access != Access::uniform && chain_.extent_of_input(i) == extent;
}

std::string RowWalks::access(std::string_view way, const OperandPlan& operand, std::string_view packet,
                             const std::string& name, std::string_view position) {
  const bool streamed = plan::is_streamed(operand.access);
  const bool hinted = way == "load" && streamed;  // Held::load says whether the elements will be read again
  if (way == "load") way = "read";
  prelude_.require(fmt::format("{}_{}", way, plan::to_string(operand.access)));
  const bool constant = way == "read" && !hinted && operand.read_only;
  const char* const reuse = hinted ? ", kReuse" : constant ? ", Reuse::constant" : "";
  const std::string width = streamed   ? fmt::format("<{}{}>", operand.width, reuse)
                            : constant ? "<Reuse::constant>"
                                       : "";
  std::string out = fmt::format("{}_{}{}({}, p.{}", way, plan::to_string(operand.access), width, packet, name);
  if (operand.is_gathered()) out += fmt::format(", p.strides_{}", name);
  out += fmt::format(", {}", position);
  if (operand.is_gathered()) out += ", p.space";
  return out + ");\n";
}

// Only streamed operands are copied without registers.
std::string RowWalks::copy(std::size_t i, const std::string& indent, const std::string& pieces) {
  const OperandPlan& operand = kernel_.inputs[i];
  const std::string name = input_name(program_, i);
  if (plan::is_streamed(operand.access)) return indent + access("copy", operand, pieces, name, "position");
  return fmt::format("{0}Packet<{1}> {2};\n{0}{3}{0}keep({4}, {2});\n", indent, storage_type(operand.dtype), name,
                     access("read", operand, name, name, "position"), pieces);
}

bool RowWalks::gathers_in(int walk) const {
  const auto is_gathered = [&](std::size_t i) {
    return !rows_.held[i] && kernel_.inputs[i].is_gathered() && !is_part_wise(walk, i);
  };
  return std::ranges::any_of(inputs_of(walk), is_gathered) ||
         std::ranges::any_of(outputs_of(walk), [&](std::size_t i) { return kernel_.outputs[i].is_gathered(); });
}
bool RowWalks::load_gathers() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (rows_.held[i] && kernel_.inputs[i].is_gathered()) return true;
  }
  return false;
}
bool RowWalks::gathers() const {
  if (load_gathers()) return true;
  for (int walk = 0; walk <= rows_.structure.output_walk; ++walk) {
    const auto is_gathered = [&](std::size_t i) { return kernel_.inputs[i].is_gathered() && !is_part_wise(walk, i); };
    if (std::ranges::any_of(inputs_of(walk), is_gathered)) return true;
  }
  return std::ranges::any_of(outputs_of(rows_.structure.output_walk),
                             [&](std::size_t i) { return kernel_.outputs[i].is_gathered() && !is_crossed(i); });
}

bool RowWalks::is_carried(Value value) const { return std::ranges::find(rows_.carried, value) != rows_.carried.end(); }

int RowWalks::kept_accumulator() const {
  return rows_.carried.size() == 1 ? plan::accumulator_of_exponential(program_, rows_.structure, rows_.carried[0]) : -1;
}
// The first walk does not know a kept exponential yet.
bool RowWalks::is_seen_by(int walk, Value carried) const { return walk >= chain_.role(carried).level; }

std::vector<std::size_t> RowWalks::accumulators_of(int walk) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < rows_.structure.accumulators.size(); ++i) {
    if (!rows_.structure.accumulators[i].across && rows_.structure.accumulators[i].level == walk + 1) all.push_back(i);
  }
  return all;
}
std::vector<std::size_t> RowWalks::across_of(int walk) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < rows_.structure.accumulators.size() && walk == rows_.structure.output_walk; ++i) {
    const Accumulator& a = rows_.structure.accumulators[i];
    if (a.across && chain_.role(a.argument).extent == Extent::element) all.push_back(i);
  }
  return all;
}
std::vector<std::size_t> RowWalks::fed_by(int walk) const {
  std::vector<std::size_t> all = accumulators_of(walk);
  for (const std::size_t i : across_of(walk)) all.push_back(i);
  return all;
}
std::vector<std::size_t> RowWalks::outputs_of(int walk) const {
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < kernel_.outputs.size() && walk == rows_.structure.output_walk; ++i) {
    if (chain_.role(program_.results()[i].value).extent == Extent::element) all.push_back(i);
  }
  return all;
}
bool RowWalks::is_part_wise(int walk, std::size_t input) const {
  return rows_.structure.walks_parts(walk) && !rows_.held[input] &&
         plan::role_of_input(program_, rows_.structure, input).part_wise;
}
// Operands of elements that a walk reads.
std::vector<std::size_t> RowWalks::inputs_of(int walk) const {
  const plan::Marks read = plan::inputs_of_walk(program_, rows_.structure, walk, rows_.carried);
  std::vector<std::size_t> all;
  for (std::size_t i = 0; i < read.size(); ++i) {
    if (read[i] && is_input_of(i, Extent::element)) all.push_back(i);
  }
  return all;
}

// ---- what a thread keeps

std::string RowWalks::held_in_registers() {
  std::string members;
  std::string loads;
  std::string uses;
  prelude_.require("packet");
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!rows_.held[i]) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    loads += "    " + access("load", kernel_.inputs[i], name, name, "position");
    uses += fmt::format("    {}.forget_uses();\n", name);
  }
  for (const Value value : rows_.carried)
    members += fmt::format("  {} t{}[kElements];\n", type_of(chain_.kind(value)), chain_.unshaped(value));
  const bool any = !loads.empty();
  return fmt::format(
      "// What a thread keeps of one step from walk to walk.\nstruct alignas(16) Held {{\n{}\n"
      "  template <Reuse kReuse>\n  __device__ __forceinline__ void load(const Params&{}, const Position&{}) {{\n{}  "
      "}}\n"
      "  __device__ __forceinline__ void forget_uses() {{\n{}  }}\n}};\n\n",
      members, any ? " p" : "", any ? " position" : "", loads, uses);
}

std::string RowWalks::kept_of_parts() {
  const int walk = rows_.structure.levels;
  std::string members;
  std::string copies;
  for (const std::size_t i : inputs_of(walk)) {
    if (!rows_.held[i]) continue;
    const std::string name = input_name(program_, i);
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    copies += fmt::format("  kept.{0} = held.{0};\n", name);
  }
  for (const Value value : rows_.carried) {
    if (!is_seen_by(walk, value)) continue;
    members += fmt::format("  {} t{}[kElements];\n", type_of(chain_.kind(value)), chain_.unshaped(value));
    copies += fmt::format("#pragma unroll\n  for (int e = 0; e < kElements; ++e) kept.t{0}[e] = held.t{0}[e];\n",
                          chain_.unshaped(value));
  }
  return fmt::format(
      "// What the walk over parts needs of a group.\nstruct alignas(16) Kept {{\n{}}};\n"
      "__device__ __forceinline__ Kept kept_of(const Held& held) {{\n  Kept kept;\n{}  return kept;\n}}\n\n",
      members, copies);
}

// In shared memory what is carried takes the place of operands that nothing else needs.
std::string RowWalks::held_in_pieces() {
  std::string places;
  std::string loads;
  std::string next = "0";
  prelude_.require("pieces");
  const auto place = [&](const std::string& name, const std::string& type) {
    places += fmt::format("  static constexpr int k_{0} = {1}, k_after_{0} = k_{0} + sizeof({2}) / sizeof(Piece);\n",
                          name, next, type);
    next = "k_after_" + name;
  };
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!rows_.held[i]) continue;
    const std::string name = input_name(program_, i);
    place(name, fmt::format("Packet<{}>", storage_type(kernel_.inputs[i].dtype)));
    loads += copy(i, "    ", fmt::format("pieces + k_{} * kThreads", name));
  }
  std::string all = next;
  if (plan::carried_replaces_held(program_, rows_)) next = "0";
  for (const Value value : rows_.carried)
    place(fmt::format("t{}", chain_.unshaped(value)), fmt::format("Carried<{}>", type_of(chain_.kind(value))));
  if (next != all) all = fmt::format("{0} > {1} ? {0} : {1}", all, next);
  return fmt::format(
      "// What a thread keeps of one step from walk to walk.\nstruct Held {{\n{}  static constexpr int kPieces = "
      "{};\n  Piece* pieces;  // of one step, kThreads apart\n\n"
      "  __device__ __forceinline__ Held at(int step) const {{ return {{pieces + step * (kPieces * kThreads)}}; }}\n"
      "  template <Reuse kReuse>\n  __device__ __forceinline__ void load(const Params& p, const Position& position) "
      "const {{\n{}  }}\n}};\n\n",
      places, all, loads);
}

std::string RowWalks::ask_held() const {
  std::string asks;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (plan::is_asked_for(kernel_, i)) asks += fmt::format("  ask(p.{} + first, count);\n", input_name(program_, i));
  }
  return "__device__ __forceinline__ void ask_held(const Params& p, Index first, Index count) {\n" + asks + "}\n\n";
}

// ---- elements

// Of the exponentials that are kept: nothing else sees their maximum, and nothing but a sum what the accumulator has besides.
bool RowWalks::maximum_is_only_subtracted() const {
  if (kept_accumulator() < 0) return false;
  const Value difference = program_.node(rows_.carried[0]).args[0];
  const Value maximum = chain_.unshaped(program_.node(difference).args[1]);
  const auto is_maximum = [&](Value value) { return chain_.unshaped(value) == maximum; };
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const Node& node = program_.nodes()[i];
    const auto value = static_cast<Value>(i);
    const bool shares = rows_.structure.nodes[i].accumulator == kept_accumulator();
    if (shares && value != maximum && node.op != Op::sum) return false;
    if (ir::is_shape(node.op) || value == difference) continue;
    for (int k = 0; k < node.computed_arity(); ++k) {
      if (is_maximum(node.args[static_cast<std::size_t>(k)])) return false;
    }
  }
  return std::ranges::none_of(program_.results(), [&](const ir::Result& result) { return is_maximum(result.value); });
}

// By node: nothing in the walk uses the value but sums over hundreds of elements, or a softmax over as many whose exponentials are kept: these
// have the error of the argument's last place anyway. Parts may have few.
plan::Marks RowWalks::terms_of(int walk, const plan::Marks& computed) const {
  const int softmax = maximum_is_only_subtracted() ? kept_accumulator() : -1;
  plan::Marks terms(computed.size(),
                    kernel_.tuning.cheap_terms && !rows_.structure.walks_parts(walk) && outputs_of(walk).empty());
  const auto is_used = [&](Value value) { terms[static_cast<std::size_t>(chain_.unshaped(value))] = false; };
  for (const Value value : rows_.carried) is_used(value);
  for (const std::size_t i : fed_by(walk)) {
    const Accumulator& a = rows_.structure.accumulators[i];
    const bool sums = a.kind == AccumulatorKind::sum || a.kind == AccumulatorKind::moments;
    if (!sums && static_cast<int>(i) != softmax) is_used(a.argument);
  }
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!computed[i] || node.op < Op::cast || ir::is_shape(node.op)) continue;
    for (int k = 0; k < node.computed_arity(); ++k) is_used(node.args[static_cast<std::size_t>(k)]);
  }
  return terms;
}

std::string RowWalks::element_function(int walk) {
  const plan::Marks computed = plan::computed_in_walk(program_, rows_.structure, walk, rows_.carried);
  std::vector<std::string> parameters = {"const Params& p", "const Uniforms& uniforms", "const Row& row"};
  for (const std::size_t i : inputs_of(walk))
    parameters.push_back(fmt::format("{} {}", type_of(input_kinds_[i]), input_name(program_, i)));
  for (const Value value : rows_.carried) {
    if (!is_seen_by(walk, value)) continue;
    parameters.push_back(fmt::format("{}& t{}", type_of(chain_.kind(value)), chain_.unshaped(value)));
  }
  const plan::Marks terms = terms_of(walk, computed);
  std::string body;
  const Contraction contraction(program_, kernel_, chain_, computed, terms);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!computed[i] || contraction.is_inlined(i) || node.op < Op::cast || ir::is_shape(node.op)) continue;
    const auto value = static_cast<Value>(i);
    const bool carried = is_carried(value);
    const std::string contracted = contraction.text(i);
    body +=
        fmt::format("  {}t{} = {};\n", carried ? "" : fmt::format("const {} ", type_of(chain_.kind(value))), i,
                    contracted.empty() ? chain_.computation(value, terms[i], contraction.arguments(i)) : contracted);
  }
  for (const std::size_t i : fed_by(walk)) {
    parameters.push_back(fmt::format("Real& value_{}", i));
    body += fmt::format("  value_{} = {};\n", i, chain_.argument(rows_.structure.accumulators[i].argument, Kind::real));
  }
  for (const std::size_t i : outputs_of(walk)) {
    const Value value = program_.results()[i].value;
    parameters.push_back(fmt::format("{}& {}", type_of(chain_.kind(value)), output_name(program_, i)));
    body += fmt::format("  {} = {};\n", output_name(program_, i), chain_.reference(value));
  }
  return fmt::format("// One element of walk {}.\n__device__ __forceinline__ void element_{}({}) {{\n{}}}\n\n",
                     walk + 1, walk + 1, fmt::join(parameters, ", "), body);
}

std::string RowWalks::element_of(std::size_t input, const std::string& packet) const {
  return fmt::format("{}.real<{}>(e)", packet, type_of(input_kinds_[input]));
}

std::string RowWalks::read_steady(int walk, const std::string& indent, std::string_view position) {
  std::string out;
  for (const std::size_t i : inputs_of(walk)) {
    if (!rows_.steady[i]) continue;
    const std::string name = input_name(program_, i);
    prelude_.require("packet");
    out += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
    out += indent + access("read", kernel_.inputs[i], name, name, position);
  }
  return out;
}

// Of rows in shared memory, where walks have loops: what the last one needs of all groups of a thread. They exist or they do not, as the plan promises.
std::string RowWalks::steady_struct() {
  std::string members;
  std::string reads;
  for (const std::size_t i : inputs_of(rows_.structure.output_walk)) {
    if (!rows_.steady[i]) continue;
    const std::string name = input_name(program_, i);
    prelude_.require("packet");
    members += fmt::format("  Packet<{}> {};\n", storage_type(kernel_.inputs[i].dtype), name);
    reads += "    " + access("read", kernel_.inputs[i], "steady." + name, name, "known<true>(first)");
  }
  if (members.empty())
    return "// Nothing is the same for all groups of a thread.\nstruct Steady {};\n"
           "__device__ __forceinline__ Steady load_steady(const Params&, const Position&) { return {}; }\n\n";
  return fmt::format(
      "// What is the same for all groups of a thread, read with the first of them.\nstruct Steady {{\n{}}};\n"
      "__device__ __forceinline__ Steady load_steady(const Params& p, const Position& first) {{\n  Steady "
      "steady{{}};\n  if (first.whole) {{\n{}  }}\n  return steady;\n}}\n\n",
      members, reads);
}

// By the names that element_loop() knows.
std::string RowWalks::take_steady() const {
  std::string out;
  for (const std::size_t i : inputs_of(rows_.structure.output_walk)) {
    if (!rows_.steady[i]) continue;
    out += fmt::format("  const Packet<{0}>& {1} = steady.{1};\n", storage_type(kernel_.inputs[i].dtype),
                       input_name(program_, i));
  }
  return out;
}

// Element by element of all steps, not step by step: a line's elements leave the registers as soon as they are known.
std::string RowWalks::write_batch() {
  const int walk = rows_.structure.output_walk;
  const std::string position = "known<true>(locate(p, place, chunk, first + i))";
  std::string reads = read_steady(walk, "  ", "known<true>(locate(p, place, chunk, first))");
  std::string results;
  std::string known;
  std::string keeps;
  std::string puts;
  std::string writes;
  std::vector<std::string> arguments = {"p", "uniforms", "rows[kRows == 1 ? 0 : e]"};
  const auto loop = [](std::string_view body) {
    return fmt::format("#pragma unroll\n  for (int i = 0; i < kBatch; ++i) {}", body);
  };
  for (const std::size_t i : inputs_of(walk)) {
    const std::string name = input_name(program_, i);
    const std::string_view type = storage_type(kernel_.inputs[i].dtype);
    if (rows_.steady[i]) {
      arguments.push_back(element_of(i, name));
    } else if (rows_.held[i]) {
      arguments.push_back(element_of(i, fmt::format("held[i * kApart].{}", name)));
    } else {
      reads += fmt::format("  Packet<{}> {}[kBatch];\n", type, name);
      reads += loop(access("read", kernel_.inputs[i], name + "[i]", name, position));
      arguments.push_back(element_of(i, name + "[i]"));
    }
  }
  for (const Value value : rows_.carried)
    arguments.push_back(fmt::format("held[i * kApart].t{}[e]", chain_.unshaped(value)));
  for (const std::size_t i : outputs_of(walk)) {
    const std::string name = output_name(program_, i);
    const std::string_view type = storage_type(kernel_.outputs[i].dtype);
    known += fmt::format("      {} result_{};\n", type_of(chain_.kind(program_.results()[i].value)), i);
    arguments.push_back(fmt::format("result_{}", i));
    if (is_crossed(i)) {
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
      "// Results of a batch whose groups are straight; its steps stand kApart apart.\n"
      "template <int kApart>\n"
      "__device__ __forceinline__ void write_batch(const Params& p, const Uniforms& uniforms, const Place& place, "
      "Index chunk, int first,\n                                            Held* held, const Row (&rows)[kRows], "
      "Crossed& tile) {{\n{0}#pragma unroll\n  for (int e = 0; e < kElements; ++e) {{\n{1}#pragma unroll\n"
      "    for (int i = 0; i < kBatch; ++i) {{\n{2}      element_{3}({4});\n{5}    }}\n{6}  }}\n{7}}}\n\n",
      reads, results, known, walk + 1, fmt::join(arguments, ", "), keeps, puts, writes);
}

// What a thread kept of a step, back in registers.
std::string RowWalks::taken(const std::string& type, const std::string& name, std::string_view held) {
  return fmt::format("{0} {1} = taken_from<{0}>({2}.pieces + Held::k_{1} * kThreads);\n", type, name, held);
}

std::string RowWalks::element_loop(int walk, const std::string& indent, std::string_view held,
                                   std::string_view position, std::string_view values) {
  std::string before;
  std::string inside;
  std::string after;
  std::vector<std::string> arguments = {"p", "uniforms", "rows[kRows == 1 ? 0 : e]"};
  for (const std::size_t i : inputs_of(walk)) {
    const std::string name = input_name(program_, i);
    if (rows_.steady[i]) {
      arguments.push_back(element_of(i, name));
      continue;
    }
    if (is_part_wise(walk, i)) {
      arguments.push_back("of_part." + name);
      continue;
    }
    std::string packet = rows_.held[i] && !rows_.staged ? fmt::format("{}.{}", held, name) : name;
    if (rows_.held[i] && rows_.staged) {
      before += indent + taken(fmt::format("Packet<{}>", storage_type(kernel_.inputs[i].dtype)), name, held);
    } else if (!rows_.held[i]) {
      prelude_.require("packet");
      before += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
      before += indent + access("read", kernel_.inputs[i], name, name, position);
    }
    arguments.push_back(element_of(i, packet));
  }
  const plan::Marks computed = plan::computed_in_walk(program_, rows_.structure, walk, rows_.carried);
  std::string keeps;
  for (const Value value : rows_.carried) {
    if (!is_seen_by(walk, value)) continue;
    const std::string name = fmt::format("t{}", chain_.unshaped(value));
    arguments.push_back(rows_.staged ? name + ".values[e]" : fmt::format("{}.{}[e]", held, name));
    if (!rows_.staged) continue;
    const std::string type = fmt::format("Carried<{}>", type_of(chain_.kind(value)));
    if (computed[static_cast<std::size_t>(value)]) {
      before += fmt::format("{}{} {};\n", indent, type, name);
      keeps += fmt::format("{0}keep({1}.pieces + Held::k_{2} * kThreads, {2});\n", indent, held, name);
    } else {
      before += indent + taken(type, name, held);
    }
  }
  for (const std::size_t i : fed_by(walk)) arguments.push_back(fmt::format("values_{}[{}]", i, values));
  for (const std::size_t i : outputs_of(walk)) {
    const std::string name = (is_crossed(i) ? "crossing." : "") + output_name(program_, i);
    const std::string_view type = storage_type(kernel_.outputs[i].dtype);
    prelude_.require("packet");
    if (!is_crossed(i)) before += fmt::format("{}Packet<{}> {};\n", indent, type, name);
    inside += fmt::format("{}  {} result_{};\n", indent, type_of(chain_.kind(program_.results()[i].value)), i);
    arguments.push_back(fmt::format("result_{}", i));
    after += fmt::format("{}  {}.put(e, from_real<{}>(result_{}));\n", indent, name, type, i);
  }
  std::string out = before;
  out += fmt::format("#pragma unroll\n{0}for (int e = 0; e < kElements; ++e) {{\n{1}{0}  element_{2}({3});\n{4}{0}}}\n",
                     indent, inside, walk + 1, fmt::join(arguments, ", "), after);
  out += keeps;
  for (const std::size_t i : outputs_of(walk)) {
    if (is_crossed(i)) continue;
    out += indent + access("write", kernel_.outputs[i], output_name(program_, i), output_name(program_, i), position);
  }
  return out;
}

}  // namespace epifuse::codegen
