// Pooling, joining, positions and what stands on them: what is computed is what PyTorch documents, on the CPU device;
// what cannot be is a sentence.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "api/drawn_views.hpp"
#include "support/as_written.hpp"
#include "support/large_windows.hpp"
#include "support/neighbour_views.hpp"
#include "support/view_functions.hpp"
#include "support/wrap_cases.hpp"

namespace epifuse::test {
namespace {

TEST(ViewFunctions, RandomCasesAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2027), 20'000, draw_view_function, view_functions(), 20'000 / 50);
}

TEST(ViewFunctions, LargeWindowsAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2720), 1'000, draw_large_windows, large_windows(), 1'000 / 8);
}

TEST(ViewFunctions, ViewsSideBySideAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2710), 2'000, draw_neighbour_views, {"views side by side"}, 1'999);
}

TEST(ViewFunctions, WhatWrapsAndIsPaddedIsWhatItWas) {
  const std::uint64_t seed = test_seed(2702);
  Random seeds(seed);
  Engine engine(Device::cpu());
  for (int i = 0; i < 5'000; ++i) {
    const std::uint64_t own = seeds.bits();
    WrapCase test(own);
    const auto outputs = test.outputs();
    const auto inputs = test.inputs();
    engine.launch(test.tail(), nullptr, outputs, inputs);
    ASSERT_EQ(test.judge(), "") << test.text() << " of " << to_string(inputs[0].shape) << "\n  case " << own
                                << ", EPIFUSE_TEST_SEED=" << seed;
  }
}

// A roll is one operand, which is read once: no piece of it is an operand of its own.
TEST(ViewFunctions, WhatIsRolledIsOneOperand) {
  std::vector<float> memory(4 * 6 * 9);
  const TensorView x(memory.data(), DType::f32, {4, 6, 9});
  const auto operands = [&](const char* chain) {
    const Epilogue tail = Epilogue::parse(chain);
    std::vector<float> result(memory.size() * 4);
    const OutputView out(result.data(), DType::f32, tail.result_shapes(std::span(&x, 1))[0]);
    const std::vector<std::string> views = Inspection(tail, std::span(&out, 1), std::span(&x, 1)).plan().views;
    return std::ranges::count_if(views, [](const std::string& view) { return view.starts_with("x_"); });
  };
  EXPECT_EQ(operands("roll(x, (2, 5), (1, 2))"), 1);
  EXPECT_EQ(operands("roll(roll(x, (2, 5), (1, 2)), 4, 1) * 2"), 1);
  EXPECT_EQ(operands("pad(roll(x, (2, -5), (1, 2)), (1, 1))"), 1);
  EXPECT_EQ(operands("transpose(roll(relu(x), 2, 1), 0, 1)"), 1);
  EXPECT_EQ(operands("sum(roll(x, (2, 5), (1, 2)), 2)"), 1);
  EXPECT_EQ(operands("roll(pad(x, (1, 1)), 3, 2)"), 2);  // where the border goes is no interval
}

// A result over what it rolls would lose elements before they are read.
TEST(ViewFunctions, NothingIsRolledInPlace) {
  std::vector<float> memory(24);
  const TensorView x(memory.data(), DType::f32, {24});
  const OutputView out(memory.data(), DType::f32, {24});
  try {
    Engine(Device::cpu()).launch(Epilogue::parse("roll(x, 3, 0)"), nullptr, std::span(&out, 1), std::span(&x, 1));
    FAIL() << "rolled in place";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("overlaps operand 'x[21…44 modulo 24]'"), std::string::npos)
        << error.what();
  }
}

// What a launch of these operands (f32, dense) says; empty if it runs.
std::string refusal(const std::string& chain, const std::vector<Dims>& shapes) {
  std::vector<float> memory(1 << 14);
  std::vector<TensorView> inputs;
  for (const Dims& shape : shapes) inputs.emplace_back(memory.data(), DType::f32, shape);
  try {
    const Epilogue tail = as_written(chain);
    std::vector<std::vector<float>> results;
    std::vector<OutputView> outputs;
    for (const Dims& shape : tail.result_shapes(inputs)) {
      results.emplace_back(memory.size());
      outputs.emplace_back(results.back().data(), DType::f32, shape);
    }
    Engine(Device::cpu()).launch(tail, nullptr, outputs, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(ViewFunctions, WhatDoesNotFitIsASentence) {
  const auto expect = [](const std::string& chain, const std::vector<Dims>& shapes, const std::string& part) {
    const std::string found = refusal(chain, shapes);
    EXPECT_NE(found.find(part), std::string::npos) << chain << "\n  said: " << found << "\n  wanted: " << part;
  };
  expect("max_pool2d(x, 3)", {{4, 2, 5}}, "'max_pool2d(…)': a window reaches over 3 elements, dimension 1 has 2");
  expect("max_pool1d(x, 2, dilation=3)", {{3}}, "'max_pool1d(…)': a window reaches over 4 elements");
  expect("lp_pool2d(x, 2, 9)", {{16, 8}}, "'lp_pool2d(…)': a window reaches over 9 elements, dimension 1 has 8");
  expect("avg_pool1d(x, 9, 1, 1)", {{6}},
         "'avg_pool1d(…)': a window reaches over 9 elements, dimension 0 has 8 with its padding of 1");
  expect("max_pool2d(x, 2)", {{4}}, "'max_pool2d(…)': there is no dimension -2, the value has the shape [4]");
  expect("window(x, 0, 5, 1)[0]", {{4}},
         "'window(x, 0, 5, 1)[0]': a window reaches over 5 elements, dimension 0 has 4: the shape is [4]");
  expect("max_pool2d(x, 2, 0)", {{4, 4}}, "'stride' of 'max_pool2d' is 1 to 2^30, found 0");
  expect("max_pool2d(x, (2, 2, 2))", {{4, 4}}, "'kernel_size' of 'max_pool2d' is one number or 2, found 3");
  expect("unfold(x, 0, 4, 1, padding=3)", {{8}},
         "'unfold' takes a padding of 0 to half of its size, which is 4; found 3");
  expect("unfold(x, 0, 9, 1, padding=2)", {{4}},
         "a window reaches over 9 elements, dimension 0 has 8 with its padding of 2");
  expect("reshape(unfold(x, 0, 3, 1, padding=1), (12,))", {{4}}, "elements do not exist, since it is padded or joined");
  expect("max_pool2d(x, 9)", {{16, 8}}, "a window reaches over 9 elements, dimension 1 has 8");
  expect("max_pool2d(softmax(x, 1), 9)", {{16, 16}}, "Compute 'softmax(…)' in a launch of its own");
  expect("unfold(unfold(x, 0, 3, 1, padding=1), 0, 2, 1)", {{8}},
         "elements do not exist, since it is padded or joined");
  expect("unfold(x, 1, 3, 1)", {{4}}, "there is no dimension 1");
  expect("unfold(x, 0, 5, 1)", {{4}}, "a window reaches over 5 elements, dimension 0 has 4: the shape is [4]");
  expect("unfold(x, 0, 2, 0)", {{4}}, "'unfold' takes a size and a step of at least 1, found 2 and 0");
  expect("max_pool1d(x, 100, 1, 0, 0)", {{400}}, "'dilation' of 'max_pool1d' is 1 to 2^30, found 0");
  expect("max_pool1d(x, 0)", {{4}}, "'kernel_size' of 'max_pool1d' is 1 to 2^30, found 0");
  expect("avg_pool2d(x, 2, divisor_override=0)", {{4, 4}},
         "'divisor_override' of 'avg_pool2d' is one number that is not 0");
  expect("lp_pool1d(x, 0, 2)", {{4}}, "'norm_type' of 'lp_pool1d' is a positive number, found 0");
  expect("window(x, 0, 2, 1)[2]", {{4}}, "'window' gives elements of windows of 2, numbered from 0: there is no [2]");
  expect("window(x, 0, 2, 0)[1]", {{4}}, "'window' takes a stride of 1 to 2^30, found 0");
  expect("window(x, 2, 2, 1)[1]", {{4}}, "there is no dimension 2");
  expect("adaptive_avg_pool1d(x, 3)", {{2, 4}},
         "'adaptive_avg_pool1d' cannot split dimension 1 of shape [2, 4] into (3, -1)");
  expect("upsample_nearest2d(x, 0)", {{1, 1, 2, 2}}, "'scale_factor' of 'upsample_nearest2d' is at least 1, found 0");
  expect("pixel_shuffle(x, 2)", {{1, 6, 2, 2}}, "'pixel_shuffle' cannot split dimension 1");
  expect("cat((x, y), 1)", {{2, 3}, {4, 3}}, "the arguments of 'cat' have shapes [2, 3] and [4, 3]");
  expect("cat((x, y))", {{2, 3}, {3}}, "the arguments of 'cat' have shapes [2, 3] and [3]");
  expect("cat((x, y), 2)", {{2, 3}, {2, 3}}, "axis 2 of 'cat' is out of range");
  expect("sum(cat((softmax(x, 1), y), 1), 1)", {{2, 3}, {2, 3}},
         "what 'cat(…)' joins (shapes [2, 3] and [2, 3]) is needed as one here");
  expect("max_pool1d(x, 3, padding=2)", {{8}},
         "'padding' of 'max_pool1d' is at most half of 'kernel_size', which is 3; found 2");
  expect("avg_pool2d(x, 3, padding=(1, -1))", {{8, 8}}, "'padding' of 'avg_pool2d' is 0 or more, found -1");
  expect("max_pool2d(x, 5, padding=1)", {{4, 2}},
         "'max_pool2d(…)': a window reaches over 5 elements, dimension 1 has 4 with its padding of 1");
  expect("window(x, 0, 3, 1, padding=2)[0]", {{8}},
         "'window' takes a padding of at most half of its size, which is 3; found 2");
  expect("pad(x, (1, 1, 1))", {{4, 4}}, "'pad' takes two sizes for each dimension");
  expect("pad(x, (1, 1, 1, 1))", {{4}}, "'pad(x, (1, 1, 1, 1))' pads 2 dimensions, but the value has 1");
  expect("pad(x, (-3, -2))", {{4}}, "'pad(x, (-3, -2))' takes more elements away than dimension 0 has");
  expect("pad(x, (1, 1), mode=\"reflect\")", {{4}}, "'mode' of 'pad' is \"constant\", found 'reflect'");
  expect("pad(softmax(x, 1), (1, 1))", {{4, 4}}, "reads outside what a reduction gives");
  expect("reshape(pad(x, (1, 1)), (2, 3))", {{4}}, "splits or merges a dimension of which elements do not exist");
  expect("pad(expand(2, (3,)), (1, 1))", {}, "of which no operand has all elements");
  expect("roll(x, 1, 2)", {{4}}, "'roll(…)': there is no dimension 2, the value has the shape [4]");
  expect("roll(x, (1, 2), 0)", {{4}}, "'roll' takes a shift for each dimension; found 2 and 1");
  expect("reshape(cat((x, y)), (3, 4))", {{2, 3}, {2, 3}}, "is needed as one here, by a reduction or a reshape");
  expect("stack((x, y), 3)", {{2, 3}, {2, 3}},
         "'stack(…)' takes a value of 3 dimensions or more, found the shape [2, 3]");
  expect("split(x, (2, 4), 1)[1]", {{2, 3}}, "'split(…)' ends outside the value: dimension 1 has 3 elements");
  expect("split(x, (2, 1))[2]", {{2, 3}}, "'split' takes a size, or sizes of 0 or more, and gives as many pieces");
  expect("argmax(x, (0, 1))", {{2, 3}}, "'argmax' takes one axis, or none for all elements; found (0, 1)");
  expect("argmin(transpose(x, 0, 1) + y)", {{5000, 4000}, {1, 1}}, "'argmin' counts the 20000000 elements");
  expect("adaptive_max_pool2d(x, (none, 0))", {{2, 3}}, "'adaptive_max_pool2d' splits a dimension");
  expect("cat(x)", {{2, 3}}, "'tensors' of 'cat' is a list of values as (x, y)");
  expect("iota(x, 3)", {{2, 3}}, "axis 3 of 'iota' is out of range");
  expect("var_mean(x)[2]", {{2, 3}}, "'var_mean' gives the variance as [0] and the mean as [1]; found [2]");
  expect("argmax(x, 5)", {{2, 3}}, "axis 5 of 'argmax' is out of range");
  expect("rope(q, c, s)", {{4, 6}, {4, 4}, {4, 4}}, "do not broadcast");
}

TEST(ViewFunctions, ExpressionsAndTextAreOneChain) {
  const Expr x = input("x");
  const Expr y = input("y");
  const std::vector<std::pair<Expr, std::string>> same = {
      {max_pool1d(x, {3}, {2}, {0}, {2}), "max_pool1d(x, 3, 2, 0, 2)"},
      {max_pool1d(x, {3}, {2}, {1}, {1}, true), "max_pool1d(x, 3, 2, 1, ceil_mode=true)"},
      {max_pool2d(x, {3}, {}, {1, 0}), "max_pool2d(x, 3, padding=(1, 0))"},
      {max_pool2d(x, {2}), "max_pool2d(x, 2)"},
      {max_pool3d(x, {1, 2, 2}), "max_pool3d(x, (1, 2, 2))"},
      {avg_pool1d(x, {2}), "avg_pool1d(x, 2)"},
      {avg_pool1d(x, {3}, {1}, {1}, false, false), "avg_pool1d(x, 3, 1, 1, count_include_pad=false)"},
      {avg_pool2d(x, {2}, {1}, {0}, false, true, 3), "avg_pool2d(x, 2, 1, divisor_override=3)"},
      {avg_pool2d(x, {3}, {2}, {0}, true), "avg_pool2d(x, 3, 2, ceil_mode=true)"},
      {avg_pool3d(x, {2}), "avg_pool3d(x, 2)"},
      {lp_pool1d(x, 2, {3}), "lp_pool1d(x, 2, 3)"},
      {lp_pool2d(x, 3, {2}), "lp_pool2d(x, 3, 2)"},
      {lp_pool2d(x, 1, {3}, {2}, true), "lp_pool2d(x, 1, 3, 2, ceil_mode=true)"},
      {lp_pool3d(x, 2, {2}), "lp_pool3d(x, 2, 2)"},
      {adaptive_avg_pool1d(x, {4}), "adaptive_avg_pool1d(x, 4)"},
      {adaptive_avg_pool2d(x, {4, 2}), "adaptive_avg_pool2d(x, (4, 2))"},
      {adaptive_avg_pool3d(x, {1}), "adaptive_avg_pool3d(x, 1)"},
      {adaptive_max_pool1d(x, {4}), "adaptive_max_pool1d(x, 4)"},
      {adaptive_max_pool2d(x, {4}), "adaptive_max_pool2d(x, 4)"},
      {adaptive_max_pool3d(x, {4}), "adaptive_max_pool3d(x, 4)"},
      {upsample_nearest1d(x, {2}), "upsample_nearest1d(x, 2)"},
      {upsample_nearest2d(x, {2, 3}), "upsample_nearest2d(x, (2, 3))"},
      {upsample_nearest3d(x, {2}), "upsample_nearest3d(x, 2)"},
      {window(x, 1, 3, 2, 1), "window(x, 1, 3, 2)[1]"},
      {window(x, 1, 3, 2, 1, 4), "window(x, 1, 3, 2, dilation=4)[1]"},
      {window(x, 1, 3, 2, 1, 1, 1, true, -1), "window(x, 1, 3, 2, padding=1, ceil_mode=true, value=-1)[1]"},
      {pad(x, {1, 2}), "pad(x, (1, 2))"},
      {pad(x, {1, 2, 0, -1}, 0.5), "pad(x, (1, 2, 0, -1), value=0.5)"},
      {roll(x, {1, -3}, {0, -1}), "roll(x, (1, -3), (0, -1))"},
      {cat({x, y, x}, 1), "cat((x, y, x), 1)"},
      {stack({x, y}, -1), "stack((x, y), -1)"},
      {pixel_shuffle(x, 2), "pixel_shuffle(x, 2)"},
      {pixel_unshuffle(x, 2), "pixel_unshuffle(x, 2)"},
      {rope(x, y, input("z")), "rope(x, y, z)"},
      {rope(x, y, input("z"), true), "rope(x, y, z, interleaved=true)"},
      {iota(x, 1), "iota(x, 1)"},
      {tril(x, -1), "tril(x, -1)"},
      {triu(x), "triu(x)"},
      {argmax(x, 1, true), "argmax(x, 1, keepdim=true)"},
      {argmin(x, -1), "argmin(x, -1)"},
      {argmax(x), "argmax(x)"},
      {argmin(x, Axes::all(), true), "argmin(x, keepdim=true)"},
      {batch_norm(x, y), "batch_norm(x, y)"},
      {var_mean(x, 1)[0] + var_mean(x, 1)[1], "var_mean(x, 1)[0] + var_mean(x, 1)[1]"},
      {count_nonzero(x, 1), "count_nonzero(x, 1)"},
  };
  for (const auto& [expression, text] : same)
    EXPECT_EQ(Epilogue{expression}.str(), Epilogue::parse(text).str()) << text;
}

// There is memory for no element.
TEST(ViewFunctions, AnEmptyTensorIsPadded) {
  std::vector<float> out(3);
  const TensorView x(nullptr, DType::f32, {0});
  const OutputView result(out.data(), DType::f32, {3});
  Engine(Device::cpu())
      .launch(Epilogue::parse("pad(x, (2, 1), value=4) * 2"), nullptr, std::span(&result, 1), std::span(&x, 1));
  EXPECT_EQ(out, (std::vector<float>{8, 8, 8}));
}

// What is read is what exists: a result may lie beside it, and not over it.
TEST(ViewFunctions, ResultsLieBesideWhatIsPadded) {
  std::vector<float> memory = {1, 2, 3, 0, 0, 0, 0, 0};
  const TensorView x(memory.data(), DType::f32, {3});
  const auto launch = [&](std::size_t first) {
    const OutputView result(memory.data() + first, DType::f32, {5});
    Engine(Device::cpu()).launch(Epilogue::parse("pad(x, (1, 1))"), nullptr, std::span(&result, 1), std::span(&x, 1));
  };
  EXPECT_THROW(launch(2), Error);
  launch(3);
  EXPECT_EQ(memory, (std::vector<float>{1, 2, 3, 0, 1, 2, 3, 0}));
}

// One kernel serves every shape of its class: what exists reaches it as parameters.
TEST(ViewFunctions, PaddedChainsOfOtherShapesShareAKernel) {
  const Epilogue chain = as_written("relu(pad(x, (1, 2), value=3)) + y");
  const auto source = [&](std::int64_t extent) {
    const std::array<TensorView, 2> in = {TensorView(nullptr, DType::f16, {64, extent}),
                                          TensorView(nullptr, DType::f16, {64, extent + 3})};
    const OutputView out(nullptr, DType::f16, {64, extent + 3});
    return Inspection(chain, std::span(&out, 1), in).cuda();
  };
  EXPECT_EQ(source(125), source(253));
}

TEST(ViewFunctions, ResultsHaveTheirTypes) {
  const TensorView x(nullptr, DType::f16, {4, 6});
  const auto type = [&](const char* chain) { return Epilogue::parse(chain).result_types(std::span(&x, 1))[0]; };
  EXPECT_EQ(type("argmax(x, 1)"), DType::i64);
  EXPECT_EQ(type("iota(x, 0)"), DType::i64);
  EXPECT_EQ(type("count_nonzero(x, 1)"), DType::i64);
  EXPECT_EQ(type("max_pool1d(x, 2)"), DType::f16);
  EXPECT_EQ(type("cat((x, cast(x, f32)))"), DType::f32);
  EXPECT_EQ(type("tril(x)"), DType::f16);
  EXPECT_EQ(type("pad(x, (1, 1), value=0.5)"), DType::f16);
  EXPECT_EQ(type("roll(iota(x, 0), 1, 0)"), DType::i64);
}

// A NaN counts as the largest, and as the smallest; the first of them.
TEST(ViewFunctions, ArgmaxFindsNaNs) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> x = {1, nan, 7, nan, 2, 2, 1, 1};
  std::vector<std::int64_t> out(2);
  const TensorView in(x.data(), DType::f32, {2, 4});
  const OutputView result(out.data(), DType::i64, {2});
  Engine engine(Device::cpu());
  engine.launch(Epilogue::parse("argmax(x, 1)"), nullptr, std::span(&result, 1), std::span(&in, 1));
  EXPECT_EQ(out, (std::vector<std::int64_t>{1, 0}));
  engine.launch(Epilogue::parse("argmin(x, 1)"), nullptr, std::span(&result, 1), std::span(&in, 1));
  EXPECT_EQ(out, (std::vector<std::int64_t>{1, 2}));
}

TEST(ViewFunctions, RopeInPlace) {
  std::vector<float> q = {1, 2, 3, 4};
  const std::vector<float> cosines = {2, 3};
  const std::vector<float> sines = {5, 7};
  const std::array<TensorView, 3> in = {TensorView(q.data(), DType::f32, {1, 4}),
                                        TensorView(cosines.data(), DType::f32, {2}),
                                        TensorView(sines.data(), DType::f32, {2})};
  const OutputView out(q.data(), DType::f32, {1, 4});
  Engine engine(Device::cpu());
  engine.launch(as_written("rope(q, cos, sin)"), nullptr, std::span(&out, 1), in);
  EXPECT_EQ(q, (std::vector<float>{1 * 2 - 3 * 5, 2 * 3 - 4 * 7, 3 * 2 + 1 * 5, 4 * 3 + 2 * 7}));
}

// As it is defined: one product of each sum is not rounded. Behind the statistic of a row as well, here of ones.
TEST(ViewFunctions, RopeRoundsOneProductOfTwo) {
  const std::vector<float> q = {0.1F, 0.3F, -0.7F, 0.9F};
  const std::vector<float> cosines = {0.6F, 0.8F};
  const std::vector<float> sines = {0.8F, 0.6F};
  const std::array<TensorView, 3> in = {TensorView(q.data(), DType::f32, {1, 4}),
                                        TensorView(cosines.data(), DType::f32, {2}),
                                        TensorView(sines.data(), DType::f32, {2})};
  Engine engine(Device::cpu());
  for (const bool pairs : {false, true}) {
    std::vector<float> wanted(4);
    for (std::size_t k = 0; k < 2; ++k) {
      const std::size_t first = pairs ? 2 * k : k;
      const std::size_t second = pairs ? 2 * k + 1 : k + 2;
      wanted[first] = std::fma(q[first], cosines[k], -(q[second] * sines[k]));
      wanted[second] = std::fma(q[second], cosines[k], q[first] * sines[k]);
    }
    for (const std::string x : {"q", "q * amax(q * 0 + 1, -1, true)"}) {
      std::vector<float> found(4);
      const OutputView out(found.data(), DType::f32, {1, 4});
      const std::string text = "rope(" + x + ", cos, sin" + (pairs ? ", interleaved=true)" : ")");
      engine.launch(as_written(text), nullptr, std::span(&out, 1), in);
      EXPECT_EQ(found, wanted) << text;
    }
  }
}

// What follows the producer in problems of KernelBench level 2, at their sizes: one kernel that reads each element
// once.
TEST(ViewFunctions, TailsThatPoolAreOneKernel) {
  struct Tail {
    const char* chain;
    Dims x;
    std::vector<Dims> others;
  };
  const std::vector<Tail> tails = {
      {"mish(max_pool2d(hardswish(x - 0.5), 2))", {128, 128, 126, 126}, {}},
      {"relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))", {4, 64, 32, 128, 128}, {}},
      {"sum(max_pool1d(x, 2), axis=1) * 0.5", {128, 32768}, {}},
      {"sum(sigmoid(avg_pool2d(x, 4)), axis=(1, 2, 3))", {128, 64, 382, 382}, {}},
      {"amax(silu(softmax(max_pool3d(x, 2), axis=1) - s), axis=1)", {128, 16, 32, 64, 64}, {{16, 1, 1, 1}}},
      {"batch_norm(x * s, w, b)", {1024, 8192}, {{8192}, {8192}, {8192}}},
      {"relu(gelu(batch_norm(x, w, b)))", {16384, 4096}, {{4096}, {4096}}},
      {"batch_norm(x, w, b) * 2.0", {128, 64, 126, 126}, {{64}, {64}}},
      {"mean(batch_norm(x * 2.0, w, b), axis=(2, 3, 4), keepdim=true)", {16, 128, 20, 36, 36}, {{128}, {128}}},
      {"silu((batch_norm(x, w, b) + s) / 1.0)", {1024, 8192}, {{8192}, {8192}, {1}}},
  };
  for (const Tail& tail : tails) {
    std::vector<TensorView> inputs = {TensorView(nullptr, DType::f16, tail.x)};
    for (const Dims& other : tail.others) inputs.emplace_back(nullptr, DType::f16, other);
    std::uint64_t bytes = 0;
    for (const TensorView& input : inputs) {
      std::uint64_t elements = 1;
      for (const std::int64_t extent : input.shape) elements *= static_cast<std::uint64_t>(extent);
      bytes += 2 * elements;
    }
    const Epilogue epilogue = as_written(tail.chain);
    const OutputView out(nullptr, DType::f16, epilogue.result_shapes(inputs)[0]);
    const Inspection inspection(epilogue, std::span(&out, 1), inputs);
    EXPECT_LE(inspection.plan().bytes_read, bytes) << tail.chain;
  }
}

// The output's shape is checked before it is taken apart.
TEST(ViewFunctions, JoinedResultsOfAnotherShapeAreRefused) {
  std::vector<float> memory(64);
  const std::array<TensorView, 2> in = {TensorView(memory.data(), DType::f32, {2, 3}),
                                        TensorView(memory.data(), DType::f32, {2, 3})};
  const OutputView out(memory.data() + 16, DType::f32, {2, 5});
  Engine engine(Device::cpu());
  try {
    engine.launch(as_written("cat((x, y), 1)"), nullptr, std::span(&out, 1), in);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "output 'out' has shape [2, 5]; with these operands the chain's result has shape [2, 6]");
  }
}

}  // namespace
}  // namespace epifuse::test
