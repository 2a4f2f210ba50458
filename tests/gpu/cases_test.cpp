// The random and the deterministic cases on the GPU, and its errors in ulp.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "gpu/device.hpp"
#include "gpu/shards.hpp"
#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"
#include "support/lane_segment_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/reduction_cases.hpp"
#include "support/segment_cases.hpp"
#include "support/ulp.hpp"

namespace epifuse::test {
namespace {

class Cases : public OnGpu {
 protected:
  // In as many processes as there are cores, two threads in each: one compiles while the other judges.
  void expect_all(const std::string& name, const std::vector<Case>& cases, std::uint64_t seed) {
    const Shard shard = Shard::current();
    if (shard.is_parent()) {
      const int count = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
      EXPECT_EQ(run_shards("Cases." + name, count), 0)
          << "processes failed; their messages stand above. EPIFUSE_TEST_SEED=" << seed;
      return;
    }
    const RunReport report = run_all(engine(), shard.share(cases), 2);
    const EngineStats stats = engine().stats();
    std::printf("%s %d/%d: %s; %llu kernels, %.1f s of NVRTC; seed %llu\n", name.c_str(), shard.index + 1, shard.count,
                summary(report).c_str(), static_cast<unsigned long long>(stats.kernels), stats.compile_ms / 1000,
                static_cast<unsigned long long>(seed));
    for (const std::string& failure : report.failures) ADD_FAILURE() << failure << "EPIFUSE_TEST_SEED=" << seed;
  }
};

TEST_F(Cases, RandomAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(80);
  expect_all("RandomAgreeWithTheOracle", random_cases(seed, 3600, 4, 3000), seed);
}

TEST_F(Cases, RandomReductionsAgreeWithTheOracle) {
  const std::uint64_t seed = test_seed(81);
  expect_all("RandomReductionsAgreeWithTheOracle", random_reductions(seed, 2400, 4, 3000), seed);
}

TEST_F(Cases, LongRandomReductions) {
  const std::uint64_t seed = test_seed(82);
  expect_all("LongRandomReductions", random_reductions(seed, 400, 4, 100'000), seed);
}

// Clusters hold the longest of their rows; what has none refuses these.
TEST_F(Cases, SegmentsOfRows) {
  const int architecture = system_report().devices.at(0).architecture;
  if (architecture < 90 || architecture / 10 == 12) GTEST_SKIP() << "no clusters: sm_" << architecture;
  const std::uint64_t seed = test_seed(83);
  std::vector<Case> cases = segment_cases();
  for (const Case& test : random_segment_cases(seed, 600, 4, 6000)) cases.push_back(test);
  expect_all("SegmentsOfRows", cases, seed);
}

TEST_F(Cases, LaneSegments) {
  const std::uint64_t seed = test_seed(84);
  std::vector<Case> cases = lane_segment_cases();
  for (const Case& test : random_lane_segment_cases(seed, 600, 4, 6000)) cases.push_back(test);
  expect_all("LaneSegments", cases, seed);
}

// Rows for all multiprocessors.
TEST_F(Cases, SegmentMeans) { expect_all("SegmentMeans", segment_mean_cases(150), 0); }

TEST_F(Cases, FixedReductions) { expect_all("FixedReductions", reduction_cases(), 0); }

TEST_F(Cases, Fixed) { expect_all("Fixed", fixed_cases(4), 0); }

TEST_F(Cases, EveryValueOfSmallTypes) {
  std::vector<Case> cases = small_type_cases();
  for (const Case& tail : tails_over_all_values()) cases.push_back(tail);
  expect_all("EveryValueOfSmallTypes", cases, 0);
}

TEST_F(Cases, ErrorsInUlp) {
  const std::vector<UlpRow> rows = sweep_ulps(engine(), 1'000'000);
  std::printf("%s", to_table(rows).c_str());
  for (const UlpRow& row : rows)
    EXPECT_LE(row.worst, row.allowed) << row.name << " at " << row.at[0] << ", " << row.at[1];
}

}  // namespace
}  // namespace epifuse::test
