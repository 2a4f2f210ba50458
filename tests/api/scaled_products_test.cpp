// Products whose factors have scales of blocks: text and C++ are one, the CPU device computes sums of scaled numbers
// (support/scaled_product.hpp), and what does not fit is a sentence.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/refusal.hpp"
#include "support/scaled_product.hpp"

namespace epifuse::test {
namespace {

TEST(ScaledProducts, AreProductsOfScaledFactors) {
  const Expr x = input("x"), w = input("w"), sx = input("sx"), sw = input("sw");
  const std::string printed = "input x, w, sx, sw; block_scaled(x, sx) @ block_scaled(w, sw)";
  EXPECT_EQ(Epilogue(scaled_mm(x, w, sx, sw)).str(), printed);
  EXPECT_EQ(Epilogue::parse("scaled_mm(x, w, sx, sw)").str(), printed);
  EXPECT_EQ(Epilogue::parse("input x, w, sx, sw; scaled_mm(x, mat2=w, scale_b=sw, scale_a=sx)").str(), printed);
  EXPECT_EQ(Epilogue::parse(printed).str(), printed);
  EXPECT_EQ(Epilogue(relu(matmul(block_scaled(x, sx), w))).str(), "relu(block_scaled(x, sx) @ w)");
  EXPECT_EQ(Epilogue::parse("silu(scaled_mm(x, w, sx, sw)) * scaled_mm(x, v, sx, sv)").str(),
            "input x, w, sx, sw, v, sv; t0 = block_scaled(x, sx); silu(t0 @ block_scaled(w, sw)) * (t0 @ "
            "block_scaled(v, sv))");
}

// What the CPU device makes of a chain of these operands, in f32.
std::vector<float> run(const std::string& text, const std::vector<TensorView>& inputs) {
  Engine engine(Device::cpu());
  const Epilogue tail = as_written(text);
  const Dims shape = tail.result_shapes(inputs)[0];
  EXPECT_EQ(tail.result_types(inputs)[0], DType::f32);
  std::vector<float> out(static_cast<std::size_t>(shape[0] * shape[1]));
  engine.launch(tail, nullptr, OutputView(out.data(), DType::f32, shape), inputs);
  return out;
}

void expect_near(const std::vector<float>& found, const std::vector<double>& expected, std::int64_t depth) {
  ASSERT_EQ(found.size(), expected.size());
  const double allowed = static_cast<double>(depth) * ScaledProduct::kLargest * 0x1p-22;
  for (std::size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(static_cast<double>(found[i]), expected[i], allowed) << "element " << i;
}

TEST(ScaledProducts, AreSumsOfScaledNumbersOnTheCpu) {
  using enum ScaledLines;
  unsigned seed = 1;
  for (const ScaledLines left : {each, blocks, all}) {
    for (const ScaledLines right : {each, blocks, all}) {
      for (const std::int64_t depth : {64, 128, 129, 700}) {
        const bool is_odd = seed % 2 == 1;
        const ScaledProduct product({.rows = is_odd ? 150 : 40,
                                     .columns = is_odd ? 30 : 270,
                                     .depth = depth,
                                     .left = left,
                                     .right = right,
                                     .factor = is_odd ? DType::f8e4m3 : DType::f8e5m2,
                                     .lines_are_neighbours = seed % 3 == 1},
                                    seed);
        SCOPED_TRACE(seed++);
        const TensorView x = ScaledProduct::matrix(product.left), w = ScaledProduct::matrix(product.rights[0]);
        const TensorView sx = product.left_scales.view(false), sw = product.right_scales[0].view(true);
        std::vector<double> expected = product.values(0);
        expect_near(run("scaled_mm(x, transpose(w, 0, 1), sx, sw)", {x, w, sx, sw}), expected, depth);
        const std::vector<float> by_column(static_cast<std::size_t>(product.extents.columns), 0.75F);
        const TensorView c(by_column.data(), DType::f32, {1, product.extents.columns});
        EXPECT_EQ(run("scaled_mm(x, transpose(w, 0, 1), sx, c)", {x, w, sx, c}),
                  run("input x, w, sx, c; block_scaled(x, sx) @ transpose(w, 0, 1) * c", {x, w, sx, c}));
        for (double& value : expected) value = std::fmax(value, 0) - 1;
        expect_near(run("relu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) - 1", {x, w, sx, sw}), expected, depth);
      }
    }
  }
}

TEST(ScaledProducts, OfRowsColumnsAndAllAreAChain) {
  const std::vector<float> sx = {0.5F, 2, 4}, sw = {1, 0.25F}, one = {8};
  const std::vector<std::uint8_t> x = {0x38, 0x40, 0x38, 0x38, 0x40, 0x40};  // 1 2, 1 1, 2 2 in f8e4m3
  const std::vector<std::uint8_t> w = {0x38, 0x40, 0x38, 0x38};              // 1 2, 1 1
  const TensorView a(x.data(), DType::f8e4m3, {3, 2}), b(w.data(), DType::f8e4m3, {2, 2});
  const TensorView rows(sx.data(), DType::f32, {3, 1}), columns(sw.data(), DType::f32, {1, 2});
  const TensorView scalar(one.data(), DType::f32, {}), block(one.data(), DType::f32, {1, 1});
  EXPECT_EQ(run("scaled_mm(x, w, sx, sw)", {a, b, rows, columns}), (std::vector<float>{1.5F, 0.5F, 4, 1.5F, 16, 6}));
  EXPECT_EQ(run("scaled_mm(x, w, sx, sw)", {a, b, scalar, block}), (std::vector<float>{192, 256, 128, 192, 256, 384}));
  EXPECT_EQ(run("scaled_mm(x, w, sx * 2, sw)", {a, b, scalar, block}),
            (std::vector<float>{384, 512, 256, 384, 512, 768}))
      << "a scale that does not vary along the depth may be computed";
}

// What a device computes before a chain that no product hosts: scales that the chain multiplies by are none of it.
TEST(ScaledProducts, AloneHaveTheScalesThatVaryAlongTheDepth) {
  constexpr DType f8 = DType::f8e4m3;
  const std::vector<TensorView> inputs = {{nullptr, f8, {300, 512}},
                                          {nullptr, f8, {256, 512}},
                                          {nullptr, DType::f32, {300, 4}, {1, 300}},
                                          {nullptr, DType::f32, {1, 256}},
                                          {nullptr, DType::f32, {4, 2}}};
  const Epilogue tail = as_written(
      "input x, w, sx, sw, sv; flip(scaled_mm(x, transpose(w, 0, 1), sx, sw) * scaled_mm(x, transpose(w, 0, 1), sx, "
      "sv), 1)");
  const plan::WithoutProducts split = plan::split_products(tail.program(), inputs, plan::Views::abstract);
  ASSERT_EQ(split.products.size(), 2U);
  EXPECT_EQ(ir::print(plan::program_of(split.products[0])), "input x, w, sx; block_scaled(x, sx) @ w");
  EXPECT_EQ(ir::print(plan::program_of(split.products[1])),
            "input x, w, sx, sw; block_scaled(x, sx) @ block_scaled(w, sw)");
  const auto operands = plan::operands_of(split.products[1], inputs);
  EXPECT_EQ(operands[1].strides, (Dims{1, 512}));
  EXPECT_EQ(operands[2].strides, (Dims{1, 300}));
  EXPECT_EQ(operands[3].shape, (Dims{4, 2}));
  EXPECT_EQ(operands[3].strides, (Dims{2, 1}));
}

TEST(ScaledProducts, TheirPlanSaysWhereNoKernelMultiplies) {
  const auto plan = [](const std::string& text, int architecture) {
    const TensorView x(nullptr, DType::f8e4m3, {700, 512}), w(nullptr, DType::f8e4m3, {512, 384}, {1, 512});
    const TensorView sx(nullptr, DType::f32, {700, 4}), sw(nullptr, DType::f32, {4, 3});
    const OutputView out(nullptr, DType::f32, {700, 384});
    const Inspection inspection(as_written(text), std::span(&out, 1), std::vector{x, w, sx, sw}, {architecture});
    return inspection.plan_text();
  };
  const auto has = [](const std::string& text, std::string_view wanted) {
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  };
  for (const int architecture : {80, 100}) {
    const std::string text = plan("relu(scaled_mm(x, w, sx, sw))", architecture);
    has(text,
        "whose scales vary along the depth, and no kernel multiplies by them here, so that a launch is refused: ");
    has(text, "this is sm_" + std::to_string(architecture));
  }
  has(plan("softmax(scaled_mm(x, w, sx, sw), 0)", 90), "computed before this kernel by one of its own: ");
}

TEST(ScaledProducts, RefuseWhatDoesNotFit) {
  constexpr DType f8 = DType::f8e4m3;
  const auto said = [](const std::string& text, const std::vector<TensorView>& inputs) {
    return refusal([&] { as_written(text).result_shapes(inputs); });
  };
  const auto has = [](const std::string& text, std::string_view wanted) {
    EXPECT_NE(text.find(wanted), std::string::npos) << text;
  };
  const TensorView x(nullptr, f8, {700, 512}), w(nullptr, f8, {512, 384});
  const TensorView sx(nullptr, DType::f32, {700, 4}), sw(nullptr, DType::f32, {4, 3});
  const auto f32 = [](const Dims& shape) { return TensorView(nullptr, DType::f32, shape); };
  const std::string text = "scaled_mm(x, w, sx, sw)";
  has(said(text, {x, w, f32({700, 5}), sw}),
      "scale_a of 'scaled_mm' has the shape [700, 5]; for the left factor [700, 512] it has one element, or the shape "
      "[700, 4] or [6, 4] (a scale for each row, or each 128 rows, and 128 numbers of the depth), or [700, 1] (one for "
      "each row). Other blocks go through 'dequantize'");
  has(said(text, {x, w, sx, f32({3, 4})}), "scale_b of 'scaled_mm' has the shape [3, 4]; for the right factor");
  has(said(text, {x, w, sx, f32({3, 4})}), "Transpose it: transpose(scale, 0, 1)");
  has(said(text, {x, w, f32({700}), sw}), "has the shape [700]");
  has(said("block_scaled(x, sx) @ w", {x, f32({700, 5}), w}), "the left scale of 'matmul' has the shape [700, 5]");
  has(said("relu(block_scaled(x, sx))", {x, sx}), "'relu' reads it. Write 'dequantize(x, scale, 128)'");
  has(said("block_scaled(x, sx)", {x, sx}), "here it is a result");
  has(said(text, {{nullptr, f8, {2, 700, 512}}, w, sx, sw}), "factors with scales are matrices");

  const auto launched = [](const std::string& chain, const std::vector<TensorView>& inputs) {
    const OutputView out(nullptr, DType::f32, {700, 384});
    return refusal([&] { Inspection(as_written(chain), std::span(&out, 1), inputs); });
  };
  const TensorView wide(nullptr, DType::bf16, {700, 512}), wide_right(nullptr, DType::bf16, {512, 384});
  has(launched(text, {wide, wide_right, sx, sw}), "'scaled_mm' has scales of factors of bf16");
  has(launched("scaled_mm(x, w, sx * 2, sw)", {x, w, sx, sw}), "the left scale of 'scaled_mm' varies along the depth");
  has(launched(text, {x, w, {nullptr, DType::f16, {700, 4}}, sw}), "in f32; it is f16");
  has(refusal([] { gradient(Epilogue::parse("scaled_mm(x, w, sx, sw)"), {"sx"}); }), "the gradient of 'scaled_mm'");
}

}  // namespace
}  // namespace epifuse::test
