// Chains with matrix products: what the CPU device computes is the chain of the sums of products, of any types, strides
// and batches (support/products.cpp). What cannot be is a sentence.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/products.hpp"
#include "support/random.hpp"
#include "support/refusal.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

TEST(Products, RandomOnesAreSumsOfProducts) {
  const std::uint64_t seed = test_seed(29);
  Random seeds(seed);
  Engine engine(Device::cpu());
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t own = seeds.bits();
    const ProductCase test(own, ProductCase::Drawn::any_layout);
    ASSERT_EQ(test.judge(engine), "") << test.text() << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
  }
}

// Results of a chain of f32 on the CPU device.
std::vector<float> run(const std::string& text, const std::vector<std::pair<Dims, std::vector<float>>>& operands) {
  Engine engine(Device::cpu());
  const Epilogue tail = as_written(text);
  std::vector<TensorView> inputs;
  for (const auto& [shape, values] : operands) inputs.emplace_back(values.data(), DType::f32, shape);
  const Dims shape = tail.result_shapes(inputs)[0];
  std::vector<float> out(static_cast<std::size_t>(elements_of(shape)));
  engine.launch(tail, nullptr, OutputView(out.data(), DType::f32, shape), inputs);
  return out;
}

const std::vector<float> kX = {1, 2, 3, 4, 5, 6};  // [2, 3]
const std::vector<float> kW = {1, 0, 2, 0, 1, 1};  // [2, 3]: two outputs

TEST(Products, LinearMultipliesWithTheTransposedWeight) {
  EXPECT_EQ(run("linear(x, w)", {{{2, 3}, kX}, {{2, 3}, kW}}), (std::vector<float>{7, 5, 16, 11}));
  EXPECT_EQ(run("linear(x, w, b)", {{{2, 3}, kX}, {{2, 3}, kW}, {{2}, {10, 20}}}),
            (std::vector<float>{17, 25, 26, 31}));
}

TEST(Products, AreValuesAsAnyOther) {
  EXPECT_EQ(run("sum(linear(x, w), axis=1)", {{{2, 3}, kX}, {{2, 3}, kW}}), (std::vector<float>{12, 27}));
  EXPECT_EQ(run("h = linear(x, w); h[:, :1] * h[:, 1:]", {{{2, 3}, kX}, {{2, 3}, kW}}), (std::vector<float>{35, 176}));
  EXPECT_EQ(run("linear(x, w) * linear(x, v)", {{{2, 3}, kX}, {{2, 3}, kW}, {{2, 3}, {1, 1, 1, 0, 0, 0}}}),
            (std::vector<float>{42, 0, 240, 0}));
  EXPECT_EQ(run("x + x @ m", {{{2, 3}, kX}, {{3, 3}, {1, 0, 0, 0, 1, 0, 0, 0, 1}}}),
            (std::vector<float>{2, 4, 6, 8, 10, 12}))
      << "an operand may be a factor, and an operand of the chain";
}

TEST(Products, ReadViewsOfOperandsInPlace) {
  EXPECT_EQ(run("x[:, 1:] @ transpose(w[:, :2], 0, 1)", {{{2, 3}, kX}, {{2, 3}, kW}}),
            (std::vector<float>{2, 3, 5, 6}));
  EXPECT_EQ(run("flip(x, 1) @ transpose(w, 0, 1)", {{{2, 3}, kX}, {{2, 3}, kW}}), (std::vector<float>{5, 3, 14, 9}));
  EXPECT_EQ(run("reshape(x, (3, 2)) @ w", {{{2, 3}, kX}, {{2, 3}, kW}}),
            (std::vector<float>{1, 2, 4, 3, 4, 10, 5, 6, 16}));
}

TEST(Products, TakeTheShapeInWhichTheyAreRead) {
  const std::vector<TensorView> inputs = {
      {nullptr, DType::bf16, {4, 32, 64}}, {nullptr, DType::bf16, {128, 64}}, {nullptr, DType::bf16, {4, 32, 128}}};
  const OutputView out(nullptr, DType::bf16, {4, 32, 128});
  const std::string chain = "gelu(reshape(reshape(x, (128, 64)) @ transpose(w, 0, 1), (4, 32, 128))) + r";
  const Inspection inspection(as_written(chain), std::span(&out, 1), inputs);
  EXPECT_EQ(inspection.plan().schedule, "gemm") << inspection.plan_text();
  EXPECT_EQ(run("relu(reshape(reshape(x, (4, 2)) @ w, (2, 2, 2)))",
                {{{2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, -8}}, {{2, 2}, {1, 0, 1, 1}}}),
            (std::vector<float>{3, 2, 7, 4, 11, 6, 0, 0}));
}

TEST(Products, OfOneLeftFactorAreOneKernel) {
  const auto schedule = [](const std::string& chain, const std::vector<TensorView>& inputs, const Dims& shape) {
    const OutputView out(nullptr, DType::bf16, shape);
    return Inspection(as_written(chain), std::span(&out, 1), inputs).plan().schedule;
  };
  const TensorView x(nullptr, DType::bf16, {256, 64}), w(nullptr, DType::bf16, {512, 64}),
      v(nullptr, DType::bf16, {1024, 64});
  EXPECT_EQ(schedule("silu(linear(x, w)) * linear(x, u)", {x, w, w}, {256, 512}), "gemm");
  EXPECT_EQ(schedule("h = linear(x, v); silu(h[..., :512]) * h[..., 512:]", {x, v}, {256, 512}), "gemm");
  EXPECT_EQ(schedule("a, b = chunk(linear(x, v), 2, -1); return gelu(a) * b", {x, v}, {256, 512}), "gemm");
  EXPECT_EQ(schedule("silu(linear(x, w)) * linear(y, u)", {x, w, x, w}, {256, 512}), "flat") << "of two left factors";
  EXPECT_EQ(schedule("h = linear(x, v); h[..., ::2] * h[..., 1::2]", {x, v}, {256, 512}), "flat") << "no neighbours";
}

// The faster the memory, the less a chain's own kernel costs.
TEST(Products, HostAChainWhereTheMemoryIsSlowEnough) {
  const TensorView x(nullptr, DType::bf16, {32'768, 4096}), w(nullptr, DType::bf16, {1024, 4096});
  const TensorView b(nullptr, DType::bf16, {1024}), r(nullptr, DType::bf16, {32'768, 1024});
  const OutputView out(nullptr, DType::bf16, {32'768, 1024});
  const std::vector<TensorView> inputs = {x, w, b, r};
  const auto schedule = [&](double bandwidth) {
    const Epilogue tail = as_written("gelu(linear(x, w, b)) + r");
    return Inspection(tail, std::span(&out, 1), inputs, {.bandwidth = bandwidth}).plan().schedule;
  };
  EXPECT_EQ(schedule(0), "gemm");
  EXPECT_EQ(schedule(2e12), "gemm");
  EXPECT_NE(schedule(10e12), "gemm");
}

TEST(Products, TextAndFunctionsGiveOneChain) {
  const Expr x = input("x"), w = input("w"), b = input("b");
  EXPECT_EQ(Epilogue(relu(linear(x, w, b))).str(), Epilogue::parse("relu(linear(x, w, b))").str());
  EXPECT_EQ(Epilogue(matmul(x, w) * 2).str(), "x @ w * 2");
  EXPECT_EQ(Epilogue::parse("matmul(x, w)").str(), "x @ w");
  EXPECT_EQ(Epilogue::parse("a @ (b @ c)").str(), "a @ (b @ c)");
}

TEST(Products, HaveTheTypeOfTheirFactors) {
  const auto type = [](DType a, DType b) {
    const std::vector<TensorView> inputs = {{nullptr, a, {2, 3}}, {nullptr, b, {3, 2}}};
    return as_written("x @ w").result_types(inputs)[0];
  };
  EXPECT_EQ(type(DType::bf16, DType::bf16), DType::bf16);
  EXPECT_EQ(type(DType::f64, DType::f64), DType::f64);
  EXPECT_EQ(type(DType::f8e4m3, DType::f8e5m2), DType::f32);
  EXPECT_EQ(type(DType::i8, DType::i8), DType::i32);
}

TEST(Products, TakeTheirResultsOfTheWorkspace) {
  Engine engine(Device::cpu());
  const Epilogue tail = as_written("relu(linear(x, w))");
  const std::vector<TensorView> inputs = {{kX.data(), DType::f32, {2, 3}}, {kW.data(), DType::f32, {2, 3}}};
  std::vector<float> out(4);
  const OutputView result(out.data(), DType::f32, {2, 2});
  const std::size_t bytes = engine.workspace_bytes(tail, result, inputs);
  EXPECT_EQ(bytes, 256U);
  struct alignas(256) Memory {
    std::byte bytes[256];
  } memory;
  engine.launch(tail, nullptr, result, inputs, {}, Workspace{&memory, sizeof memory});
  EXPECT_EQ(out, (std::vector<float>{7, 5, 16, 11}));
  const auto small = [&] { engine.launch(tail, nullptr, result, inputs, {}, Workspace{&memory, 128}); };
  EXPECT_NE(refusal(small).find("the workspace has 128 bytes; this launch needs 256"), std::string::npos);
}

void expect_refused(const std::string& text, const std::vector<TensorView>& inputs, const std::string& part) {
  const std::string found = refusal([&] {
    const Epilogue tail = as_written(text);
    std::vector<std::byte> memory(4096);
    std::vector<TensorView> placed = inputs;
    for (TensorView& input : placed) input.data = memory.data();
    std::vector<std::byte> out(4096);
    const Dims shape = tail.result_shapes(placed)[0];
    Engine(Device::cpu()).launch(tail, nullptr, OutputView(out.data(), DType::f32, shape), placed);
  });
  EXPECT_NE(found.find(part), std::string::npos) << text << "\n  said: " << found << "\n  wanted: " << part;
}

// f32 is multiplied as f32, and as TF32 where the chain allows it: then a kernel can host the chain.
TEST(Products, OfF32AreTf32WhereTheChainAllowsIt) {
  const TensorView x(nullptr, DType::f32, {8192, 4096}), w(nullptr, DType::f32, {4096, 4096});
  const std::vector<TensorView> inputs = {x, w};
  const OutputView out(nullptr, DType::f32, {8192, 4096});
  const auto plan = [&](const std::string& chain, int architecture) {
    return Inspection(as_written(chain), std::span(&out, 1), inputs, {.architecture = architecture}).plan();
  };
  for (const int architecture : {80, 90, 120}) {
    const PlanSummary exact = plan("relu(linear(x, w))", architecture);
    ASSERT_EQ(exact.products.size(), 1U);
    EXPECT_NE(exact.products[0].find("tf32=true"), std::string::npos) << exact.products[0];
    const PlanSummary rounded = plan("relu(linear(x, w, tf32=true))", architecture);
    EXPECT_EQ(rounded.schedule, "gemm");
    EXPECT_NE(rounded.product.find("as TF32"), std::string::npos) << rounded.product;
  }
  EXPECT_EQ(run("linear(x, w, tf32=true)", {{{2, 3}, kX}, {{2, 3}, kW}}),
            run("linear(x, w)", {{{2, 3}, kX}, {{2, 3}, kW}}));
  EXPECT_EQ(Epilogue::parse("v @ matmul(x, w, tf32=true)").str(), "v @ matmul(x, w, tf32=true)");
  EXPECT_EQ(Epilogue(relu(linear(input("x"), input("w"), std::nullopt, true))).str(),
            Epilogue::parse("relu(linear(x, w, tf32=true))").str());
  expect_refused("linear(x, w, tf32=true)", {{nullptr, DType::bf16, {2, 3}}, {nullptr, DType::bf16, {2, 3}}},
                 "has tf32=true, which is for factors of f32; these are bf16");
}

TEST(Products, RefuseWhatDoesNotFit) {
  const auto f32 = [](const Dims& shape) { return TensorView(nullptr, DType::f32, shape); };
  expect_refused("x @ w", {f32({2, 3}), f32({4, 2})}, "3 and 4 are not equal");
  expect_refused("linear(x, w)", {f32({2, 3}), f32({2, 4})}, "'linear' sums over");
  expect_refused("x @ w", {f32({3}), f32({3, 2})},
                 "'matmul' multiplies matrices, or batches of them; found the shapes [3]");
  expect_refused("x @ w", {f32({2, 2, 3}), f32({3, 3, 2})}, "do not broadcast");
  expect_refused("relu(x) @ w", {f32({2, 3}), f32({3, 2})}, "the first argument of 'matmul' is a result of 'relu'");
  expect_refused("linear(x, w * s)", {f32({2, 3}), f32({2, 3}), f32({3})},
                 "the second argument of 'linear' is a result of 'mul'");
  expect_refused("(x @ w) @ v", {f32({2, 3}), f32({3, 2}), f32({2, 2})}, "a result of 'matmul'");
  expect_refused("x @ w", {f32({2, 3}), {nullptr, DType::f16, {3, 2}}}, "'matmul' multiplies values of f32 and f16");
  expect_refused("x @ w", {{nullptr, DType::i32, {2, 3}}, {nullptr, DType::i32, {3, 2}}}, "of i32 and i32");
  expect_refused("x @ w", {{nullptr, DType::f8e8m0, {2, 3}}, {nullptr, DType::f8e4m3, {3, 2}}}, "of f8e8m0 and f8e4m3");
  expect_refused("x @ w", {{nullptr, DType::f8e8m0, {2, 3}}, {nullptr, DType::f8e8m0, {3, 2}}},
                 "both are floats of one type but f8e8m0");
  expect_refused("pad(x, (1, 1)) @ w", {f32({2, 1}), f32({3, 2})}, "which no strides describe");
  expect_refused("mm(x, w)", {f32({2, 3}), f32({3, 2})}, "write 'matmul(a, b)' or 'a @ b'");
  const auto differentiate = [] { gradient(Epilogue::parse("relu(linear(x, w))"), {"x"}); };
  EXPECT_NE(refusal(differentiate).find("the gradient of 'linear'"), std::string::npos);
}

}  // namespace
}  // namespace epifuse::test
