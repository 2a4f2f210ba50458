// Rows that blocks hold in shared memory: how they are cut into chunks.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include <epifuse/epifuse.hpp>

#include "plan/plan.hpp"
#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

// A part that holds next to nothing makes all others of its row wait: one group of 25 idles at most.
TEST(SplitResident, ChunksAreFull) {
  std::mt19937_64 random(20261122);
  const auto idle_share = [](const Plan& plan) {
    const KernelClass& kernel = plan.kernel_class;
    const std::int64_t groups = plan.chunks * kernel.steps * kernel.threads;
    return static_cast<double>(groups - plan.row_vectors) / static_cast<double>(plan.row_vectors);
  };
  std::set<int> steps;
  for (int i = 0; i < 2000; ++i) {
    const std::int64_t length = std::uniform_int_distribution<std::int64_t>(600'000, 3'500'000)(random) / 8 * 8;
    const Plan plan = plan_of("rms_norm(silu(x))", {in(i % 2 == 0 ? DType::f32 : DType::f16, {256, length})});
    ASSERT_EQ(plan.kernel_class.schedule(), "split_resident") << length;
    EXPECT_LE(idle_share(plan), 0.04) << length;
    steps.insert(plan.kernel_class.steps);
  }
  EXPECT_LE(steps.size(), 8U);  // few kernels for all shapes
}

// Blocks of a row wait for each other: two rows of 15 MB just fit an H100, and of longer ones not even two.
TEST(SplitResident, AreSeveralOnTheDevice) {
  const Plan held = plan_of("silu(group_norm(x, 32))", {in(DType::f32, {1, 512, 360, 640})});
  ASSERT_EQ(held.kernel_class.schedule(), "split_resident");
  EXPECT_LE(held.chunks * 2, std::int64_t{132} * (233'472 / (held.shared_bytes + 1'024)));
  EXPECT_EQ(plan_of("silu(group_norm(x, 32))", {in(DType::f32, {1, 512, 400, 640})}).kernel_class.schedule(), "split");
}

// Devices of the same shared memory, which is what decides, take the same segments.
TEST(SplitResident, AreWhatAMultiprocessorHasSpaceFor) {
  const auto plan_for = [](int architecture) {
    return plan_of("silu(group_norm(x, 32))", {in(DType::f32, {1, 512, 360, 640})}, {architecture, 132});
  };
  for (const int architecture : {100, 103, 110})
    EXPECT_EQ(plan_for(architecture).kernel_class, plan_for(90).kernel_class);
  EXPECT_EQ(plan_for(120).kernel_class.schedule(), "split");
}

}  // namespace
}  // namespace epifuse::plan
