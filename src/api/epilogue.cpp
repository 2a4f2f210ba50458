// Epilogue: a Program behind the public handle.
#include <epifuse/epilogue.hpp>

#include <algorithm>

#include <spdlog/fmt/ranges.h>

#include "api/arguments.hpp"
#include "base/text.hpp"
#include "ir/expr.hpp"
#include "ir/parser.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse {

Epilogue::Epilogue(const Expr& result) : Epilogue(std::span(&result, 1)) {}

Epilogue::Epilogue(std::span<const Expr> results)
    : program_(std::make_shared<const ir::Program>(ir::translate(results))) {}

Epilogue Epilogue::parse(std::string_view text, std::span<const std::string> scalars) {
  ir::Parser parser(text, scalars);
  auto program = std::make_shared<const ir::Program>(parser.parse());
  const bool is_stated = parser.states(program->inputs());
  return {std::move(program), is_stated, true};
}

const std::vector<std::string>& Epilogue::inputs() const noexcept { return program_->inputs(); }

Epilogue Epilogue::inputs(std::initializer_list<std::string_view> order) const {
  return inputs(std::vector<std::string>(order.begin(), order.end()));
}

Epilogue Epilogue::inputs(std::span<const std::string> order) const {
  const std::vector<std::string>& names = inputs();
  std::vector<std::size_t> from;
  for (const std::string& name : order) {
    const auto at = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
    if (at == names.size()) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      const auto suggestion = base::nearest(name, known);
      base::fail(ErrorCode::invalid_argument, "inputs: the chain has no operand '{}'{}; it has: {}", base::shown(name),
                 suggestion ? fmt::format(" (did you mean '{}'?)", *suggestion) : "",
                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    if (std::ranges::find(from, at) != from.end())
      base::fail(ErrorCode::invalid_argument, "inputs: the operand '{}' is named twice", name);
    from.push_back(at);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (std::ranges::find(from, i) != from.end()) continue;
    base::fail(ErrorCode::invalid_argument, "inputs: the operand '{}' of the chain is not named; name each once: {}",
               names[i], fmt::join(names, ", "));
  }
  return {std::make_shared<const ir::Program>(program_->with_inputs(from)), true, scalars_are_stated_};
}

const std::vector<std::string>& Epilogue::scalars() const noexcept { return program_->scalars(); }

std::vector<std::string> Epilogue::results() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < program_->results().size(); ++i) names.push_back(program_->result_name(i));
  return names;
}

std::vector<std::string> Epilogue::destinations() const {
  std::vector<std::string> names;
  for (const ir::Result& result : program_->results()) {
    const ir::Node& node = program_->node(result.value);
    const bool is_copy = node.op == ir::Op::index_copy && program_->node(node.args[0]).op == ir::Op::input;
    names.push_back(is_copy ? program_->operand_name(static_cast<std::size_t>(program_->node(node.args[0]).ordinal))
                            : std::string());
  }
  return names;
}

bool Epilogue::is_elementwise() const noexcept { return !program_->has_shaping(); }

std::vector<Dims> Epilogue::result_shapes(std::span<const TensorView> inputs) const {
  check_input_order(*this);
  return plan::result_shapes(*program_, inputs);
}

std::vector<Dims> Epilogue::result_shapes(const Arguments& inputs) const {
  return plan::result_shapes(*program_, in_order(*this, inputs, false).inputs);
}

std::vector<DType> Epilogue::result_types(std::span<const TensorView> inputs) const {
  check_input_order(*this);
  return plan::result_types(*program_, inputs);
}

std::vector<DType> Epilogue::result_types(const Arguments& inputs) const {
  return plan::result_types(*program_, in_order(*this, inputs, false).inputs);
}

DType Epilogue::compute_type(std::span<const TensorView> inputs, std::span<const DType> results) const {
  check_input_order(*this);
  return plan::compute_type(*program_, inputs, results);
}

DType Epilogue::compute_type(const Arguments& inputs, std::span<const DType> results) const {
  return plan::compute_type(*program_, in_order(*this, inputs, false).inputs, results);
}

Math Epilogue::math() const noexcept { return program_->math(); }

Epilogue Epilogue::with(Math math) const {
  return {std::make_shared<const ir::Program>(program_->with(math)), inputs_are_stated_, scalars_are_stated_};
}

// What the library prints of programs itself, for logs and caches, says no more than it must.
std::string Epilogue::str() const {
  std::string text = ir::print(*program_);
  const bool says_all = !inputs_are_stated_ || inputs().size() < 2 || text.starts_with("input ");
  return says_all ? text : fmt::format("input {}; {}", fmt::join(inputs(), ", "), text);
}

}  // namespace epifuse
