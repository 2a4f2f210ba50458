// The emitted text of mx_quantize against OCP's definition, bit for bit, in every mode of Math: scales are exact in all
// of them; and tails behind quantised products and of experts against theirs.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "emitted/workshop.hpp"
#include "support/block_formats.hpp"
#include "support/storage.hpp"

namespace epifuse::test {
namespace {

struct Launch {
  Epilogue tail;
  DType dtype;
  MxBlocks expected, found;
  std::vector<OutputView> outputs;
  std::vector<TensorView> inputs;
};

TEST(EmittedQuantize, MxBlocksAreTheDefinitionBitForBit) {
  const std::vector<float> x = mx_data(2160);
  std::vector<float> halves = x;
  for (float& value : halves) value *= 0.5F;  // exact but for the least numbers, and so is their sum
  const std::vector<float> others = halves;
  std::vector<float> sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = halves[i] + others[i];
  std::vector<Launch> launches;
  for (const std::int64_t columns : {32, 256, 4320}) {
    const Dims shape = {static_cast<std::int64_t>(x.size()) / columns, columns};
    for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
      for (const std::string rounding : {"up", "floor"}) {
        const std::string text = std::string("q, s = mx_quantize(a + b, ") + std::string(to_string(dtype)) + ", '" +
                                 rounding + "'); return q, s";
        for (const Math math : {Math::precise, Math::standard, Math::fast}) {
          Launch launch{Epilogue::parse(text).with(math), dtype, mx_blocks(sum, dtype, rounding == "up"), {}, {}, {}};
          launch.found = {std::vector<std::uint8_t>(x.size()), std::vector<std::uint8_t>(x.size() / kMxSize)};
          launches.push_back(std::move(launch));
          Launch& made = launches.back();
          made.outputs = {{made.found.values.data(), dtype, shape},
                          {made.found.scales.data(), DType::f8e8m0, {shape[0], columns / 32}}};
          made.inputs = {{halves.data(), DType::f32, shape}, {others.data(), DType::f32, shape}};
        }
      }
    }
  }
  std::vector<Emitted> emitted;
  for (const Launch& launch : launches) emitted.push_back({launch.tail, launch.outputs, launch.inputs});
  const auto problems = run_emitted(emitted);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_FALSE(problems[i]) << problems[i].value_or("");
    EXPECT_EQ(launches[i].found.scales, launches[i].expected.scales) << launches[i].tail.str();
    EXPECT_TRUE(are_same_values(launches[i].found.values, launches[i].expected.values, launches[i].dtype))
        << launches[i].tail.str();
  }
}

// What stands behind an int8 product: i32 sums times the scales of rows and columns, and a bias. Each operation rounds
// once in f32.
TEST(EmittedQuantize, ScalesOfAnInt8ProductAreTheDefinitionBitForBit) {
  constexpr std::int64_t kRows = 37, kColumns = 200;
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<std::int32_t> sums(kRows * kColumns);
  for (std::int32_t& sum : sums) sum = static_cast<std::int32_t>(random() % 2'000'001) - 1'000'000;
  std::vector<float> rows(kRows), columns(kColumns), bias(kColumns);
  for (std::vector<float>* list : {&rows, &columns, &bias})
    std::ranges::generate(*list, [&] { return normal(random) / 64; });
  std::vector<std::uint8_t> found(sums.size() * 2), expected(sums.size() * 2);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    const float scaled = static_cast<float>(sums[i]) * rows[i / kColumns] * columns[i % kColumns];
    encode(DType::bf16, static_cast<double>(scaled + bias[i % kColumns]), &expected[2 * i]);
  }
  const std::vector<TensorView> inputs = {{sums.data(), DType::i32, {kRows, kColumns}},
                                          {rows.data(), DType::f32, {kRows, 1}},
                                          {columns.data(), DType::f32, {kColumns}},
                                          {bias.data(), DType::f32, {kColumns}}};
  run_emitted(Epilogue::parse("sums * rows * columns + bias"),
              std::vector<OutputView>{{found.data(), DType::bf16, {kRows, kColumns}}}, inputs);
  EXPECT_EQ(found, expected);
}

// The top of a mixture of experts: rows by index, times their weights, added up, and the residual. Small multiples of
// 1/8 have exact sums.
TEST(EmittedQuantize, RowsOfExpertsAreTheDefinitionBitForBit) {
  constexpr std::int64_t kTokens = 9, kWidth = 136, kExperts = 30;
  std::mt19937 random(4);
  const auto eighth = [&] { return static_cast<double>(static_cast<int>(random() % 17) - 8) / 8; };
  for (const std::int64_t of_a_token : {1, 2, 8}) {
    std::vector<std::uint8_t> y(kExperts * kWidth * 2), r(kTokens * kWidth * 2), found(r.size()), expected(r.size());
    std::vector<float> weights(static_cast<std::size_t>(kTokens * of_a_token));
    std::vector<std::int64_t> ids(weights.size());
    for (std::vector<std::uint8_t>* list : {&y, &r}) {
      for (std::size_t i = 0; i < list->size(); i += 2) encode(DType::bf16, eighth(), &(*list)[i]);
    }
    std::ranges::generate(weights, [&] { return static_cast<float>(eighth()); });
    std::ranges::generate(ids, [&] { return static_cast<std::int64_t>(random() % kExperts); });
    for (std::size_t i = 0; i < r.size() / 2; ++i) {
      const std::size_t token = i / kWidth;
      double sum = static_cast<double>(decode(DType::bf16, &r[2 * i]));
      for (std::size_t k = token * static_cast<std::size_t>(of_a_token);
           k < (token + 1) * static_cast<std::size_t>(of_a_token); ++k)
        sum +=
            static_cast<double>(weights[k]) *
            static_cast<double>(decode(DType::bf16, &y[2 * (static_cast<std::size_t>(ids[k]) * kWidth + i % kWidth)]));
      encode(DType::bf16, sum, &expected[2 * i]);
    }
    const std::vector<TensorView> inputs = {{y.data(), DType::bf16, {kExperts, kWidth}},
                                            {ids.data(), DType::i64, {kTokens, of_a_token}},
                                            {weights.data(), DType::f32, {kTokens, of_a_token}},
                                            {r.data(), DType::bf16, {kTokens, kWidth}}};
    run_emitted(Epilogue::parse("sum(take(y, ids) * w[..., None], 1) + r"),
                std::vector<OutputView>{{found.data(), DType::bf16, {kTokens, kWidth}}}, inputs);
    EXPECT_EQ(found, expected) << of_a_token;
  }
}

}  // namespace
}  // namespace epifuse::test
