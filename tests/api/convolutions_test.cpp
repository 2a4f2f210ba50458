// Chains with convolutions: what the CPU device computes is the chain of the definition (support/convolutions.hpp), in
// any layout and type. What cannot be is a sentence.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/convolutions.hpp"
#include "support/refusal.hpp"

namespace epifuse::test {
namespace {

TEST(Convolutions, RandomOnesAreTheDefinition) {
  const std::uint64_t seed = test_seed(29);
  Random seeds(seed);
  Engine engine(Device::cpu());
  for (int i = 0; i < 600; ++i) {
    Random random(seeds.bits());
    const DType factor = random.pick({DType::f32, DType::f16, DType::bf16, DType::f64, DType::f8e4m3, DType::i8});
    const DType result = factor == DType::f64 ? DType::f64 : random.pick({DType::f32, DType::f16, DType::bf16});
    const ConvolutionChain& chain = kConvolutionChains[i % static_cast<int>(std::size(kConvolutionChains))];
    ConvolutionProblem problem(chain, drawn_in_any_layout(random), {factor, DType::f32, result}, random);
    engine.launch(problem.tail(), nullptr, problem.output(), problem.inputs());
    const auto wrong = problem.judge();
    ASSERT_FALSE(wrong) << *wrong << "\n" << problem.text() << ", case " << i << ", EPIFUSE_TEST_SEED=" << seed;
  }
}

TEST(Convolutions, ReadViewsOfOperandsAndAreValuesAsAnyOther) {
  Engine engine(Device::cpu());
  const std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9}, w = {1, 0, 0, 1};
  const auto run = [&](const std::string& text, const Dims& image, const Dims& result) {
    std::vector<float> out(16);
    const std::vector<TensorView> inputs = {{x.data(), DType::f32, image}, {w.data(), DType::f32, {1, 1, 2, 2}}};
    const Epilogue tail = as_written(text);
    EXPECT_EQ(tail.result_shapes(inputs)[0], result) << text;
    engine.launch(tail, nullptr, OutputView(out.data(), DType::f32, result), inputs);
    out.resize(result.empty() ? 1 : static_cast<std::size_t>(result[0]));
    return out;
  };
  EXPECT_EQ(run("reshape(conv2d(x[None, None], w), (4,))", {3, 3}, {4}), (std::vector<float>{6, 8, 12, 14}));
  EXPECT_EQ(run("reshape(conv2d(permute(x, (0, 3, 1, 2)), w), (4,))", {1, 3, 3, 1}, {4}),
            (std::vector<float>{6, 8, 12, 14}));
  EXPECT_EQ(run("reshape(conv2d(x, w, none, 2, (1, 0)), (2,))", {1, 1, 3, 3}, {2}), (std::vector<float>{2, 12}));
  EXPECT_EQ(run("amax(conv2d(x, w, padding=1))", {1, 1, 3, 3}, {}), (std::vector<float>{14}));
}

TEST(Convolutions, WithoutElementsAreZeroOrNothing) {
  Engine engine(Device::cpu());
  const Epilogue tail = as_written("conv2d(x, w) + 1");
  std::vector<float> out(4, 7), memory(64);
  const std::vector<TensorView> no_channels = {{memory.data(), DType::f32, {1, 0, 3, 3}},
                                               {memory.data(), DType::f32, {1, 0, 2, 2}}};
  engine.launch(tail, nullptr, OutputView(out.data(), DType::f32, {1, 1, 2, 2}), no_channels);
  EXPECT_EQ(out, (std::vector<float>{1, 1, 1, 1}));
  const std::vector<TensorView> no_images = {{memory.data(), DType::f32, {0, 2, 3, 3}},
                                             {memory.data(), DType::f32, {5, 2, 2, 2}}};
  EXPECT_EQ(tail.result_shapes(no_images)[0], (Dims{0, 5, 2, 2}));
  engine.launch(tail, nullptr, OutputView(out.data(), DType::f32, {0, 5, 2, 2}), no_images);
}

TEST(Convolutions, TextAndFunctionsGiveOneChain) {
  const Expr x = input("x"), w = input("w"), b = input("b");
  EXPECT_EQ(Epilogue(relu(conv2d(x, w, b, {2}, {1, 0}))).str(),
            Epilogue::parse("relu(conv2d(x, w, b, 2, (1, 0)))").str());
  for (const std::string text : {"conv2d(x, w)", "conv2d(x, w, stride=2, padding=(1, 0), dilation=3) + r",
                                 "relu(conv2d(x, w, padding=1) + b[:, None, None])"})
    EXPECT_EQ(Epilogue::parse(text).str(), text);
  EXPECT_EQ(Epilogue::parse("conv2d(x, w, stride=(1, 1), padding=(0, 0))").str(), "conv2d(x, w)");
  EXPECT_EQ(Epilogue::parse("conv2d(x, w, b)").str(), "conv2d(x, w) + b[:, None, None]");
}

TEST(Convolutions, HaveTheTypeOfTheirFactors) {
  const auto type = [](DType a) {
    const std::vector<TensorView> inputs = {{nullptr, a, {1, 2, 3, 3}}, {nullptr, a, {1, 2, 3, 3}}};
    return as_written("conv2d(x, w)").result_types(inputs)[0];
  };
  EXPECT_EQ(type(DType::bf16), DType::bf16);
  EXPECT_EQ(type(DType::f8e4m3), DType::f32);
  EXPECT_EQ(type(DType::i8), DType::i32);
}

TEST(Convolutions, RefusalsSayWhatToDo) {
  const auto shapes = [](const std::string& text, const Dims& x, const Dims& w) {
    return refusal([&] {
      const std::vector<TensorView> inputs = {{nullptr, DType::f32, x}, {nullptr, DType::f32, w}};
      (void)as_written(text).result_shapes(inputs);
    });
  };
  EXPECT_EQ(shapes("conv2d(x, w)", {2, 3, 8}, {4, 3, 3, 3}),
            "'conv2d' takes images [N, C, H, W] and filters [K, C, R, S]; found the shapes [2, 3, 8] and [4, 3, 3, 3]. "
            "One image goes in with a dimension of one element: x[None]");
  EXPECT_EQ(
      shapes("conv2d(x, w)", {2, 8, 9, 9}, {8, 1, 3, 3}),
      "'conv2d' takes images [2, 8, 9, 9] of 8 channels and filters [8, 1, 3, 3] of 1: these are not equal. Groups "
      "of channels are not supported: make one convolution of each");
  EXPECT_EQ(shapes("conv2d(x, w, padding=1, dilation=3)", {2, 8, 9, 4}, {8, 8, 3, 3}),
            "a filter of 'conv2d' reaches over 7 pixels of the width, and images have 6 of them with their padding: no "
            "window fits");
  EXPECT_EQ(shapes("conv2d(x, w)", {2, 8, 9, 4}, {8, 8, 0, 3}),
            "the filters of 'conv2d' have the shape [8, 8, 0, 3]: no pixels");
  const auto parse = [](const std::string& text) { return refusal([&] { (void)Epilogue::parse(text); }); };
  EXPECT_NE(parse("conv2d(x, w, stride=0)").find("'stride' of 'conv2d' is 1 to 2^20, found 0"), std::string::npos);
  EXPECT_NE(parse("conv2d(x, w, padding=(1, 1, 1))").find("'padding' of 'conv2d' is one number, or one for the height"),
            std::string::npos);
  EXPECT_NE(parse("conv2d(x, w, groups=2)").find("'conv2d' has no argument 'groups'"), std::string::npos);
  EXPECT_NE(parse("conv1d(x, w)").find("write 'conv2d' of images of one row"), std::string::npos);
  EXPECT_NE(refusal([] {
              const std::vector<TensorView> inputs = {{nullptr, DType::f32, {1, 1, 3, 3}},
                                                      {nullptr, DType::f32, {1, 1, 3, 3}}};
              const OutputView out(nullptr, DType::f32, {1, 1, 1, 1});
              Inspection(as_written("conv2d(relu(x), w)"), std::span(&out, 1), inputs);
            }).find("the first argument of 'conv2d' is a result of 'relu'"),
            std::string::npos);
  EXPECT_NE(refusal([] {
              (void)gradient(Epilogue::parse("conv2d(x, w)"), {"x"});
            }).find("the gradient of 'conv2d' is products of the gradient"),
            std::string::npos);
}

}  // namespace
}  // namespace epifuse::test
