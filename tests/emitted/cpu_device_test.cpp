// The CPU device over the random and the deterministic cases, and its errors in ulp.
#include <gtest/gtest.h>

#include <cstdio>
#include <thread>

#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/reduction_cases.hpp"
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

// Enough elements that a launch is shared among threads.
TEST(CpuDevice, LargeRandomCases) {
  const std::uint64_t seed = test_seed(8);
  expect_all(random_cases(seed, 40, 2, 300'000), seed);
}

TEST(CpuDevice, FixedCases) { expect_all(fixed_cases(static_cast<int>(kAllDTypes.size())), 0); }

TEST(CpuDevice, EveryCodeOfSmallTypes) { expect_all(small_type_cases(), 0); }

TEST(CpuDevice, RandomReductionsAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(9);
  expect_all(random_reductions(seed, 6'000, 4, 800), seed);
}

TEST(CpuDevice, LargeRandomReductions) {
  const std::uint64_t seed = test_seed(10);
  expect_all(random_reductions(seed, 60, 2, 60'000), seed);
}

TEST(CpuDevice, FixedReductions) {
  std::vector<Case> cases = reduction_cases();
  for (const TailCase& tail : reduction_tails()) {
    if (tail.id == kTailOfTwoKernels) cases.push_back(tail.test);
  }
  expect_all(cases, 0);
}

TEST(CpuDevice, ErrorsInUlp) {
  Engine engine(Device::cpu());
  const std::vector<UlpRow> rows = sweep_ulps(engine, 400'000);
  std::printf("%s", to_table(rows).c_str());
  for (const UlpRow& row : rows)
    EXPECT_LE(row.worst, row.allowed) << row.name << " at " << row.at[0] << ", " << row.at[1];
}

}  // namespace
}  // namespace epifuse::test
