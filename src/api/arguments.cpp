// Names to positions, and what may be given by position.
#include "api/arguments.hpp"

#include <algorithm>
#include <string>
#include <variant>

#include <spdlog/fmt/ranges.h>

#include <epifuse/error.hpp>

#include "base/text.hpp"

namespace epifuse {
namespace {

using base::fail;
using enum ErrorCode;

// The position of an argument among `names`. `others` are the names of the other kind.
std::size_t place_of(const Argument& argument, const std::vector<std::string>& names,
                     const std::vector<std::string>& others, bool is_tensor) {
  const auto it = std::ranges::find(names, argument.name);
  if (it != names.end()) return static_cast<std::size_t>(it - names.begin());
  const std::string name = base::shown(argument.name);
  if (std::ranges::find(others, argument.name) != others.end()) {
    if (is_tensor) {
      fail(invalid_argument, "'{}' is a run-time scalar of the chain, but a tensor is given for it; expected a number",
           name);
    }
    fail(invalid_argument,
         "'{}' is a tensor operand of the chain, but a number is given for it; give a view, or make it a scalar: "
         "ef::scalar(\"{}\"), "
         "in text 'scalar {};'",
         name, name, name);
  }
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto suggestion = base::nearest(argument.name, known);
  fail(invalid_argument, "the chain has no {} '{}'{}; it has: {}", is_tensor ? "operand" : "scalar", name,
       suggestion ? fmt::format(" (did you mean '{}'?)", *suggestion) : "",
       names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

void refuse_missing(const std::vector<std::string>& names, std::span<const bool> found, std::string_view what) {
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found[i]) fail(invalid_argument, "the {} '{}' of the chain is missing", what, names[i]);
  }
}

}  // namespace

Positional in_order(const Epilogue& tail, const Arguments& arguments, bool needs_scalars) {
  Positional result{base::InlineVector<TensorView, 8>(tail.inputs().size()),
                    base::InlineVector<double, 8>(tail.scalars().size(), 0.0)};
  base::InlineVector<bool, 16> has_input(tail.inputs().size(), false);
  base::InlineVector<bool, 16> has_scalar(tail.scalars().size(), false);
  for (const Argument& argument : arguments) {
    const auto* view = std::get_if<TensorView>(&argument.value);
    const bool is_tensor = view != nullptr;
    const std::size_t at = is_tensor ? place_of(argument, tail.inputs(), tail.scalars(), true)
                                     : place_of(argument, tail.scalars(), tail.inputs(), false);
    bool& found = is_tensor ? has_input[at] : has_scalar[at];
    if (found) fail(invalid_argument, "the {} '{}' is given twice", is_tensor ? "operand" : "scalar", argument.name);
    found = true;
    if (is_tensor) {
      result.inputs[at] = *view;
    } else {
      result.scalars[at] = std::get<double>(argument.value);
    }
  }
  refuse_missing(tail.inputs(), has_input, "operand");
  if (needs_scalars) refuse_missing(tail.scalars(), has_scalar, "scalar");
  return result;
}

void refuse_positions(const Epilogue& tail, std::string_view remedy) {
  fail(invalid_argument, "operands are given by position, but nothing states the order of this chain's ({}): {}",
       fmt::join(tail.inputs(), ", "), remedy);
}

void check_input_order(const Epilogue& tail) {
  if (tail.takes_inputs_by_position()) return;
  const std::vector<std::string>& names = tail.inputs();
  refuse_positions(tail,
                   fmt::format("pass them by name, {{{{\"{}\", …}}}}, or state it with inputs({{\"{}\"}}) or in "
                               "the text: 'input {}; …'",
                               fmt::join(names, "\", …}, {\""), fmt::join(names, "\", \""), fmt::join(names, ", ")));
}

void check_scalar_order(const Epilogue& tail) {
  if (tail.takes_scalars_by_position()) return;
  const std::vector<std::string>& names = tail.scalars();
  fail(invalid_argument,
       "run-time scalars are given by position, but nothing states the order of this expression's ({}): pass all "
       "arguments by name, {{{{\"{}\", …}}}}",
       fmt::join(names, ", "), fmt::join(names, "\", …}, {\""));
}

void check_scalars(const ir::Program& program, std::span<const double> scalars) {
  if (scalars.size() == program.scalars().size()) {
    for (const ir::Value value : program.generated()) {
      if (program.node(value).op != ir::Op::rand_like) continue;
      ir::random_word(program, program.node(value).args[1], scalars);
      ir::random_word(program, program.node(value).args[2], scalars);
    }
    return;
  }
  fail(invalid_argument, "the chain takes {} run-time scalar{} ({}), but {} {} given", program.scalars().size(),
       program.scalars().size() == 1 ? "" : "s", fmt::join(program.scalars(), ", "), scalars.size(),
       scalars.size() == 1 ? "was" : "were");
}

}  // namespace epifuse
