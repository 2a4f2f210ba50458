// Plans of chains with reductions: what a pass is for, who shares a row, which shapes share a kernel.
// Promises are tested, not the policy's numbers.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include <epifuse/epifuse.hpp>

#include "codegen/emit.hpp"
#include "ir/program.hpp"
#include "plan/plan.hpp"
#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

Structure structure_of(const std::string& chain, const std::vector<Dims>& shapes) {
  const ir::Program program = Epilogue::parse(chain).program();
  const std::vector<TensorView> inputs = floats(shapes);
  return analyse(program, plan::bind(program, results_of(program, inputs), inputs, Views::abstract));
}

// Of the first shapes as many as the chain has operands.
std::optional<Structure> segment_means_of(const std::string& chain, std::vector<Dims> shapes) {
  const ir::Program program = Epilogue::parse(chain).program();
  shapes.resize(program.inputs().size());
  const std::vector<TensorView> inputs = floats(shapes);
  const Space space = plan::bind(program, results_of(program, inputs), inputs, Views::abstract);
  return analyse_segment_means(program, space, analyse(program, space).reduced);
}

std::string source_of(const std::string& chain, const std::vector<TensorView>& inputs) {
  const ir::Program program = Epilogue::parse(chain).program();
  const Plan plan = make_plan(program, results_of(program, inputs), inputs, Views::abstract);
  return codegen::emit(program, plan.kernel_class, plan.space.input_kinds());
}

// ---- structure

std::vector<AccumulatorKind> kinds(const Structure& structure) {
  std::vector<AccumulatorKind> list;
  for (const Accumulator& a : structure.accumulators) list.push_back(a.kind);
  return list;
}
using enum AccumulatorKind;
using Kinds = std::vector<AccumulatorKind>;

TEST(Structures, PassesAndAccumulators) {
  struct Row {
    const char* chain;
    int passes;
    Kinds accumulators;
  };
  const std::vector<Row> rows = {
      {"sum(x, -1)", 1, {sum}},
      {"softmax(x, -1)", 2, {max_sumexp}},
      {"log_softmax(x, -1)", 2, {max_sumexp}},
      {"logsumexp(x, -1)", 1, {max_sumexp}},
      {"layer_norm(x)", 2, {moments}},
      {"rms_norm(x)", 2, {sum}},
      {"return mean(x, -1), var(x, -1)", 1, {moments}},
      {"return mean(x, -1), amax(x, -1), amin(x, -1)", 1, {sum, maximum, minimum}},
      {"return any(x > 0, -1), all(x > 0, -1), prod(x, -1)", 1, {any, all, product}},
      {"return sum(x, -1), mean(x, -1)", 1, {sum}},
      {"s = softmax(x, -1); s - mean(s, -1, true)", 3, {max_sumexp, sum}},
      {"x / amax(abs(x), -1, true)", 2, {maximum}},
      {"y = layer_norm(x); return y, amax(abs(y))", 2, {moments, maximum}},
      {"return sum(x, -1), sum(x)", 1, {sum, sum}},
  };
  for (const Row& row : rows) {
    const Structure structure = structure_of(row.chain, {{6, 40}});
    EXPECT_EQ(structure.output_pass + 1, row.passes) << row.chain;
    EXPECT_EQ(kinds(structure), row.accumulators) << row.chain;
  }
}

TEST(Structures, GridReductionsAreMarked) {
  const Structure structure = structure_of("y = rms_norm(x); return y, amax(abs(y))", {{6, 40}});
  ASSERT_EQ(structure.accumulators.size(), 2U);
  EXPECT_FALSE(structure.accumulators[0].grid);
  EXPECT_TRUE(structure.accumulators[1].grid);
  EXPECT_NE(structure.grid, 0U);
  EXPECT_EQ(structure.reduced & structure.grid, 0U);
}

// The mean of each channel of a group norm: a pass of its own, the last but for results that vary within rows.
TEST(Structures, SegmentsAreReducedBehindAllStages) {
  const std::vector<Dims> shapes = {{4, 6, 5, 40}, {6}, {6}};
  const auto structure = [&](const std::string& rest) {
    return structure_of("y = group_norm(x, 2, w, b); " + rest, shapes);
  };
  const Structure mean = structure("mean(y, (2, 3))");
  EXPECT_EQ(kinds(mean), (Kinds{moments, sum}));
  EXPECT_EQ(mean.stages, 1);
  EXPECT_EQ(mean.output_pass, 1);
  EXPECT_TRUE(mean.has_segments());
  EXPECT_FALSE(mean.has_write_pass());
  EXPECT_FALSE(mean.accumulators[0].segment);
  EXPECT_TRUE(mean.accumulators[1].segment);
  EXPECT_EQ(mean.nodes.back().scope, Scope::segment);
  const Structure beside = structure("return y, mean(y, (2, 3)), var(y, (2, 3)), amax(y)");
  EXPECT_EQ(kinds(beside), (Kinds{moments, moments, maximum}));
  EXPECT_EQ(beside.output_pass, 2);
  EXPECT_TRUE(beside.has_write_pass());
  // All of a row, or a single element, is no segment.
  EXPECT_FALSE(structure("mean(unflatten(y, 1, (2, -1)), (2, 3, 4))").has_segments());
  EXPECT_FALSE(structure_of("mean(group_norm(x, 2), (2, 3))", {{4, 2, 5, 40}}).has_segments());
  EXPECT_FALSE(structure_of("mean(group_norm(x, 2), (2, 3))", {{4, 6, 1, 1}}).has_segments());
}

// What a mean is taken of follows from other means by factors and summands that segments share: no pass comes before
// it.
TEST(Structures, MeansOfNormalisedRowsNeedSegmentMeansOnly) {
  const std::vector<Dims> shapes = {{4, 6, 5, 40}, {6}, {6}};
  const auto segment_means = [&](const std::string& chain) { return segment_means_of(chain, shapes); };
  const auto segments = segment_means("mean(group_norm(silu(x), 2, w, b), (2, 3))");
  ASSERT_TRUE(segments);
  EXPECT_EQ(kinds(*segments), (Kinds{moments, sum}));
  EXPECT_TRUE(segments->accumulators[1].segment);
  EXPECT_EQ(segments->accumulators[1].argument, segments->segment_mean_of);
  EXPECT_EQ(segments->output_pass, 0);
  EXPECT_FALSE(segments->has_write_pass());
  EXPECT_EQ(segments->nodes.back().scope, Scope::segment);
  const auto all = segment_means("mean(group_norm(x, 2, w, b), (1, 2, 3))");
  ASSERT_TRUE(all);
  EXPECT_EQ(kinds(*all), (Kinds{moments, sum, sum}));
  EXPECT_TRUE(all->accumulators[1].grid);
  EXPECT_EQ(all->nodes[static_cast<std::size_t>(all->accumulators[1].argument)].scope, Scope::segment);
  EXPECT_TRUE(
      segment_means("d = x - mean(x, (1, 2, 3), true); mean(-d / std(x, axis=(1, 2, 3), keepdim=true), (2, 3))"));
  // Nothing of that kind: the elements are needed, too, or what is taken of them is no factor and summand, or no mean.
  for (const char* chain :
       {"y = group_norm(x, 2, w, b); return y, mean(y, (2, 3))", "mean(relu(group_norm(x, 2, w, b)), (2, 3))",
        "amax(group_norm(x, 2, w, b), (2, 3))",
        "y = group_norm(x, 2, w, b); return mean(y, (2, 3)), var(y, axis=(2, 3))",
        "d = x - mean(x, (1, 2, 3), true); mean(d * d, (2, 3))", "y = group_norm(x, 2); mean(y * x, (2, 3))",
        "mean(group_norm(x, 2, w, b) > 0, (2, 3))", "mean(group_norm(x > 0, 2, w, b), (2, 3))", "mean(x, (2, 3))",
        "mean(unflatten(group_norm(x, 2, w, b), 1, (2, -1)), (2, 3, 4))"})
    EXPECT_FALSE(segment_means(chain)) << chain;
  // A weight for each pixel is none that segments share.
  EXPECT_FALSE(segment_means_of("mean(layer_norm(x, w, b, axis=(1, 2)), 2)", {{4, 6, 50}, {6, 50}, {6, 50}}));
}

TEST(Structures, OneElementIsNoRow) {
  EXPECT_FALSE(structure_of("softmax(x, 1)", {{5, 1, 7}}).has_reductions());
  EXPECT_EQ(plan_of("softmax(x, 1)", floats({{5, 1, 7}})).kernel_class.schedule(), "flat");
}

TEST(Structures, HandwrittenIsTheComposite) {
  const std::vector<std::pair<std::string, std::string>> pairs = {
      {"softmax(x, axis=-1)", "e = exp(x - amax(x, axis=-1, keepdim=true)); e / sum(e, axis=-1, keepdim=true)"},
      {"layer_norm(x, w, b)", "(x - mean(x, -1, true)) * rsqrt(var(x, -1, correction=0, keepdim=true) + 1e-5) * w + b"},
      {"rms_norm(x, w, 1e-6)", "x * rsqrt(mean(square(x), -1, true) + 1e-6) * w"},
  };
  for (const auto& [composite, by_hand] : pairs) {
    std::vector<TensorView> inputs = floats({{64, 1000}});
    while (inputs.size() < Epilogue::parse(composite).inputs().size()) inputs.push_back(in(DType::f32, {1000}));
    EXPECT_EQ(source_of(composite, inputs), source_of(by_hand, inputs)) << composite;
  }
}

TEST(Structures, GroupNormOfChannelsLastReducesTwoPlaces) {
  // [N, C, H, W] with the channels innermost: a group is some channels of all positions.
  const Dims nchw = {4, 64, 10, 12};
  const Dims nhwc = {64 * 120, 1, 64 * 12, 64};
  const ir::Program program = Epilogue::parse("group_norm(x, 8)").program();
  const TensorView x = in(DType::f16, nchw, nhwc);
  const OutputView y(nullptr, DType::f16, nchw, nhwc);
  const Plan plan = make_plan(program, std::span(&y, 1), std::span(&x, 1), Views::abstract);
  ASSERT_TRUE(plan.kernel_class.reduction());
  EXPECT_EQ(plan.rows * plan.row_columns, 4 * 8);
  EXPECT_EQ(plan.row_length, 64 / 8 * 120);
}

// ---- schedules

// Threads of the whole device that share a row.
std::int64_t sharers(const Plan& plan) {
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  return reduction.threads.group * (plan.kernel_class.reduction()->shares_rows() ? plan.chunks : reduction.cluster());
}
// What the threads that share a row hold, or read in a round, in elements along it.
std::int64_t capacity(const Plan& plan) {
  const std::int64_t each = plan.kernel_class.reduction()->layout.inner_reduction ? plan.kernel_class.elements : 1;
  const std::int64_t rounds = plan.kernel_class.schedule() == "resident" ? 1
                              : plan.kernel_class.schedule() == "split"  ? plan.rounds
                                                                         : plan.chunks;
  return sharers(plan) * plan.kernel_class.steps * each * rounds;
}

TEST(Schedules, LongerRowsAreSharedByMore) {
  // Enough rows for any device, of a type and alignment that stay the same.
  std::vector<std::string_view> seen;
  std::set<int> groups;
  std::set<int> clusters;
  std::int64_t before = 0;
  bool staged = false;
  for (std::int64_t length = 8; length <= (1 << 23); length *= 2) {
    const Plan plan = plan_of("softmax(x, -1)", {in(DType::f32, {4096, length})});
    EXPECT_TRUE(plan.kernel_class.reduction()->layout.inner_reduction);
    EXPECT_GE(capacity(plan), length);
    if (plan.kernel_class.schedule() == "resident") {
      if (staged != plan.kernel_class.reduction()->is_in_shared_memory())
        before = 0;  // shared memory holds more for each
      staged = plan.kernel_class.reduction()->is_in_shared_memory();
      EXPECT_GE(sharers(plan), before) << length;
      before = sharers(plan);
      groups.insert(plan.kernel_class.reduction()->threads.group);
      clusters.insert(plan.kernel_class.reduction()->cluster());
      EXPECT_EQ(plan.workspace.bytes, 0U);
    } else {
      EXPECT_GT(plan.workspace.bytes, 0U);
    }
    if (seen.empty() || seen.back() != plan.kernel_class.schedule()) seen.push_back(plan.kernel_class.schedule());
  }
  EXPECT_EQ(seen, (std::vector<std::string_view>{"resident", "split_resident", "split"}));  // in this order, each once
  EXPECT_LT(*groups.begin(), 32);                                                           // part of a warp
  EXPECT_TRUE(groups.contains(32));
  EXPECT_GE(*groups.rbegin(), 128);
  EXPECT_EQ(*clusters.begin(), 1);
  EXPECT_GE(*clusters.rbegin(), 4);
}

TEST(Schedules, RowsOfAnyLengthAreCovered) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    const auto scale = random() % 20;
    const auto length = static_cast<std::int64_t>(2 + random() % (2U << scale));
    const auto rows = static_cast<std::int64_t>(1 + random() % 500);
    const bool across = random() % 2 == 0;
    const DType type = std::array{DType::f32, DType::f16, DType::i8, DType::f64}[random() % 4];
    const auto side = static_cast<std::int64_t>(1 + random() % 300);
    const Plan plan =
        plan_of("layer_norm(x, axis=1)", {in(type, across ? Dims{rows, length, side} : Dims{rows, length})});
    const KernelClass& kernel = plan.kernel_class;
    ASSERT_NE(kernel.reduction(), nullptr);
    EXPECT_EQ(plan.row_length, length);
    EXPECT_EQ(plan.rows * plan.row_columns, rows * (across ? side : 1));
    EXPECT_GE(capacity(plan), length) << to_text(kernel);
    EXPECT_EQ(kernel.threads % 32, 0) << to_text(kernel);
    EXPECT_LE(kernel.threads, 1024);
    EXPECT_LE(kernel.reduction()->cluster(), 16);
    if (kernel.reduction()->layout.inner_reduction) {
      EXPECT_EQ(kernel.threads % kernel.reduction()->threads.group, 0) << to_text(kernel);
    } else {
      EXPECT_EQ(kernel.threads, kernel.reduction()->threads.group * kernel.reduction()->threads.columns)
          << to_text(kernel);
      EXPECT_GE(plan.column_tiles * kernel.reduction()->threads.columns * kernel.elements, side);
    }
  }
}

TEST(Schedules, WithoutClustersLongRowsAreSplit) {
  for (const int architecture : {75, 80, 86, 89, 120}) {
    for (std::int64_t length = 64; length <= (1 << 20); length *= 4) {
      const Plan plan = plan_of("softmax(x, -1)", {in(DType::f32, {4096, length})}, {architecture, 108});
      EXPECT_EQ(plan.kernel_class.reduction()->cluster(), 1) << architecture;
      EXPECT_GE(capacity(plan), length);
    }
  }
}

TEST(Schedules, FewLongRowsFillTheDevice) {
  // GroupNorm at batch 1: 32 rows.
  const Plan few = plan_of("group_norm(x, 32)", {in(DType::f16, {1, 512, 360, 640})});
  EXPECT_EQ(few.rows, 32);
  EXPECT_GT(few.blocks, 4U * 132);
  EXPECT_EQ(plan_of("sum(x)", {in(DType::f32, {1 << 24})}).kernel_class.schedule(), "split");
  // Few short rows are not worth it.
  EXPECT_EQ(plan_of("sum(x, -1)", {in(DType::f32, {4, 256})}).kernel_class.schedule(), "resident");
}

TEST(Schedules, OuterReductionsKeepWideAccesses) {
  for (const DType type : {DType::f32, DType::f16, DType::i8}) {
    const Plan plan = plan_of("softmax(x, 1)", {in(type, {16, 64, 4096})});
    EXPECT_FALSE(plan.kernel_class.reduction()->layout.inner_reduction);
    EXPECT_EQ(static_cast<std::size_t>(plan.kernel_class.inputs[0].width) * size_of(type), 16U);
    EXPECT_EQ(static_cast<std::size_t>(plan.kernel_class.outputs[0].width) * size_of(type), 16U);
  }
}

TEST(Schedules, OddRowsAlongMemoryKeepWideAccesses) {
  for (const DType type : {DType::f32, DType::f16}) {
    const Plan plan = plan_of("layer_norm(x)", {in(type, {1000, 4099})});
    EXPECT_TRUE(plan.kernel_class.reduction()->layout.tensor_aligned);
    EXPECT_EQ(static_cast<std::size_t>(plan.kernel_class.inputs[0].width) * size_of(type), 16U);
  }
}

// 32 groups of an image whose channels, and those of the results, lie innermost.
Plan norm_of_channels_last(DType type, const Dims& shape) {
  const Dims last = {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]};
  const std::vector<TensorView> inputs = {in(type, shape, last), in(type, {shape[1]})};
  const OutputView output(nullptr, type, shape, last);
  return make_plan(Epilogue::parse("group_norm(x, 32, w)").program(), std::vector{output}, inputs, Views::abstract);
}

TEST(Schedules, NeighbouringRowsInShortRunsAreReadTogether) {
  // 8 channels of 2 or 4 bytes are a fraction of what memory moves at once.
  for (const DType type : {DType::f16, DType::f32}) {
    const Plan plan = norm_of_channels_last(type, {32, 256, 64, 64});
    const ReductionClass& reduction = *plan.kernel_class.reduction();
    EXPECT_TRUE(reduction.interleaves_rows()) << to_text(plan.kernel_class);
    // Lanes side by side read a row's piece, and of its channels a thread has the same in every pixel.
    EXPECT_EQ(reduction.vectors_per_run() * plan.kernel_class.elements, 8);
    EXPECT_EQ(reduction.threads.group % reduction.vectors_per_run(), 0);
    EXPECT_FALSE(reduction.residency.hoisted[0]);
    EXPECT_TRUE(reduction.residency.hoisted[1]);
    EXPECT_GE(static_cast<std::size_t>(plan.kernel_class.threads / reduction.threads.group) * 8 * size_of(type), 64U);
    EXPECT_GE(capacity(plan), 8 * 64 * 64);
    // Of one image blocks hold chunks of rows, one row each: its class says nothing of runs.
    const Plan few = norm_of_channels_last(type, {1, 256, 64, 64});
    EXPECT_FALSE(few.kernel_class.reduction()->interleaves_rows()) << to_text(few.kernel_class);
    EXPECT_EQ(few.kernel_class.reduction()->vectors_per_run(), 1);
  }
  EXPECT_FALSE(
      plan_of("group_norm(x, 32)", {in(DType::f16, {32, 256, 64, 64})}).kernel_class.reduction()->interleaves_rows());
}

TEST(Schedules, ChannelsOfRunsThatDivideNoGroupChangeFromStepToStep) {
  const Plan plan = norm_of_channels_last(DType::f32, {32, 320, 32, 32});
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  EXPECT_TRUE(reduction.interleaves_rows() && reduction.is_in_shared_memory()) << to_text(plan.kernel_class);
  EXPECT_EQ(reduction.vectors_per_run(), 1);
  EXPECT_FALSE(reduction.residency.hoisted[1]);
}

TEST(Schedules, OddLinesOfOuterReductionsAreReadByNeighbours) {
  EXPECT_TRUE(plan_of("softmax(x, 1)", {in(DType::f16, {16, 128, 129, 129})}).kernel_class.reduction()->layout.striped);
  for (const std::int64_t side : {128, 130})  // of even length two elements are moved at once
    EXPECT_FALSE(
        plan_of("softmax(x, 1)", {in(DType::f16, {16, 128, side, side})}).kernel_class.reduction()->layout.striped);
}

// Channels-last operands and row-major results: the operands are read as they lie, and results are transposed.
TEST(Schedules, ResultsAlongAnotherDimensionAreTransposed) {
  const auto weight = [](DType type, std::int64_t channels) { return in(type, {channels}); };
  for (const DType type : {DType::f32, DType::f16}) {
    const Plan norm = plan_of("group_norm(x, 8, w, b)",
                              {channels_last(type, {16, 64, 258, 258}), weight(type, 64), weight(type, 64)});
    const ReductionClass& reduction = *norm.kernel_class.reduction();
    EXPECT_TRUE(reduction.stores_lines_of(TransposedStore::Lines::elements)) << to_text(norm.kernel_class);
    EXPECT_TRUE(reduction.interleaves_rows());
    EXPECT_TRUE(is_streamed(norm.kernel_class.inputs[0].access));
    // Whole lines of memory are read, and sectors of them written.
    const auto size = static_cast<std::int64_t>(size_of(type));
    EXPECT_GE(norm.kernel_class.threads / reduction.threads.group * 8 * size, 128);
    EXPECT_GE(reduction.threads.group / reduction.vectors_per_run() * reduction.store->batch * size, 32);
    EXPECT_GT(norm.kernel_class.outputs[0].width, 1);
    // A thread's weights are the same for all of its groups.
    EXPECT_FALSE(reduction.residency.hoisted[0]);
    EXPECT_TRUE(reduction.residency.hoisted[1] && reduction.residency.hoisted[2]);

    const Plan instance = plan_of("instance_norm(x)", {channels_last(type, {16, 64, 126, 126})});
    EXPECT_TRUE(instance.kernel_class.reduction()->stores_lines_of(TransposedStore::Lines::elements));
    EXPECT_FALSE(instance.kernel_class.reduction()->layout.inner_reduction);
    const Plan softmax = plan_of("softmax(x, 1)", {channels_last(type, {16, 128, 129, 129})});
    EXPECT_TRUE(softmax.kernel_class.reduction()->stores_lines_of(TransposedStore::Lines::rows));
    EXPECT_EQ(softmax.kernel_class.schedule(), "resident");
  }
}

// No other layout changes its plan: results as operands, nothing that turns, operands of two orders, statistics of all
// rows, small planes.
TEST(Schedules, NothingElseTurns) {
  const Dims shape = {16, 64, 64, 64};
  const auto transposes = [](const Plan& plan) { return plan.kernel_class.reduction()->store.has_value(); };
  EXPECT_FALSE(transposes(plan_of("softmax(x, 1)", {in(DType::f32, shape)})));
  EXPECT_FALSE(transposes(plan_of("mean(x, (2, 3))", {channels_last(DType::f32, shape)})));
  EXPECT_FALSE(transposes(plan_of("softmax(x + y, 1)", {channels_last(DType::f32, shape), in(DType::f32, shape)})));
  EXPECT_FALSE(transposes(plan_of("y = softmax(x, 1); return y, amax(y)", {channels_last(DType::f32, shape)})));
  EXPECT_FALSE(transposes(plan_of("softmax(x, 1)", {channels_last(DType::f32, {16, 64, 4, 4})})));
  const ir::Program program = Epilogue::parse("softmax(x, 1)").program();
  const TensorView x = channels_last(DType::f32, shape);
  const OutputView y(nullptr, DType::f32, shape, x.strides);
  EXPECT_FALSE(transposes(make_plan(program, std::span(&y, 1), std::span(&x, 1), Views::abstract)));
}

TEST(Schedules, AResidualSumIsHeldInsteadOfItsOperands) {
  const std::string chain = "h = x + residual; return h, rms_norm(h, weight)";
  const std::vector<TensorView> inputs = {in(DType::f32, {4096, 8192}), in(DType::f32, {4096, 8192}),
                                          in(DType::f32, {8192})};
  EXPECT_EQ(plan_of(chain, inputs).kernel_class.reduction()->residency.saved.size(), 1U);
  // The norm's operand itself is wanted again.
  EXPECT_TRUE(plan_of("h = x + residual; return rms_norm(h, weight) * x", inputs)
                  .kernel_class.reduction()
                  ->residency.saved.empty());
}

TEST(Schedules, ABiasedOperandIsHeldWhereThatSavesReadsAndTakesNoMoreSpace) {
  const auto saved = [](const std::string& chain, DType type) {
    const std::vector<TensorView> inputs = {in(type, {16, 64, 32, 32}), in(type, {64, 1, 1})};
    return plan_of(chain, inputs).kernel_class.reduction()->residency.saved;
  };
  const std::string biased = "normalize((x + b) * 2.0, axis=1)";
  const ir::Program program = Epilogue::parse(biased).program();
  const Values values = saved(biased, DType::f32);
  ASSERT_EQ(values.size(), 1U);
  EXPECT_EQ(program.node(values[0]).op, ir::Op::mul);  // what the product stands for is not computed again
  EXPECT_TRUE(saved(biased, DType::f16).empty());      // 32 bits for 16
  EXPECT_TRUE(saved("normalize(x * 2.0, axis=1) + b", DType::f32).empty());  // one instruction, and no read
  // The bias is wanted again, but not the operand that is held.
  EXPECT_TRUE(saved("normalize(x + b, axis=1) * b", DType::f32).empty());
}

TEST(Schedules, ExponentialsOfRowsInRegistersAreTakenOnce) {
  const auto saved = [](const std::string& chain, DType type, const Dims& shape) {
    const ir::Program program = Epilogue::parse(chain).program();
    const Values values = plan_of(chain, {in(type, shape)}).kernel_class.reduction()->residency.saved;
    return values.size() == 1 && program.node(values[0]).op == ir::Op::exp;
  };
  const Dims along = {4096, 1024};
  EXPECT_TRUE(saved("softmax(x, -1)", DType::f32, along));
  EXPECT_TRUE(saved("softmax(x, -1)", DType::f64, along));
  EXPECT_TRUE(saved("softmax(x, 1)", DType::f32, {16, 64, 32, 32}));
  EXPECT_TRUE(saved("e = exp(x - amax(x, -1, keepdim=true)); e / sum(e, -1, keepdim=true)", DType::f32, along));
  // Instead of the value that they are taken of, where that is saved in 32 bits anyway.
  EXPECT_TRUE(saved("softmax(gelu(x), -1)", DType::f16, along));
  EXPECT_TRUE(saved("softmax(x, -1)", DType::f16, {8192, 4096}));   // 32 bits for 16: of 32 elements of a thread,
  EXPECT_FALSE(saved("softmax(x, -1)", DType::f16, {4096, 2000}));  // not of 64
  // One element of each row is its own maximum; of two, 32 bits for 16 save nothing.
  EXPECT_FALSE(saved("softmax(x, 1)", DType::f32, {64, 8, 64, 64}));
  EXPECT_TRUE(saved("softmax(x, 1)", DType::f32, {64, 16, 64, 64}));
  EXPECT_FALSE(saved("softmax(x, 1)", DType::f16, {64, 32, 64, 64}));
  EXPECT_FALSE(saved("softmax(x, -1) * x", DType::f32, along));
  EXPECT_FALSE(saved("log_softmax(x, -1)", DType::f32, along));
  EXPECT_FALSE(saved("y = logsumexp(x, -1, keepdim=true); x - y", DType::f32, along));
  // Not of a later maximum, nor in shared memory, where a row's operands are copied without registers.
  EXPECT_FALSE(saved("softmax(layer_norm(x), -1)", DType::f32, along));
  EXPECT_FALSE(saved("softmax(x, -1)", DType::f32, {4096, 65'536}));
}

TEST(Schedules, SegmentsOfRowsThatNobodyHoldsAreReadAgain) {
  const std::string chain = "mean(relu(group_norm(x, 2)), (2, ...))";
  EXPECT_EQ(plan_of(chain, floats({{512, 8, 40'000}})).kernel_class.schedule(), "resident");
  EXPECT_EQ(plan_of(chain, floats({{512, 8, 400'000}})).kernel_class.schedule(), "looped");
  // Without clusters a block holds less; of one row no more blocks than that are taken.
  EXPECT_EQ(plan_of(chain, floats({{512, 8, 40'000}}), {80, 108}).kernel_class.schedule(), "looped");
  EXPECT_EQ(plan_of(chain, floats({{1, 8, 40'000}})).kernel_class.schedule(), "resident");
}

// So that all lanes are busy. Not where a segment has lanes enough to be a warp's or more, or its pass reads what
// nobody holds.
TEST(Schedules, AFewLanesReduceShortSegments) {
  const std::string chain = "mean(relu(group_norm(x, 32, w, b)), (2, 3))";
  const auto plan = [&](DType type, std::int64_t batch, std::int64_t channels, std::int64_t pixels) {
    return plan_of(chain, {in(type, {batch, channels, pixels, pixels}), in(type, {channels}), in(type, {channels})});
  };
  const auto lanes = [&](DType type, std::int64_t channels, std::int64_t pixels) {
    const Plan wide = plan(type, 512, channels, pixels);
    const Plan half = plan(type, 64, channels, pixels);  // of any batch the same
    EXPECT_EQ(to_text(wide.kernel_class), to_text(half.kernel_class));
    EXPECT_EQ(wide.segment_lanes, half.segment_lanes);
    EXPECT_EQ(wide.segment_lanes > 0, wide.kernel_class.reduction()->reduces_segments_by_lanes());
    return wide.segment_lanes;
  };
  for (const DType type : {DType::f32, DType::f16}) {
    EXPECT_GE(lanes(type, 512, 7), 1);
    EXPECT_GT(lanes(type, 512, 28), lanes(type, 512, 7)) << "longer segments have more lanes";
    EXPECT_EQ(lanes(type, 2048, 4), 1) << "64 segments of a warp";
  }
  EXPECT_EQ(lanes(DType::f16, 256, 112), 0);
  const auto of_pixels =
      plan_of("sum(layer_norm(x, w, axis=(1, 2)), 2)", {in(DType::f32, {512, 16, 49}), in(DType::f32, {16, 49})});
  EXPECT_FALSE(of_pixels.kernel_class.reduction()->reduces_segments_by_lanes());
}

TEST(Schedules, SegmentMeansTakeOnePassWhereThereAreBlocksForIt) {
  const std::string chain = "mean(group_norm(x, 2, w, b), (2, ...))";
  const auto plan_for = [&](std::int64_t batch, std::int64_t channels, std::int64_t pixels) {
    return plan_of(chain, floats({{batch, channels, pixels}, {channels}, {channels}}));
  };
  const auto passes = [](const Plan& plan) { return plan.kernel_class.reduction()->structure.output_pass + 1; };
  const Plan one = plan_for(512, 8, 40'000);
  EXPECT_EQ(one.kernel_class.schedule(), "looped");
  EXPECT_EQ(passes(one), 1);
  EXPECT_TRUE(one.kernel_class.reduction()->structure.has_segment_means());
  EXPECT_EQ(to_text(plan_for(4096, 16, 3000).kernel_class), to_text(plan_for(512, 8, 40'004).kernel_class));
  EXPECT_EQ(passes(plan_for(2, 8, 40'000)), 2);      // too few rows
  EXPECT_EQ(passes(plan_for(512, 8, 100)), 2);       // short segments
  EXPECT_EQ(passes(plan_for(4096, 4096, 4096)), 2);  // too many
}

// Where a result has few rows there are more blocks than run at a time, and still registers for one of them.
TEST(Schedules, ColumnSumsAskForTheBlocksWhoseRegistersWereCounted) {
  const auto plan_for = [](const std::string& chain, DType type, const Dims& shape) {
    return plan_of(chain, {in(type, shape)}, Machine(90));
  };
  const Plan many_results = plan_for("y = softmax(x, 2); return y, sum(y, 0)", DType::f32, {4, 600, 8192});
  EXPECT_EQ(many_results.blocks, 600U);
  EXPECT_EQ(many_results.kernel_class.tuning.resident_blocks, 1);
  const std::string by_channel = "y = group_norm(x, 32); return y, sum(y, (0, 2, 3))";
  EXPECT_EQ(plan_for(by_channel, DType::bf16, {64, 256, 28, 28}).kernel_class.tuning.resident_blocks, 2);
}

// KernelBench L2 #77: 128 rows, which no cluster holds in f32, and no block of devices without clusters in 16 bits.
TEST(Schedules, LargeBlocksTakeSegmentMeansOfFewRows) {
  const auto plan_for = [](DType type, int architecture, std::int64_t channels = 128) {
    return plan_of("mean(batch_norm(x * 2.0, w, b), axis=(2, 3, 4), keepdim=true)",
                   {in(type, {16, channels, 20, 36, 36}), in(DType::f32, {channels}), in(DType::f32, {channels})},
                   Machine(architecture));
  };
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const int architecture : {80, 90, 100, 120}) {
      const Plan plan = plan_for(type, architecture);
      const bool is_held = type != DType::f32 && architecture / 10 != 8 && architecture / 10 != 12;
      EXPECT_EQ(plan.kernel_class.schedule(), is_held ? "resident" : "looped") << architecture;
      EXPECT_EQ(plan.kernel_class.threads, is_held ? 416 : 512) << architecture;
    }
  }
  EXPECT_EQ(plan_for(DType::f32, 90, 66).blocks, 66U);
  EXPECT_THROW(plan_for(DType::f32, 90, 65), Error);  // most multiprocessors would idle
}

TEST(Schedules, OneBlockReducesAllRowsOfAGridReduction) {
  const auto plan_for = [](std::int64_t batch, int groups, std::int64_t channels) {
    return plan_of("mean(group_norm(x, " + std::to_string(groups) + ", w, b), (1, 2, 3))",
                   floats({{batch, channels, 100, 198}, {channels}, {channels}}));
  };
  const auto is_alone = [](const Plan& plan) { return plan.blocks_per_result == 1 && plan.workspace.bytes == 0; };
  const Plan plan = plan_for(128, 8, 24);  // KernelBench L2 #23
  EXPECT_TRUE(is_alone(plan));
  EXPECT_EQ(plan.kernel_class.threads, 8 * plan.kernel_class.reduction()->threads.group);
  EXPECT_EQ(plan.blocks, 128U);
  EXPECT_FALSE(is_alone(plan_for(80, 8, 24)));    // multiprocessors would idle
  EXPECT_FALSE(is_alone(plan_for(133, 8, 24)));   // until the last block has begun
  EXPECT_TRUE(is_alone(plan_for(4000, 2, 24)));   // they have other blocks then
  EXPECT_FALSE(is_alone(plan_for(128, 6, 24)));   // few kernels for all shapes
  EXPECT_FALSE(is_alone(plan_for(128, 16, 48)));  // more threads than a block has
  EXPECT_TRUE(is_alone(plan_for(128, 8, 8 * 64)));
  EXPECT_FALSE(is_alone(plan_for(128, 8, 8 * 65)));  // segment means of more segments than a block holds
}

TEST(Schedules, OneBlockHoldsAllRowsOfAStatistic) {
  const Plan plan = plan_of("amin(group_norm(x, 512), axis=1)", {in(DType::f32, {1024, 8192})});
  EXPECT_EQ(plan.blocks_per_result, 1);
  EXPECT_EQ(plan.workspace.bytes, 0U);
  // In as many passes over its rows as it takes for lanes to read a sector side by side.
  EXPECT_GT(plan.kernel_class.reduction()->rows_per_group(), 1);
  EXPECT_GE(plan.kernel_class.reduction()->threads.group * plan.kernel_class.elements * 4, 32);
  const Plan half = plan_of("amin(group_norm(x, 512), axis=1)", {in(DType::f16, {1024, 8192})});
  EXPECT_EQ(half.blocks_per_result, 1);
  EXPECT_EQ(half.kernel_class.reduction()->rows_per_group(), 1);
}

// Rows that a thread holds need no other thread, if there are enough of them for the GPU.
TEST(OuterReductions, OfShortRowsHaveAThreadForEachWhereThereAreMany) {
  const auto threads = [](std::int64_t outer, std::int64_t length, std::int64_t columns) {
    const Plan plan = plan_of("sum(x, 1)", {in(DType::bf16, {outer, length, columns})});
    EXPECT_FALSE(plan.kernel_class.reduction()->layout.inner_reduction);
    return plan.kernel_class.reduction()->threads;
  };
  EXPECT_EQ(threads(4096, 8, 7168).group, 1);
  EXPECT_EQ(threads(4096, 8, 7168).columns, 128);
  EXPECT_GT(threads(16, 8, 7168).group, 1) << "most multiprocessors would idle";
  EXPECT_GT(threads(4096, 64, 7168).group, 1) << "more than a thread holds";
  EXPECT_GT(threads(65'536, 8, 512).group, 1) << "fewer columns than a block of such threads has";
}

}  // namespace
}  // namespace epifuse::plan
