// The CPU device over the random and the deterministic cases, and its errors in ulp.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <thread>

#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"
#include "support/gradient_cases.hpp"
#include "support/lane_segment_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/reduction_cases.hpp"
#include "support/segment_cases.hpp"
#include "support/ulp.hpp"

namespace epifuse::test {
namespace {

void expect_all(const std::vector<Case>& cases, std::uint64_t seed) {
  Engine engine(Device::cpu());
  const RunReport report = run_all(engine, cases, std::max(2u, std::thread::hardware_concurrency()));
  std::printf("%s; seed %llu\n", summary(report).c_str(), static_cast<unsigned long long>(seed));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure << "EPIFUSE_TEST_SEED=" << seed;
}

TEST(CpuDevice, RandomCasesAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(7);
  expect_all(random_cases(seed, 20'000, 4, 800), seed);
}

TEST(CpuDevice, RandomGradientsAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(20261126);
  expect_all(random_gradients(seed, 4'000, 800), seed);
}

// Enough elements that a launch is shared among threads.
TEST(CpuDevice, LargeRandomCases) {
  const std::uint64_t seed = test_seed(8);
  expect_all(random_cases(seed, 40, 2, 300'000), seed);
}

TEST(CpuDevice, FixedCases) { expect_all(fixed_cases(static_cast<int>(kAllDTypes.size())), 0); }

// One row that stands still: more than 2^32 elements, and no memory.
TEST(CpuDevice, MoreThan32BitsOfElements) {
  constexpr std::int64_t kCount = (std::int64_t{1} << 32) + 5;
  Engine engine(Device::cpu());
  const std::int8_t value = 3;
  const TensorView still(&value, DType::i8, {kCount}, {0});
  std::int8_t most = 0;
  engine.launch(Epilogue::parse("amax(x * 2)"), nullptr, OutputView(&most, DType::i8, {}), {still});
  EXPECT_EQ(most, 6);
  double mean = 0;
  engine.launch(Epilogue::parse("mean(x)"), nullptr, OutputView(&mean, DType::f64, {}), {still});
  EXPECT_EQ(mean, 3);
}

// Two rows more than 2^32 elements apart, in address space of which two pages are touched.
TEST(CpuDevice, StridesBeyond32Bits) {
  constexpr std::int64_t kStep = (std::int64_t{1} << 32) + 5;
  constexpr std::size_t kBytes = static_cast<std::size_t>(kStep) + 64;
  void* const memory =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* const rows = static_cast<std::int8_t*>(memory);
  std::int8_t dense[2][64];
  for (int i = 0; i < 128; ++i) dense[i / 64][i % 64] = static_cast<std::int8_t>(i - 60);
  Engine engine(Device::cpu());
  const OutputView apart(rows, DType::i8, {2, 64}, {kStep, 1});
  engine.launch(Epilogue::parse("x + 1"), nullptr, apart, {TensorView(dense, DType::i8, {2, 64})});
  std::int8_t back[2][64] = {};
  // Read from the far row on.
  engine.launch(Epilogue::parse("-x"), nullptr, OutputView(back, DType::i8, {2, 64}),
                {TensorView(rows + kStep, DType::i8, {2, 64}, {-kStep, 1})});
  for (int i = 0; i < 128; ++i) ASSERT_EQ(back[1 - i / 64][i % 64], -(i - 60 + 1)) << i;
  munmap(memory, kBytes);
}

TEST(CpuDevice, EveryCodeOfSmallTypes) { expect_all(small_type_cases(), 0); }
TEST(CpuDevice, TailsOverAllValues) { expect_all(tails_over_all_values(), 0); }

TEST(CpuDevice, RandomReductionsAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(9);
  expect_all(random_reductions(seed, 6'000, 4, 800), seed);
}

TEST(CpuDevice, LargeRandomReductions) {
  const std::uint64_t seed = test_seed(10);
  expect_all(random_reductions(seed, 60, 2, 60'000), seed);
}

TEST(CpuDevice, RandomSegmentsOfRows) {
  const std::uint64_t seed = test_seed(11);
  expect_all(random_segment_cases(seed, 400, 4, 800), seed);
}

TEST(CpuDevice, LaneSegments) {
  const std::uint64_t seed = test_seed(12);
  std::vector<Case> cases = lane_segment_cases();
  for (const Case& test : random_lane_segment_cases(seed, 400, 4, 2000)) cases.push_back(test);
  expect_all(cases, seed);
}

TEST(CpuDevice, SegmentsOfRows) { expect_all(segment_cases(), 0); }

TEST(CpuDevice, SegmentMeans) { expect_all(segment_mean_cases(2), 0); }

TEST(CpuDevice, FixedReductions) { expect_all(reduction_cases(), 0); }

TEST(CpuDevice, ErrorsInUlp) {
  Engine engine(Device::cpu());
  const std::vector<UlpRow> rows = sweep_ulps(engine, 400'000);
  std::printf("%s", to_table(rows).c_str());
  for (const UlpRow& row : rows)
    EXPECT_LE(row.worst, row.allowed) << row.name << " at " << row.at[0] << ", " << row.at[1];
}

}  // namespace
}  // namespace epifuse::test
