// What is said of plans of chains with reductions: bytes, passes, limits, and why.
#include <gtest/gtest.h>

#include <ctime>

#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"
#include "plan/explain.hpp"
#include "plan/plans.hpp"
#include "support/as_written.hpp"

namespace epifuse::plan {
namespace {

PlanSummary summary_of(const std::string& chain, const std::vector<TensorView>& inputs, const PlanTarget& target = {}) {
  const Epilogue tail = test::as_written(chain);
  return Inspection(tail, results_of(tail.program(), inputs), inputs, target).plan();
}

TEST(Summary, CountsBytesAndPasses) {
  const PlanSummary held = summary_of("softmax(x, -1)", {in(DType::f16, {512, 4096})});
  ASSERT_TRUE(held.reduction);
  EXPECT_EQ(held.schedule, "resident");
  EXPECT_EQ(held.reduction->rows, 512);
  EXPECT_EQ(held.reduction->row_length, 4096);
  EXPECT_TRUE(held.reduction->held.empty());
  EXPECT_EQ(held.reduction->saved, std::vector<std::string>{"%3 (exp)"});
  ASSERT_EQ(held.reduction->passes.size(), 2U);
  EXPECT_EQ(held.reduction->passes[0].accumulates, std::vector<std::string>{"max_sumexp of x"});
  EXPECT_EQ(held.reduction->passes[0].reads, std::vector<std::string>{"x"});
  EXPECT_TRUE(held.reduction->passes[1].reads.empty());
  EXPECT_EQ(held.reduction->passes[1].writes, std::vector<std::string>{"out"});
  EXPECT_EQ(held.bytes_read, 512U * 4096 * 2);
  EXPECT_EQ(held.bytes_read_again, 0U);
  EXPECT_EQ(held.workspace_bytes, 0U);

  const PlanSummary shared = summary_of("group_norm(gelu(x), 8)", {in(DType::f32, {128, 64, 258, 258})});
  ASSERT_TRUE(shared.reduction);
  EXPECT_EQ(shared.schedule, "split_resident");
  EXPECT_GT(shared.reduction->blocks_per_row, 8);
  EXPECT_EQ(shared.reduction->held_in, "shared memory");
  EXPECT_EQ(shared.operands[0].reads, 1);
  EXPECT_EQ(shared.bytes_read_again, 0U);
  EXPECT_GT(shared.workspace_bytes, 0U);
  EXPECT_EQ(summary_of("group_norm(x, 32)", {in(DType::f16, {1, 512, 360, 640})}).reduction->held,
            std::vector<std::string>{"x"});

  const PlanSummary split = summary_of("group_norm(x, 8)", {in(DType::f32, {1, 64, 1024, 1024})});
  ASSERT_TRUE(split.reduction);
  EXPECT_EQ(split.schedule, "split");
  EXPECT_GT(split.reduction->blocks_per_row, 1);
  EXPECT_TRUE(split.reduction->held.empty());
  EXPECT_EQ(split.reduction->passes[1].reads, std::vector<std::string>{"x"});
  EXPECT_EQ(split.operands[0].reads, 2);
  EXPECT_EQ(split.bytes_read_again, split.bytes_read);
  EXPECT_GT(split.workspace_bytes, 0U);
  EXPECT_LE(split.reduction->bytes_under_way, split.bytes_read);

  EXPECT_FALSE(summary_of("relu(x)", {in(DType::f32, {100})}).reduction);
}

TEST(Summary, ReducedResultsCountTheirOwnBytes) {
  const PlanSummary plan = summary_of("return mean(x, -1), amax(x)", {in(DType::f32, {300, 1000})});
  EXPECT_EQ(plan.bytes_read, 300U * 1000 * 4);
  EXPECT_EQ(plan.bytes_written, 300U * 4 + 4);
  // A reduced operand too: one element per row, read once.
  const PlanSummary scaled = summary_of("softmax(x * s, -1)", {in(DType::f32, {300, 1000}), in(DType::f32, {300, 1})});
  EXPECT_EQ(scaled.operands[1].bytes, 300U * 4);
  EXPECT_EQ(scaled.operands[1].reads, 1);
}

TEST(Summary, FollowsTheTarget) {
  const std::vector<TensorView> inputs = {in(DType::f32, {4096, 131'072})};
  const PlanSummary hopper = summary_of("softmax(x, -1)", inputs, {90, 132});
  const PlanSummary ampere = summary_of("softmax(x, -1)", inputs, {80, 108});
  EXPECT_GT(hopper.reduction->cluster_blocks, 1);
  EXPECT_EQ(ampere.reduction->cluster_blocks, 1);
  EXPECT_EQ(ampere.schedule, "split_resident");
  EXPECT_EQ(summary_of("softmax(x, -1)", inputs, {75, 40}).schedule, "split");  // nothing is copied without registers
}

TEST(Summary, TextSaysWhatLimitsAKernel) {
  const std::vector<TensorView> inputs = {in(DType::f16, {4096, 4096})};
  const Epilogue tail = Epilogue::parse("softmax(x, -1)");
  const Inspection inspection(tail, results_of(tail.program(), inputs), inputs);
  const auto has = [](const std::string& text, std::string_view segment) { return text.find(segment) != text.npos; };
  const auto text = [&](const KernelResources& used) { return inspection.plan_text(3e12, used); };
  EXPECT_TRUE(has(text({90, 64, 100, 0}), "limited by registers"));
  EXPECT_TRUE(has(text({90, 16, 100, 0}), "limited by threads"));
  EXPECT_TRUE(has(text({90, 16, 100'000, 0}), "limited by shared memory"));
  EXPECT_TRUE(has(text({90, 64, 100, 12}), "12 bytes spilled"));
  EXPECT_FALSE(has(text({}), "in flight"));
  EXPECT_TRUE(has(text({}), "max_sumexp of x"));
}

TEST(Summary, SaysWhatSegmentsLanesHold) {
  const std::string chain = "h = x + r; q, s = mx_quantize(rms_norm(h, w, eps=1e-6), f8e4m3); return h, q, s";
  const Dims shape = {4096, 7168};
  const std::vector<TensorView> inputs = {in(DType::bf16, shape), in(DType::bf16, shape), in(DType::bf16, {7168})};
  const PlanSummary plan = summary_of(chain, inputs);
  ASSERT_TRUE(plan.reduction);
  EXPECT_TRUE(plan.reduction->lane_segments);
  EXPECT_EQ(plan.reduction->segments_per_row, 224);
  EXPECT_EQ(plan.reduction->segment_length, 32);
  EXPECT_EQ(plan.reduction->segment_lanes, 4);
  ASSERT_EQ(plan.reduction->passes.size(), 2U);
  EXPECT_EQ(plan.reduction->passes[1].reads, std::vector<std::string>{"w"});
  ASSERT_EQ(plan.reduction->passes[1].accumulates.size(), 1U);
  EXPECT_NE(plan.reduction->passes[1].accumulates[0].find("maximum of"), std::string::npos);
  EXPECT_EQ(plan.reduction->passes[1].writes, (std::vector<std::string>{"h", "q", "s"}));
  EXPECT_EQ(plan.bytes_read_again, 0U);
  EXPECT_EQ(plan.workspace_bytes, 0U);
  EXPECT_EQ(plan.bytes_written, (4096U * 7168 * 2 + 4096U * 224) * 2);  // all results in bf16
  // A row of blocks that form a cluster; without clusters it is refused (refusals_test.cpp).
  const std::vector<TensorView> wide = {in(DType::bf16, {64, 65'536}), in(DType::bf16, {64, 65'536}),
                                        in(DType::bf16, {65'536})};
  EXPECT_EQ(summary_of(chain, wide).reduction->cluster_blocks, 4);
}

TEST(Summary, SaysWhatSegmentsARowHas) {
  const std::vector<TensorView> inputs = floats({{1024, 16, 13, 29, 29}, {16}, {16}});
  const PlanSummary plan = summary_of("mean(relu(group_norm(x, 4, w, b)), (2, 3, 4))", inputs);
  ASSERT_TRUE(plan.reduction);
  EXPECT_EQ(plan.reduction->segments_per_row, 4);
  EXPECT_EQ(plan.reduction->segment_length, 13 * 29 * 29);
  EXPECT_EQ(plan.reduction->segment_lanes, 0);
  ASSERT_EQ(plan.reduction->passes.size(), 2U);
  EXPECT_EQ(plan.reduction->passes[1].writes, std::vector<std::string>{"out"});
  EXPECT_NE(plan.reduction->passes[1].accumulates[0].find("by segment"), std::string::npos);
  EXPECT_EQ(plan.bytes_read_again, 0U);
  EXPECT_EQ(plan.bytes_written, 1024U * 16 * 4);
  const PlanSummary segment_means = summary_of("mean(group_norm(hardswish(x), 4, w, b), (2, 3, 4))", inputs);
  ASSERT_EQ(segment_means.reduction->passes.size(), 1U);
  EXPECT_EQ(segment_means.reduction->passes[0].reads, (std::vector<std::string>{"x", "w", "b"}));
  EXPECT_NE(segment_means.reduction->passes[0].accumulates.back().find("by segment"), std::string::npos);
  EXPECT_EQ(segment_means.reduction->passes[0].writes, std::vector<std::string>{"out"});
  EXPECT_EQ(segment_means.reduction->rows_per_block, 1);
  const PlanSummary across =
      summary_of("mean(group_norm(x, 8, w, b), (1, 2, 3, 4))", floats({{128, 24, 22, 30, 30}, {24}, {24}}));
  EXPECT_EQ(across.reduction->rows_per_block, 8);
  EXPECT_EQ(across.reduction->shared_by, "4 warps");
  EXPECT_GT(across.reduction->rounds, 1);
}

TEST(Summary, SaysWhatIsTransposed) {
  const PlanSummary plan = summary_of("instance_norm(x)", {channels_last(DType::f16, {16, 64, 126, 126})});
  EXPECT_NE(plan.operands[1].why.find("transposed in shared memory"), std::string::npos) << plan.operands[1].why;
  EXPECT_EQ(plan.operands[1].bytes_per_access, 8);
}

TEST(Summary, ExplainsPlansWithoutElements) {
  for (const Dims& shape : {Dims{0, 5}, Dims{5, 0}, Dims{0, 0}}) {
    const std::vector<TensorView> inputs = {in(DType::f32, shape)};
    const Epilogue tail = Epilogue::parse("sum(x, -1)");
    const Inspection inspection(tail, results_of(tail.program(), inputs), inputs);
    EXPECT_NE(inspection.plan_text(3e12, {90, 32, 0, 0}).find("class"), std::string::npos) << to_string(shape);
    EXPECT_EQ(inspection.plan().bytes_read, 0U);
  }
}

// What keeps a row from being held is said as it was found: not its length, where rows in short runs are read together.
TEST(Summary, SaysWhyNobodyHoldsTheRows) {
  const auto why = [](const char* chain, const std::vector<TensorView>& inputs, const OutputView& output) {
    return Inspection(test::as_written(chain), std::span(&output, 1), inputs).plan().why;
  };
  const auto says = [](const std::string& text, const std::string& segment) {
    EXPECT_NE(text.find(segment), std::string::npos) << text;
  };
  const Dims shape = {32, 320, 64, 64};
  const TensorView images = channels_last(DType::f16, shape);
  const std::string runs = why("group_norm(x, 32, w, b)", {images, in(DType::f32, {320}), in(DType::f32, {320})},
                               OutputView(nullptr, DType::f16, shape, images.strides));
  says(runs, "8 rows of 40960 elements, which lie side by side in runs of 10, are read together");
  EXPECT_EQ(runs.find("more than a cluster of blocks holds"), std::string::npos) << runs;
  const auto dense = [&](const char* chain, const Dims& x, const Dims& out) {
    return why(chain, {in(DType::f32, x)}, OutputView(nullptr, DType::f32, out));
  };
  says(dense("mean(x, axis=-1)", {4096, 400'000}, {4096}), "more than the registers of a block hold, but one pass");
  says(dense("softmax(x, axis=1)", {64, 100'000, 64}, {64, 100'000, 64}), "registers of a cluster of blocks");
  says(dense("softmax(x, axis=1)", {4096, 400'000}, {4096, 400'000}), "shared memory in each of 8 blocks");
  says(dense("mean(x, axis=-1)", {4, 16'384}, {4}), "4 rows for 132 multiprocessors");
}

// Planning and explaining a chain of thousands of reductions; time of the processor, not of a clock.
TEST(Summary, TakesTimeInProportionToTheChain) {
  const auto seconds = [](int times) {
    std::string text = "t = x; ";
    for (int i = 0; i < times; ++i) text += "t = t * sum(t, axis=-1, keepdim=true); ";
    const ir::Program program = Epilogue::parse(text + "return t").program();
    const std::vector<TensorView> inputs = floats({{64, 128}});
    const std::vector<OutputView> outputs = results_of(program, inputs);
    const std::clock_t start = std::clock();
    const Plan plan = make_plan(program, outputs, inputs, Views::abstract);
    EXPECT_EQ(summarise(program, plan, outputs, inputs, {}).reduction->passes.size(),
              static_cast<std::size_t>(times) + 1);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  const double of_few = seconds(250);
  EXPECT_LT(seconds(1000), 20 * of_few + 0.1);  // cubic: 64 times
}

}  // namespace
}  // namespace epifuse::plan
