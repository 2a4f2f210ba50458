// Programs as text: the language itself (parse reads it back), the SSA list, and Graphviz.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/program.hpp"
#include "ir/result_types.hpp"
#include "ir/syntax.hpp"

namespace epifuse::ir {
namespace {

std::string print_plain(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 32> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  return {buffer.data(), end};
}

bool is_leaf(const Node& node) { return node.op < Op::count; }

// "2", or "(2, 1)" where height and width differ.
std::string print_pair(const std::array<std::int32_t, 2>& pair) {
  return pair[0] == pair[1] ? std::to_string(pair[0]) : fmt::format("({}, {})", pair[0], pair[1]);
}

// What a convolution has beside images and filters, but for what is the default.
std::vector<std::string> print_windows(const Windows2d& windows) {
  const Windows2d usual;
  std::vector<std::string> items;
  const auto add = [&](std::string_view name, const auto& pair, const auto& by_default) {
    if (pair != by_default) items.push_back(fmt::format("{}={}", name, print_pair(pair)));
  };
  add("stride", windows.stride, usual.stride);
  add("padding", windows.padding, usual.padding);
  add("dilation", windows.dilation, usual.dilation);
  return items;
}

// What reductions and shape operations have beside their arguments, as a call spells it. All axes, and what is the
// default, go unsaid.
std::vector<std::string> attributes(const Node& node) {
  const Shaping& shaping = node.shaping;
  std::vector<std::string> items;
  const bool is_sum_to = is_reduction(node.op) && node.arity() == 2;
  if (is_sum_to || node.op == Op::expand_as || node.op == Op::reshape_as) return items;
  if (node.op == Op::conv2d) return print_windows(shaping.windows);
  if (node.op == Op::matmul) {
    if (node.constant != 0) items.emplace_back("tf32=true");
    return items;
  }
  if (is_reduction(node.op) || node.op == Op::count) {
    if (shaping.axes.count > 0) items.push_back("axis=" + print_axes(shaping.axes));
    if (node.op == Op::var && node.constant != 1) items.push_back("correction=" + print_plain(node.constant));
    if (shaping.keepdim) items.emplace_back("keepdim=true");
    if (is_extreme(node.op) && node.constant != 0)
      items.push_back(fmt::format("ties=\"{}\"", name_of(static_cast<Ties>(node.constant))));
  } else if (node.op == Op::flatten) {
    items = {std::to_string(shaping.sizes[0]), std::to_string(shaping.sizes[1])};
  } else if (is_shape(node.op) || node.op == Op::iota) {
    items.push_back(print_axes(shaping.axes));
    if (node.op == Op::repeat_as)
      items.insert(items.end(), {std::to_string(shaping.sizes[0]), std::to_string(shaping.sizes[1])});
    if (node.op == Op::unflatten) items.push_back(fmt::format("({}, {})", shaping.sizes[0], shaping.sizes[1]));
  }
  return items;
}

// The names of a program as text. Operands and results come with names; a value that needs one and has none gets the
// next `t0`, `t1`, … that no operand and no result has. So no two things share a name, and no name is given twice:
// where a name stands does not matter.
class Names {
 public:
  explicit Names(const Program& program) {
    for (const auto* names : {&program.inputs(), &program.scalars()}) taken_.insert(names->begin(), names->end());
    for (const Result& result : program.results()) taken_.insert(result.name);
  }

  std::string fresh() {
    while (!taken_.insert(fmt::format("t{}", next_)).second) ++next_;
    return fmt::format("t{}", next_++);
  }

 private:
  std::set<std::string, std::less<>> taken_;
  int next_ = 0;
};

// Prints a program in the text language. A value gets a statement of its own if it is used more than once, is a named
// result, or if the expression would nest deeper than people read (and than the parser recurses).
class Printer {
 public:
  explicit Printer(const Program& program)
      : program_(program), names_(program.nodes().size()), is_mentioned_(program.inputs().size()) {
    name_values();
  }

  std::string print() {
    std::string body;
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (names_[i].empty() || is_leaf(program_.node(value))) continue;
      body += fmt::format("{} = {}; ", names_[i], expression(value));
    }
    body += results();
    return declarations() + body;
  }

 private:
  static constexpr int kDeepest = 40;

  // A result's first name is its value's; its further ones, and those of operands and constants, are aliases
  // (results()).
  void name_values() {
    for (const Result& result : program_.results()) {
      std::string& name = names_[static_cast<std::size_t>(result.value)];
      if (name.empty() && !is_leaf(program_.node(result.value))) name = result.name;
    }
    const std::vector<int> uses = uses_of_values();
    std::vector<int> depth(names_.size(), 0);
    Names names(program_);
    for (std::size_t i = 0; i < names_.size(); ++i) {
      const Node& node = program_.nodes()[i];
      if (is_leaf(node)) {
        if (node.op != Op::constant) names_[i] = operand_name(node);
        continue;
      }
      for (int k = 0; k < node.arity(); ++k) {
        depth[i] = std::max(depth[i], depth[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] + 1);
      }
      if (names_[i].empty() && (uses[i] > 1 || depth[i] > kDeepest)) names_[i] = names.fresh();
      if (!names_[i].empty()) depth[i] = 0;
    }
  }

  std::vector<int> uses_of_values() const {
    std::vector<int> uses(names_.size(), 0);
    for (const Node& node : program_.nodes()) {
      for (int i = 0; i < node.arity(); ++i) ++uses[static_cast<std::size_t>(node.args[static_cast<std::size_t>(i)])];
    }
    for (const Result& result : program_.results()) ++uses[static_cast<std::size_t>(result.value)];
    return uses;
  }

  const std::string& operand_name(const Node& node) const {
    const auto& names = node.op == Op::input ? program_.inputs() : program_.scalars();
    return names[static_cast<std::size_t>(node.ordinal)];
  }

  std::string results() {
    // Aliases stand before `return`, so they mention their operands first.
    std::string aliases;
    for (const Result& result : program_.results()) {
      const std::string& name = names_[static_cast<std::size_t>(result.value)];
      if (!result.name.empty() && name != result.name)
        aliases += fmt::format("{} = {}; ", result.name, operand(result.value, 0));
    }
    std::vector<std::string> items;
    for (const Result& result : program_.results()) {
      if (!result.name.empty()) {
        items.push_back(result.name);
        continue;
      }
      // A bare variable would name the result; an operand does not.
      const std::string text = operand(result.value, 0);
      const bool variable =
          !is_leaf(program_.node(result.value)) && text == names_[static_cast<std::size_t>(result.value)];
      items.push_back(variable ? "(" + text + ")" : text);
    }
    const bool plain = items.size() == 1 && aliases.empty();
    return fmt::format("{}{}{}", aliases, plain ? "" : "return ", fmt::join(items, ", "));
  }

  // Inputs are declared where the order of first mention does not give their positions.
  std::string declarations() const {
    std::string text;
    const bool in_order = mentioned_.size() == program_.inputs().size() && std::ranges::is_sorted(mentioned_);
    if (!in_order) text += fmt::format("input {}; ", fmt::join(program_.inputs(), ", "));
    if (!program_.scalars().empty()) text += fmt::format("scalar {}; ", fmt::join(program_.scalars(), ", "));
    return text;
  }

  // A use of a value: its name if it has one, else its expression, in parentheses if it binds looser than `minimum`.
  std::string operand(Value value, int minimum) {
    const std::string& name = names_[static_cast<std::size_t>(value)];
    if (!name.empty()) {
      mention(program_.node(value));
      return name;
    }
    const std::string text = expression(value);
    return precedence(program_.node(value)) < minimum ? "(" + text + ")" : text;
  }

  void mention(const Node& node) {
    if (node.op != Op::input || is_mentioned_[static_cast<std::size_t>(node.ordinal)]) return;
    is_mentioned_[static_cast<std::size_t>(node.ordinal)] = true;
    mentioned_.push_back(node.ordinal);
  }

  // What has an attribute is a call.
  static const InfixRow* infix_of(const Node& node) {
    return node.op == Op::matmul && node.constant != 0 ? nullptr : find_infix(node.op);
  }

  static int precedence(const Node& node) {
    if (node.op == Op::constant) return std::signbit(node.constant) && !std::isnan(node.constant) ? kUnary : kAtom;
    if (node.op == Op::neg) return kUnary;
    if (node.op == Op::logical_not) return kNot;
    const InfixRow* infix = infix_of(node);
    return infix == nullptr ? kAtom : infix->precedence;
  }

  std::string expression(Value value) {
    const Node& node = program_.node(value);
    if (node.op == Op::constant) return print_number(node.constant, category_of(node.dtype));
    if (node.op == Op::neg) return fmt::format("-{}", operand(node.args[0], kPower));
    if (node.op == Op::logical_not) return fmt::format("not {}", operand(node.args[0], kNot));
    if (const InfixRow* infix = infix_of(node)) {
      const std::string left = operand(node.args[0], infix->left_minimum);
      return fmt::format("{} {} {}", left, infix->symbol, operand(node.args[1], infix->right_minimum));
    }
    if (node.op == Op::view) return viewed(node);
    if (node.op == Op::cat) {
      const std::string first = operand(node.args[0], 0);
      return fmt::format("cat(({}, {}), {})", first, operand(node.args[1], 0), print_axes(node.shaping.axes));
    }
    if (has_index(node.op)) return indexed(node);
    if (node.op == Op::cast) return fmt::format("cast({}, {})", operand(node.args[0], 0), to_string(node.dtype));
    if (node.op == Op::gelu_tanh) return fmt::format("gelu({}, approximate=\"tanh\")", operand(node.args[0], 0));
    return call(node);
  }

  // In PyTorch's order: the dimension stands before the index, but in 'take'.
  std::string indexed(const Node& node) {
    const std::string value = operand(node.args[0], 0);
    const std::string index = operand(node.args[1], 0);
    const std::string source = node.op == Op::index_copy ? ", " + operand(node.args[2], 0) : "";
    const int dim = node.shaping.axes.at[0];
    return node.op == Op::take ? fmt::format("take({}, {}, {})", value, index, dim)
                               : fmt::format("{}({}, {}, {}{})", name_of(node), value, dim, index, source);
  }

  // Brackets bind as calls do; within a call nothing needs parentheses.
  std::string viewed(const Node& node) {
    const View& view = program_.view(node);
    return print_view(view, operand(node.args[0], view.kind == View::Kind::index ? kAtom : 0));
  }

  std::string call(const Node& node) {
    auto count = static_cast<std::size_t>(node.arity());
    // A truth value is none: who reads the text makes a number of what is left out.
    const auto is_default = [&](std::size_t i) {
      const Node& arg = program_.node(node.args[i]);
      return arg.op == Op::constant && category_of(arg.dtype) != Category::truth &&
             row(node.op).parameters[i].default_value == arg.constant;
    };
    while (is_elementwise(node.op) && count > 1 && is_default(count - 1)) --count;
    std::vector<std::string> items;
    for (std::size_t i = 0; i < count; ++i) items.push_back(operand(node.args[i], 0));
    std::ranges::move(attributes(node), std::back_inserter(items));
    return fmt::format("{}({})", name_of(node), fmt::join(items, ", "));
  }

  const Program& program_;
  std::vector<std::string> names_;  // of values that are referred to by name
  std::vector<int> mentioned_;      // inputs in the order of their first mention
  std::vector<bool> is_mentioned_;  // by input
};

// What a node has beside its arguments.
std::string detail(const Program& program, const Node& node) {
  switch (node.op) {
    case Op::input:
      return program.inputs()[static_cast<std::size_t>(node.ordinal)];
    case Op::scalar:
      return program.scalars()[static_cast<std::size_t>(node.ordinal)];
    case Op::constant:
      return print_number(node.constant, category_of(node.dtype));
    case Op::cast:
      return std::string(to_string(node.dtype));
    case Op::view:
      return print_view(program.view(node), "_");
    case Op::cat:
    case Op::take:
    case Op::index_select:
    case Op::gather:
    case Op::index_copy:
      return print_axes(node.shaping.axes);
    default:
      return fmt::format("{}", fmt::join(attributes(node), ", "));
  }
}

}  // namespace

std::string print_axes(const Axes& axes) {
  if (axes.count == 0) return "none";
  if (axes.count == 1 && !axes.rest) return std::to_string(axes.at[0]);
  return fmt::format("({}{})", fmt::join(std::span(axes.at).first(axes.count), ", "), axes.rest ? ", ..." : "");
}

std::string print_number(double value, Category category) {
  if (category == Category::truth) return value != 0 ? "true" : "false";
  if (category == Category::integer) return fmt::format("{:.0f}", value);
  const std::string text = print_plain(value);
  return text.find_first_of(".en") == text.npos ? text + ".0" : text;  // of inf and nan, too
}

std::string print(const Program& program) { return Printer(program).print(); }

std::string print_ssa(const Program& program) {
  std::string text;
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    text += fmt::format("%{:<3} = {}", i, name_of(node));
    for (int k = 0; k < node.arity(); ++k)
      text += fmt::format("{} %{}", k == 0 ? "" : ",", node.args[static_cast<std::size_t>(k)]);
    const std::string more = detail(program, node);
    text += more.empty() ? "\n" : fmt::format("{} {}\n", node.arity() > 0 ? "," : "", more);
  }
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    text += fmt::format("return %{} as {}\n", program.results()[i].value, program.result_name(i));
  }
  return text;
}

std::string print_dot(const Program& program) {
  std::string text =
      "digraph epilogue {\n  rankdir=TB;\n  node [shape=box, style=\"rounded,filled\", fillcolor=\"#eef3fb\", "
      "fontname=\"Helvetica\"];\n";
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    const std::string more = detail(program, node);
    const bool leaf = is_leaf(node);
    const std::string label = leaf           ? more
                              : more.empty() ? std::string(name_of(node))
                                             : fmt::format("{} {}", name_of(node), more);
    text += fmt::format("  v{} [label=\"{}\"{}];\n", i, label, leaf ? ", fillcolor=\"#fdf3e0\"" : "");
    for (int k = 0; k < node.arity(); ++k)
      text += fmt::format("  v{} -> v{};\n", node.args[static_cast<std::size_t>(k)], i);
  }
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    text += fmt::format("  r{} [label=\"{}\", fillcolor=\"#e3f4e1\"];\n  v{} -> r{};\n", i, program.result_name(i),
                        program.results()[i].value, i);
  }
  return text + "}\n";
}

}  // namespace epifuse::ir
