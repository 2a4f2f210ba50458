// The public face of ir::gradient().
#include <epifuse/gradient.hpp>

#include <memory>

#include "ir/gradient.hpp"

namespace epifuse {

Gradient gradient(const Epilogue& tail, std::span<const std::string> wrt, const GradientOptions& options) {
  ir::Gradient found = ir::gradient(tail.program(), wrt, {options.overwritten});
  const auto epilogue = [](ir::Program&& program) {
    return Epilogue(std::make_shared<const ir::Program>(std::move(program)));
  };
  Gradient result{epilogue(std::move(found.forward)), epilogue(std::move(found.backward)), {}, found.saved};
  for (ir::BackwardOperand& operand : found.operands) {
    // Both lists of sources are one list.
    const auto source = static_cast<GradientSource>(operand.source);
    result.operands.push_back({std::move(operand.name), source, operand.index});
  }
  return result;
}

std::vector<DType> Gradient::forward_types(std::span<const TensorView> inputs) const {
  std::vector<DType> types = forward.result_types(inputs);
  const DType computed = forward.compute_type(inputs, types);
  for (std::size_t i = types.size() - saved; i < types.size(); ++i) {
    if (is_floating(types[i])) types[i] = computed;
  }
  return types;
}

Gradient gradient(const Epilogue& tail, std::initializer_list<std::string> wrt, const GradientOptions& options) {
  return gradient(tail, std::span(wrt.begin(), wrt.size()), options);
}

}  // namespace epifuse
