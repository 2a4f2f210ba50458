// Building chains, writing them as text, and reading them back from the library's Program.
#include "support/chain.hpp"

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
      if (step.kind != Step::Kind::op && step.kind != Step::Kind::cast) continue;
      out +=
          name(static_cast<int>(i)) + " = " + (step.kind == Step::Kind::cast ? cast(step) : operation(step, i)) + "; ";
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

  std::string cast(const Step& step) const {
    return "cast(" + name(step.args[0]) + ", " + std::string(to_string(step.dtype)) + ")";
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

std::string input_name(int ordinal) { return "x" + std::to_string(ordinal); }
std::string scalar_name(int ordinal) { return "s" + std::to_string(ordinal); }

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

int Chain::operations() const noexcept {
  return static_cast<int>(std::ranges::count_if(
      steps, [](const Step& step) { return step.kind == Step::Kind::op || step.kind == Step::Kind::cast; }));
}

std::string to_text(const Chain& chain) { return Writer(chain).text(); }

Epilogue to_epilogue(const Chain& chain) { return Epilogue::parse(to_text(chain)); }

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
      default:
        chain.op(ir::row(node.op).name, std::vector<int>(node.args.begin(), node.args.begin() + node.arity()));
    }
  }
  for (const ir::Result& result : program.results()) chain.results.push_back(result.value);
  return chain;
}

Chain without_dead_steps(const Chain& chain, std::vector<int>& kept_inputs, std::vector<int>& kept_scalars) {
  std::vector<char> live(chain.steps.size(), 0);
  for (const int result : chain.results) live[static_cast<std::size_t>(result)] = 1;
  for (std::size_t i = chain.steps.size(); i-- > 0;) {
    if (live[i] == 0) continue;
    for (const int arg : chain.steps[i].args) live[static_cast<std::size_t>(arg)] = 1;
  }
  const auto renumber = [](std::vector<int>& kept, int ordinal) {
    const auto it = std::ranges::find(kept, ordinal);
    if (it != kept.end()) return static_cast<int>(it - kept.begin());
    kept.push_back(ordinal);
    return static_cast<int>(kept.size()) - 1;
  };
  kept_inputs.clear();
  kept_scalars.clear();
  Chain out;
  std::vector<int> renamed(chain.steps.size(), -1);
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    if (live[i] == 0) continue;
    Step step = chain.steps[i];
    for (int& arg : step.args) arg = renamed[static_cast<std::size_t>(arg)];
    if (step.kind == Step::Kind::input) step.ordinal = renumber(kept_inputs, step.ordinal);
    if (step.kind == Step::Kind::scalar) step.ordinal = renumber(kept_scalars, step.ordinal);
    renamed[i] = static_cast<int>(out.steps.size());
    out.steps.push_back(std::move(step));
  }
  for (const int result : chain.results) out.results.push_back(renamed[static_cast<std::size_t>(result)]);
  out.inputs = static_cast<int>(kept_inputs.size());
  out.scalars = static_cast<int>(kept_scalars.size());
  return out;
}

}  // namespace epifuse::test
