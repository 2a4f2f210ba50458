// What later blocks read is asked for ahead of time: by which kernels, and how far ahead.
#include <gtest/gtest.h>

#include <epifuse/epifuse.hpp>

#include "plan/plan.hpp"
#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

bool asks(const Plan& plan) { return plan.kernel_class.reduction()->prefetches(); }

// Some megabytes, whatever one block reads: more would be written over before they are read.
TEST(Prefetch, AboutThreeMegabytes) {
  for (const std::int64_t length : {300, 1024, 5000, 16384, 50257, 131072}) {
    for (const DType type : {DType::f32, DType::f16}) {
      const std::int64_t rows = (std::int64_t{1} << 28) / length;
      const Plan plan = plan_of("softmax(x, -1)", {in(type, {rows, length})});
      ASSERT_TRUE(asks(plan)) << length;
      const double of_block = static_cast<double>(rows * length) * static_cast<double>(size_of(type)) / plan.blocks;
      EXPECT_GT(static_cast<double>(plan.prefetch_distance) * of_block, 2e6) << length;
      EXPECT_LT(static_cast<double>(plan.prefetch_distance) * of_block, 4e6) << length;
      EXPECT_EQ(plan.prefetch_distance % plan.kernel_class.reduction()->cluster(), 0)
          << length;  // the same block of a later cluster
    }
  }
}

TEST(Prefetch, KernelsOfAnyBatchPrefetch) {
  for (const std::int64_t rows : {1, 64, 4096, 1 << 20})
    EXPECT_TRUE(asks(plan_of("softmax(x, -1)", {in(DType::f32, {rows, 1024})}))) << rows;
}

TEST(Prefetch, OnlyWhereMemoryWouldWait) {
  const auto of = [](const std::string& chain, DType type, const Dims& shape) {
    return asks(plan_of(chain, {in(type, shape)}));
  };
  EXPECT_FALSE(of("mean(x, -1)", DType::f32, {16384, 8192}));  // nothing is written beside it
  EXPECT_TRUE(of("x / mean(x, -1, true)", DType::f32, {16384, 8192}));
  EXPECT_TRUE(of("silu(group_norm(x, 32))", DType::f32, {1, 512, 360, 640}));  // blocks that hold chunks of rows
  EXPECT_TRUE(of("softmax(x, axis=1)", DType::f16, {16, 64, 32, 4096}));       // of outer reductions
  EXPECT_FALSE(of("softmax(x, axis=1)", DType::f32, {16, 64, 32, 4096}));      // where f32 asks for much as it is
  EXPECT_FALSE(of("softmax(x, axis=1)", DType::f16, {128, 128, 129, 129}));    // lines begin anywhere
  EXPECT_FALSE(of("softmax(x, axis=-1)", DType::f32, {8, 33'554'432}));        // read twice, by tickets
  EXPECT_FALSE(of("layer_norm(x)", DType::f16, {1 << 20, 64}));                // blocks of 2 kB
  // Weights of rows in clusters come from the L2 cache, which has no space for more.
  const TensorView x = in(DType::f16, {2048, 65536});
  const TensorView weight = in(DType::f16, {65536});
  EXPECT_TRUE(asks(plan_of("rms_norm(x)", {x})));
  EXPECT_FALSE(asks(plan_of("rms_norm(x, w)", {x, weight})));
  EXPECT_TRUE(asks(plan_of("rms_norm(x, w)", {in(DType::f16, {8192, 4096}), in(DType::f16, {4096})})));
}

// What is little begins at once; its kernel is that of more.
TEST(Prefetch, NothingIsPrefetchedForSmallTensors) {
  const Plan small = plan_of("softmax(x, -1)", {in(DType::f32, {2048, 1024})});
  const Plan large = plan_of("softmax(x, -1)", {in(DType::f32, {32768, 1024})});
  EXPECT_EQ(small.kernel_class, large.kernel_class);
  EXPECT_GE(small.prefetch_distance, small.blocks);
  EXPECT_LT(large.prefetch_distance, large.blocks);
}

// Two rows of 15 MB fill the device: what comes ahead must outlast what the others read and write.
TEST(Prefetch, LongResidentRowsLeaveTheCacheToWhatComes) {
  const auto streams = [](const Dims& shape) {
    return plan_of("silu(group_norm(x, 32))", {in(DType::f32, shape)}).kernel_class.reduction()->l2_evict_first();
  };
  EXPECT_TRUE(streams({1, 512, 360, 640}));
  EXPECT_FALSE(streams({64, 512, 160, 160}));
}

}  // namespace
}  // namespace epifuse::plan
