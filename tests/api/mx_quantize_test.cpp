// mx_quantize on the CPU device against OCP's definition, bit for bit, and back again.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

#include "support/as_written.hpp"
#include "support/block_formats.hpp"

namespace epifuse {
namespace {

constexpr std::int64_t kColumns = 256;
constexpr std::size_t kBlocks = 2160;  // every exponent, eight times

struct Launched {
  std::vector<std::uint8_t> values, scales;
  Dims shape, scale_shape;

  explicit Launched(std::size_t elements)
      : values(elements),
        scales(elements / test::kMxSize),
        shape{static_cast<std::int64_t>(elements) / kColumns, kColumns},
        scale_shape{shape[0], kColumns / 32} {}
};

Launched computed(Engine& engine, const Quantized& both, const std::vector<float>& x, DType dtype) {
  Launched found(x.size());
  engine.launch(Epilogue{both.values, both.scale}, nullptr,
                {{found.values.data(), dtype, found.shape}, {found.scales.data(), DType::f8e8m0, found.scale_shape}},
                {{"x", TensorView(x.data(), DType::f32, found.shape)}});
  return found;
}

TEST(MxQuantizeCpu, IsTheDefinitionBitForBit) {
  Engine engine(Device::cpu());
  const std::vector<float> x = test::mx_data(kBlocks);
  for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
    for (const ScaleRounding rounding : {ScaleRounding::up, ScaleRounding::floor}) {
      const Launched found = computed(engine, mx_quantize(input("x"), dtype, rounding), x, dtype);
      const test::MxBlocks expected = test::mx_blocks(x, dtype, rounding == ScaleRounding::up);
      EXPECT_EQ(found.scales, expected.scales);
      EXPECT_TRUE(test::are_same_values(found.values, expected.values, dtype));
    }
  }
}

TEST(MxQuantizeCpu, ScalesThatAreRoundedUpSaturateNothing) {
  Engine engine(Device::cpu());
  std::vector<float> x = test::mx_data(kBlocks);
  for (float& value : x) value = std::isfinite(value) && std::fabs(value) < 0x1p120F ? value : 1;
  const Launched found = computed(engine, mx_quantize(input("x")), x, DType::f8e4m3);
  std::vector<float> back(x.size());
  engine.launch(test::as_written(Epilogue{dequantize(input("q"), input("s"), 32)}), nullptr,
                OutputView(back.data(), DType::f32, found.shape),
                {{"q", TensorView(found.values.data(), DType::f8e4m3, found.shape)},
                 {"s", TensorView(found.scales.data(), DType::f8e8m0, found.scale_shape)}});
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double scale = std::ldexp(1.0, found.scales[i / test::kMxSize] - 127);
    const double allowed = std::max(0x1p-4 * std::fabs(static_cast<double>(x[i])), 0x1p-10 * scale);
    EXPECT_LE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(x[i])), allowed) << x[i];
  }
}

TEST(MxQuantizeText, IsTheSameChainAsInCpp) {
  const Quantized both = mx_quantize(input("x"), DType::f8e5m2, ScaleRounding::floor);
  EXPECT_EQ(Epilogue::parse("q, s = mx_quantize(x, f8e5m2, rounding='floor'); return q, s").results(),
            (std::vector<std::string>{"q", "s"}));
  const std::string text = "mx_quantize(x, f8e5m2, 'floor')";
  EXPECT_EQ((Epilogue{both.values, both.scale}.str()),
            Epilogue::parse("return " + text + "[0], " + text + "[1]").str());
}

TEST(MxQuantizeText, RefusesInSentences) {
  const auto says = [](std::string_view text, std::string_view part) {
    try {
      Epilogue::parse(text);
      FAIL() << text << " is accepted";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  says("mx_quantize(x, i8)[0]", "'dtype' of 'mx_quantize' is f8e4m3, f8e5m2 or f4e2m1, found i8");
  says("mx_quantize(x, f8e4m3, 'down')[0]", "'rounding' of 'mx_quantize' is \"up\" or \"floor\", found \"down\"");
  says("mx_quantize(x, f8e4m3)[2]", "'mx_quantize' gives the values [0] and the scale [1], so there is no [2]");
  says("q, s, t = mx_quantize(x, f8e4m3); return q", "3 names stand for the 2 values that 'mx_quantize' gives");
}

// One kernel that reads the operands once and writes both results once.
TEST(MxQuantizePlan, MovesEverythingOnce) {
  const std::int64_t rows = 4096, columns = 7168;
  const auto elements = static_cast<std::uint64_t>(rows * columns);
  for (const int architecture : {90, 100}) {
    const Epilogue tail = test::as_written("q, s = mx_quantize(silu(a) * b, f8e4m3); return q, s");
    const TensorView operand(nullptr, DType::bf16, Dims{rows, columns});
    const std::vector<OutputView> outputs = {{nullptr, DType::f8e4m3, {rows, columns}},
                                             {nullptr, DType::f8e8m0, {rows, columns / 32}}};
    const std::vector<TensorView> inputs = {operand, operand};
    const PlanSummary plan = Inspection(tail, outputs, inputs, {.architecture = architecture}).plan();
    EXPECT_EQ(plan.bytes_read, 4 * elements);
    EXPECT_EQ(plan.bytes_written, elements + elements / 32);
  }
}

}  // namespace
}  // namespace epifuse
