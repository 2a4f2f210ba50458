// Random chains, shapes, strides, types and alignments, executed from emitted text on the CPU and compared with the oracle.
#include <gtest/gtest.h>

#include <cstdio>

#include "emitted/workshop.hpp"
#include "support/engine_runner.hpp"

namespace epifuse::test {
namespace {

constexpr std::size_t kCases = 2400;
constexpr int kCasesPerFamily = 8;
constexpr int kElements = 1500;

TEST(EmittedText, RandomCasesAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(20261121);
  std::printf("seed %llu\n",
              static_cast<unsigned long long>(seed));  // before all else: a sanitizer may end the process
  Workshop workshop;
  for (Case& test : random_cases(seed, kCases, kCasesPerFamily, kElements)) workshop.add(std::move(test));
  EXPECT_EQ(workshop.ambiguous_classes(), 0u) << "equal classes of plan and chain gave different sources";

  const WorkshopReport report = workshop.run();
  const auto percent = [&](std::uint64_t part) {
    return 100.0 * static_cast<double>(part) / static_cast<double>(report.coverage.elements);
  };
  std::printf(
      "%zu cases, %zu kernels (%.0f s of compiler), %llu results: %.0f%% judged to the bit, %.1f%% not at all; seed "
      "%llu\n",
      report.cases, report.kernels, report.compile_seconds, static_cast<unsigned long long>(report.coverage.elements),
      percent(report.coverage.exact), percent(report.coverage.anything), static_cast<unsigned long long>(seed));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure << "EPIFUSE_TEST_SEED=" << seed;
  EXPECT_GT(percent(report.coverage.exact), 50);
  EXPECT_LT(percent(report.coverage.anything), 15);
}

}  // namespace
}  // namespace epifuse::test
