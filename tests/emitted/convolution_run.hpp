// Runs the emitted text of a convolution on the CPU. For convolution_test.cpp and warp_convolution_test.cpp.
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "emitted/gemm_run.hpp"
#include "plan/gemm/inside.hpp"
#include "support/convolutions.hpp"

namespace epifuse::test {

inline constexpr ConvolutionTypes kConvolutionTypes[] = {
    {DType::bf16, DType::bf16, DType::bf16},  {DType::f16, DType::f16, DType::f16},
    {DType::f8e4m3, DType::f32, DType::bf16}, {DType::f16, DType::f32, DType::f8e4m3},
    {DType::i8, DType::bf16, DType::f32},     {DType::f8e5m2, DType::f8e5m2, DType::f16}};

inline plan::Inside planned(ConvolutionProblem& problem, const plan::Machine& machine) {
  const std::vector<TensorView> inputs = problem.inputs();
  const OutputView out = problem.output();
  const plan::WithoutProducts split = plan::split_products(problem.tail().program(), inputs);
  auto made = plan::plan_one_kernel(split, std::span(&out, 1), inputs, machine);
  if (const auto* const why = std::get_if<std::string>(&made)) throw std::runtime_error(*why);
  return std::get<plan::Inside>(std::move(made));
}

/// What is wrong with the result, or nothing.
inline std::optional<std::string> run(ConvolutionProblem& problem, const plan::Inside& inside, const CompiledText& text,
                                      When when) {
  problem.reset();
  const auto wrong = run(inside.plan, inside.chain(), text, when);
  return wrong ? wrong : problem.judge();
}

}  // namespace epifuse::test
