// Emitted convolutions that host a chain, run on the CPU by the model of what sm_90a does asynchronously, against the
// definition in f64; and what the model must find in kernels that were broken on purpose.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "emitted/convolution_run.hpp"

namespace epifuse::test {
namespace {

// A device of so few multiprocessors that a block works on several tiles.
plan::Inside planned(ConvolutionProblem& problem, int multiprocessors) {
  return planned(problem, plan::Machine(90, multiprocessors));
}

TEST(ConvolutionEmitted, IsTheChainOfTheConvolution) {
  const std::uint64_t seed = test_seed(29);
  Random seeds(seed);
  std::map<std::string, CompiledText> compiled;
  std::set<std::tuple<int, int, int>> patches;
  for (int number = 0; number < 30; ++number) {
    Random random(seeds.bits());
    const ConvolutionTypes& types =
        kConvolutionTypes[static_cast<std::size_t>(number / 2) % std::size(kConvolutionTypes)];
    const ConvolutionChain& chain =
        kConvolutionChains[static_cast<std::size_t>(number) % std::size(kConvolutionChains)];
    ConvolutionProblem problem(chain, drawn_for_tiles(random, types), types, random);
    const plan::Inside inside = planned(problem, random.between(2, 4));
    const plan::Patch& patch = *inside.plan.convolution->patch;
    patches.insert({patch.width, patch.height, patch.images});
    const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const When when : kAllTimes) {
      const auto wrong = run(problem, inside, text, when);
      ASSERT_FALSE(wrong) << *wrong << "\n"
                          << problem.text() << ", " << inside.plan.gemm_class.tile_name() << ", " << to_string(when)
                          << ", case " << number << ", EPIFUSE_TEST_SEED=" << seed;
    }
  }
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
    const plan::Inside inside = planned(problem, 2);
    sources.insert(codegen::emit_gemm(inside.chain(), inside.plan));
  }
  EXPECT_EQ(sources.size(), 1U);
}

// What the model finds in kernels that lack something.
struct Fault {
  const char* from;
  const char* to;
};

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
  const plan::Inside inside = planned(problem, 1);
  ASSERT_GT(inside.plan.convolution->patch->images, 1);
  ASSERT_GT(inside.plan.convolution->patches_across(), 1);
  ASSERT_GT(inside.plan.convolution->patches(), inside.plan.convolution->patches_across());
  const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
  const auto sound = run(problem, inside, CompiledText(source), When::late);
  ASSERT_FALSE(sound) << *sound;
  for (const Fault& fault : kFaults) {
    std::string broken = source;
    const auto at = broken.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    broken.replace(at, std::strlen(fault.from), fault.to);
    EXPECT_TRUE(run(problem, inside, CompiledText(broken), When::late)) << fault.from;
  }
}

}  // namespace
}  // namespace epifuse::test
