// Views: what is computed is what NumPy's rules give, for chains in which views stand anywhere; what cannot be is a
// sentence. The expected values come from arrays of numbers, indexed element by element, and share nothing with the
// library.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/views.hpp"

namespace epifuse::test {
namespace {

// What is wrong; a chain that is refused since it is no one kernel is counted.
std::string run(Engine& engine, const ViewCase& test, int& refused) {
  try {
    return judge_on(engine, test);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) return error.what();
    ++refused;
    return {};
  }
}

// What a launch of these operands (f32, dense) says; empty if it runs.
std::string refusal(const std::string& chain, const std::vector<Dims>& shapes, const std::vector<Dims>& strides = {}) {
  std::vector<float> memory(4096);
  std::vector<TensorView> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    inputs.emplace_back(memory.data(), DType::f32, shapes[i], i < strides.size() ? strides[i] : row_major(shapes[i]));
  try {
    const Epilogue tail = as_written(chain);
    std::vector<std::vector<float>> results;
    std::vector<OutputView> outputs;
    for (const Dims& shape : tail.result_shapes(inputs)) {
      results.emplace_back(4096);
      outputs.emplace_back(results.back().data(), DType::f32, shape);
    }
    Engine(Device::cpu()).launch(tail, nullptr, outputs, inputs);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

void expect_refused(const std::string& chain, const std::vector<Dims>& shapes, const std::string& part,
                    const std::vector<Dims>& strides = {}) {
  const std::string found = refusal(chain, shapes, strides);
  EXPECT_NE(found.find(part), std::string::npos) << chain << "\n  said: " << found << "\n  wanted: " << part;
}

TEST(Views, RandomChainsAgreeWithArrays) {
  const std::uint64_t seed = test_seed(27);
  Random seeds(seed);
  Engine engine(Device::cpu());
  int refused = 0;
  constexpr int kCases = 20'000;
  std::set<std::string> used;
  for (int i = 0; i < kCases; ++i) {
    const std::uint64_t own = seeds.bits();
    const ViewCase test = draw_view_case(own);
    used.insert(test.used.begin(), test.used.end());
    const std::string problem = run(engine, test, refused);
    ASSERT_EQ(problem, "") << test.text << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
  }
  std::printf("%d cases, %d refused as no one kernel, %zu kinds of views\n", kCases, refused, used.size());
  EXPECT_LT(refused, kCases / 4);
  EXPECT_EQ(used.size(), view_kinds().size());
}

TEST(Views, OneTensorIsReadThroughTwoViews) {
  const Epilogue tail = Epilogue::parse("silu(x[..., :2]) * x[..., 2:]");
  EXPECT_EQ(tail.inputs(), std::vector<std::string>{"x"});
  EXPECT_FALSE(tail.is_elementwise());
  const std::vector<float> x = {0, 0, 3, 4, 100, 100, 7, 8};
  std::vector<float> out(4);
  const TensorView in(x.data(), DType::f32, {2, 4});
  EXPECT_EQ(tail.result_shapes(std::span(&in, 1))[0], (Dims{2, 2}));
  const OutputView result(out.data(), DType::f32, {2, 2});
  Engine engine(Device::cpu());
  for (int i = 0; i < 3; ++i) engine.launch(tail, nullptr, std::span(&result, 1), std::span(&in, 1));
  EXPECT_EQ(out, (std::vector<float>{0, 0, 700, 800}));
}

// The lowering is remembered by shapes and strides, and not by addresses.
TEST(Views, RepeatedLaunchesReadTheirOwnMemory) {
  const Epilogue tail = Epilogue::parse("x[::-1] - x[:, :1]");
  Engine engine(Device::cpu());
  for (const std::int64_t rows : {2, 3, 2, 3}) {
    std::vector<float> x(static_cast<std::size_t>(rows) * 2);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * i + static_cast<std::size_t>(rows));
    std::vector<float> out(x.size());
    const TensorView in(x.data(), DType::f32, {rows, 2});
    const OutputView result(out.data(), DType::f32, {rows, 2});
    engine.launch(tail, nullptr, std::span(&result, 1), std::span(&in, 1));
    for (std::size_t r = 0; r < static_cast<std::size_t>(rows); ++r) {
      for (std::size_t c = 0; c < 2; ++c)
        EXPECT_EQ(out[r * 2 + c], x[(static_cast<std::size_t>(rows) - 1 - r) * 2 + c] - x[r * 2]);
    }
  }
}

TEST(Views, ResultsInPlace) {
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8};
  Engine engine(Device::cpu());
  const TensorView in(x.data(), DType::f32, {2, 4});
  const auto launch = [&](const char* chain, const OutputView& out) {
    const Epilogue tail = as_written(chain);
    engine.launch(tail, nullptr, std::span(&out, 1), std::span(&in, 1));
  };
  // Over the view that it is computed from.
  launch("x[:, :2] * 10", OutputView(x.data(), DType::f32, {2, 2}, {4, 1}));
  EXPECT_EQ(x, (std::vector<float>{10, 20, 3, 4, 50, 60, 7, 8}));
  // Over one that another view reads, too.
  EXPECT_THROW(launch("x[:, :2] + x[:, 1:3]", OutputView(x.data(), DType::f32, {2, 2}, {4, 1})), Error);
  EXPECT_THROW(launch("x[::-1] + x", OutputView(x.data(), DType::f32, {2, 4})), Error);
  EXPECT_THROW(launch("x[::-1] * 2", OutputView(x.data(), DType::f32, {2, 4})), Error);
  // Beside what the views read.
  launch("x[:, :1] + x[:, 1:2]", OutputView(x.data() + 3, DType::f32, {2, 1}, {4, 1}));
  EXPECT_EQ(x, (std::vector<float>{10, 20, 3, 30, 50, 60, 7, 110}));
}

TEST(Views, BehindReductionsDimensionsMayBeOrdered) {
  for (const char* chain : {"transpose(softmax(x, -1), 0, 1)", "softmax(x, 0)[None]", "sum(x, 1)[:, None] * x",
                            "(x - mean(x, 1, keepdim=true))[:2]", "sum(x, 1)[1:]", "flip(x - amax(x, 1, true), 0)",
                            "unsqueeze(sum(x, 0), 0) + x", "x[:2] - sum(x, 1)[:2][:, None]"})
    EXPECT_EQ(refusal(chain, {{3, 4}}), "") << chain;
}

TEST(Views, ValuesWithoutDimensionsGetSome) {
  EXPECT_EQ(refusal("(x + y)[None]", {{}, {}}), "");
  EXPECT_EQ(refusal("(x + 1)[None, None] * y", {{}, {3, 4}}), "");
  EXPECT_EQ(refusal("sum(x)[None]", {{3}}), "");
}

TEST(Views, WhatDoesNotFitIsASentence) {
  expect_refused("x[5]", {{3, 4}}, "'x[5]': the index 5 is out of range, dimension 0 has 3 elements");
  expect_refused("x[:, -5]", {{3, 4}}, "'x[:, -5]': the index -5 is out of range");
  expect_refused("x[0, 0, 0]", {{3, 4}}, "names 3 dimensions, but the value has 2");
  expect_refused("permute(x, (1, 2, 0))", {{3, 4}}, "orders 3 dimensions, but the value has 2");
  expect_refused("permute(x, (1, -1))", {{3, 4}}, "names dimension 1 of 2 twice");
  expect_refused("transpose(x, 0, 2)", {{3, 4}}, "there is no dimension 2");
  expect_refused("squeeze(x, 0)", {{3, 4}}, "dimension 0 has 3");
  expect_refused("expand(x, (2, 4))", {{3, 4}}, "does not broadcast");
  expect_refused("expand(x, (-1, 3, 4))", {{3, 4}}, "does not broadcast");
  expect_refused("reshape(x, (5, -1))", {{3, 4}}, "do not fill these sizes");
  expect_refused("narrow(x, 1, 2, 3)", {{3, 4}}, "'narrow(x, 1, 2, 3)' ends outside the value");
  expect_refused("chunk(x, 4, 0)[3]", {{3, 4}}, "'chunk(x, 4, 0)[3]' does not exist");
  expect_refused("split(x, 2, 1)[2]", {{3, 4}}, "does not exist");
  expect_refused("select(x, 1, 6)", {{3, 4}}, "'select(…)': the index 6 is out of range, dimension 1 has 4 elements");
  expect_refused("flip(x, 2)", {{3, 4}}, "'flip(…)' takes a value of 3 dimensions or more, found the shape [3, 4]");
  expect_refused("unsqueeze(x, 5)", {{3, 4}}, "'unsqueeze(…)' takes a value of 5 dimensions or more");
  expect_refused("(x * 2)[:, 7]", {{3, 4}}, "'mul(…)[:, 7]': the index 7");
}

TEST(Views, WhatIsNoOneKernelIsASentence) {
  expect_refused("reshape(x, (12,))", {{3, 4}}, "would copy: operand 'x' has the shape [3, 4] and the strides [1, 3]",
                 {{1, 3}});
  expect_refused("reshape(transpose(x, 0, 1), (12,))", {{3, 4}}, "'reshape(transpose(x, 0, 1), (12,))' would copy");
  expect_refused("layer_norm(cat((softmax(x, 1), y), 1))", {{3, 4}, {3, 2}},
                 "what 'cat(…)' joins (shapes [3, 4] and [3, 2]) is needed as one here");
  expect_refused("y = softmax(x, 1); return y[:, :2], y[:, 2:5]", {{3, 6}}, "Compute 'softmax' in a launch of its own");
  expect_refused("flatten(softmax(x, 1), 0, 1)[:3]", {{3, 4}}, "there is a reduction before it");
  expect_refused("expand(sum(x), (2, 2))", {{3, 4}}, "of which no operand has all elements");
  expect_refused("expand(2.0, (3, 4))", {}, "of which no operand has all elements");
  expect_refused("return x, x[0]", {{3, 4}}, "its result 'out1' has the shape [4]");
}

TEST(Views, TextIsRefusedWhereItCannotBeMeant) {
  const auto problem = [](const char* text) -> std::string {
    try {
      Epilogue::parse(text);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  };
  const auto has = [&](const char* text, const char* part) {
    EXPECT_NE(problem(text).find(part), std::string::npos) << text << ": " << problem(text);
  };
  has("x[..., 0, ...]", "more than one '...'");
  has("x[::0]", "steps by 0");
  has("x[]", "at least one item");
  has("x[1.5]", "an index is an integer");
  has("x[y]", "an index is an integer that the text gives");
  has("x[0", "expected ',' or ']'");
  has("chunk(x, 2)", "'chunk' gives several values");
  has("chunk(x, 2)[2]", "there is no [2]");
  has("chunk(x, 2, index=1)[0]", "has no argument 'index'");
  has("a, b, c = chunk(x, 2); return a", "3 names stand for the 2 pieces");
  has("a, b = x; return a", "several names stand for what 'chunk' gives");
  has("a, b, c = split(x, (1, 2)); return a", "3 names stand for the 2 pieces that 'split' gives");
  has("flip(x, (0, 0))", "given twice");
  has("sum(x, [0, 1])", "write '(1, 2)'");
  has("reshape(x, (-1, -1))", "finds one size");
  EXPECT_EQ(problem("a, b = chunk(x, 2, -1); return silu(a) * b"), "");
}

TEST(Views, TextComesBackAsItIsPrinted) {
  const auto printed = [](const char* text) { return Epilogue::parse(text).str(); };
  EXPECT_EQ(printed("silu(x[..., :128]) * x[..., 128:]"), "silu(x[..., :128]) * x[..., 128:]");
  EXPECT_EQ(printed("x[:, ::2, None, -1]"), "x[:, ::2, None, -1]");
  EXPECT_EQ(printed("(x + y)[::-1]"), "(x + y)[::-1]");
  EXPECT_EQ(printed("flip(x, (0, -1))"), "x[::-1, ..., ::-1]");
  EXPECT_EQ(printed("unsqueeze(x, -2)"), "x[..., None, :]");
  EXPECT_EQ(printed("a, b = chunk(x, 2, -1); return a * b"), "chunk(x, 2, -1)[0] * chunk(x, 2, -1)[1]");
  EXPECT_EQ(printed("a, b = split(x, 5, -1); return a * b"), "split(x, 5, -1)[0] * split(x, 5, -1)[1]");
  EXPECT_EQ(printed("a, b = split(x, (2, 3), -1); return a * sum(b)"),
            "narrow(x, -1, 0, 2) * sum(narrow(x, -1, 2, 3))");
  EXPECT_EQ(printed("permute(-x, dims=(1, 0))"), "permute(-x, (1, 0))");
  EXPECT_EQ(printed("reshape(x, 12)"), "reshape(x, (12,))");
}

TEST(Views, ExpressionsAndTextAreOneChain) {
  const Expr x = input("x");
  const auto same = [](const Expr& expression, const char* text) {
    EXPECT_EQ(Epilogue(expression).str(), Epilogue::parse(text).str());
  };
  same(silu(x[{ellipsis, Slice{.stop = 128}}]) * x[{ellipsis, Slice{.start = 128}}],
       "silu(x[..., :128]) * x[..., 128:]");
  same(x[{newaxis, 0, Slice{.step = -2}}], "x[None, 0, ::-2]");
  same(x[3], "x[3]");
  same(chunk(x, 2, -1)[1], "chunk(x, 2, -1)[1]");
  same(split(x, 4, 1, 2), "split(x, 4, 1)[2]");
  same(permute(x, {1, 0}), "permute(x, (1, 0))");
  same(transpose(x, 0, -1), "transpose(x, 0, -1)");
  same(flip(x, {0}), "x[::-1]");
  same(narrow(x, 0, 1, 2), "narrow(x, 0, 1, 2)");
  same(select(x, 1, 2), "x[:, 2]");
  same(unsqueeze(squeeze(x, 0), 1), "squeeze(x, 0)[:, None]");
  same(expand(x, {2, -1}), "expand(x, (2, -1))");
  same(reshape(x, {2, -1}), "reshape(x, (2, -1))");
}

// What the gradient of x is where that of the result counts up, x having the shape [2, 3].
std::vector<float> gradient_of(const char* chain, const Dims& result) {
  const Gradient found = gradient(Epilogue::parse(chain), {"x"});
  std::vector<float> of_result(64);
  for (std::size_t i = 0; i < of_result.size(); ++i) of_result[i] = static_cast<float>(i);
  std::vector<float> x(6);
  std::vector<float> of_x(6);
  std::vector<TensorView> inputs;
  for (const std::string& name : found.backward.inputs())
    inputs.emplace_back(name == "dout" ? of_result.data() : x.data(), DType::f32, name == "dout" ? result : Dims{2, 3});
  const OutputView output(of_x.data(), DType::f32, {2, 3});
  Engine(Device::cpu()).launch(found.backward, nullptr, std::span(&output, 1), inputs);
  return of_x;
}

TEST(Views, GradientsGoTheOtherWay) {
  EXPECT_EQ(gradient_of("transpose(x, 0, 1) * 2", {3, 2}), (std::vector<float>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(gradient_of("permute(x, (-1, 0)) * 2", {3, 2}), (std::vector<float>{0, 4, 8, 2, 6, 10}));
  EXPECT_EQ(gradient_of("x[::-1] * 2", {2, 3}), (std::vector<float>{6, 8, 10, 0, 2, 4}));
  EXPECT_EQ(gradient_of("x[:, None] * 2", {2, 1, 3}), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(gradient_of("reshape(x, (6,)) * 2", {6}), (std::vector<float>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(gradient_of("expand(x, (2, 2, 3)) * 2", {2, 2, 3}), (std::vector<float>{12, 16, 20, 24, 28, 32}));
  // What a slice does not take has a gradient of 0; halves are one kernel.
  EXPECT_EQ(gradient_of("x[:1] * 2", {1, 3}), (std::vector<float>{0, 2, 4, 0, 0, 0}));
  EXPECT_EQ(gradient_of("x[-1:] * 2", {1, 3}), (std::vector<float>{0, 0, 0, 0, 2, 4}));
  EXPECT_EQ(gradient_of("narrow(x, 0, 1, 1) * 2", {1, 3}), (std::vector<float>{0, 0, 0, 0, 2, 4}));
  EXPECT_EQ(gradient_of("a, b = chunk(x, 2, 0); a * 2 + b * 3", {1, 3}), (std::vector<float>{0, 2, 4, 0, 3, 6}));
  EXPECT_EQ(gradient_of("cat((x * 2, x * 3))", {4, 3}), (std::vector<float>{18, 23, 28, 33, 38, 43}));
  EXPECT_EQ(gradient_of("stack((x * 2, x * 3))", {2, 2, 3}), (std::vector<float>{18, 23, 28, 33, 38, 43}));
  // Of pieces of two sizes each element is read where it exists.
  EXPECT_EQ(gradient_of("x[:, :2] * 2", {2, 2}), (std::vector<float>{0, 2, 0, 4, 6, 0}));
  EXPECT_EQ(gradient_of("pad(x, (1, 1), value=7) * 2", {2, 5}), (std::vector<float>{2, 4, 6, 12, 14, 16}));
  EXPECT_EQ(gradient_of("pad(x, (0, 1, 2, 0)) * 2", {4, 4}), (std::vector<float>{16, 18, 20, 24, 26, 28}));
  EXPECT_EQ(gradient_of("x[:, ::2] * 2", {2, 2}), (std::vector<float>{0, 0, 2, 4, 0, 6}));
  EXPECT_THROW(gradient_of("x[:, ::-2] * 2", {2, 2}), Error);
}

TEST(Views, ThePlanNamesThem) {
  const Epilogue tail = Epilogue::parse("silu(x * 2)[..., :128] * silu(x * 2)[..., 128:]");
  const TensorView x(nullptr, DType::f16, {64, 256});
  const OutputView out(nullptr, DType::f16, {64, 128});
  const Inspection inspection(tail, std::span(&out, 1), std::span(&x, 1));
  const std::string text = inspection.plan_text(0);
  EXPECT_NE(text.find("views            x_0 is x[:, :128], x_1 is x[:, 128:]"), std::string::npos) << text;
  EXPECT_NE(text.find("computed again   'mul' 2 times, 'silu' 2 times"), std::string::npos) << text;
  EXPECT_NE(text.find("16 bytes per access"), std::string::npos) << text;
  EXPECT_NE(inspection.cuda().find("in_x_1"), std::string::npos);
}

}  // namespace
}  // namespace epifuse::test
