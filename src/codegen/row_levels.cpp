// Writes what is known per row and what each walk accumulates: accumulators are sections of templates/accumulate.cuh. Called by rows.cpp.
#include "codegen/row_levels.hpp"

#include <array>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "codegen/params.hpp"
#include "codegen/source.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;
using plan::Accumulator;
using plan::AccumulatorKind;
using plan::Extent;
using plan::NodeRole;

namespace {

struct AccumulatorText {
  std::string_view section;
  std::string_view type;
};
constexpr std::array<AccumulatorText, 8> kAccumulators = {{{"sum", "Sum"},
                                                           {"product", "Product"},
                                                           {"maximum_of", "Maximum"},
                                                           {"minimum_of", "Minimum"},
                                                           {"any_of", "Any"},
                                                           {"all_of", "All"},
                                                           {"moments", "Moments"},
                                                           {"max_sumexp", "MaxSumExp"}}};
const AccumulatorText& text_of(AccumulatorKind kind) { return kAccumulators[static_cast<std::size_t>(kind)]; }

}  // namespace

void RowLevels::require_accumulators(Prelude& prelude) const {
  const bool is_cheap = chain_.arithmetic().cheap_rows;
  for (const Accumulator& accumulator : rows_.structure.accumulators) {
    if (accumulator.kind == AccumulatorKind::max_sumexp) prelude.require(is_cheap ? "fast_exp_below" : "exp_below");
    if (accumulator.kind == AccumulatorKind::moments) prelude.require(is_cheap ? "fast_over_count" : "over_count");
    prelude.require(text_of(accumulator.kind).section);
  }
  if (walks_.kept_accumulator() >= 0) prelude.require("kept_sumexp");
}

bool RowLevels::is_row_operation(std::size_t i) const {
  const Node& node = program_.nodes()[i];
  return of_rows_[i] && node.op >= Op::cast && !ir::is_shape(node.op) && rows_.structure.nodes[i].extent == Extent::row;
}

bool RowLevels::is_row_operand(std::size_t input) const {
  if (!walks_.is_input_of(input, Extent::row)) return false;
  for (std::size_t i = 0; i < of_rows_.size(); ++i) {
    const Node& node = program_.nodes()[i];
    if (node.op == Op::input && static_cast<std::size_t>(node.ordinal) == input) return of_rows_[i];
  }
  return false;
}

// All but what only results across rows are computed from.
plan::Marks RowLevels::needed_of_rows() const {
  plan::Marks needed(program_.nodes().size(), false);
  for (const ir::Result& result : program_.results())
    needed[static_cast<std::size_t>(result.value)] = chain_.role(result.value).extent != Extent::across;
  for (std::size_t i = needed.size(); i-- > 0;) {
    const NodeRole& role = rows_.structure.nodes[i];
    if (!needed[i] && role.accumulator < 0) continue;
    const Node& node = program_.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return needed;
}

std::string RowLevels::row() {
  std::string members;
  std::string loads;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!is_row_operand(i)) continue;
    const std::string name = input_name(program_, i);
    const std::string_view type = type_of(input_kinds_[i]);
    members += fmt::format("  {} {};\n", type, name);
    loads +=
        fmt::format("    row.{0} = {2}to_real<{1}>(p.{0}[row_offset(place, p.strides_{0}, existing_row(place, k))]);\n",
                    name, type, rows_.structure.across != 0 ? fmt::format("!place.exists ? {}(0) : ", type) : "");
  }
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    if (is_row_operation(i)) members += fmt::format("  {} t{};\n", type_of(chain_.kind(static_cast<Value>(i))), i);
  }
  loads += row_operations(0);
  return fmt::format(
      "// What is known per row.\nstruct Row {{\n{}}};\n\n"
      "__device__ __forceinline__ void load_rows(const Params& p, const Uniforms& uniforms, const Place& "
      "place, "
      "Row (&rows)[kRows]) {{\n#pragma unroll\n  for (int k = 0; k < kRows; ++k) {{\n    [[maybe_unused]] "
      "Row& row = "
      "rows[k];\n{}  "
      "}}\n}}\n\n",
      members, loads);
}

// What can be computed once the accumulators of `level` are known.
std::string RowLevels::row_operations(int level) {
  std::string out;
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const NodeRole& role = rows_.structure.nodes[i];
    if (!is_row_operation(i) || role.level != level) continue;
    const Node& node = program_.nodes()[i];
    out += fmt::format(
        "    row.t{} = {};\n", i,
        role.accumulator >= 0 ? result_of(node, role, "level[k]") : chain_.computation(static_cast<Value>(i)));
  }
  return out;
}

std::string RowLevels::result_of(const Node& node, const NodeRole& role, std::string_view set) const {
  const std::string name = fmt::format("{}.a{}", set, role.accumulator);
  switch (rows_.structure.accumulators[static_cast<std::size_t>(role.accumulator)].kind) {
    case AccumulatorKind::sum:
      return node.op == Op::mean ? fmt::format("{}.total / {}", name, count_of(role)) : name + ".total";
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
      return !role.second ? name + ".largest" : name + (is_guarded(node) ? ".guarded_sumexp()" : ".sumexp()");
  }
  return {};
}

std::string RowLevels::count_of(const NodeRole& role) const {
  const Accumulator& a = rows_.structure.accumulators[static_cast<std::size_t>(role.accumulator)];
  if (!a.across) return a.part ? "Real(p.part_length)" : "Real(p.row_length)";
  const Extent of = chain_.role(a.argument).extent;
  std::string count = of == Extent::element ? "Real(p.row_length) * "
                      : of == Extent::part  ? "Real(p.row_parts) * "
                                            : "";
  count += "Real(p.rows > 0 ? p.rows_per_group : 0)";  // of no rows at all a result is made too, as if they were one
  if (!rows_.along) count += " * Real(p.row_columns)";
  return "(" + count + ")";
}

bool RowLevels::keeps_exponentials(std::size_t accumulator) const {
  return static_cast<int>(accumulator) == walks_.kept_accumulator();
}

// sum(exp(v - where(isinf(m), 0, m))) rather than sum(exp(v - m)).
bool RowLevels::is_guarded(const Node& sum) const {
  const Node& difference = program_.node(program_.node(sum.args[0]).args[0]);
  return program_.node(chain_.unshaped(difference.args[1])).op == Op::where;
}

// The members of a set of accumulators, and what all sets can do; without the closing brace.
std::string RowLevels::accumulator_struct(const std::string& name, const std::vector<std::size_t>& accumulators) const {
  std::string members;
  std::string merges;
  std::string lanes;
  for (const std::size_t i : accumulators) {
    const Accumulator& a = rows_.structure.accumulators[i];
    members += fmt::format("  {} a{};  // of {}\n", keeps_exponentials(i) ? "KeptSumExp" : text_of(a.kind).type, i,
                           chain_.reference(a.argument));
    merges += fmt::format("    a{0}.merge(other.a{0});\n", i);
    lanes += fmt::format("    a{}.template merge_lanes<kFrom, kTo>();\n", i);
  }
  return fmt::format(
      "struct {0} {{\n{1}\n"
      "  __device__ __forceinline__ void merge(const {0}& other) {{\n{2}  }}\n"
      "  template <int kFrom, int kTo>\n  __device__ __forceinline__ void merge_lanes() {{\n{3}  }}\n",
      name, members, merges, lanes);
}

std::string RowLevels::across_struct() const {
  if (rows_.structure.across == 0) return "// Nothing is reduced across rows.\nstruct Across {};\n\n";
  std::vector<std::size_t> accumulators;
  for (std::size_t i = 0; i < rows_.structure.accumulators.size(); ++i) {
    if (rows_.structure.accumulators[i].across) accumulators.push_back(i);
  }
  return "// What is accumulated across rows.\n" + accumulator_struct("Across", accumulators) + "};\n\n";
}

// Those of a walk that are of parts, or of rows.
std::vector<std::size_t> RowLevels::accumulators_of(int walk, bool of_parts) const {
  std::vector<std::size_t> all;
  for (const std::size_t i : walks_.accumulators_of(walk)) {
    if (rows_.structure.accumulators[i].part == of_parts) all.push_back(i);
  }
  return all;
}

std::string RowLevels::level_struct(int level) {
  const std::vector<std::size_t> accumulators = accumulators_of(level - 1, false);
  std::string out = fmt::format("// What walk {} accumulates.\n", level);
  out += accumulator_struct(fmt::format("Level{}", level), accumulators);
  out += fmt::format("  static constexpr bool kGathers = {};\n", walks_.gathers_in(level - 1));
  out += recenter(accumulators);
  out += accumulate(level, accumulators);
  out += exponentials(level);
  out += fmt::format(
      "  __device__ __forceinline__ static void finish(const Level{} (&level)[kRows], const Params& p, const "
      "Uniforms& uniforms, "
      "Row (&rows)[kRows]) {{\n#pragma unroll\n    for (int k = 0; k < kRows; ++k) {{\n      [[maybe_unused]] Row& "
      "row = rows[k];\n{}    }}\n  }}\n}};\n\n",
      level, row_operations(level));
  return out;
}

// What threads keep of a walk if not what they loaded: exponentials, whose arguments accumulate() left there.
std::string RowLevels::exponentials(int level) const {
  if (kernel_.schedule != plan::Schedule::team || rows_.staged) return "";
  const int kept = walks_.kept_accumulator();
  const bool keeps = kept >= 0 && rows_.structure.accumulators[static_cast<std::size_t>(kept)].level == level;
  std::string out = fmt::format("  static constexpr bool kKeepsExponentials = {};\n", keeps);
  if (!keeps) return out;
  const std::string name = fmt::format("t{}", walks_.kept_exponential());
  // A row's elements of a thread: those of a step along memory, of all steps across.
  const std::string takes =
      rows_.along ? fmt::format(
                        "#pragma unroll\n    for (int step = 0; step < kSteps; ++step) "
                        "level[0].a{}.exponentiate(held[step].{});\n",
                        kept, name)
                  : fmt::format(
                        "#pragma unroll\n    for (int e = 0; e < kElements; ++e) {{\n      Real column[kSteps];\n"
                        "#pragma unroll\n      for (int step = 0; step < kSteps; ++step) column[step] = "
                        "held[step].{1}[e];\n      level[e].a{0}.exponentiate(column);\n"
                        "#pragma unroll\n      for (int step = 0; step < kSteps; ++step) held[step].{1}[e] = "
                        "column[step];\n    }}\n",
                        kept, name);
  return out + fmt::format(
                   "  __device__ __forceinline__ static void exponentiate(Level{0} (&level)[kRows], Held "
                   "(&held)[kSteps]) {{\n{1}  }}\n"
                   "  __device__ __forceinline__ static void rescale(const Level{0} (&own)[kRows], const Level{0} "
                   "(&level)[kRows], Held (&held)[kSteps]) {{\n    Real scale[kRows];\n"
                   "#pragma unroll\n    for (int k = 0; k < kRows; ++k) scale[k] = "
                   "own[k].a{2}.scale_to(level[k].a{2});\n"
                   "#pragma unroll\n    for (int step = 0; step < kSteps; ++step) {{\n"
                   "#pragma unroll\n      for (int e = 0; e < kElements; ++e) held[step].{3}[e] *= "
                   "scale[kRows == 1 ? 0 : e];\n    }}\n  }}\n",
                   level, takes, kept, name);
}

std::string RowLevels::recenter(const std::vector<std::size_t>& accumulators) const {
  std::string recenters;
  for (const std::size_t i : accumulators) {
    if (rows_.structure.accumulators[i].kind == AccumulatorKind::moments)
      recenters += fmt::format("a{}.recenter(); ", i);
  }
  return fmt::format("  __device__ __forceinline__ void recenter() {{ {}}}\n", recenters);
}

std::string RowLevels::accumulate(int level, const std::vector<std::size_t>& accumulators) {
  std::string out = fmt::format(
      "  __device__ __forceinline__ static void accumulate(Level{} (&level)[kRows], {}const Params& p, const Uniforms& "
      "uniforms,\n"
      "                                                    const Position (&positions)[kGroup], {} held, const "
      "Row "
      "(&rows)[kRows], Across& across) {{\n",
      level, has_averages() ? "PartLevel& of_part, " : "", rows_.staged ? "const Held&" : "Held*");
  for (const std::size_t i : walks_.fed_by(level - 1))
    out += fmt::format("    Real values_{}[kGroup * kElements];\n", i);
  out += walks_.read_steady(level - 1, "    ", "positions[0]");
  out += "#pragma unroll\n    for (int g = 0; g < kGroup; ++g) {\n";
  out += walks_.element_loop(level - 1, "      ", rows_.staged ? "held.at(g)" : "held[g]", "positions[g]",
                             "g * kElements + e");
  out += "    }\n    unsigned mask = 0;\n#pragma unroll\n    for (int g = 0; g < kGroup; ++g)\n";
  if (rows_.along) {
    out += "      mask |= mask_of(positions[g]) << (g * kElements);\n";
    for (const std::size_t i : accumulators_of(level - 1, true))
      out += fmt::format("    of_part.a{0}.add(values_{0}, mask);\n", i);
    for (const std::size_t i : accumulators) {
      out += fmt::format("    level[0].a{0}.add(values_{0}, mask);\n", i);
      if (!keeps_exponentials(i)) continue;
      out += fmt::format(
          "#pragma unroll\n    for (int g = 0; g < kGroup; ++g) {{\n#pragma unroll\n"
          "      for (int e = 0; e < kElements; ++e) held[g].t{0}[e] = values_{1}[g * kElements + e];\n    }}\n",
          walks_.kept_exponential(), i);
    }
  } else {
    out +=
        "      mask |= positions[g].end > 0 ? 1u << g : 0u;\n#pragma unroll\n    for (int e = 0; e < kElements; "
        "++e) "
        "{\n";
    out += "      Real column[kGroup];\n";
    for (const std::size_t i : accumulators) {
      out += fmt::format(
          "#pragma unroll\n      for (int g = 0; g < kGroup; ++g) column[g] = values_{0}[g * kElements + e];\n"
          "      level[e].a{0}.add(column, mask);\n",
          i);
      if (!keeps_exponentials(i)) continue;
      out += fmt::format("#pragma unroll\n      for (int g = 0; g < kGroup; ++g) held[g].t{}[e] = column[g];\n",
                         walks_.kept_exponential());
    }
    out += "    }\n";
  }
  return out + add_across(level - 1, "positions[g]", "kGroup", "    ") + "  }\n";
}

// ---- parts of rows

std::string RowLevels::part_struct() {
  const int walk = rows_.structure.levels - (has_averages() ? 1 : 0);
  const std::vector<std::size_t> accumulators = accumulators_of(walk, true);
  std::string out = "// What is accumulated of each part of a row.\n" + accumulator_struct("PartLevel", accumulators);
  if (has_averages()) return out + "};\n\n";  // the row's level takes groups for both
  if (rows_.lanewise) return out + accumulate_kept(walk, accumulators) + "};\n\n";
  out += fmt::format("  static constexpr bool kGathers = {};\n", walks_.gathers_in(walk));
  out += recenter(accumulators);
  out += fmt::format(
      "  template <bool kInside>\n  __device__ __forceinline__ void accumulate(const Params& p, const Uniforms& "
      "uniforms, const Place& place, const Part& part,\n                                             const "
      "PartOperands& of_part, const Position (&positions)[kGroup], {} held,\n"
      "                                             const Row (&rows)[kRows]) {{\n",
      rows_.staged ? "const Held&" : "Held*");
  for (const std::size_t i : accumulators) out += fmt::format("    Real values_{}[kGroup * kElements];\n", i);
  out += "#pragma unroll\n    for (int g = 0; g < kGroup; ++g) {\n";
  out +=
      walks_.element_loop(walk, "      ", rows_.staged ? "held.at(g)" : "held[g]", "positions[g]", "g * kElements + e");
  out += "    }\n    unsigned mask = 0;\n#pragma unroll\n    for (int g = 0; g < kGroup; ++g)\n";
  out += "      mask |= mask_of(kInside ? positions[g] : within(positions[g], place, part)) << (g * kElements);\n";
  for (const std::size_t i : accumulators) out += fmt::format("    a{0}.add(values_{0}, mask);\n", i);
  return out + "  }\n};\n\n";
}

// One group, wherever it lies in the row.
std::string RowLevels::accumulate_kept(int walk, const std::vector<std::size_t>& accumulators) {
  std::string out =
      "  __device__ __forceinline__ void accumulate(const Params& p, const Uniforms& uniforms, const PartOperands& "
      "of_part, Kept kept,\n                                             unsigned mask, const Row "
      "(&rows)[kRows]) {\n";
  for (const std::size_t i : accumulators) out += fmt::format("    Real values_{}[kElements];\n", i);
  out += walks_.element_loop(walk, "    ", "kept", "", "e");
  for (const std::size_t i : accumulators) out += fmt::format("    a{0}.add(values_{0}, mask);\n", i);
  return out + "  }\n";
}

std::string RowLevels::part_operands() const {
  const int walk = rows_.structure.levels;
  std::string members;
  std::string loads;
  for (const std::size_t i : walks_.inputs_of(walk)) {
    if (!walks_.is_part_wise(walk, i)) continue;
    const std::string name = input_name(program_, i);
    const std::string_view type = type_of(input_kinds_[i]);
    members += fmt::format("  {} {};\n", type, name);
    loads += fmt::format("  of_part.{0} = to_real<{1}>(p.{0}[offset_of(part.at, p.strides_{0})]);\n", name, type);
  }
  return fmt::format(
      "// Operands that all elements of a part share.\nstruct PartOperands {{\n{}}};\n"
      "__device__ __forceinline__ PartOperands load_part(const Params& p, const Part& part) {{\n"
      "  PartOperands of_part;\n{}  return of_part;\n}}\n\n",
      members, loads);
}

bool RowLevels::is_known_per_part(std::size_t i) const {
  const NodeRole& role = rows_.structure.nodes[i];
  return role.extent == Extent::part || role.part_wise;
}

// What the results of parts are computed from, as far as it is no value of the row.
plan::Marks RowLevels::needed_of_part() const {
  plan::Marks needed(program_.nodes().size(), false);
  const auto is_needed = [&](Value value) {
    if (chain_.role(value).extent == Extent::part) needed[static_cast<std::size_t>(value)] = true;
  };
  for (const ir::Result& result : program_.results()) is_needed(result.value);
  for (const Accumulator& a : rows_.structure.accumulators) {
    if (a.across) is_needed(a.argument);
  }
  for (std::size_t i = needed.size(); i-- > 0;) {
    needed[i] = needed[i] && is_known_per_part(i);
    if (!needed[i] || rows_.structure.nodes[i].accumulator >= 0) continue;
    const Node& node = program_.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return needed;
}

// The average takes the place of the elements that it is of.
std::string RowLevels::averages_of_part() const {
  std::string out;
  for (std::size_t i = 0; i < rows_.structure.accumulators.size() && has_averages(); ++i) {
    const Accumulator& a = rows_.structure.accumulators[i];
    if (a.part)
      out += fmt::format("  const Real {} = level.a{}.total / Real(p.part_length);  // the average of the part's\n",
                         chain_.reference(a.argument), i);
  }
  return out;
}

// By node: what means are taken of and averages stand for.
plan::Marks RowLevels::means_of_averages() const {
  plan::Marks tops(program_.nodes().size(), false);
  for (const Node& node : program_.nodes()) {
    if (!has_averages() || node.op != Op::mean) continue;
    const Value top = chain_.unshaped(node.args[0]);
    tops[static_cast<std::size_t>(top)] = chain_.role(top).extent == Extent::part;
  }
  return tops;
}

// The chain from an average to a mean is that from the elements' values, unless it meets an infinity: infinite elements of both signs have no
// mean. Then the elements are asked.
std::string RowLevels::mean_of_elements(std::size_t top) {
  plan::Marks needed(program_.nodes().size(), false);
  needed[top] = true;
  for (std::size_t i = top + 1; i-- > 0;) {
    if (!needed[i] || rows_.structure.nodes[i].extent == Extent::row) continue;
    const Node& node = program_.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  std::string body;
  for (std::size_t i = 0; i <= top; ++i) {
    const Node& node = program_.nodes()[i];
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (!needed[i] || rows_.structure.nodes[i].extent == Extent::row) continue;
    if (node.op == Op::input && walks_.is_input_of(input, Extent::element)) {
      const std::string name = input_name(program_, input);
      const std::string at =
          kernel_.inputs[input].is_gathered()
              ? fmt::format("offset_of(part.at, p.strides_{0}) + i * p.strides_{0}[kCoordinates - 1]", name)
              : "place.start + part.first + i";
      body += fmt::format("    const {0} {1} = to_real<{0}>(p.{1}[{2}]);\n", type_of(input_kinds_[input]), name, at);
    }
    if (node.op < Op::cast || ir::is_shape(node.op)) continue;
    body += fmt::format("    const {} t{} = {};\n", type_of(chain_.kind(static_cast<Value>(i))), i,
                        chain_.computation(static_cast<Value>(i)));
  }
  return fmt::format(
      "// The mean of a part's elements, one by one.\n"
      "__device__ __forceinline__ Real mean_of_t{0}(const Params& p, const Uniforms& uniforms, const Place& place, "
      "const Part& part, const Row& row) {{\n  Real total = 0;\n#pragma unroll 1\n"
      "  for (Index i = 0; i < p.part_length; ++i) {{\n{1}    total += t{0};\n  }}\n"
      "  return total / Real(p.part_length);\n}}\n\n",
      top, body);
}

// What each part adds to results across rows.
std::string RowLevels::add_part_across() const {
  std::string out;
  for (std::size_t i = 0; i < rows_.structure.accumulators.size(); ++i) {
    const Accumulator& a = rows_.structure.accumulators[i];
    if (a.across && chain_.role(a.argument).extent == Extent::part)
      out += fmt::format("  const Real of_part_{0}[1] = {{{1}}};\n  across.a{0}.add(of_part_{0}, 1u);\n", i,
                         chain_.argument(a.argument, Kind::real));
  }
  return out;
}

std::string RowLevels::write_part() {
  const plan::Marks needed = needed_of_part();
  const plan::Marks tops = means_of_averages();
  std::string means;
  std::string body = averages_of_part();
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (needed[i] && node.op == Op::input && walks_.is_input_of(input, Extent::element)) {
      body += fmt::format("  const {0} {1} = to_real<{0}>(p.{1}[offset_of(part.at, p.strides_{1})]);\n",
                          type_of(input_kinds_[input]), input_name(program_, input));
    }
    if (!needed[i] || node.op < Op::cast || ir::is_shape(node.op)) continue;
    const NodeRole& role = rows_.structure.nodes[i];
    body +=
        fmt::format("  {}{} t{} = {};\n", tops[i] ? "" : "const ", type_of(chain_.kind(static_cast<Value>(i))), i,
                    role.accumulator >= 0 ? result_of(node, role, "level") : chain_.computation(static_cast<Value>(i)));
    if (!tops[i]) continue;
    walks_.require("isinf");
    body += fmt::format("  if (ops::isinf(t{0})) t{0} = mean_of_t{0}(p, uniforms, place, part, row);\n", i);
    means += mean_of_elements(i);
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (chain_.role(value).extent != Extent::part) continue;
    const std::string name = output_name(program_, i);
    const std::string offset = kernel_.outputs[i].access == plan::Access::uniform
                                   ? "0"
                                   : fmt::format("offset_of(part.at, p.strides_{})", name);
    body += fmt::format("  {}p.{}[{}] = from_real<{}>({});\n", first_of_missing(rows_.missing[i], "part.at"), name,
                        offset, storage_type(kernel_.outputs[i].dtype), chain_.reference(value));
  }
  return means + fmt::format(
                     "// Results of one element per part: one thread of those that know it writes them.\n"
                     "__device__ __forceinline__ void write_part(const Params& p, const Uniforms& uniforms, {}const "
                     "Part& part, const PartLevel& level, const Row& row{}) {{\n{}}}\n\n",
                     has_averages() ? "const Place& place, " : "", has_averages() ? ", Across& across" : "",
                     body + add_part_across());
}

// What results across rows are computed from: their accumulators, and what is known before any row.
plan::Marks RowLevels::needed_across() const {
  plan::Marks needed(program_.nodes().size(), false);
  for (const ir::Result& result : program_.results())
    needed[static_cast<std::size_t>(result.value)] = chain_.role(result.value).extent == Extent::across;
  for (std::size_t i = needed.size(); i-- > 0;) {
    if (!needed[i] || rows_.structure.nodes[i].accumulator >= 0) continue;
    const Node& node = program_.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return needed;
}

std::string RowLevels::write_across() const {
  AcrossChain chain(chain_);
  const plan::Marks needed = needed_across();
  std::string body;
  for (std::size_t i = 0; i < needed.size(); ++i) {
    const Node& node = program_.nodes()[i];
    const auto input = static_cast<std::size_t>(node.ordinal);
    if (needed[i] && node.op == Op::input && walks_.is_input_of(input, Extent::row)) {
      body += fmt::format("  const {0} {1} = to_real<{0}>(p.{1}[offset_of(place.at, p.strides_{1})]);\n",
                          type_of(input_kinds_[input]), input_name(program_, input));
    }
    if (!needed[i] || node.op < Op::cast || ir::is_shape(node.op)) continue;
    const NodeRole& role = rows_.structure.nodes[i];
    body +=
        fmt::format("  const {} t{} = {};\n", type_of(chain.kind(static_cast<Value>(i))), i,
                    role.accumulator >= 0 ? result_of(node, role, "across") : chain.computation(static_cast<Value>(i)));
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    const Value value = program_.results()[i].value;
    if (chain.role(value).extent != Extent::across) continue;
    const std::string name = output_name(program_, i);
    const std::string offset = kernel_.outputs[i].access == plan::Access::uniform
                                   ? "0"
                                   : fmt::format("offset_of(place.at, p.strides_{})", name);
    body += fmt::format("  p.{}[{}] = from_real<{}>({});\n", name, offset, storage_type(kernel_.outputs[i].dtype),
                        chain.reference(value));
  }
  return "// Results across rows.\n__device__ __forceinline__ void write_across(const Params& p, const Uniforms& "
         "uniforms, const Place& "
         "place, const Across& across) {\n" +
         body + "}\n\n";
}

std::string RowLevels::first_of_missing(std::uint32_t missing, std::string_view at) const {
  std::vector<std::string> conditions;
  for (int d = 0; d < kernel_.coordinates; ++d) {
    if ((missing >> d & 1U) == 0) continue;
    const bool innermost = !rows_.along && d + 1 == kernel_.coordinates;
    conditions.push_back(fmt::format("{}[{}]{} == 0", at, d, innermost ? " + k" : ""));
  }
  return conditions.empty() ? "" : fmt::format("if ({}) ", fmt::join(conditions, " && "));
}

std::string RowLevels::add_across(int walk, std::string_view position, std::string_view count,
                                  const std::string& indent) const {
  if (walks_.across_of(walk).empty()) return "";
  std::string out =
      fmt::format("{0}unsigned existing = 0;\n#pragma unroll\n{0}for (int g = 0; g < {1}; ++g)\n", indent, count);
  out += fmt::format("{}  existing |= mask_of({}) << (g * kElements);\n", indent, position);
  for (const std::size_t i : walks_.across_of(walk))
    out += fmt::format("{0}across.a{1}.add(values_{1}, existing);\n", indent, i);
  return out;
}

}  // namespace epifuse::codegen
