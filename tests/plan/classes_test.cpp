// Which shapes of chains with reductions share a kernel: few classes for many lengths, and one source for each class.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "codegen/emit.hpp"
#include "ir/program.hpp"
#include "plan/plan.hpp"
#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

TEST(Classes, TenThousandBatchSizesShareOneKernel) {
  const Epilogue tail = Epilogue::parse("softmax(x, -1)");
  const ir::Program& program = tail.program();
  for (const std::int64_t length : {100, 4096, 50'257}) {
    std::mt19937 random(7);
    std::set<std::string> classes;
    std::set<std::string> sources;
    for (int i = 0; i < 10'000; ++i) {
      // From as many rows as a device has multiprocessors on.
      const Dims shape = {static_cast<std::int64_t>(256 + random() % 100'000), length};
      if (shape[0] * shape[1] >= (1LL << 31) - (1 << 20)) continue;  // 64-bit indices are another class
      const OutputView output(nullptr, DType::f16, shape);
      const TensorView input = in(DType::f16, shape);
      const Plan plan = make_plan(program, std::span(&output, 1), std::span(&input, 1), Views::abstract);
      if (!classes.insert(to_text(plan.kernel_class)).second) continue;
      sources.insert(codegen::emit(program, plan.kernel_class, plan.space.input_kinds()));
    }
    EXPECT_EQ(classes.size(), 1U) << length;
    EXPECT_EQ(sources.size(), 1U) << length;
  }
}

TEST(Classes, TenThousandNchwShapesShareFourKernels) {
  std::mt19937 random(2024);
  const auto extent = [&](unsigned most) { return static_cast<std::int64_t>(1 + random() % most); };
  std::set<std::string> sources;
  const ir::Program program = Epilogue::parse("sigmoid((x + bias) * scale)").program();
  for (int i = 0; i < 10'000; ++i) {
    const Dims shape = {extent(64), extent(256), extent(80), extent(80)};
    const OutputView output(nullptr, DType::f16, shape);
    const std::vector<TensorView> inputs = {in(DType::f16, shape), in(DType::f32, {shape[1], 1, 1}),
                                            in(DType::f32, {shape[1], 1, 1})};
    const Plan plan = make_plan(program, std::span(&output, 1), inputs, Views::abstract);
    sources.insert(codegen::emit(program, plan.kernel_class, plan.space.input_kinds()));
  }
  RecordProperty("kernels", static_cast<int>(sources.size()));
  EXPECT_LE(sources.size(), 4U);
}

TEST(Classes, AnyBatchSizeUsesTheSameKernel) {
  std::set<std::string> classes;
  for (std::int64_t n = 2; n < 3000; ++n) {
    const Dims shape = {n, 4096};
    const Plan plan = plan_of("x * sigmoid(x) + bias", {in(DType::bf16, shape), in(DType::f32, {4096})});
    classes.insert(to_text(plan.kernel_class));
  }
  EXPECT_EQ(classes.size(), 1U);
}

// Rows of 4096 elements end with the last step of their threads, others do not; how many rows there are is not asked.
TEST(Classes, FullRowsAreAClassOfTheirOwn) {
  const auto is_full = [](const Dims& shape) {
    return plan_of("softmax(x, axis=-1)", {in(DType::f16, shape)}).kernel_class.reduction()->threads.full;
  };
  for (const std::int64_t rows : {1000, 1001}) {
    EXPECT_TRUE(is_full({rows, 4096}));
    EXPECT_TRUE(is_full({rows, 64}));
    EXPECT_FALSE(is_full({rows, 4088}));
    EXPECT_FALSE(is_full({rows, 4095}));
    EXPECT_FALSE(is_full({rows, 56}));
  }
  const auto has_whole_lines = [](std::int64_t width) {
    return plan_of("group_norm(x, 4, w, b)",
                   {in(DType::f16, {4, 32, 7, width}), in(DType::f32, {32}), in(DType::f32, {32})})
        .kernel_class.reduction()
        ->layout.whole_lines;
  };
  EXPECT_TRUE(has_whole_lines(8));
  EXPECT_FALSE(has_whole_lines(7));
}

// How many segments a row has, and how long they are, are parameters.
TEST(Classes, SegmentsOfAnyLengthShareAKernel) {
  const ir::Program program = Epilogue::parse("mean(relu(group_norm(x, 2, w, b)), (2, ...))").program();
  std::set<std::string> sources;
  for (const auto& [channels, pixels] : {std::pair{8, 1024}, {16, 512}, {64, 128}, {4, 2048}, {2048, 4}}) {
    const Dims shape = {4096, channels, pixels};
    const std::vector<TensorView> inputs = floats({shape, {channels}, {channels}});
    const OutputView output(nullptr, DType::f32, {4096, channels});
    const Plan plan = make_plan(program, std::span(&output, 1), inputs, Views::abstract);
    EXPECT_EQ(plan.segments_per_row, channels / 2);
    EXPECT_EQ(plan.segment_length, pixels);
    sources.insert(codegen::emit(program, plan.kernel_class, plan.space.input_kinds()));
  }
  EXPECT_EQ(sources.size(), 1U);
}

TEST(Classes, RandomRowLengthsShareFewKernels) {
  const ir::Program program = Epilogue::parse("layer_norm(x, w, b)").program();
  std::mt19937 random(11);
  std::set<std::string> classes;
  for (int i = 0; i < 10'000; ++i) {
    const auto length = static_cast<std::int64_t>(2 + random() % 16'384);
    const OutputView output(nullptr, DType::f16, {4096, length});
    const std::vector<TensorView> inputs = {in(DType::f16, {4096, length}), in(DType::f32, {length}),
                                            in(DType::f32, {length})};
    classes.insert(to_text(make_plan(program, std::span(&output, 1), inputs, Views::abstract).kernel_class));
  }
  RecordProperty("kernels", static_cast<int>(classes.size()));
  EXPECT_LE(classes.size(), 120U);
}

TEST(Classes, EqualClassesGiveEqualSourcesAndOthersDiffer) {
  const ir::Program program = Epilogue::parse("softmax(x, -1)").program();
  std::map<std::string, std::string> source_of_class;
  std::set<std::string> sources;
  std::mt19937 random(5);
  for (int i = 0; i < 400; ++i) {
    const Dims shape = {static_cast<std::int64_t>(1 + random() % 3000),
                        static_cast<std::int64_t>(2 + random() % 20'000)};
    const OutputView output(nullptr, DType::f32, shape);
    const TensorView input = in(DType::f32, shape);
    const Plan plan = make_plan(program, std::span(&output, 1), std::span(&input, 1), Views::abstract);
    std::string source = codegen::emit(program, plan.kernel_class, plan.space.input_kinds());
    const auto [it, is_new] = source_of_class.emplace(to_text(plan.kernel_class), source);
    EXPECT_EQ(it->second, source);
    sources.insert(std::move(source));
  }
  EXPECT_EQ(sources.size(), source_of_class.size());
}

}  // namespace
}  // namespace epifuse::plan
