// The public face of ir::gradient().
#include <epifuse/gradient.hpp>

#include <memory>

#include "ir/gradient.hpp"

namespace epifuse {

Gradient gradient(const Epilogue& tail, std::span<const std::string> wrt, const GradientOptions& options) {
  ir::Gradient found = ir::gradient(tail.program(), wrt, {options.overwritten});
  Epilogue forward(std::make_shared<const ir::Program>(std::move(found.forward)), tail.inputs_are_stated_,
                   tail.scalars_are_stated_);
  Epilogue backward(std::make_shared<const ir::Program>(std::move(found.backward)), true, true);
  Gradient result{std::move(forward), std::move(backward), {}, found.saved};
  for (ir::BackwardOperand& operand : found.operands) {
    // Both lists of sources are one list.
    const auto source = static_cast<GradientSource>(operand.source);
    result.operands.push_back({std::move(operand.name), source, operand.index});
  }
  return result;
}

namespace {
template <class Inputs>
std::vector<DType> types_of_forward(const Gradient& gradient, const Inputs& inputs) {
  std::vector<DType> types = gradient.forward.result_types(inputs);
  const DType computed = gradient.forward.compute_type(inputs, types);
  for (std::size_t i = types.size() - gradient.saved; i < types.size(); ++i) {
    if (is_floating(types[i])) types[i] = computed;
  }
  return types;
}
}  // namespace

std::vector<DType> Gradient::forward_types(std::span<const TensorView> inputs) const {
  return types_of_forward(*this, inputs);
}

std::vector<DType> Gradient::forward_types(const Arguments& inputs) const { return types_of_forward(*this, inputs); }

Gradient gradient(const Epilogue& tail, std::initializer_list<std::string> wrt, const GradientOptions& options) {
  return gradient(tail, std::span(wrt.begin(), wrt.size()), options);
}

}  // namespace epifuse
