// The elements of passes: the functions that compute one, and the loops that run them over a vector.
#include <algorithm>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include "codegen/contraction.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/reduction/lane_segments.hpp"
#include "codegen/reduction/passes.hpp"
#include "plan/analysis/accuracy.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;
using plan::Access;
using plan::Accumulator;
using plan::AccumulatorKind;

// Of the exponentials that are held: nothing else sees their maximum, and nothing but a sum what the accumulator has
// besides.
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

// By node: nothing in the pass uses the value but sums over hundreds of elements, or a softmax over as many whose
// exponentials are held: these have the error of the argument's last place anyway. Segments may have few.
plan::Marks ReductionPasses::terms_of(int pass, const ElementLoop& loop) const {
  const plan::Marks& computed = loop.computed;
  const int softmax = maximum_is_only_subtracted() ? held_accumulator() : -1;
  plan::Marks terms(computed.size(), kernel_.tuning.cheap_terms && !reduction_.structure.is_segment_pass(pass) &&
                                         outputs_of(pass).empty() && loop.lanes.empty() && loop.taken.empty());
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

PassNeeds ReductionPasses::needs_of(int pass) const {
  return {.computed = plan::computed_in_pass(program_, reduction_.structure, pass, reduction_.residency.saved),
          .inputs = inputs_of(pass),
          .fed = fed_by(pass),
          .outputs = outputs_of(pass)};
}

std::string ReductionPasses::element_functions(int pass) {
  const std::vector<ElementLoop> loops = loops_of(program_, reduction_, needs_of(pass));
  std::string out;
  for (std::size_t k = 0; k < loops.size(); ++k) out += element_function(pass, k, loops);
  return out;
}

std::string ReductionPasses::segment_structs() {
  require("lane_segments");
  return LaneSegmentsWriter(program_, kernel_, input_kinds_, chain_).structs();
}

// The right-hand sides of a loop's values.
std::string ReductionPasses::element_text(int pass, const ElementLoop& loop) {
  const plan::Marks terms = terms_of(pass, loop);
  const Contraction contraction(program_, kernel_, chain_, loop.computed, terms);
  std::string body;
  for (std::size_t i = 0; i < loop.computed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (!loop.computed[i] || contraction.is_inlined(i) || !ir::is_computed(node.op)) continue;
    const auto value = static_cast<Value>(i);
    const bool is_parameter = is_saved(value) || std::ranges::find(loop.given, value) != loop.given.end();
    const std::string contracted = contraction.text(i);
    body +=
        fmt::format("  {}t{} = {};\n", is_parameter ? "" : fmt::format("const {} ", type_of(chain_.kind(value))), i,
                    contracted.empty() ? chain_.computation(value, terms[i], contraction.arguments(i)) : contracted);
  }
  return body;
}

// The operand that a pass accumulates as it is, or -1 where it does anything else with its elements.
int ReductionPasses::only_operand(int pass, const std::vector<ElementLoop>& loops) {
  const ElementLoop& loop = loops[0];
  const bool is_plain = loops.size() == 1 && loop.lanes.empty() && loop.outputs.empty() && loop.fed.size() == 1 &&
                        loop.inputs.size() == 1 && !knows_segments(loops);
  if (!is_plain || !element_text(pass, loop).empty()) return -1;
  const Value value = reduction_.structure.accumulators[loop.fed[0]].argument;
  const bool is_it = chain_.argument(value, Kind::real) == input_name(program_, loop.inputs[0]);
  return is_it ? static_cast<int>(loop.inputs[0]) : -1;
}

// Whether the function of an element gives back one number: what an accumulator takes, or a result.
bool ReductionPasses::returns_value(const ElementLoop& loop) {
  return loop.fed.size() + loop.outputs.size() == 1 && loop.lanes.empty() && loop.given.empty();
}

std::string ReductionPasses::element_function(int pass, std::size_t k, const std::vector<ElementLoop>& loops) {
  if (only_operand(pass, loops) >= 0) return "";
  const ElementLoop& loop = loops[k];
  std::vector<std::string> parameters = {"const Params& p", "const Uniforms& uniforms", "const Row& row"};
  if (knows_segments(loops)) parameters.push_back("const SegmentValues& of_segment");
  for (const std::size_t i : loop.inputs)
    parameters.push_back(fmt::format("{} {}", type_of(input_kinds_[i]), input_name(program_, i)));
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value)) continue;
    const bool gives = needs_of(pass).computed[static_cast<std::size_t>(value)];
    parameters.push_back(
        fmt::format("{}{} t{}", type_of(chain_.kind(value)), gives ? "&" : "", chain_.unshaped(value)));
  }
  for (const Value value : loop.taken) parameters.push_back(fmt::format("{} t{}", type_of(chain_.kind(value)), value));
  for (const Value value : loop.given) parameters.push_back(fmt::format("{}& t{}", type_of(chain_.kind(value)), value));
  std::string body = element_text(pass, loop);
  const bool returns = returns_value(loop);
  std::string_view type = returns ? "Real" : "void";
  for (const auto* accumulators : {&loop.fed, &loop.lanes}) {
    for (const std::size_t i : *accumulators) {
      if (!returns) parameters.push_back(fmt::format("Real& value_{}", i));
      body += fmt::format("  {} {};\n", returns ? "return" : fmt::format("value_{} =", i),
                          chain_.argument(reduction_.structure.accumulators[i].argument, Kind::real));
    }
  }
  for (const std::size_t i : loop.outputs) {
    const Value value = program_.results()[i].value;
    if (returns) type = type_of(chain_.kind(value));
    if (!returns) parameters.push_back(fmt::format("{}& {}", type_of(chain_.kind(value)), output_name(program_, i)));
    const Value stored = plan::stored_value(program_, i, kernel_.outputs[i].dtype);
    body += fmt::format("  {} {};\n", returns ? "return" : output_name(program_, i) + " =", chain_.reference(stored));
  }
  const std::string knows =
      loops.size() == 1 ? "" : fmt::format(", once its lanes have agreed {} time{}", k, k == 1 ? "" : "s");
  const std::string functions = LaneSegmentsWriter(program_, kernel_, input_kinds_, chain_).function(pass, k, loop);
  return functions + fmt::format("// One element of pass {}{}.\n__device__ __forceinline__ {} {}({}) {{\n{}}}\n\n",
                                 pass, knows, type, name_of_element(pass, k, loops), fmt::join(parameters, ", "), body);
}

std::string ReductionPasses::element_of(std::size_t input, const std::string& packet) const {
  return fmt::format("{}.real<{}>(e)", packet, type_of(input_kinds_[input]));
}

// What a thread holds of a step, back in registers.
std::string ReductionPasses::taken(const std::string& type, const std::string& name, std::string_view held) {
  return fmt::format("{0} {1} = load_held<{0}>({2}.chunks16 + Held::k_{1} * kThreads);\n", type, name, held);
}

// Operands that nobody holds, and what shared memory holds, in registers.
std::string ReductionPasses::vectors_read(int pass, const PassNeeds& needs, const std::string& indent,
                                          std::string_view held, std::string_view position) {
  std::string out;
  for (const std::size_t i : needs.inputs) {
    const std::string name = input_name(program_, i);
    if (reduction_.residency.hoisted[i] || is_per_segment(pass, i)) continue;
    if (!reduction_.residency.held[i] && kernel_.inputs[i].run) {
      if (is_first_of_run(i, needs.inputs)) out += packets_of_run(i, indent) + run_read(i, indent, position);
    } else if (reduction_.residency.held[i] && reduction_.is_in_shared_memory()) {
      out += indent + taken(fmt::format("Packet<{}>", storage_type(kernel_.inputs[i].dtype)), name, held);
    } else if (!reduction_.residency.held[i]) {
      prelude_.require("packet");
      out += fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.inputs[i].dtype), name);
      out += indent + access("read", kernel_.inputs[i], name, name, position);
    }
  }
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value) || !reduction_.is_in_shared_memory()) continue;
    const std::string name = fmt::format("t{}", chain_.unshaped(value));
    const std::string type = fmt::format("Saved<{}>", type_of(chain_.kind(value)));
    out += needs.computed[static_cast<std::size_t>(value)] ? fmt::format("{}{} {};\n", indent, type, name)
                                                           : indent + taken(type, name, held);
  }
  return out;
}

// What the pass saves in shared memory.
std::string ReductionPasses::vectors_saved(int pass, const PassNeeds& needs, const std::string& indent,
                                           std::string_view held) const {
  std::string out;
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value) || !reduction_.is_in_shared_memory() ||
        !needs.computed[static_cast<std::size_t>(value)])
      continue;
    out += fmt::format("{0}store_held({1}.chunks16 + Held::k_{2} * kThreads, {2});\n", indent, held,
                       fmt::format("t{}", chain_.unshaped(value)));
  }
  return out;
}

// Arguments as element_function() has parameters.
std::string ReductionPasses::one_loop(int pass, std::size_t k, const std::vector<ElementLoop>& loops,
                                      const std::string& indent, std::string_view held, std::string_view values) {
  const ElementLoop& loop = loops[k];
  std::string inside;
  std::string after;
  std::vector<std::string> arguments = {"p", "uniforms", "rows[kRows == 1 ? 0 : e]"};
  if (knows_segments(loops)) arguments.emplace_back("of_segment");
  const auto element_of_input = [&](std::size_t i) {
    const std::string name = input_name(program_, i);
    const bool is_register = reduction_.residency.held[i] && !reduction_.is_in_shared_memory();
    return (is_register || is_common(i) ? element_of(i, fmt::format("{}.{}", held, name))
            : !reduction_.residency.hoisted[i] && is_per_segment(pass, i) ? "of_segment." + name
                                                                          : element_of(i, name));
  };
  if (const int operand = only_operand(pass, loops); operand >= 0)
    return fmt::format("#pragma unroll\n{}for (int e = 0; e < kElements; ++e) values_{}[{}] = {};\n", indent,
                       loop.fed[0], values, element_of_input(static_cast<std::size_t>(operand)));
  for (const std::size_t i : loop.inputs) arguments.push_back(element_of_input(i));
  for (const Value value : reduction_.residency.saved) {
    if (!is_seen_by(pass, value)) continue;
    const std::string name = fmt::format("t{}", chain_.unshaped(value));
    arguments.push_back(reduction_.is_in_shared_memory() ? name + ".values[e]" : fmt::format("{}.{}[e]", held, name));
  }
  for (const Value value : loop.taken) arguments.push_back(fmt::format("t{}[e]", value));
  for (const Value value : loop.given) arguments.push_back(fmt::format("t{}[e]", value));
  if (returns_value(loop)) {
    const std::string call = fmt::format("{}({})", name_of_element(pass, k, loops), fmt::join(arguments, ", "));
    return fmt::format("#pragma unroll\n{}for (int e = 0; e < kElements; ++e) {};\n", indent,
                       loop.outputs.empty() ? fmt::format("values_{}[{}] = {}", loop.fed[0], values, call)
                                            : put_element(loop.outputs[0], call));
  }
  for (const std::size_t i : loop.fed) arguments.push_back(fmt::format("values_{}[{}]", i, values));
  for (const std::size_t i : loop.lanes) arguments.push_back(fmt::format("of_lane_{}[e]", i));
  for (const std::size_t i : loop.outputs) {
    inside += fmt::format("{}  {} result_{};\n", indent, type_of(chain_.kind(program_.results()[i].value)), i);
    arguments.push_back(fmt::format("result_{}", i));
    after += fmt::format("{}  {};\n", indent, put_element(i, fmt::format("result_{}", i)));
  }
  return fmt::format("#pragma unroll\n{0}for (int e = 0; e < kElements; ++e) {{\n{1}{0}  {2}({3});\n{4}{0}}}\n", indent,
                     inside, name_of_element(pass, k, loops), fmt::join(arguments, ", "), after);
}

// A result's element of a vector.
std::string ReductionPasses::put_element(std::size_t output, const std::string& value) const {
  return fmt::format("{}{}.put(e, from_real<{}>({}))", is_transposed(output) ? "transposed." : "",
                     output_name(program_, output), storage_type(kernel_.outputs[output].dtype), value);
}

std::string ReductionPasses::name_of_element(int pass, std::size_t k, const std::vector<ElementLoop>& loops) {
  return loops.size() == 1 ? fmt::format("element_{}", pass) : fmt::format("element_{}_{}", pass, k);
}

// What is read before the loops, computed and fed in them, and written behind them.
std::string ReductionPasses::element_loop(int pass, const std::string& indent, std::string_view held,
                                          std::string_view position, std::string_view values) {
  const LaneSegmentsWriter lanes(program_, kernel_, input_kinds_, chain_);
  const PassNeeds needs = needs_of(pass);
  const std::vector<ElementLoop> loops = loops_of(program_, reduction_, needs);
  std::string before = vectors_read(pass, needs, indent, held, position);
  std::string inside;
  std::string after;
  for (const std::size_t i : needs.outputs) {
    prelude_.require("packet");
    if (!is_transposed(i))
      before +=
          fmt::format("{}Packet<{}> {};\n", indent, storage_type(kernel_.outputs[i].dtype), output_name(program_, i));
  }
  if (knows_segments(loops)) before += indent + "SegmentValues of_segment;\n" + indent + "LaneStage lanes;\n";
  for (std::size_t k = 0; k < loops.size(); ++k) {
    for (const std::size_t i : loops[k].lanes) before += fmt::format("{}Real of_lane_{}[kElements];\n", indent, i);
    for (const Value value : loops[k].given)
      before += fmt::format("{}{} t{}[kElements];\n", indent, type_of(chain_.kind(value)), value);
    inside += lanes.call(pass, k, loops[k], indent, position);
    inside += one_loop(pass, k, loops, indent, held, values);
    inside += lanes.agree(loops[k], indent, position);
  }
  for (const std::size_t i : needs.outputs) {
    if (is_transposed(i)) continue;
    if (kernel_.outputs[i].access == Access::run) after += run_written(i, indent, position);
    if (kernel_.outputs[i].run) continue;
    const std::string name = output_name(program_, i);
    after += written_at(program_, kernel_, i, offset_at(fmt::format("{}.at", position)),
                        fmt::format("{0}.begin < {0}.end", position), indent, [&](const std::string& base) {
                          return access("write", kernel_.outputs[i], name, name, position, base);
                        });
  }
  if (pass == reduction_.structure.output_pass) after += lanes.write_results(indent, position);
  return before + inside + vectors_saved(pass, needs, indent, held) + after;
}

}  // namespace epifuse::codegen
