// Epilogue: a Program behind the public handle.
#include <epifuse/epilogue.hpp>

#include "ir/expr.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse {

Epilogue::Epilogue(const Expr& result) : Epilogue(std::span(&result, 1)) {}

Epilogue::Epilogue(std::span<const Expr> results)
    : program_(std::make_shared<const ir::Program>(ir::translate(results))) {}

Epilogue Epilogue::parse(std::string_view text, std::span<const std::string> scalars) {
  return Epilogue(std::make_shared<const ir::Program>(ir::parse(text, scalars)));
}

const std::vector<std::string>& Epilogue::inputs() const noexcept { return program_->inputs(); }

const std::vector<std::string>& Epilogue::scalars() const noexcept { return program_->scalars(); }

std::vector<std::string> Epilogue::results() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < program_->results().size(); ++i) names.push_back(program_->result_name(i));
  return names;
}

bool Epilogue::is_elementwise() const noexcept { return !program_->has_shaping(); }

std::vector<Dims> Epilogue::result_shapes(std::span<const TensorView> inputs) const {
  return plan::result_shapes(*program_, inputs);
}

std::vector<DType> Epilogue::result_types(std::span<const TensorView> inputs) const {
  return plan::result_types(*program_, inputs);
}

DType Epilogue::compute_type(std::span<const TensorView> inputs, std::span<const DType> results) const {
  return plan::compute_type(*program_, inputs, results);
}

Math Epilogue::math() const noexcept { return program_->math(); }

Epilogue Epilogue::with(Math math) const { return Epilogue(std::make_shared<const ir::Program>(program_->with(math))); }

std::string Epilogue::str() const { return ir::print(*program_); }

}  // namespace epifuse
