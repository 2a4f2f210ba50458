// The operands of a backward pass take their shapes from the forward pass, their types from the operands and results that they belong to.
#include "support/gradient_cases.hpp"

#include <algorithm>
#include <string>

#include <epifuse/error.hpp>
#include <epifuse/gradient.hpp>

#include "support/random_case.hpp"
#include "support/reduction_case.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

bool is_differentiable(DType type) noexcept {
  return type == DType::f64 || type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// A gradient of one operand exists where a path of operations with a derivative leads to a result.
bool has_gradient(const Epilogue& tail, const std::string& name) {
  try {
    static_cast<void>(gradient(tail, {name}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What stands in memory for an operand of the backward pass.
class BackwardOperands {
 public:
  BackwardOperands(const Case& test, const Gradient& gradient)
      : test_(test), gradient_(gradient), forward_(from_epilogue(gradient.forward)) {
    std::vector<Dims> shapes;
    for (const std::string& name : gradient.forward.inputs()) shapes.push_back(input(name).shape);
    const std::vector<Dims> inferred = infer_shapes(forward_, shapes);
    for (const int result : forward_.results) result_shapes_.push_back(inferred[static_cast<std::size_t>(result)]);
  }

  Operand of(const GradientOperand& operand) const {
    switch (operand.source) {
      case GradientSource::gradient:
        return Operand::dense(gradient_type(test_.outputs[operand.index].dtype), result_shapes_[operand.index]);
      case GradientSource::result:
        return Operand::dense(test_.outputs[operand.index].dtype, result_shapes_[operand.index]);
      case GradientSource::saved:
        return Operand::dense(saved_type(operand.index), result_shapes_[operand.index]);
      default:
        return input(gradient_.forward.inputs()[operand.index]);
    }
  }

 private:
  const Operand& input(const std::string& name) const { return test_.inputs[ordinal_of(name)]; }
  // Of results that are stored as integers or truth values gradients are numbers all the same.
  DType gradient_type(DType result) const { return is_differentiable(result) ? result : number_type(); }
  DType number_type() const { return test_.compute() == Compute::f64 ? DType::f64 : DType::f32; }
  DType saved_type(std::size_t result) const {
    const Step& step = forward_.steps[static_cast<std::size_t>(forward_.results[result])];
    if (step.kind == Step::Kind::op && step.definition->truth) return DType::boolean;
    return number_type();
  }

  const Case& test_;
  const Gradient& gradient_;
  Chain forward_;
  std::vector<Dims> result_shapes_;
};

// The planner refuses the others with a sentence.
bool is_one_kernel(const Case& test) {
  try {
    static_cast<void>(planned(test));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return false;
  }
}

}  // namespace

std::optional<Case> backward_case(const Case& test) {
  const Epilogue tail = to_epilogue(test.chain);
  std::vector<std::string> wrt;
  for (const std::string& name : tail.inputs()) {
    if (is_differentiable(test.inputs[ordinal_of(name)].dtype) && has_gradient(tail, name)) wrt.push_back(name);
  }
  if (wrt.empty()) return std::nullopt;
  const Gradient found = gradient(tail, wrt);

  Case backward;
  backward.chain = from_epilogue(found.backward);
  const BackwardOperands operands(test, found);
  for (const GradientOperand& operand : found.operands) backward.inputs.push_back(operands.of(operand));
  const std::vector<Dims> shapes = backward.result_shapes();
  for (std::size_t i = 0; i < wrt.size(); ++i)
    backward.outputs.push_back(Operand::dense(test.inputs[ordinal_of(wrt[i])].dtype, shapes[i]));
  backward.in_place.assign(backward.outputs.size(), -1);
  for (const std::string& name : found.backward.scalars()) backward.scalars.push_back(test.scalars[ordinal_of(name)]);
  backward.fill = test.fill == Fill::rows ? Fill::plain : test.fill;
  backward.data_seed = test.data_seed;
  return backward;
}

std::vector<Case> random_gradients(std::uint64_t seed, std::size_t count, int elements) {
  std::vector<Case> cases;
  Random seeds(seed);
  for (bool reduces = true; cases.size() < count; reduces = !reduces) {
    const std::uint64_t family = seeds.bits();
    const Case forward = reduces ? ReductionFamily(family).next(elements) : Family(family).next(elements);
    std::optional<Case> backward = backward_case(forward);
    if (backward && is_one_kernel(*backward)) cases.push_back(std::move(*backward));
  }
  return cases;
}

}  // namespace epifuse::test
