// Emitted convolutions that host a chain, run on the CPU by the model of what sm_90a does asynchronously, against the
// definition in f64; and what the model must find in kernels that were broken on purpose.
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "emitted/convolution_run.hpp"

namespace epifuse::test {
namespace {

// A device of so few multiprocessors that a block works on several tiles.
plan::Machine few(int multiprocessors) { return plan::Machine(90, multiprocessors); }

TEST(ConvolutionEmitted, IsTheChainOfTheConvolution) {
  std::set<std::tuple<int, int, int>> patches;
  expect_definitions(
      test_seed(29), 30, [](const ConvolutionTypes&, int, Random& random) { return few(random.between(2, 4)); },
      [&](const plan::GemmPlan& plan) {
        const plan::Patch& patch = *plan.convolution->patch;
        patches.insert({patch.width, patch.height, patch.images});
      });
  EXPECT_GE(patches.size(), 8U) << "patches of many forms";
}

// One kernel serves all strides, paddings, dilations, filters and patches.
TEST(ConvolutionEmitted, IsOneKernelForAllShapes) {
  std::set<std::string> sources;
  Random random(1);
  for (const auto& [height, width, size] : {std::tuple{7, 7, 3}, std::tuple{20, 30, 1}, std::tuple{1, 200, 2}}) {
    ConvolutionExtents e{.images = 2,
                         .channels = 8,
                         .height = height,
                         .width = width,
                         .filters = 16,
                         .filter_height = 1,
                         .filter_width = size};
    e.stride[1] = size;
    e.padding[1] = size - 1;
    ConvolutionProblem problem(kConvolutionChains[1], e, kConvolutionTypes[0], random);
    const plan::Inside inside = planned(problem, few(2));
    sources.insert(codegen::emit_gemm(inside.chain(), inside.plan));
  }
  EXPECT_EQ(sources.size(), 1U);
}

TEST(ConvolutionModel, FindsPlantedFaults) {
  constexpr Fault kFaults[] = {
      {"x(tile.x * p.stride_x - p.padding_x)", "x(tile.x * p.stride_x)"},
      {"    y += p.dilation_y;\n", "    y += 1;\n"},
      {"    ++number;\n", ""},
      {"    x = first_x;\n", ""},
      {"    if (channel < p.channels) return;\n", ""},
      {"tile.image + (above >> p.height_shift)", "tile.image"},
      {"(patch - patches * p.patches_across) << p.width_shift", "patch << p.width_shift"},
      {"    wait_barrier(barriers.full(ring.at), ring.parity);\n", ""},
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
                             .dilation = {2, 1}};
  ConvolutionProblem problem(kConvolutionChains[1], e, kConvolutionTypes[0], random);
  const plan::Inside inside = planned(problem, few(1));
  ASSERT_GT(inside.plan.convolution->patch->images, 1);
  ASSERT_GT(inside.plan.convolution->patches_across(), 1);
  ASSERT_GT(inside.plan.convolution->patches(), inside.plan.convolution->patches_across());
  expect_found(problem, inside, kFaults);
}

}  // namespace
}  // namespace epifuse::test
