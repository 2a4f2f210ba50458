// Where scales of quantised blocks land: beside the formulas of cuBLASLt's and DeepGEMM's documentation, from one
// kernel with the values.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

namespace epifuse {
namespace {

constexpr std::int64_t kRows = 384, kColumns = 512, kBlocks = kColumns / 32;

std::vector<float> data(std::int64_t rows) {
  std::vector<float> x(static_cast<std::size_t>(rows * kColumns));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 2654435761U >> 7) % 4096) / 16 - 128;
  // Every block has a scale that tells its row and column apart from its neighbours'.
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < kColumns; ++c)
      x[static_cast<std::size_t>(r * kColumns + c)] *= static_cast<float>(1LL << ((r * 7 + c / 32 * 5) % 31));
  }
  return x;
}

// Scales in row-major order, of a launch that says nothing about layouts.
std::vector<std::uint8_t> plain_scales(Engine& engine, const std::vector<float>& x, std::int64_t rows) {
  std::vector<std::uint8_t> scales(static_cast<std::size_t>(rows * kBlocks));
  engine.launch(Epilogue{mx_quantize(input("x")).scale}, nullptr,
                OutputView(scales.data(), DType::f8e8m0, {rows, kBlocks}),
                {TensorView(x.data(), DType::f32, {rows, kColumns})});
  return scales;
}

std::size_t place_in_tiles(std::int64_t i, std::int64_t j) {
  const std::int64_t tiles = (kBlocks + 3) / 4;
  return static_cast<std::size_t>(((i / 128) * tiles + j / 4) * 512 + (i % 32) * 16 + (i % 128) / 32 * 4 + j % 4);
}

TEST(ScaleTiles, StandWhereCublasLtLooks) {
  Engine engine(Device::cpu());
  const std::vector<float> x = data(kRows);
  const std::vector<std::uint8_t> plain = plain_scales(engine, x, kRows);
  const Quantized both = mx_quantize(input("x"));
  std::vector<std::uint8_t> values(x.size()), tiles(plain.size());
  engine.launch(Epilogue{both.values, scale_tiles(both.scale)}, nullptr,
                {{values.data(), DType::f8e4m3, {kRows, kColumns}},
                 {tiles.data(), DType::f8e8m0, {kRows / 128, kBlocks / 4, 32, 4, 4}}},
                {{"x", TensorView(x.data(), DType::f32, {kRows, kColumns})}});
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kBlocks; ++j)
      ASSERT_EQ(tiles[place_in_tiles(i, j)], plain[static_cast<std::size_t>(i * kBlocks + j)]) << i << ", " << j;
  }
}

// The guide's way for a few rows: a view of the tile, in which rows that are not there keep what they have.
TEST(ScaleTiles, OfAFewRowsAreAView) {
  Engine engine(Device::cpu());
  const std::int64_t rows = 5;
  const std::vector<float> x = data(rows);
  const std::vector<std::uint8_t> plain = plain_scales(engine, x, rows);
  std::vector<std::uint8_t> tiles(static_cast<std::size_t>(kBlocks / 4 * 512), 0x77);
  engine.launch(Epilogue::parse("unflatten(mx_quantize(x, f8e4m3)[1], -1, (-1, 4))"), nullptr,
                OutputView(tiles.data(), DType::f8e8m0, {rows, kBlocks / 4, 4}, {16, 512, 1}),
                {TensorView(x.data(), DType::f32, {rows, kColumns})});
  for (std::int64_t i = 0; i < 32; ++i) {
    for (std::int64_t j = 0; j < kBlocks; ++j) {
      const std::uint8_t expected = i < rows ? plain[static_cast<std::size_t>(i * kBlocks + j)] : 0x77;
      ASSERT_EQ(tiles[place_in_tiles(i, j)], expected) << i << ", " << j;
    }
  }
}

TEST(TransposedScales, ArePaddedToFourRows) {
  Engine engine(Device::cpu());
  for (const std::int64_t rows : {1, 4, 6, 127}) {
    const std::vector<float> x = data(rows);
    const std::int64_t blocks = kColumns / 128, pitch = padded_rows(rows);
    EXPECT_TRUE(pitch % 4 == 0 && pitch >= rows && pitch < rows + 4);
    const Quantized both = quantize(input("x"), DType::f8e4m3, {.block = 128});
    std::vector<float> plain(static_cast<std::size_t>(rows * blocks)),
        transposed(static_cast<std::size_t>(pitch * blocks), -1);
    std::vector<std::uint8_t> values(x.size());
    const auto launch = [&](const OutputView& scales) {
      engine.launch(Epilogue{both.values, both.scale}, nullptr,
                    {{values.data(), DType::f8e4m3, {rows, kColumns}}, scales},
                    {{"x", TensorView(x.data(), DType::f32, {rows, kColumns})}});
    };
    launch({plain.data(), DType::f32, {rows, blocks}});
    launch(transposed_scales(transposed.data(), DType::f32, rows, blocks));
    for (std::int64_t i = 0; i < pitch; ++i) {
      for (std::int64_t j = 0; j < blocks; ++j) {
        const float expected = i < rows ? plain[static_cast<std::size_t>(i * blocks + j)] : -1;
        ASSERT_EQ(transposed[static_cast<std::size_t>(j * pitch + i)], expected) << i << ", " << j;
      }
    }
  }
  EXPECT_THROW(transposed_scales(nullptr, DType::f32, -1, 4), Error);
}

// All of them from the kernel that writes the values, and nothing is moved twice.
TEST(ScaleLayouts, AreWrittenByTheSameKernel) {
  const std::int64_t rows = 4096, columns = 7168;
  const auto elements = static_cast<std::uint64_t>(rows * columns);
  const TensorView operand(nullptr, DType::bf16, Dims{rows, columns});
  const std::vector<TensorView> inputs = {operand, operand};
  const auto check = [&](const std::string& text, const OutputView& scales, std::uint64_t bytes) {
    const std::vector<OutputView> outputs = {{nullptr, DType::f8e4m3, {rows, columns}}, scales};
    const PlanSummary plan = Inspection(Epilogue::parse(text), outputs, inputs, {.architecture = 90}).plan();
    EXPECT_EQ(plan.bytes_read, 4 * elements) << text;
    EXPECT_EQ(plan.bytes_written, elements + bytes) << text;
  };
  check("q, s = mx_quantize(silu(gate) * up, f8e4m3); return q, scale_tiles(s)",
        {nullptr, DType::f8e8m0, {32, 56, 32, 4, 4}}, elements / 32);
  check("q, s = quantize(silu(gate) * up, f8e4m3, 128); return q, s",
        transposed_scales(nullptr, DType::f32, rows, columns / 128), 4 * elements / 128);
}

}  // namespace
}  // namespace epifuse
