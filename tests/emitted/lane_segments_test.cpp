// Emitted text of chains that reduce rows and segments of them: against the oracle, and the tails of block formats
// against their definitions bit for bit.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include <epifuse/scale_layouts.hpp>

#include "emitted/workshop.hpp"
#include "support/block_formats.hpp"
#include "support/engine_runner.hpp"
#include "support/lane_segment_cases.hpp"

namespace epifuse::test {
namespace {

void judge(const std::vector<Case>& cases) {
  Workshop workshop;
  for (const Case& test : cases) workshop.add(test);
  EXPECT_EQ(workshop.ambiguous_classes(), 0U);
  EXPECT_EQ(workshop.kernels_with("struct SegmentValues"), workshop.kernels());
  const WorkshopReport report = workshop.run();
  std::printf("%zu cases, %zu kernels (%.0f s of compiler), %llu results\n", report.cases, report.kernels,
              report.compile_seconds, static_cast<unsigned long long>(report.coverage.elements));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

TEST(LaneSegments, FixedCasesAgreeWithTheOracle) { judge(lane_segment_cases()); }

TEST(LaneSegments, RandomCasesAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(20261125);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  judge(random_lane_segment_cases(seed, 160, 2, 1200));
}

// ---- tails of block formats

constexpr std::size_t kRow = 0;  // a block is a row

struct Format {
  std::string quantize;  // of y, to q and s
  DType dtype;
  DType scale;
  std::size_t block;
  bool is_mx = false;
  bool power_of_two = false;  // or rounding up, of MX
  std::size_t block_of(std::int64_t columns) const { return block == kRow ? static_cast<std::size_t>(columns) : block; }
  std::int64_t blocks_of(std::int64_t columns) const { return columns / static_cast<std::int64_t>(block_of(columns)); }
};

const std::vector<Format>& formats() {
  static const std::vector<Format> all = {
      {"quantize(y, f8e4m3, 128)", DType::f8e4m3, DType::f32, 128},
      {"quantize(y, f8e4m3, 128, true)", DType::f8e4m3, DType::f32, 128, false, true},
      {"quantize(y, f8e5m2, 16)", DType::f8e5m2, DType::f32, 16},
      {"quantize(y, i8, 128)", DType::i8, DType::f32, 128},
      {"quantize(y, i8, 256)", DType::i8, DType::f32, 256},
      {"quantize(y, f8e4m3)", DType::f8e4m3, DType::f32, kRow},
      {"quantize(y, i8)", DType::i8, DType::f32, kRow},
      {"mx_quantize(y, f8e4m3)", DType::f8e4m3, DType::f8e8m0, 32, true, true},
      {"mx_quantize(y, f8e5m2, 'floor')", DType::f8e5m2, DType::f8e8m0, 32, true, false},
  };
  return all;
}

// Values and scales by the definitions of docs/guide/quantisation.md.
MxBlocks defined(const std::vector<float>& y, std::int64_t columns, const Format& format) {
  return format.is_mx ? mx_blocks(y, format.dtype, format.power_of_two)
                      : scaled_blocks(y, format.block_of(columns), format.dtype, format.power_of_two);
}

// What a launch of such a tail reads and writes: x and r are multiples of 1/8, so that the sum of a row's squares is
// exact in any order.
struct NormLaunch {
  NormLaunch(const Format& of, DType dtype, std::int64_t rows, std::int64_t columns, Math math)
      : format(of),
        type(dtype),
        tail(Epilogue::parse("h = x + r; y = rms_norm(h, w, eps=1e-6); q, s = " + of.quantize + "; return h, q, s")
                 .with(math)),
        shape{rows, columns} {
    std::mt19937 random(static_cast<unsigned>(columns));
    std::uniform_int_distribution<int> eighth(-16, 16);
    std::normal_distribution<double> weight;
    const auto count = static_cast<std::size_t>(rows * columns);
    for (std::vector<std::uint8_t>* memory : {&x, &r}) memory->resize(count * 2);
    w.resize(static_cast<std::size_t>(columns) * 2);
    std::vector<float> sum(count);
    for (std::size_t i = 0; i < count; ++i) {
      // Blocks of large, of small and of no values.
      const int size = static_cast<int>(i / 16 % 3);
      const double a = size == 0 ? eighth(random) / 8.0 : size == 1 ? eighth(random) % 2 / 8.0 : 0.0;
      const double b = eighth(random) / 8.0;
      encode(type, a, &x[2 * i]);
      encode(type, size == 2 ? 0.0 : b, &r[2 * i]);
      sum[i] = static_cast<float>(size == 2 ? a : a + b);
    }
    for (std::size_t i = 0; i < w.size() / 2; ++i) encode(type, weight(random), &w[2 * i]);
    expect(sum);
    residual.resize(count * 2);
    found = {std::vector<std::uint8_t>(count), std::vector<std::uint8_t>(expected.scales.size())};
    inputs = {{x.data(), type, shape}, {r.data(), type, shape}, {w.data(), type, {columns}}};
    outputs = {{residual.data(), type, shape},
               {found.values.data(), format.dtype, shape},
               {found.scales.data(), format.scale, {rows, format.blocks_of(columns)}}};
  }

  // In f32, each operation rounded once.
  void expect(const std::vector<float>& sum) {
    const auto columns = static_cast<std::size_t>(shape[1]);
    y.resize(sum.size());
    for (std::size_t row = 0; row < sum.size(); row += columns) {
      double squares = 0;
      for (std::size_t i = row; i < row + columns; ++i)
        squares += static_cast<double>(sum[i]) * static_cast<double>(sum[i]);
      const float mean = static_cast<float>(squares) / static_cast<float>(columns);
      const float inverse = 1.0F / std::sqrt(mean + 1e-6F);
      for (std::size_t i = row; i < row + columns; ++i) {
        const auto weight = static_cast<float>(decode(type, &w[2 * (i - row)]));
        y[i] = sum[i] * inverse * weight;
      }
    }
    expected = defined(y, shape[1], format);
    expected_residual.resize(sum.size() * 2);
    for (std::size_t i = 0; i < sum.size(); ++i) encode(type, static_cast<double>(sum[i]), &expected_residual[2 * i]);
  }

  Format format;
  DType type;
  Epilogue tail;
  Dims shape;
  std::vector<std::uint8_t> x, r, w, residual, expected_residual;
  std::vector<float> y;  // what is quantised
  MxBlocks expected, found;
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
};

TEST(BlockFormats, ResidualAndNormAreTheDefinitionBitForBit) {
  std::vector<std::unique_ptr<NormLaunch>> launches;
  for (const Format& format : formats()) {
    for (const DType type : {DType::bf16, DType::f16}) {
      for (const std::int64_t columns : {512, 768, 4096, 5120, 7168, 8192}) {
        // Scales in powers of two are exact in every mode.
        const bool is_exact = format.is_mx || format.power_of_two;
        const Math math = !is_exact ? Math::precise : columns == 512 ? Math::fast : Math::standard;
        launches.push_back(std::make_unique<NormLaunch>(format, type, columns > 1000 ? 2 : 5, columns, math));
      }
    }
  }
  std::vector<Emitted> emitted;
  for (const auto& launch : launches) emitted.push_back({launch->tail, launch->outputs, launch->inputs});
  const auto problems = run_emitted(emitted);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const NormLaunch& launch = *launches[i];
    const std::string which = launch.tail.str() + " of " + std::to_string(launch.shape[1]) + " elements";
    EXPECT_FALSE(problems[i]) << problems[i].value_or("") << which;
    EXPECT_EQ(launch.found.scales, launch.expected.scales) << which;
    EXPECT_EQ(launch.found.values, launch.expected.values) << which;
    EXPECT_EQ(launch.residual, launch.expected_residual) << which;
  }
}

// Scales of the norm in the layouts that matrix products take: each where that layout has it, and nothing elsewhere.
TEST(BlockFormats, NormWithScalesInTilesAndTransposed) {
  constexpr std::int64_t kRows = 128, kColumns = 256, kBlocks = kColumns / 32;
  NormLaunch plain({"mx_quantize(y, f8e4m3)", DType::f8e4m3, DType::f8e8m0, 32, true, true}, DType::bf16, kRows,
                   kColumns, Math::standard);
  const Epilogue tiled = Epilogue::parse(
      "h = x + r; y = rms_norm(h, w, eps=1e-6); q, s = mx_quantize(y, f8e4m3); return h, q, scale_tiles(s)");
  std::vector<std::uint8_t> tiles(plain.expected.scales.size(), 0xEE);
  std::vector<OutputView> outputs = plain.outputs;
  outputs[2] = {tiles.data(), DType::f8e8m0, {kRows / 128, kBlocks / 4, 32, 4, 4}};
  run_emitted(tiled, outputs, plain.inputs);
  EXPECT_EQ(plain.found.values, plain.expected.values);
  for (std::int64_t i = 0; i < kRows; ++i) {
    for (std::int64_t j = 0; j < kBlocks; ++j) {
      const std::int64_t at = ((i / 128) * (kBlocks / 4) + j / 4) * 512 + i % 32 * 16 + i % 128 / 32 * 4 + j % 4;
      EXPECT_EQ(tiles[static_cast<std::size_t>(at)], plain.expected.scales[static_cast<std::size_t>(i * kBlocks + j)]);
    }
  }
  constexpr std::int64_t kFew = 6;
  NormLaunch few({"quantize(y, f8e4m3, 128)", DType::f8e4m3, DType::f32, 128}, DType::bf16, kFew, 1024, Math::precise);
  const std::int64_t padded = padded_rows(kFew);
  std::vector<float> transposed(static_cast<std::size_t>(padded * 8), -1.0F);
  few.outputs[2] = transposed_scales(transposed.data(), DType::f32, kFew, 8);
  run_emitted(few.tail, few.outputs, few.inputs);
  for (std::int64_t row = 0; row < padded; ++row) {
    for (std::int64_t j = 0; j < 8; ++j) {
      float expected = -1;
      if (row < kFew) std::memcpy(&expected, &few.expected.scales[static_cast<std::size_t>(row * 8 + j) * 4], 4);
      EXPECT_EQ(transposed[static_cast<std::size_t>(j * padded + row)], expected) << row << ", " << j;
    }
  }
}

// NVFP4 behind residual and norm: its blocks are segments of the rows, and two values share a byte.
TEST(BlockFormats, NormToNvfp4IsTheDefinitionBitForBit) {
  for (const std::int64_t columns : {256, 4096}) {
    NormLaunch norm(formats()[0], DType::bf16, 5, columns, Math::precise);
    const Epilogue tail =
        Epilogue::parse("h = x + r; y = rms_norm(h, w, eps=1e-6); q, s = nv_quantize(y, g); return h, q, s")
            .with(Math::precise);
    const float global = 448 * 6 / largest_of(norm.y);
    norm.inputs.emplace_back(&global, DType::f32, Dims{});
    PackedTensor q(DType::f4e2m1, norm.shape);
    std::vector<std::uint8_t> s(norm.y.size() / 16);
    run_emitted(tail, std::vector<OutputView>{norm.outputs[0], q.view(), {s.data(), DType::f8e4m3, {5, columns / 16}}},
                norm.inputs);
    const MxBlocks expected = nv_blocks(norm.y, global);
    EXPECT_EQ(s, expected.scales) << columns;
    EXPECT_EQ(q.bytes, expected.values) << columns;
    EXPECT_EQ(norm.residual, norm.expected_residual) << columns;
  }
}

// The gate's values come from a kernel of their own.
TEST(BlockFormats, GateIsTheDefinitionBitForBit) {
  constexpr std::int64_t kRows = 7, kColumns = 768;
  const Dims shape = {kRows, kColumns};
  std::mt19937 random(5);
  std::normal_distribution<double> normal;
  std::vector<std::uint8_t> gate(kRows * kColumns * 2);
  std::vector<std::uint8_t> up(gate.size());
  for (std::size_t i = 0; i < gate.size(); i += 2) {
    encode(DType::bf16, normal(random) * 3, &gate[i]);
    encode(DType::bf16, std::ldexp(normal(random), static_cast<int>(i / 64 % 20) - 10), &up[i]);
  }
  const std::vector<TensorView> inputs = {{gate.data(), DType::bf16, shape}, {up.data(), DType::bf16, shape}};
  std::vector<float> y(kRows * kColumns);
  run_emitted(Epilogue::parse("silu(gate) * up").with(Math::precise),
              std::vector<OutputView>{{y.data(), DType::f32, shape}}, inputs);
  for (const Format& format : formats()) {
    const Epilogue tail =
        Epilogue::parse("y = silu(gate) * up; q, s = " + format.quantize + "; return q, s").with(Math::precise);
    const MxBlocks expected = defined(y, shape[1], format);
    MxBlocks found{std::vector<std::uint8_t>(y.size()), std::vector<std::uint8_t>(expected.scales.size())};
    run_emitted(tail,
                std::vector<OutputView>{{found.values.data(), format.dtype, shape},
                                        {found.scales.data(), format.scale, {kRows, format.blocks_of(kColumns)}}},
                inputs);
    EXPECT_EQ(found.scales, expected.scales) << tail.str();
    EXPECT_EQ(found.values, expected.values) << tail.str();
  }
  const float global = 448 * 6 / largest_of(y);
  std::vector<TensorView> with_global = inputs;
  with_global.emplace_back(&global, DType::f32, Dims{});
  PackedTensor q(DType::f4e2m1, shape);
  std::vector<std::uint8_t> s(y.size() / 16);
  run_emitted(Epilogue::parse("y = silu(gate) * up; q, s = nv_quantize(y, g); return q, s").with(Math::precise),
              std::vector<OutputView>{q.view(), {s.data(), DType::f8e4m3, {kRows, kColumns / 16}}}, with_global);
  const MxBlocks expected = nv_blocks(y, global);
  EXPECT_EQ(s, expected.scales);
  EXPECT_EQ(q.bytes, expected.values);
}

}  // namespace
}  // namespace epifuse::test
