// Runs the emitted text of a convolution on the CPU. For convolution_test.cpp and warp_convolution_test.cpp.
#pragma once

#include <functional>
#include <map>
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

/// So many random ones, each with asynchronous work early, late and at random. `machine_of` gives a case its GPU, by
/// its types and number; `see` is given each plan.
inline void expect_definitions(std::uint64_t seed, int count,
                               const std::function<plan::Machine(const ConvolutionTypes&, int, Random&)>& machine_of,
                               const std::function<void(const plan::GemmPlan&)>& see) {
  Random seeds(seed);
  std::map<std::string, CompiledText> compiled;
  for (int number = 0; number < count; ++number) {
    Random random(seeds.bits());
    const ConvolutionTypes& types =
        kConvolutionTypes[static_cast<std::size_t>(number / 2) % std::size(kConvolutionTypes)];
    const ConvolutionChain& chain =
        kConvolutionChains[static_cast<std::size_t>(number) % std::size(kConvolutionChains)];
    ConvolutionProblem problem(chain, drawn_for_tiles(random, types), types, random);
    const plan::Inside inside = planned(problem, machine_of(types, number, random));
    see(inside.plan);
    const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const When when : kAllTimes) {
      const auto wrong = run(problem, inside, text, when);
      ASSERT_FALSE(wrong) << *wrong << "\n"
                          << problem.text() << ", " << inside.plan.gemm_class.tile_name() << ", " << to_string(when)
                          << ", case " << number << ", EPIFUSE_TEST_SEED=" << seed;
    }
  }
}

/// Each fault is planted in the problem's kernel, and found.
inline void expect_found(ConvolutionProblem& problem, const plan::Inside& inside, std::span<const Fault> faults) {
  expect_found(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both), faults,
               [&](const CompiledText& text, When when) { return run(problem, inside, text, when); });
}

}  // namespace epifuse::test
