// The deterministic cases from emitted text, and what needs memory that no case has: strides beyond 31 bits.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "emitted/workshop.hpp"
#include "support/fixed_cases.hpp"
#include "support/reduction_cases.hpp"
#include "support/regressions.hpp"
#include "support/scope_cases.hpp"
#include "support/segment_cases.hpp"

namespace epifuse::test {
namespace {

void run_and_report(Workshop& workshop) {
  EXPECT_EQ(workshop.ambiguous_classes(), 0u);
  const WorkshopReport report = workshop.run();
  std::printf("%zu cases, %zu kernels (%.0f s of compiler), %llu results\n", report.cases, report.kernels,
              report.compile_seconds, static_cast<unsigned long long>(report.coverage.elements));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

void run_and_report(const std::vector<Case>& cases) {
  Workshop workshop;
  for (const Case& test : cases) workshop.add(test);
  run_and_report(workshop);
}

TEST(EmittedText, TailsOfPublicModels) {
  std::vector<Case> cases;
  for (const TailCase& tail : tail_cases()) cases.push_back(tail.test);
  run_and_report(cases);
}

TEST(EmittedText, TextOfTailsIsTheChainBuiltByHand) {
  std::vector<TailCase> tails = tail_cases();
  for (TailCase& tail : reduction_tails()) tails.push_back(std::move(tail));
  for (const TailCase& tail : tails) {
    std::string text;
    for (std::size_t i = 0; i < tail.names.size(); ++i)
      text += std::string(tail.names[i]) + " = x" + std::to_string(i) + "; ";
    text += tail.text;
    EXPECT_EQ(to_text(from_epilogue(Epilogue::parse(text))), to_text(from_epilogue(to_epilogue(tail.test.chain))))
        << tail.id << ": " << text;
  }
}

TEST(EmittedText, EveryOperationOverSpecialValues) { run_and_report(special_value_cases(0)); }

TEST(EmittedText, EveryConversion) { run_and_report(conversion_cases()); }

TEST(EmittedText, LongChainsAndManyOperands) { run_and_report(long_cases()); }

TEST(EmittedText, EveryWidthAlignmentAndTail) { run_and_report(alignment_cases()); }

TEST(EmittedText, TruthValuesAsNumbers) { run_and_report(truth_cases()); }

TEST(EmittedText, OddInnerExtents) { run_and_report(odd_extent_cases()); }

TEST(EmittedText, WholeRows) { run_and_report(divisible_row_cases()); }

TEST(EmittedText, OddLayouts) { run_and_report(odd_layout_cases()); }

TEST(EmittedText, InputsAlongAnotherDimension) { run_and_report(tiled_2d_cases()); }

TEST(EmittedText, ResultsThatAreTransposed) { run_and_report(transpose_cases()); }

TEST(EmittedText, WhatOnceFailed) { run_and_report(regression_cases()); }

TEST(EmittedText, ReductionTailsOfPublicModels) {
  std::vector<Case> cases;
  for (const TailCase& tail : reduction_tails()) cases.push_back(tail.test);
  run_and_report(cases);
}

TEST(EmittedText, NormsInAllLayouts) { run_and_report(norm_cases()); }

TEST(EmittedText, Statistics) { run_and_report(statistic_cases()); }

TEST(EmittedText, StatisticsBesideWhatIsKnownBeforeAnyRow) { run_and_report(scope_cases()); }

TEST(EmittedText, ResultsOfNothing) { run_and_report(empty_cases()); }

TEST(EmittedText, EveryScheduleOfRows) { run_and_report(schedule_cases()); }

TEST(EmittedText, FullAndRaggedRows) {
  Workshop workshop;
  for (const Case& test : full_row_cases()) workshop.add(test);
  const std::size_t full = workshop.classes_with(" full ");
  EXPECT_GT(full * 4, workshop.kernels());
  EXPECT_LT(full * 4, workshop.kernels() * 3);
  run_and_report(workshop);
}

TEST(EmittedText, ReductionsWithTransposedStores) { run_and_report(transposed_reductions()); }

TEST(EmittedText, SegmentsOfRows) {
  Workshop workshop;
  for (const Case& test : segment_cases()) workshop.add(test);
  EXPECT_GT(workshop.kernels_with("struct HeldRow") * 2, workshop.kernels());  // short segments
  EXPECT_GT(workshop.kernels_with("struct Run") * 8, workshop.kernels());
  run_and_report(workshop);
}

// Planned for a small device, where rows are read again.
TEST(EmittedText, SegmentsOfRowsThatNobodyHolds) {
  Workshop workshop;
  for (const Case& test : long_segment_cases()) workshop.add(test, plan::Machine(75, 1));
  run_and_report(workshop);
}

// Planned for a small device, so that few rows are enough for all multiprocessors.
TEST(EmittedText, SegmentMeans) {
  Workshop workshop;
  for (const Case& test : segment_mean_cases(3)) workshop.add(test, plan::Machine(90, 1));
  EXPECT_EQ(workshop.kernels_with("reduce_by_segments"), workshop.kernels());
  for (const std::string_view threads : {"kThreads = 256;", "kThreads = 512;", "kThreads = 1024;"})
    EXPECT_GT(workshop.kernels_with(threads), 0U) << threads;  // two, four and eight rows of one result
  run_and_report(workshop);
}

// Where rows are too few for small blocks, and no block holds one.
TEST(EmittedText, SegmentMeansOfFewRows) {
  Workshop workshop;
  for (const Case& test : few_segment_mean_cases()) workshop.add(test, plan::Machine(80, 4));
  EXPECT_EQ(workshop.kernels_with("reduce_by_segments"), workshop.kernels());
  EXPECT_EQ(workshop.kernels_with("__launch_bounds__(512"), workshop.kernels());
  run_and_report(workshop);
}

TEST(EmittedText, SegmentMeansThatMeetInfinities) {
  Workshop workshop;
  for (const Case& test : infinite_segment_mean_cases()) workshop.add(test, plan::Machine(90, 1));
  EXPECT_EQ(workshop.kernels_with("reduce_by_segments"), workshop.kernels());
  run_and_report(workshop);
}

TEST(EmittedText, RowsThatReductionsFindHard) { run_and_report(hard_row_cases()); }

// Few elements far apart need 64-bit index arithmetic. The memory between them is never touched, so it costs nothing.
TEST(EmittedText, StridesBeyond31Bits) {
  constexpr std::int64_t kStep = (std::int64_t{1} << 31) + 64;
  constexpr std::size_t kBytes = static_cast<std::size_t>(kStep) + 320;
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no address space of " << kBytes << " bytes";
  auto* base = static_cast<std::int8_t*>(memory);
  for (int i = 0; i < 60; ++i) {
    base[i] = static_cast<std::int8_t>(i);
    base[kStep + i] = static_cast<std::int8_t>(60 - i);
  }
  std::int8_t out[2][2][60] = {};
  const std::int8_t bias[2] = {3, -3};
  const TensorView bias_view(bias, DType::i8, {2, 1});
  // Forwards; in reverse order from the far row; and written with such a step.
  const TensorView views[2] = {TensorView(base, DType::i8, {2, 60}, {kStep, 1}),
                               TensorView(base + kStep, DType::i8, {2, 60}, {-kStep, 1})};
  const Epilogue tail = Epilogue::parse("x + bias");
  for (int i = 0; i < 2; ++i) {
    const OutputView target(out[i], DType::i8, {2, 60});
    const TensorView inputs[] = {views[i], bias_view};
    run_emitted(tail, std::span(&target, 1), inputs);
  }
  const OutputView in_place(base, DType::i8, {2, 60}, {kStep, 1});
  const TensorView inputs[] = {views[0], bias_view};
  run_emitted(tail, std::span(&in_place, 1), inputs);
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(out[0][0][i], i + 3);
    EXPECT_EQ(out[0][1][i], 60 - i - 3);
    EXPECT_EQ(out[1][0][i], 60 - i + 3);
    EXPECT_EQ(out[1][1][i], i - 3);
    EXPECT_EQ(base[i], i + 3);
    EXPECT_EQ(base[kStep + i], 60 - i - 3);
  }
  // Across the result: two channels-last images of 40 channels and 5 pixels.
  for (int i = 0; i < 200; ++i) {
    base[64 + i] = static_cast<std::int8_t>(i % 128);
    base[kStep + 64 + i] = static_cast<std::int8_t>(i % 128 - 127);
  }
  std::int8_t transposed[2][40][5] = {};
  const TensorView images(base + 64, DType::i8, {2, 40, 5}, {kStep, 1, 40});
  const OutputView target(transposed, DType::i8, {2, 40, 5});
  run_emitted(Epilogue::parse("-x"), std::span(&target, 1), std::span(&images, 1));
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(transposed[0][i % 40][i / 40], -(i % 128));
    EXPECT_EQ(transposed[1][i % 40][i / 40], 127 - i % 128);
  }
  munmap(memory, kBytes);
}

// Asked for ahead of time: all that the blocks behind the first ones read, and nothing twice (the shim sees to that).
TEST(EmittedText, WhatIsPrefetchedIsWhatLaterBlocksRead) {
  struct Form {
    const char* text;
    DType type;
    Dims shape;
    const char* kernel_class;  // part of it
  };
  const std::vector<Form> forms = {
      {"softmax(x, axis=-1)", DType::f32, {96, 1024}, "resident(prefetches) threads group 32 "},
      {"softmax(x, axis=-1)", DType::f16, {6, 8192}, "resident(prefetches) threads group 256 "},
      {"softmax(x, axis=-1)", DType::f32, {34, 24576}, "resident_shared(cluster 4 prefetches)"},
      {"instance_norm(x)", DType::f32, {1, 2, 512, 512}, "resident"},
      {"softmax(x, axis=1)", DType::f16, {2, 64, 32, 64}, "not inner_reduction"},
  };
  for (const Form& form : forms) {
    SCOPED_TRACE(form.text);
    std::size_t bytes = size_of(form.type);
    for (const std::int64_t extent : form.shape) bytes *= static_cast<std::size_t>(extent);
    void* memory = nullptr;
    ASSERT_EQ(posix_memalign(&memory, 256, 2 * bytes), 0);
    std::memset(memory, 0, 2 * bytes);
    const TensorView view(memory, form.type, form.shape);
    const OutputView result(static_cast<std::byte*>(memory) + bytes, form.type, form.shape);
    const Asked asked = run_emitted(Epilogue::parse(form.text), std::span(&result, 1), std::span(&view, 1));
    EXPECT_NE(asked.kernel_class.find(form.kernel_class), std::string::npos) << asked.kernel_class;
    ASSERT_GT(asked.blocks, asked.prefetch_distance);
    EXPECT_EQ(asked.bytes * static_cast<std::size_t>(asked.blocks),
              bytes * static_cast<std::size_t>(asked.blocks - asked.prefetch_distance));
    std::free(memory);
  }
}

}  // namespace
}  // namespace epifuse::test
