// quantize and dequantize against their definitions, written down here with loops and a table of the types' values.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

// ---- the reference: OCP's 8-bit floats by their definition, nearest by search

// Bits of an OCP float with so many bits of fraction; infinite and NaN codes give NaN.
double decoded(unsigned code, int fraction_bits) {
  const int exponent_bits = 7 - fraction_bits;
  const unsigned magnitude = code & 0x7FU;
  const unsigned fraction = magnitude & ((1U << fraction_bits) - 1);
  const unsigned exponent = magnitude >> fraction_bits;
  const bool is_special = exponent_bits == 4 ? magnitude == 0x7F : exponent == (1U << exponent_bits) - 1;
  if (is_special) return std::numeric_limits<double>::quiet_NaN();
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double value =
      exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                    : std::ldexp(fraction + (1U << fraction_bits), static_cast<int>(exponent) - bias - fraction_bits);
  return code >= 0x80 ? -value : value;
}

// To the nearest value of the type, ties to the even code, saturating; the sign of a zero stays.
std::uint8_t encoded_float(float value, int fraction_bits) {
  if (std::isnan(value)) return 0x7F;
  const unsigned sign = std::signbit(value) ? 0x80 : 0;
  const double size = std::fabs(static_cast<double>(value));
  unsigned best = 0;
  for (unsigned code = 0; code < 0x7F; ++code) {
    const double distance = std::fabs(decoded(code, fraction_bits) - size);
    if (std::isnan(distance)) continue;
    const double least = std::fabs(decoded(best, fraction_bits) - size);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
  }
  return static_cast<std::uint8_t>(best | sign);
}

// Half to even, saturating.
std::int8_t encoded_integer(float value) {
  if (std::isnan(value)) return 0;
  return static_cast<std::int8_t>(std::clamp(std::nearbyint(static_cast<double>(value)), -128.0, 127.0));
}

struct Type {
  DType dtype;
  float largest;
  std::uint8_t encode(float value) const {
    if (dtype == DType::i8) return std::bit_cast<std::uint8_t>(encoded_integer(value));
    return encoded_float(value, dtype == DType::f8e4m3 ? 3 : 2);
  }
  double decode(std::uint8_t code) const {
    if (dtype == DType::i8) return std::bit_cast<std::int8_t>(code);
    return decoded(code, dtype == DType::f8e4m3 ? 3 : 2);
  }
};
constexpr Type kTypes[] = {{DType::f8e4m3, 448}, {DType::f8e5m2, 57344}, {DType::i8, 127}};

struct Reference {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
};

Reference quantized(const std::vector<float>& x, std::size_t block, const Type& type, bool power_of_two, float eps) {
  Reference result;
  for (std::size_t at = 0; at < x.size(); at += block) {
    float largest = eps;
    for (std::size_t i = at; i < at + block; ++i) largest = std::max(largest, std::fabs(x[i]));
    float scale = largest / type.largest;
    if (power_of_two) {
      int exponent = -149;
      while (std::ldexp(static_cast<double>(type.largest), exponent) < largest) ++exponent;
      scale = std::ldexp(1.0F, exponent);
    }
    result.scales.push_back(scale);
    const float inverse = 1 / scale;
    for (std::size_t i = at; i < at + block; ++i) result.values.push_back(type.encode(x[i] * inverse));
  }
  return result;
}

// Blocks of many sizes: ordinary ones, zeros, what eps decides, the largest floats, and largest elements around powers
// of two times `bound`.
std::vector<float> hard_data(std::size_t blocks, std::size_t block, float bound) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (std::size_t b = 0; b < blocks; ++b) {
    const int exponent = static_cast<int>(b % 61) - 30;
    for (std::size_t i = 0; i < block; ++i) x.push_back(std::ldexp(normal(random), exponent));
    float& first = x[b * block];
    for (std::size_t i = 0; b % 5 == 1 && i < block; ++i) x[b * block + i] = std::ldexp(x[b * block + i], -6);
    if (b % 5 == 1) first = std::ldexp(bound, exponent);
    if (b % 5 == 2) first = std::nextafter(std::ldexp(bound, exponent), 0.0F);
    if (b % 5 == 3) first = -std::nextafter(std::ldexp(bound, exponent), std::numeric_limits<float>::infinity());
    if (b % 17 == 4) std::fill_n(&first, block, 0.0F);
    if (b == 9) first = std::numeric_limits<float>::max();
  }
  return x;
}

struct Found {
  std::vector<std::uint8_t> values;
  std::vector<float> scales;
};

Found computed(Engine& engine, const Epilogue& tail, const std::vector<float>& x, const Dims& shape, std::int64_t block,
               DType dtype) {
  const std::int64_t columns = shape[shape.size() - 1];
  Dims scales = shape;
  scales[shape.size() - 1] = block == 0 ? 1 : columns / block;
  Found found;
  found.values.resize(x.size());
  found.scales.resize(x.size() / static_cast<std::size_t>(block == 0 ? columns : block));
  engine.launch(tail, nullptr, {{found.values.data(), dtype, shape}, {found.scales.data(), DType::f32, scales}},
                {{"x", TensorView(x.data(), DType::f32, shape)}});
  return found;
}

// On the CPU device, which computes precisely: not a bit may differ.
TEST(QuantizeCpu, IsTheDefinitionBitForBit) {
  Engine engine(Device::cpu());
  const Expr x = input("x");
  for (const Type& type : kTypes) {
    for (const std::int64_t block : {0, 32, 128}) {
      for (const bool power_of_two : {false, true}) {
        const Quantized both = quantize(x, type.dtype, {.block = block, .power_of_two = power_of_two});
        const Epilogue tail{both.values, both.scale};
        const std::size_t size = block == 0 ? 256 : static_cast<std::size_t>(block);
        const std::vector<float> data = hard_data(160, size, type.largest);
        const Dims shape = {static_cast<std::int64_t>(data.size()) / 256, 256};
        const Reference expected = quantized(data, size, type, power_of_two, 1e-4F);
        const Found found = computed(engine, tail, data, shape, block, type.dtype);
        EXPECT_EQ(found.scales, expected.scales) << tail.str();
        EXPECT_EQ(found.values, expected.values) << tail.str();
      }
    }
  }
}

TEST(QuantizeCpu, ComesBackWithinHalfAStep) {
  Engine engine(Device::cpu());
  for (const Type& type : kTypes) {
    for (const std::int64_t block : {std::int64_t{0}, std::int64_t{32}}) {
      std::vector<float> data = hard_data(64, 32, type.largest);
      // The largest float may come back as the next one, which is infinite.
      std::ranges::replace(data, std::numeric_limits<float>::max(), 0x1p100F);
      const Dims shape = {static_cast<std::int64_t>(data.size()) / 64, 64};
      const Quantized both = quantize(input("x"), type.dtype, {.block = block});
      const Found found = computed(engine, Epilogue{both.values, both.scale}, data, shape, block, type.dtype);
      std::vector<float> back(data.size());
      const Dims scales = {shape[0], block == 0 ? 1 : 64 / block};
      engine.launch(test::as_written(Epilogue{dequantize(input("q"), input("s"), block)}), nullptr,
                    OutputView(back.data(), DType::f32, shape),
                    {{"q", TensorView(found.values.data(), type.dtype, shape)},
                     {"s", TensorView(found.scales.data(), DType::f32, scales)}});
      const std::size_t size = block == 0 ? 64 : static_cast<std::size_t>(block);
      for (std::size_t i = 0; i < data.size(); ++i) {
        const float scale = found.scales[i / size];
        EXPECT_EQ(back[i], static_cast<float>(type.decode(found.values[i])) * scale);
        // Half a step: of an integer 0.5; of a float an eighth or a quarter of its size, or half the least value.
        const double relative = type.dtype == DType::i8 ? 0 : type.dtype == DType::f8e4m3 ? 0x1p-4 : 0x1p-3;
        const double absolute = type.dtype == DType::i8 ? 0.5 : type.dtype == DType::f8e4m3 ? 0x1p-10 : 0x1p-17;
        const double size_of_x = std::fabs(static_cast<double>(data[i]));
        EXPECT_LE(std::fabs(static_cast<double>(back[i]) - static_cast<double>(data[i])),
                  std::max(relative * size_of_x, absolute * static_cast<double>(scale)) * (1 + 1e-5))
            << data[i];
      }
    }
  }
}

TEST(QuantizeCpu, OfWhatIsNotFinite) {
  Engine engine(Device::cpu());
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Quantized both = quantize(input("x"), DType::f8e4m3, {.block = 2, .power_of_two = true});
  const Found found =
      computed(engine, Epilogue{both.values, both.scale}, {inf, 1, nan, 1, 3, 448}, {1, 6}, 2, DType::f8e4m3);
  EXPECT_TRUE(std::isnan(found.scales[0]));
  EXPECT_TRUE(std::isnan(found.scales[1]));
  EXPECT_EQ(found.scales[2], 1);
  EXPECT_EQ(found.values[0] & 0x7F, 0x7F);
  EXPECT_EQ(found.values[1] & 0x7F, 0x7F);
  EXPECT_EQ(found.values[2] & 0x7F, 0x7F);
  EXPECT_EQ(found.values[5], 0x7E);
}

TEST(QuantizeText, IsTheSameChainAsInCpp) {
  const Expr x = input("x");
  const auto same = [](const Epilogue& written, std::string_view text) {
    EXPECT_EQ(written.str(), Epilogue::parse(text).str()) << text;
  };
  const Quantized row = quantize(x, DType::i8);
  same(Epilogue{row.values, row.scale}, "return quantize(x, i8)[0], quantize(x, i8)[1]");
  same(Epilogue{quantize(silu(x), DType::f8e4m3, {.block = 128}).values}, "quantize(silu(x), f8e4m3, 128)[0]");
  same(Epilogue{quantize(x, DType::f8e5m2, {.block = 32, .power_of_two = true, .eps = 1e-10}).scale},
       "quantize(x, f8e5m2, block=32, power_of_two=true, eps=1e-10)[1]");
  same(Epilogue{dequantize(x, input("s"), 128)}, "dequantize(x, s, 128)");
  // Both names of one call, which shares all its values.
  EXPECT_EQ(Epilogue::parse("q, s = quantize(x, i8, 4); return q, s").results(), (std::vector<std::string>{"q", "s"}));
}

TEST(QuantizeText, RefusesInSentences) {
  const auto problem = [](std::string_view text) -> std::string {
    try {
      Epilogue::parse(text);
    } catch (const Error& error) {
      return error.what();
    }
    return "(accepted)";
  };
  const auto says = [&](std::string_view text, std::string_view part) {
    EXPECT_NE(problem(text).find(part), std::string::npos) << problem(text);
  };
  says("quantize(x, f16)[0]", "'dtype' of 'quantize' is f8e4m3, f8e5m2, f4e2m1, i8 or i4, found f16");
  says("quantize(x, i8)[2]", "'quantize' gives the values [0] and the scale [1], so there is no [2]");
  says("quantize(x, i8)", "'quantize' gives several values: write which one, as 'quantize(…)[0]'");
  says("q, s, t = quantize(x, i8); return q", "3 names stand for the 2 values that 'quantize' gives");
  says("quantize(x, i8, -1)[0]", "share a scale, or 0 for all of them; found -1");
  says("quantize(x, i8, eps=0)[0]", "'eps' of 'quantize' is a positive number, found 0.0");
  says("quantize(x, i8, eps=inf)[0]", "'eps' of 'quantize' is a positive number, found inf");
  says("dequantize(q, s, -2)", "'block' of 'dequantize'");
  EXPECT_THROW(Epilogue{quantize(input("x"), DType::f32).values}, Error);
}

// What an inference engine fuses it with: one kernel each, in which everything moves once.
TEST(QuantizePlan, MovesEverythingOnce) {
  const std::int64_t rows = 4096, columns = 7168;
  const auto elements = static_cast<std::uint64_t>(rows * columns);
  struct Tail {
    std::string text;
    std::uint64_t read, written;
  };
  const std::uint64_t blocks = elements / 128, groups = elements / 32;
  const std::vector<Tail> tails = {
      {"q, s = quantize(silu(a) * b, f8e4m3, 128); return q, s", 4 * elements, elements + 4 * blocks},
      {"q, s = quantize(silu(a) * b, f8e4m3, 32, true); return q, s", 4 * elements, elements + 4 * groups},
      {"q, s = quantize(a, i8); return q, s", 2 * elements, elements + 4 * static_cast<std::uint64_t>(rows)},
      {"h = a + b; q, s = quantize(rms_norm(h, eps=1e-6), f8e4m3); return h, q, s", 4 * elements,
       3 * elements + 4 * static_cast<std::uint64_t>(rows)},
  };
  for (const Tail& tail : tails) {
    const Epilogue epilogue = test::as_written(tail.text);
    std::vector<TensorView> inputs;
    for (std::size_t i = 0; i < epilogue.inputs().size(); ++i)
      inputs.emplace_back(nullptr, DType::bf16, Dims{rows, columns});
    std::vector<OutputView> outputs;
    const std::vector<Dims> shapes = epilogue.result_shapes(inputs);
    const std::vector<DType> types = epilogue.result_types(inputs);
    for (std::size_t i = 0; i < shapes.size(); ++i) outputs.emplace_back(nullptr, types[i], shapes[i]);
    const PlanSummary plan = Inspection(epilogue, outputs, inputs, {.architecture = 90}).plan();
    EXPECT_EQ(plan.bytes_read, tail.read) << tail.text;
    EXPECT_EQ(plan.bytes_written, tail.written) << tail.text;
  }
}

}  // namespace
}  // namespace epifuse
