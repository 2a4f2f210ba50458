// Emitted convolutions that host a chain where warps multiply (sm_80 to sm_89, sm_120), run on the CPU by the model of
// cp.async, ldmatrix and mma.sync, against the definition in f64; and what must be found in kernels that were broken on
// purpose.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>

#include "emitted/convolution_run.hpp"

namespace epifuse::test {
namespace {

// GPUs of which a convolution of few tiles has one or more for each multiprocessor. Float8 needs sm_89.
plan::Machine machine_for(DType factor, int number) {
  static constexpr int kAll[] = {80, 86, 89, 120};
  const bool is_float8 = factor == DType::f8e4m3 || factor == DType::f8e5m2;
  return plan::Machine(kAll[is_float8 ? 2 + number % 2 : number % 4], 1 + number % 7);
}

TEST(WarpConvolutionEmitted, IsTheChainOfTheConvolution) {
  std::set<std::string_view> tiles;
  expect_definitions(
      test_seed(34), 48,
      [](const ConvolutionTypes& types, int number, Random&) { return machine_for(types.factor, number); },
      [&](const plan::GemmPlan& plan) {
        EXPECT_NE(plan.gemm_class.warp_tile(), nullptr);
        tiles.insert(plan.gemm_class.tile_name());
      });
  EXPECT_EQ(tiles.size(), 3U) << "every tile was drawn";
}

// One kernel serves all strides, paddings, dilations and filters. No stride is too large for it.
TEST(WarpConvolutionEmitted, IsOneKernelForAllShapes) {
  const ConvolutionExtents base{
      .images = 2, .channels = 8, .height = 7, .width = 7, .filters = 16, .filter_height = 3, .filter_width = 3};
  ConvolutionExtents steps = base;
  steps.height = 40;
  steps.width = 61;
  steps.stride[0] = 9;
  steps.stride[1] = 20;
  steps.dilation[0] = 5;
  ConvolutionExtents padded = base;
  padded.height = 1;
  padded.filter_height = 1;
  padded.padding[0] = 3;
  padded.padding[1] = 10;
  padded.dilation[1] = 7;
  ConvolutionExtents odd = base;
  odd.channels = 40;
  odd.gap = 8;
  odd.filters = 24;
  std::set<std::string> sources;
  Random random(1);
  for (const ConvolutionExtents& e : {base, steps, padded, odd}) {
    ConvolutionProblem problem(kConvolutionChains[0], e, kConvolutionTypes[0], random);
    const plan::Inside inside = planned(problem, plan::Machine(86, 2));
    const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
    sources.insert(source);
    const auto wrong = run(problem, inside, CompiledText(source), When::late);
    EXPECT_FALSE(wrong) << *wrong << "\n" << problem.text();
  }
  EXPECT_EQ(sources.size(), 1U);
}

TEST(WarpConvolutionModel, FindsPlantedFaults) {
  constexpr Fault kFaults[] = {
      {" * p.stride_x - p.padding_x;", " * p.stride_x;"},
      {"(above - image * p.height) * p.stride_y", "above * p.stride_y"},
      {"image * p.left.image_stride + ", ""},
      {"    y += p.dilation_y;\n", "    y += 1;\n"},
      {"    ++number;\n", ""},
      {"    x = 0;\n", ""},
      {"    if (channel < p.channels) return;\n", ""},
      {"static_cast<unsigned>(p.input_height)", "static_cast<unsigned>(p.input_height - 1)"},
      {"static_cast<unsigned>(p.input_width)", "static_cast<unsigned>(p.input_width - 1)"},
      {"const int bytes = bytes_inside(p.channels - pixel.channel", "const int bytes = bytes_inside(16"},
      {"      pixel.next(p);\n", ""},
      {"pixel.number, tile.column", "0, tile.column"},
  };
  Random random(3);
  const ConvolutionExtents e{.images = 12,
                             .channels = 72,
                             .height = 9,
                             .width = 20,
                             .filters = 40,
                             .filter_height = 3,
                             .filter_width = 2,
                             .stride = {1, 2},
                             .padding = {1, 2},
                             .dilation = {2, 1},
                             .gap = 16};
  // What stands between pixels is NaN in f16.
  ConvolutionProblem problem(kConvolutionChains[1], e, kConvolutionTypes[1], random);
  const plan::Inside inside = planned(problem, plan::Machine(80, 1));
  expect_found(problem, inside, kFaults);
}

}  // namespace
}  // namespace epifuse::test
