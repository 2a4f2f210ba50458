// Building chains, writing them as text, and reading them back from the library's Program.
#include "support/chain.hpp"
#include "support/as_written.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "ir/program.hpp"

namespace epifuse::test {
namespace {

constexpr std::array<std::pair<std::string_view, std::string_view>, 13> kInfix = {{{"add", "+"},
                                                                                   {"sub", "-"},
                                                                                   {"mul", "*"},
                                                                                   {"div", "/"},
                                                                                   {"pow", "**"},
                                                                                   {"eq", "=="},
                                                                                   {"ne", "!="},
                                                                                   {"lt", "<"},
                                                                                   {"le", "<="},
                                                                                   {"gt", ">"},
                                                                                   {"ge", ">="},
                                                                                   {"logical_and", "and"},
                                                                                   {"logical_or", "or"}}};

// In the order of Reduction.
constexpr std::array<std::string_view, 8> kReductions = {"sum", "mean", "prod", "amax", "amin", "var", "any", "all"};

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "(-inf)";
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::fabs(value)).ptr;
  const std::string digits(text.data(), end);
  return std::signbit(value) ? "(-" + digits + ")" : digits;
}

bool is_constant(const Chain& chain, int step, double value) {
  const Step& s = chain.steps[static_cast<std::size_t>(step)];
  return s.kind == Step::Kind::constant && s.constant == value;
}

class Writer {
 public:
  explicit Writer(const Chain& chain) : chain_(chain) {}

  std::string text() {
    std::string out;
    for (int i = 0; i < chain_.scalars; ++i) out += (i == 0 ? "scalar " : ", ") + scalar_name(i);
    if (chain_.scalars > 0) out += "; ";
    for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
      const Step& step = chain_.steps[i];
      if (step.args.empty()) continue;
      out += name(static_cast<int>(i)) + " = " + statement(step, i) + "; ";
    }
    out += "return ";
    for (std::size_t i = 0; i < chain_.results.size(); ++i) out += (i == 0 ? "" : ", ") + name(chain_.results[i]);
    return out;
  }

 private:
  std::string name(int index) const {
    const Step& step = chain_.steps[static_cast<std::size_t>(index)];
    switch (step.kind) {
      case Step::Kind::input:
        return input_name(step.ordinal);
      case Step::Kind::scalar:
        return scalar_name(step.ordinal);
      case Step::Kind::constant:
        return number(step.constant);
      default:
        return "t" + std::to_string(index);
    }
  }

  std::string statement(const Step& step, std::size_t index) const {
    const std::string value = name(step.args[0]);
    switch (step.kind) {
      case Step::Kind::cast:
        return "cast(" + value + ", " + std::string(to_string(step.dtype)) + ")";
      case Step::Kind::reduce:
        return reduction(step, value, index);
      case Step::Kind::unflatten:
        return "unflatten(" + value + ", " + std::to_string(step.axes.at[0]) + ", (" + std::to_string(step.sizes[0]) +
               ", " + std::to_string(step.sizes[1]) + "))";
      case Step::Kind::flatten:
        return "flatten(" + value + ", " + std::to_string(step.axes.at[0]) + ", " + std::to_string(step.axes.at[1]) +
               ")";
      case Step::Kind::op:
        return operation(step, index);
      default:
        return shaping(step);
    }
  }

  // A single axis stands without parentheses.
  static std::string axes_of(const Step& step) {
    if (step.axes.at.empty()) return "none";
    std::string list;
    for (const int axis : step.axes.at) list += (list.empty() ? "" : ", ") + std::to_string(axis);
    if (step.axes.rest) list += ", ...";
    return step.axes.at.size() == 1 && !step.axes.rest ? list : "(" + list + ")";
  }

  std::string shaping(const Step& step) const {
    std::string out = std::string(kStepKinds[static_cast<std::size_t>(step.kind)]) + "(" + name(step.args[0]);
    if (step.args.size() > 1) out += ", " + name(step.args[1]);
    const bool takes_axes = step.kind == Step::Kind::along || step.kind == Step::Kind::unsqueeze_as;
    if (takes_axes || !step.axes.at.empty()) out += ", " + axes_of(step);
    return out + ")";
  }

  // The axes by name and by position.
  static std::string reduction(const Step& step, const std::string& value, std::size_t index) {
    std::string out = std::string(to_string(step.reduction)) + "(" + value;
    if (!step.axes.at.empty()) out += (index % 3 == 0 ? ", " : ", axis=") + axes_of(step);
    if (step.reduction == Reduction::var && step.constant != 1) out += ", correction=" + number(step.constant);
    if (step.keepdim) out += ", keepdim=true";
    return out + ")";
  }

  std::string operation(const Step& step, std::size_t index) const {
    const Definition& definition = *step.definition;
    const auto infix =
        std::ranges::find(kInfix, definition.name, &std::pair<std::string_view, std::string_view>::first);
    if (infix != kInfix.end() && index % 2 == 0) {
      return name(step.args[0]) + " " + std::string(infix->second) + " " + name(step.args[1]);
    }
    if (definition.name == "gelu_tanh") return "gelu(" + name(step.args[0]) + ", approximate=\"tanh\")";
    // Trailing arguments that hold their default are left out.
    std::size_t shown = step.args.size();
    const std::size_t required = step.args.size() - definition.defaults.size();
    while (shown > required && is_constant(chain_, step.args[shown - 1], definition.defaults[shown - 1 - required]))
      --shown;
    std::string out = std::string(definition.name) + "(";
    for (std::size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + name(step.args[i]);
    return out + ")";
  }

  const Chain& chain_;
};

}  // namespace

std::string_view to_string(Reduction reduction) noexcept { return kReductions[static_cast<std::size_t>(reduction)]; }

std::string input_name(int ordinal) { return "x" + std::to_string(ordinal); }
std::string scalar_name(int ordinal) { return "s" + std::to_string(ordinal); }
std::size_t ordinal_of(const std::string& name) { return std::stoul(name.substr(1)); }

int Chain::input(int ordinal) {
  inputs = std::max(inputs, ordinal + 1);
  steps.push_back({.kind = Step::Kind::input, .ordinal = ordinal});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::scalar(int ordinal) {
  scalars = std::max(scalars, ordinal + 1);
  steps.push_back({.kind = Step::Kind::scalar, .ordinal = ordinal});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::constant(double value) {
  steps.push_back({.kind = Step::Kind::constant, .constant = value});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::cast(int value, DType dtype) {
  steps.push_back({.kind = Step::Kind::cast, .dtype = dtype, .args = {value}});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::op(std::string_view name, std::vector<int> args) {
  steps.push_back({.kind = Step::Kind::op, .definition = &definition(name), .args = std::move(args)});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::reduce(Reduction reduction, int value, AxisList axes, bool keepdim, double correction) {
  steps.push_back({.kind = Step::Kind::reduce,
                   .constant = reduction == Reduction::var ? correction : 0,
                   .args = {value},
                   .reduction = reduction,
                   .axes = std::move(axes),
                   .keepdim = keepdim});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::unflatten(int value, int dim, std::array<std::int64_t, 2> sizes) {
  steps.push_back({.kind = Step::Kind::unflatten, .args = {value}, .axes = {{dim}}, .sizes = sizes});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::flatten(int value, int first, int last) {
  steps.push_back({.kind = Step::Kind::flatten, .args = {value}, .axes = {{first, last}}});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::along(int vector, int other, int dim) {
  steps.push_back({.kind = Step::Kind::along, .args = {vector, other}, .axes = {{dim}}});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::count(int value, AxisList axes) {
  steps.push_back({.kind = Step::Kind::count, .args = {value}, .axes = std::move(axes)});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::unsqueeze_as(int value, int other, AxisList axes) {
  steps.push_back({.kind = Step::Kind::unsqueeze_as, .args = {value, other}, .axes = std::move(axes)});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::like(Step::Kind kind, int value, int other) {
  steps.push_back({.kind = kind, .args = {value, other}});
  return static_cast<int>(steps.size()) - 1;
}

int Chain::operations() const noexcept {
  return static_cast<int>(std::ranges::count_if(steps, [](const Step& step) { return !step.args.empty(); }));
}

bool Chain::has_shaping() const noexcept { return std::ranges::any_of(steps, &Step::is_shaping); }

std::string to_text(const Chain& chain) { return Writer(chain).text(); }

Epilogue to_epilogue(const Chain& chain) { return as_written(to_text(chain)); }

namespace {
AxisList axes_of(const ir::Node& node) {
  const ir::Axes& axes = node.shaping.axes;
  return {std::vector<int>(axes.at.begin(), axes.at.begin() + axes.count), axes.rest};
}

void add_reduction(Chain& chain, const ir::Node& node) {
  if (node.arity() == 2) {
    chain.like(Step::Kind::sum_to, node.args[0], node.args[1]);
    return;
  }
  const auto name = std::ranges::find(kReductions, ir::reduction_row(node.op).name);
  chain.reduce(static_cast<Reduction>(name - kReductions.begin()), node.args[0], axes_of(node), node.shaping.keepdim,
               node.constant);
}
}  // namespace

Chain from_epilogue(const Epilogue& tail) {
  const ir::Program& program = tail.program();
  Chain chain;
  chain.inputs = static_cast<int>(program.inputs().size());
  chain.scalars = static_cast<int>(program.scalars().size());
  for (const ir::Node& node : program.nodes()) {
    switch (node.op) {
      case ir::Op::input:
        chain.input(node.ordinal);
        break;
      case ir::Op::scalar:
        chain.scalar(node.ordinal);
        break;
      case ir::Op::constant:
        chain.constant(node.constant);
        break;
      case ir::Op::cast:
        chain.cast(node.args[0], node.dtype);
        break;
      case ir::Op::unflatten:
        chain.unflatten(node.args[0], node.shaping.axes.at[0], node.shaping.sizes);
        break;
      case ir::Op::flatten:
        chain.flatten(node.args[0], static_cast<int>(node.shaping.sizes[0]), static_cast<int>(node.shaping.sizes[1]));
        break;
      case ir::Op::along:
        chain.along(node.args[0], node.args[1], node.shaping.axes.at[0]);
        break;
      case ir::Op::count:
        chain.count(node.args[0], axes_of(node));
        break;
      case ir::Op::unsqueeze_as:
        chain.unsqueeze_as(node.args[0], node.args[1], axes_of(node));
        break;
      case ir::Op::reshape_as:
        chain.like(Step::Kind::reshape_as, node.args[0], node.args[1]);
        break;
      case ir::Op::expand_as:
        chain.like(Step::Kind::expand_as, node.args[0], node.args[1]);
        break;
      default:
        if (ir::is_reduction(node.op)) {
          add_reduction(chain, node);
          break;
        }
        chain.op(ir::row(node.op).name, std::vector<int>(node.args.begin(), node.args.begin() + node.arity()));
    }
  }
  for (const ir::Result& result : program.results()) chain.results.push_back(result.value);
  return chain;
}

Chain without_dead_steps(const Chain& chain, std::vector<int>& held_inputs, std::vector<int>& held_scalars) {
  std::vector<char> live(chain.steps.size(), 0);
  for (const int result : chain.results) live[static_cast<std::size_t>(result)] = 1;
  for (std::size_t i = chain.steps.size(); i-- > 0;) {
    if (live[i] == 0) continue;
    for (const int arg : chain.steps[i].args) live[static_cast<std::size_t>(arg)] = 1;
  }
  const auto renumber = [](std::vector<int>& held, int ordinal) {
    const auto it = std::ranges::find(held, ordinal);
    if (it != held.end()) return static_cast<int>(it - held.begin());
    held.push_back(ordinal);
    return static_cast<int>(held.size()) - 1;
  };
  held_inputs.clear();
  held_scalars.clear();
  Chain out;
  std::vector<int> renamed(chain.steps.size(), -1);
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    if (live[i] == 0) continue;
    Step step = chain.steps[i];
    for (int& arg : step.args) arg = renamed[static_cast<std::size_t>(arg)];
    if (step.kind == Step::Kind::input) step.ordinal = renumber(held_inputs, step.ordinal);
    if (step.kind == Step::Kind::scalar) step.ordinal = renumber(held_scalars, step.ordinal);
    renamed[i] = static_cast<int>(out.steps.size());
    out.steps.push_back(std::move(step));
  }
  for (const int result : chain.results) out.results.push_back(renamed[static_cast<std::size_t>(result)]);
  out.inputs = static_cast<int>(held_inputs.size());
  out.scalars = static_cast<int>(held_scalars.size());
  return out;
}

}  // namespace epifuse::test
