// Operations, constants and casts as text.
#include "codegen/chain.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "codegen/params.hpp"
#include "plan/analysis/accuracy.hpp"
#include "plan/analysis/structure.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;

namespace {

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// "ops::clamp(a, b, c)" with the operands in the place of a, b and c.
std::string substitute(std::string_view expression, const std::array<std::string, ir::kMaxArity>& operands) {
  std::string out;
  for (std::size_t i = 0; i < expression.size();) {
    if (!is_word(expression[i])) {
      out += expression[i++];
      continue;
    }
    const std::size_t start = i;
    while (i < expression.size() && is_word(expression[i])) ++i;
    const std::string_view word = expression.substr(start, i - start);
    const bool is_operand = word.size() == 1 && word[0] >= 'a' && word[0] <= 'c';
    out += is_operand ? operands[static_cast<std::size_t>(word[0] - 'a')] : std::string(word);
  }
  return out;
}

// Every `ops::name` of an expression is a section of the templates.
void require_operations(Prelude& prelude, std::string_view expression) {
  constexpr std::string_view kPrefix = "ops::";
  for (auto at = expression.find(kPrefix); at != expression.npos; at = expression.find(kPrefix)) {
    expression.remove_prefix(at + kPrefix.size());
    std::size_t end = 0;
    while (end < expression.size() && is_word(expression[end])) ++end;
    prelude.require(expression.substr(0, end));
  }
}

}  // namespace

std::string_view storage_type(DType type) { return type == DType::boolean ? "boolean" : to_string(type); }

Value ChainWriter::unshaped(Value value) const { return plan::unshaped(program_, value); }

std::string ChainWriter::variable(Value value) const { return fmt::format("t{}", value); }
std::string ChainWriter::input(std::size_t i) const { return input_name(program_, i); }
std::string ChainWriter::scalar(std::size_t i) const { return scalar_name(program_, i); }

std::string ChainWriter::count(Value value) const { return count_name(value); }

std::string ChainWriter::reference(Value value) const {
  value = unshaped(value);
  const Node& node = program_.node(value);
  switch (node.op) {
    case Op::input:
    case Op::rand_like:
    case Op::iota:
      return input(static_cast<std::size_t>(node.ordinal));
    case Op::scalar:
      return scalar(static_cast<std::size_t>(node.ordinal));
    case Op::count:
      return count(value);
    case Op::constant:
      return literal(node.constant);
    default:
      return variable(value);
  }
}

std::string ChainWriter::literal(double value) const {
  if (!std::isfinite(static_cast<float>(value)) && !(f64_ && std::isfinite(value))) prelude_.require("bits");
  if (std::isnan(value)) return "Real(detail::from_bits(0x7fc00000u))";
  if (!f64_ && std::isfinite(value)) value = static_cast<double>(static_cast<float>(value));
  if (std::isinf(value))
    return value < 0 ? "Real(detail::from_bits(0xff800000u))" : "Real(detail::from_bits(0x7f800000u))";
  std::array<char, 32> buffer{};
  const auto end = f64_ ? std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr
                        : std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<float>(value)).ptr;
  std::string text(buffer.data(), end);
  if (text.find_first_of(".e") == text.npos) text += ".0";
  if (!f64_) text += 'f';
  return std::signbit(value) ? "(" + text + ")" : text;
}

std::string ChainWriter::argument(Value value, Kind wanted) const {
  std::string text = reference(value);
  const Kind found = kind(value);
  if (found == wanted) return text;
  return wanted == Kind::real ? "Real(" + text + ")" : "(" + text + " != Real(0))";
}

std::string ChainWriter::computation(Value value, bool is_term, std::string_view arguments) {
  const Node& node = program_.node(value);
  if (node.op == Op::cast) return cast(node);
  if (node.op == Op::expand_as) return reference(node.args[0]);
  return ir::is_reduction(node.op) ? of_one_element(node) : operation(value, is_term, arguments);
}

std::string ChainWriter::of_one_element(const Node& node) {
  std::string value = argument(node.args[0], ir::reduction_row(node.op).argument);
  if (node.op != Op::var) return value;
  // The deviation from itself: 0, or NaN for what is not finite.
  return fmt::format("({0} - {0}) / Real({1})", value, node.constant < 1 ? 1 - node.constant : 0);
}

std::string_view ChainWriter::cheaper(Value value, bool is_term) const {
  const Op op = program_.node(value).op;
  if (const plan::Formula* formula = arithmetic_.formulas[static_cast<std::size_t>(value)]) {
    const std::string_view coarse = is_term && arithmetic_.cheap_rows ? plan::term_formula(op, true) : "";
    return coarse.empty() ? formula->name : coarse;
  }
  return is_term && !f64_ && program_.math() != Math::precise ? plan::term_formula(op, false) : "";
}

std::string ChainWriter::operation(Value value, bool is_term, std::string_view arguments) {
  const Node& node = program_.node(value);
  const ir::OpRow& row = ir::row(node.op);
  std::array<std::string, ir::kMaxArity> operands;
  for (std::size_t i = 0; i < row.parameters.size(); ++i) operands[i] = argument(node.args[i], row.parameters[i].kind);
  if (std::string special = special_form(node, operands); !special.empty()) return special;
  if (const std::string_view name = cheaper(value, is_term); !name.empty()) {
    prelude_.require(fmt::format("fast_{}", name));
    if (!arguments.empty()) return fmt::format("fast::{}({})", name, arguments);
    return fmt::format("fast::{}({})", name, fmt::join(operands.begin(), operands.begin() + row.arity(), ", "));
  }
  require_operations(prelude_, row.expression);
  return substitute(row.expression, operands);
}

std::string ChainWriter::cast(const Node& node) {
  if (node.dtype == DType::boolean) return argument(node.args[0], Kind::truth);
  std::string text = argument(node.args[0], Kind::real);
  const bool exact = node.dtype == DType::f64 || (node.dtype == DType::f32 && !f64_);
  if (exact) return text;
  prelude_.require(storage_type(node.dtype));
  prelude_.require("round_to");
  return fmt::format("round_to<{}>({})", storage_type(node.dtype), text);
}

namespace {

// Casts that are nothing but the rounding of stores: no operation has them, and no result of another type.
std::vector<bool> casts_of_stores(const ir::Program& program, const plan::KernelClass& kernel) {
  std::vector<bool> found(program.nodes().size(), false);
  const auto stored = [&](std::size_t i) { return plan::stored_value(program, i, kernel.outputs[i].dtype); };
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    const Value value = program.results()[i].value;
    if (stored(i) != value) found[static_cast<std::size_t>(value)] = true;
  }
  for (std::size_t i = 0; i < program.results().size(); ++i) found[static_cast<std::size_t>(stored(i))] = false;
  for (const Node& node : program.nodes()) {
    for (int k = 0; k < node.arity(); ++k)
      found[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = false;
  }
  return found;
}

}  // namespace

std::string write_chain(const ir::Program& program, const plan::KernelClass& kernel,
                        const std::vector<Kind>& input_kinds, ChainWriter& writer, bool returns_result,
                        std::string_view name) {
  std::vector<std::string> parameters;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (!plan::is_value(kernel.inputs[i].access)) continue;
    parameters.push_back(fmt::format("{} {}", type_of(input_kinds[i]), input_name(program, i)));
  }
  for (std::size_t i = 0; i < program.scalars().size(); ++i) parameters.push_back("Real " + scalar_name(program, i));
  for (const Value value : counts_of(program)) parameters.push_back("Real " + count_name(value));
  std::string results;
  std::string_view type;
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    const Value value = program.results()[i].value;
    const Value stored = plan::stored_value(program, i, kernel.outputs[i].dtype);
    type = type_of(program.kind(value, input_kinds));
    if (!returns_result) parameters.push_back(fmt::format("{}& {}", type, output_name(program, i)));
    results += returns_result ? fmt::format("  return {};\n", writer.reference(stored))
                              : fmt::format("  {} = {};\n", output_name(program, i), writer.reference(stored));
  }
  std::string out = name == "chain" ? "// The chain, for one element.\n" : "";
  out += fmt::format("__device__ __forceinline__ {} {}({}) {{\n", returns_result ? type : "void", name,
                     fmt::join(parameters, ", "));
  const auto computed = plan::computed_values(program);  // not those of which only the shape counts
  const std::vector<bool> left_out = casts_of_stores(program, kernel);
  std::string last;  // the statement of the last value, and what it computes
  std::string computation;
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (!computed[i] || !ir::is_computed(node.op) || left_out[i]) continue;
    const auto value = static_cast<Value>(i);
    computation = writer.computation(value);
    out += std::exchange(last, fmt::format("  const {} t{} = {};\n", type_of(writer.kind(value)), i, computation));
    if (returns_result && results == fmt::format("  return t{};\n", i))
      return out + fmt::format("  return {};\n}}\n\n", computation);
  }
  out += last;
  return out + results + "}\n\n";
}

}  // namespace epifuse::codegen
