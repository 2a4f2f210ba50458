// Random chains, shapes, strides, types and alignments, executed from emitted text on the CPU and compared with the
// oracle.
#include <gtest/gtest.h>

#include <cstdio>

#include "emitted/workshop.hpp"
#include "support/engine_runner.hpp"
#include "support/gradient_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/segment_cases.hpp"

namespace epifuse::test {
namespace {

// CI has 90 minutes for all tests; the GPU runs 3600 and 2400 such cases, the soak any number.
constexpr std::size_t kCases = 600;
constexpr std::size_t kReductions = 300;
constexpr int kCasesPerFamily = 8;
constexpr int kElements = 1500;

// Shares of the results, in percent: at least `exact` judged to the bit, at most `anything` not at all.
void expect_all(Workshop& workshop, std::uint64_t seed, double exact, double anything) {
  EXPECT_EQ(workshop.ambiguous_classes(), 0u) << "equal classes of plan and chain gave different sources";

  const WorkshopReport report = workshop.run();
  const auto percent = [&](std::uint64_t segment) {
    return 100.0 * static_cast<double>(segment) / static_cast<double>(report.coverage.elements);
  };
  std::printf(
      "%zu cases, %zu kernels (%.0f s of compiler), %llu results: %.0f%% judged to the bit, %.1f%% not at all; seed "
      "%llu\n",
      report.cases, report.kernels, report.compile_seconds, static_cast<unsigned long long>(report.coverage.elements),
      percent(report.coverage.exact), percent(report.coverage.anything), static_cast<unsigned long long>(seed));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure << "EPIFUSE_TEST_SEED=" << seed;
  EXPECT_GT(percent(report.coverage.exact), exact);
  EXPECT_LT(percent(report.coverage.anything), anything);
}

void expect_all(const std::vector<Case>& cases, std::uint64_t seed, double exact, double anything) {
  Workshop workshop;
  for (const Case& test : cases) workshop.add(test);
  expect_all(workshop, seed, exact, anything);
}

// Printed before all else: a sanitizer may end the process.
std::uint64_t announced_seed(std::uint64_t usual) {
  const std::uint64_t seed = test_seed(usual);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

TEST(EmittedText, RandomCasesAgreeWithTheOracle) {
  const std::uint64_t seed = announced_seed(20261121);
  expect_all(random_cases(seed, kCases, kCasesPerFamily, kElements), seed, 50, 15);
}

TEST(EmittedText, RandomReductionsAgreeWithTheOracle) {
  const std::uint64_t seed = announced_seed(20261122);
  expect_all(random_reductions(seed, kReductions, kCasesPerFamily, kElements), seed, 25, 5);
}

// Rows that a block or a cluster shares.
TEST(EmittedText, LongRandomReductions) {
  const std::uint64_t seed = announced_seed(20261123);
  expect_all(random_reductions(seed, 60, 2, 20'000), seed, 15, 10);
}

TEST(EmittedText, RandomSegmentsOfRows) {
  const std::uint64_t seed = announced_seed(20261124);
  expect_all(random_segment_cases(seed, 60, 3, 4000), seed, 5, 10);
}

TEST(EmittedText, RandomGradientsAgreeWithTheOracle) {
  const std::uint64_t seed = announced_seed(20261126);
  Workshop workshop;
  for (const Case& test : random_gradients(seed, 550, kElements)) workshop.add(test);
  EXPECT_GE(workshop.kernels(), 500U);
  expect_all(workshop, seed, 25, 5);
}

// Planned for a small device, so that few rows are enough for all multiprocessors.
TEST(EmittedText, RandomSegmentMeans) {
  const std::uint64_t seed = announced_seed(20261125);
  Workshop workshop;
  for (const Case& test : random_segment_mean_cases(seed, 60, 3, 4000)) workshop.add(test, plan::Machine(90, 1));
  EXPECT_GT(workshop.kernels_with("reduce_by_segments") * 4, workshop.kernels());
  expect_all(workshop, seed, 5, 10);
}

}  // namespace
}  // namespace epifuse::test
