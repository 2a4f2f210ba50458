// Where scales of quantised blocks land: beside the formulas of cuBLASLt's and DeepGEMM's documentation, from one
// kernel with the values.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

constexpr std::int64_t kRows = 384, kColumns = 512, kBlocks = kColumns / 32;

std::vector<float> data(std::int64_t rows, std::int64_t columns = kColumns) {
  std::vector<float> x(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 2654435761U >> 7) % 4096) / 16 - 128;
  // Every block has a scale that tells its row and column apart from its neighbours'.
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c)
      x[static_cast<std::size_t>(r * columns + c)] *= static_cast<float>(1LL << ((r * 7 + c / 32 * 5) % 31));
  }
  return x;
}

// Scales in row-major order, of a launch that says nothing about layouts.
std::vector<std::uint8_t> plain_scales(Engine& engine, const std::vector<float>& x, std::int64_t rows) {
  const std::int64_t columns = static_cast<std::int64_t>(x.size()) / rows;
  std::vector<std::uint8_t> scales(x.size() / 32);
  engine.launch(Epilogue{mx_quantize(input("x")).scale}, nullptr,
                OutputView(scales.data(), DType::f8e8m0, {rows, columns / 32}),
                {TensorView(x.data(), DType::f32, {rows, columns})});
  return scales;
}

std::size_t place_in_tiles(std::int64_t i, std::int64_t j, std::int64_t blocks = kBlocks) {
  const std::int64_t tiles = (blocks + 3) / 4;
  return static_cast<std::size_t>(((i / 128) * tiles + j / 4) * 512 + (i % 32) * 16 + (i % 128) / 32 * 4 + j % 4);
}

// Of any number of rows and blocks: what pads the tiles is 0.
TEST(ScaleTiles, StandWhereCublasLtLooks) {
  Engine engine(Device::cpu());
  const Quantized both = mx_quantize(input("x"));
  const Epilogue tail{both.values, scale_tiles(both.scale)};
  for (const std::int64_t rows : {kRows, std::int64_t{1}, std::int64_t{127}, std::int64_t{129}}) {
    for (const std::int64_t blocks : {kBlocks, std::int64_t{1}, std::int64_t{6}}) {
      const std::vector<float> x = data(rows, blocks * 32);
      const std::vector<std::uint8_t> plain = plain_scales(engine, x, rows);
      const Dims shape = {(rows + 127) / 128, (blocks + 3) / 4, 32, 4, 4};
      const TensorView operand(x.data(), DType::f32, {rows, blocks * 32});
      EXPECT_EQ(tail.result_shapes({&operand, 1})[1], shape);
      std::vector<std::uint8_t> values(x.size()), tiles(static_cast<std::size_t>(shape[0] * shape[1] * 512), 0x77);
      engine.launch(tail, nullptr,
                    {{values.data(), DType::f8e4m3, {rows, blocks * 32}}, {tiles.data(), DType::f8e8m0, shape}},
                    {{"x", operand}});
      for (std::int64_t i = 0; i < shape[0] * 128; ++i) {
        for (std::int64_t j = 0; j < shape[1] * 4; ++j) {
          const bool is_there = i < rows && j < blocks;
          ASSERT_EQ(tiles[place_in_tiles(i, j, blocks)], is_there ? plain[static_cast<std::size_t>(i * blocks + j)] : 0)
              << rows << " x " << blocks << ": " << i << ", " << j;
        }
      }
    }
  }
}

// Converting scales and saying where they lie may stand in either order.
TEST(ScaleTiles, AreConvertedBeforeTheyArePlaced) {
  EXPECT_EQ(Epilogue::parse("cast(scale_tiles(x), f8e8m0)").str(),
            Epilogue::parse("scale_tiles(cast(x, f8e8m0))").str());
}

TEST(ScaleTiles, SayWhatTheyDoNotTake) {
  Engine engine(Device::cpu());
  const auto message = [&](const std::string& chain, const Dims& in, DType type, const Dims& out) {
    const std::vector<float> x(4096);
    std::vector<float> y(4096);
    try {
      engine.launch(Epilogue::parse(chain), nullptr, OutputView(y.data(), type, out),
                    {{"x", {x.data(), DType::f32, in}}});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  const std::string rank = message("scale_tiles(x)", {2, 3, 4}, DType::f32, {1, 1, 32, 4, 4});
  EXPECT_TRUE(
      has(rank, "'scale_tiles' takes scales of two dimensions, [rows, blocks]; its argument has shape [2, 3, 4]"))
      << rank;
  const std::string used = message("scale_tiles(x) + 1", {3, 4}, DType::f32, {1, 1, 32, 4, 4});
  EXPECT_TRUE(has(used, "'scale_tiles' says where in memory scales lie, so it is a result")) << used;
  const std::string shape = message("scale_tiles(x)", {3, 4}, DType::f32, {3, 4});
  EXPECT_TRUE(has(shape, "has shape [3, 4]; with these operands the chain's result has shape [1, 1, 32, 4, 4]"))
      << shape;
  const std::string packed = message("scale_tiles(x)", {3, 4}, DType::f4e2m1, {1, 1, 32, 4, 4});
  EXPECT_TRUE(has(packed, "scales have a byte or more")) << packed;
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
    const PlanSummary plan = Inspection(test::as_written(text), outputs, inputs, {.architecture = 90}).plan();
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
