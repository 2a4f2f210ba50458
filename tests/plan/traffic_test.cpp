// Bytes that plans count where views read elements several times: each once from memory, and what caches give again.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include <epifuse/gradient.hpp>

#include "plan/distinct.hpp"
#include "plan/explain.hpp"
#include "plan/plans.hpp"
#include "support/as_written.hpp"

namespace epifuse::plan {
namespace {

PlanSummary summary_of(const std::string& chain, const std::vector<TensorView>& inputs) {
  const Epilogue tail = test::as_written(chain);
  std::vector<OutputView> outputs;
  for (const Dims& shape : tail.result_shapes(inputs)) outputs.emplace_back(nullptr, inputs[0].dtype, shape);
  return Inspection(tail, outputs, inputs).plan();
}

constexpr std::uint64_t kImages = 32 * 64 * 112 * 112 * 2;

std::uint64_t read_of(const std::string& chain) {
  return summary_of(chain, {in(DType::f16, {32, 64, 112, 112})}).bytes_read;
}

TEST(Traffic, EachElementThatWindowsShareComesFromMemoryOnce) {
  EXPECT_EQ(read_of("avg_pool2d(x, 3, 1, 1)"), kImages);
  EXPECT_EQ(read_of("max_pool2d(x, 3, 2, 1)"), kImages);
  EXPECT_EQ(read_of("max_pool2d(relu(x), 7, 1, 3)"), kImages);
  EXPECT_EQ(read_of("max_pool2d(x, 13, 1)"), kImages);
  EXPECT_EQ(read_of("instance_norm(avg_pool2d(x, 3, 1, 1))"), kImages);
  EXPECT_EQ(read_of("max_pool2d(x, 2)"), kImages);
  EXPECT_EQ(read_of("x[:, 1:] - x[:, :-1]"), kImages);
  EXPECT_EQ(read_of("max_pool2d(x, 1, 2)"), kImages / 4);
}

TEST(Traffic, CachesGiveAgainWhatRunsOfRowsShare) {
  // A window of three rows is read as three runs, two of which lie in a cache; the border has fewer.
  const PlanSummary pool = summary_of("avg_pool2d(x, 3, 1, 1)", {in(DType::f16, {32, 64, 112, 112})});
  EXPECT_EQ(pool.bytes_from_caches, kImages / 112 * 2 * 111);
  EXPECT_NE(to_text(pool, 3.35e12, {}).find("from caches      101.84 MB"), std::string::npos);
  EXPECT_NE(to_text(pool, 3.35e12, {}).find("time             30.67 µs"), std::string::npos);
  EXPECT_EQ(summary_of("max_pool2d(x, 2)", {in(DType::f16, {32, 64, 112, 112})}).bytes_from_caches, 0U);
  EXPECT_EQ(summary_of("relu(x)", {in(DType::f16, {32, 64, 112, 112})}).bytes_from_caches, 0U);
}

// The gradient of a sum of windows reads an element of each row, and each window's largest: nothing along the row of
// what all of it shares.
TEST(Traffic, WhatARowSharesIsReadOnceBehindItsWindows) {
  const Gradient pool = gradient(test::as_written("sum(max_pool1d(x, 2), 1)"), {"x"});
  const PlanSummary backward = summary_of(
      pool.backward.str(), {in(DType::f32, {128}), in(DType::u8, {128, 16384}), in(DType::f32, {128, 32768})});
  EXPECT_EQ(backward.bytes_read, 128 * 4 + 128 * 16384);
  EXPECT_EQ(backward.bytes_written, 128 * 32768 * 4);
}

// The second read comes too late for a cache: 1.6 GB were read in between.
TEST(Traffic, ViewsFarApartReadMemoryTwice) {
  const TensorView large = in(DType::f32, {8, 100'000'000});
  const PlanSummary far = summary_of("x[2:] - x[:-2]", {large});
  constexpr std::uint64_t kRow = 400'000'000;
  EXPECT_EQ(far.bytes_read, 2 * 6 * kRow);
  EXPECT_EQ(far.bytes_from_caches, 0U);
  EXPECT_EQ(summary_of("x + flip(x, (0,))", {large}).bytes_read, 2 * 8 * kRow);
}

std::uint64_t counted_one_by_one(const std::vector<Box>& boxes) {
  std::set<std::vector<std::int64_t>> seen;
  for (const Box& box : boxes) {
    for (std::int64_t i = 0; i < box[0].count; ++i)
      for (std::int64_t k = 0; k < box[1].count; ++k)
        seen.insert({box[0].first + i * box[0].step, box[1].first + k * box[1].step});
  }
  return seen.size();
}

TEST(Traffic, CountsElementsOfBoxesAsIfOneByOne) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Box> boxes;
    for (int i = 0; i < 1 + round % 7; ++i)
      boxes.push_back({{below(9), 1 + below(4), 1 + below(12)}, {below(9), 1 + below(4), 1 + below(12)}});
    ASSERT_EQ(distinct_elements(boxes), counted_one_by_one(boxes)) << "round " << round;
  }
}

TEST(Traffic, BoxesAreOfDenseTensorsAndTheirViews) {
  const TensorView images = in(DType::f16, {4, 6, 8});
  const auto box = [&](const Lowered::Operand& read) { return box_of(read, images); };
  const auto second_rows = box({0, 2 * (48 + 8 + 3), {2, 3, 2}, {48, 16, 2}, "x[1:3, 1::2, 3:7:2]"});
  ASSERT_TRUE(second_rows);
  EXPECT_EQ(distinct_elements(std::vector<Box>{*second_rows}), 12U);
  EXPECT_EQ((*second_rows)[0].first, 1);
  EXPECT_EQ((*second_rows)[1].step, 2);
  EXPECT_EQ((*second_rows)[2].end(), 6);
  const auto reversed = box({0, 2 * 7, {4, 6, 8}, {48, 8, -1}, "x[..., ::-1]"});
  ASSERT_TRUE(reversed);
  EXPECT_EQ((*reversed)[2].first, 0);
  EXPECT_FALSE(box({0, 0, {4, 48}, {48, 1}, "reshape(x, (4, 48))"}));
  EXPECT_FALSE(box({0, 0, {4, 6, 6, 3}, {48, 8, 1, 1}, "unfold(x, -1, 3, 1)"}));
  EXPECT_FALSE(box_of({0, 0, {4, 6}, {1, 1}, "x"}, in(DType::f16, {4, 6}, {1, 1})));
}

}  // namespace
}  // namespace epifuse::plan
