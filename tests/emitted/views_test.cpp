// Views in emitted text: random chains with views, as the CPU device runs them (tests/api/views_test.cpp), here as
// kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include <epifuse/error.hpp>
#include <epifuse/inspect.hpp>

#include "emitted/workshop.hpp"
#include "support/copy_cases.hpp"
#include "support/index_functions.hpp"
#include "support/large_windows.hpp"
#include "support/neighbour_views.hpp"
#include "support/nested_functions.hpp"
#include "support/row_view_functions.hpp"
#include "support/storage.hpp"
#include "support/view_case_file.hpp"
#include "support/view_functions.hpp"
#include "support/views.hpp"
#include "support/window_functions.hpp"
#include "support/wrap_cases.hpp"
#include "support/written_functions.hpp"

namespace epifuse::test {
namespace {

// Of each test: EPIFUSE_TEST_CASES, or what CI draws.
const std::size_t kCases = [] {
  const char* const text = std::getenv("EPIFUSE_TEST_CASES");
  return text != nullptr && *text != '\0' ? static_cast<std::size_t>(std::strtoull(text, nullptr, 0)) : 200;
}();

// Whether the chain is one kernel.
bool is_planned(const PlacedViewCase& placed) {
  try {
    const Inspection inspection(placed.tail(), placed.outputs(), placed.inputs());
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Draws cases that are one kernel each, runs them as emitted text and judges them. `all_are`: none is refused.
void run_cases(std::size_t count, std::uint64_t seed, ViewCase (*draw)(std::uint64_t), bool all_are = false) {
  Random seeds(seed);
  std::vector<std::unique_ptr<ViewCase>> cases;
  std::vector<std::unique_ptr<PlacedViewCase>> placed;
  std::vector<Emitted> launches;
  while (cases.size() < count) {
    auto test = std::make_unique<ViewCase>(draw(seeds.bits()));
    auto memory = std::make_unique<PlacedViewCase>(*test);
    const bool planned = is_planned(*memory);
    ASSERT_TRUE(planned || !all_are) << test->text << "\n  EPIFUSE_TEST_SEED=" << seed;
    if (test->used.empty() || test->expected.values.empty() || !planned) continue;
    ASSERT_EQ(memory->outputs()[0].shape, test->expected.shape) << test->text;
    launches.push_back({memory->tail(), memory->outputs(), memory->inputs()});
    cases.push_back(std::move(test));
    placed.push_back(std::move(memory));
  }
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(problems[i].value_or(placed[i]->judge()), "") << cases[i]->text << "\n  EPIFUSE_TEST_SEED=" << seed;
  std::printf("%zu kernels with views\n", count);
}

TEST(EmittedViews, RandomChainsAgreeWithArrays) { run_cases(kCases, test_seed(28), draw_view_case); }

TEST(EmittedViews, FunctionsAgreeWithTheirDefinitions) { run_cases(kCases, test_seed(2028), draw_view_function); }

TEST(EmittedViews, IndicesAgreeWithTheirDefinitions) { run_cases(kCases, test_seed(2032), draw_index_function); }

TEST(EmittedViews, RowsReadThroughViewsAgreeWithTheirDefinitions) {
  run_cases(kCases / 4, test_seed(2811), draw_row_view_function, true);
}

TEST(EmittedViews, LargeWindowsAgreeWithTheirDefinitions) {
  run_cases(kCases / 2, test_seed(2721), draw_large_windows);
}

// Those that PyTorch is the oracle of: python/tests/support/view_cases_emitted.py writes the file.
TEST(EmittedViews, CasesOfAFileAreWhatItSays) {
  const char* const path = std::getenv("EPIFUSE_VIEW_CASES");
  if (path == nullptr) GTEST_SKIP() << "EPIFUSE_VIEW_CASES names no file";
  const std::vector<ViewCase> cases = read_view_cases(path);
  std::vector<std::unique_ptr<PlacedViewCase>> placed;
  std::vector<Emitted> launches;
  for (const ViewCase& test : cases) {
    auto memory = std::make_unique<PlacedViewCase>(test);
    EXPECT_TRUE(is_planned(*memory)) << test.text << " is refused";
    if (!is_planned(*memory)) continue;
    launches.push_back({memory->tail(), memory->outputs(), memory->inputs()});
    placed.push_back(std::move(memory));
  }
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < placed.size(); ++i)
    EXPECT_EQ(problems[i].value_or(placed[i]->judge()), "") << placed[i]->tail().str();
  std::printf("%zu of %zu cases of a file ran\n", placed.size(), cases.size());
}

// What overlapping windows share is computed once for a tile, in shared memory.
TEST(EmittedViews, WindowsOfExpensiveValuesAgreeWithTheirDefinitions) {
  const std::size_t count = kCases / 4;
  run_cases(count, test_seed(2713), draw_window_function, true);
  Random seeds(test_seed(2713));
  std::size_t tiled = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const ViewCase test = draw_window_function(seeds.bits());
    const PlacedViewCase placed(test);
    tiled += Inspection(placed.tail(), placed.outputs(), placed.inputs()).plan().schedule == "window_tile" ? 1 : 0;
  }
  EXPECT_GT(5 * tiled, count);  // of others a tile would lie beyond the tensor for the most part
}

TEST(EmittedViews, NestedReductionsAgreeWithTheirDefinitions) {
  run_cases(kCases / 2, test_seed(2727), draw_nested_function, true);
}

TEST(EmittedViews, WindowsAndSlicesBehindNormsAgreeWithTheirDefinitions) {
  run_cases(kCases, test_seed(2712), draw_written_function, true);
}

// Windows of rows that a block, or a cluster, holds in shared memory. sm_80 has no clusters: longer rows are read in
// rounds there.
TEST(EmittedViews, WindowsOfLongRowsAgreeWithTheirDefinitions) {
  const std::uint64_t seed = test_seed(2713);
  Random seeds(seed);
  std::size_t in_shared_memory = 0;
  const std::size_t count = std::max<std::size_t>(kCases / 16, 6);
  for (std::size_t i = 0; i < count; ++i) {
    const ViewCase test = draw_written_of_long_rows(seeds.bits());
    for (const int architecture : {80, 90}) {
      const PlacedViewCase placed(test);
      plan::Machine machine(architecture);
      machine.multiprocessors = 1;
      const Asked asked = run_emitted(placed.tail(), placed.outputs(), placed.inputs(), {}, machine);
      EXPECT_EQ(placed.judge(), "") << test.text << " on sm_" << architecture << "\n  EPIFUSE_TEST_SEED=" << seed;
      in_shared_memory += asked.kernel_class.find("in row of") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(in_shared_memory, count);
  EXPECT_LT(in_shared_memory, 2 * count);
}

// Whether an operand's run of memory serves other views.
bool reads_a_run(const PlacedViewCase& placed) {
  const Inspection inspection(placed.tail(), placed.outputs(), placed.inputs());
  return std::ranges::any_of(inspection.plan().operands,
                             [](const OperandSummary& operand) { return operand.access == "run"; });
}

TEST(EmittedViews, ViewsSideBySideAreReadTogether) {
  run_cases(kCases, test_seed(2711), draw_neighbour_views);
  Random seeds(test_seed(2711));
  std::size_t runs = 0;
  for (std::size_t i = 0; i < kCases; ++i) {
    const ViewCase test = draw_neighbour_views(seeds.bits());
    const PlacedViewCase placed(test);
    runs += is_planned(placed) && reads_a_run(placed) ? 1 : 0;
  }
  EXPECT_GT(runs, kCases / 4);
}

// A result in slices side by side, in memory that begins anywhere and whose rows may be apart: the elements of some
// functions of x, or of x less the largest of its row, one behind the other.
class Interleaved {
 public:
  explicit Interleaved(Random& random) {
    slices_ = random.between(2, 5);
    rows_ = random.between(1, 3);
    columns_ = (std::int64_t{1} << random.below(4)) * random.between(1, 5);
    type_ = random.pick({DType::f32, DType::f16, DType::bf16, DType::f64, DType::i32, DType::i8});
    is_reduced_ = random.percent(50);
    std::string stacked;
    for (int slice = 0; slice < slices_; ++slice) stacked += (slice == 0 ? "" : ", ") + text_of_slice(slice);
    text_ = "flatten(stack((" + stacked + "), -1), -2, -1)";
    if (is_reduced_) text_ = "t = x - amax(x, axis=-1, keepdim=true); " + text_;
    row_ = columns_ * slices_ + (random.percent(30) ? random.between(1, 9) : 0);
    first_ = random.percent(30) ? random.between(1, 3) : 0;
    x_.resize(static_cast<std::size_t>(rows_ * columns_) * size_of(type_));
    for (std::size_t i = 0; i < x_.size() / size_of(type_); ++i)
      encode(type_, random.between(-9, 9), x_.data() + i * size_of(type_));
    memory_.assign(static_cast<std::size_t>(first_ + rows_ * row_) * size_of(type_), std::byte{0x55});
  }

  Epilogue tail() const { return Epilogue::parse(text_); }
  TensorView input() const { return {x_.data(), type_, {rows_, columns_}}; }
  OutputView output() {
    return {memory_.data() + static_cast<std::size_t>(first_) * size_of(type_),
            type_,
            {rows_, columns_ * slices_},
            {row_, 1}};
  }
  std::string text() const {
    return text_ + " of " + std::string(to_string(type_)) + " " + to_string(Dims{rows_, columns_});
  }

  // What is wrong, or nothing; what lies beside the result must be as it was.
  std::string judge() const {
    for (std::size_t i = 0; i < memory_.size() / size_of(type_); ++i) {
      const std::int64_t at = static_cast<std::int64_t>(i) - first_;
      const bool is_element = at >= 0 && at % row_ < columns_ * slices_;
      const std::byte* const found = memory_.data() + i * size_of(type_);
      if (!is_element && *found != std::byte{0x55})
        return "memory beside the result was written, at " + std::to_string(i);
      if (!is_element) continue;
      const std::int64_t column = at % row_;
      const std::int64_t source = at / row_ * columns_ + column / slices_;
      const double x = value_at(source) - (is_reduced_ ? largest_of_row(at / row_) : 0);
      const double want = x * static_cast<double>(column % slices_ + 1) + static_cast<double>(column % slices_);
      if (static_cast<double>(decode(type_, found)) != want) return "element " + std::to_string(at) + " is wrong";
    }
    return "";
  }

 private:
  std::string text_of_slice(int slice) const {
    return (is_reduced_ ? "t * " : "x * ") + std::to_string(slice + 1) + " + " + std::to_string(slice);
  }
  double value_at(std::int64_t i) const {
    return static_cast<double>(decode(type_, x_.data() + static_cast<std::size_t>(i) * size_of(type_)));
  }
  double largest_of_row(std::int64_t row) const {
    double largest = value_at(row * columns_);
    for (std::int64_t c = 1; c < columns_; ++c) largest = std::max(largest, value_at(row * columns_ + c));
    return largest;
  }

  bool is_reduced_ = false;
  int slices_ = 2;
  std::int64_t rows_ = 1, columns_ = 1, row_ = 1, first_ = 0;
  DType type_ = DType::f32;
  std::string text_;
  std::vector<std::byte> x_, memory_;
};

TEST(EmittedViews, SlicesOfResultsSideBySideAreWrittenTogether) {
  const std::uint64_t seed = test_seed(2714);
  Random random(seed);
  const std::size_t count = kCases / 2;
  std::vector<std::unique_ptr<Interleaved>> tests;
  std::vector<Epilogue> tails;
  std::vector<OutputView> outputs;
  std::vector<TensorView> inputs;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < count; ++i) {
    tests.push_back(std::make_unique<Interleaved>(random));
    tails.push_back(tests.back()->tail());
    outputs.push_back(tests.back()->output());
    inputs.push_back(tests.back()->input());
    const PlanSummary plan =
        Inspection(tails.back(), std::span(&outputs.back(), 1), std::span(&inputs.back(), 1)).plan();
    const auto is_run = [](const OperandSummary& one) { return one.access == "run" && one.name.starts_with("out"); };
    runs += std::ranges::any_of(plan.operands, is_run) ? 1 : 0;
  }
  std::vector<Emitted> launches;
  for (std::size_t i = 0; i < count; ++i)
    launches.push_back({tails[i], std::span(&outputs[i], 1), std::span(&inputs[i], 1)});
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(problems[i].value_or(tests[i]->judge()), "") << tests[i]->text() << "\n  EPIFUSE_TEST_SEED=" << seed;
  EXPECT_GT(runs, count / 4);
  EXPECT_LT(runs, count);
}

// Bit by bit, of several types: vectors that are cut where a roll begins again, by rows and by what exists.
TEST(EmittedViews, WhatWrapsAndIsPaddedIsWhatItWas) {
  const std::uint64_t seed = test_seed(2703);
  Random seeds(seed);
  std::vector<std::unique_ptr<WrapCase>> cases;
  std::vector<std::vector<OutputView>> outputs;
  std::vector<std::vector<TensorView>> inputs;
  std::vector<Emitted> launches;
  while (cases.size() < kCases) {
    auto test = std::make_unique<WrapCase>(seeds.bits());
    if (test->elements() == 0) continue;
    outputs.push_back(test->outputs());
    inputs.push_back(test->inputs());
    cases.push_back(std::move(test));
  }
  launches.reserve(kCases);
  for (std::size_t i = 0; i < kCases; ++i) launches.push_back({cases[i]->tail(), outputs[i], inputs[i]});
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < kCases; ++i) {
    EXPECT_EQ(problems[i].value_or(cases[i]->judge()), "")
        << cases[i]->text() << " of " << to_string(inputs[i][0].shape) << "\n  EPIFUSE_TEST_SEED=" << seed;
  }
}

// Byte by byte: what is written at indices, and nothing beside it.
TEST(EmittedViews, WhatIsWrittenAtIndicesIsWhereTheySay) {
  const std::uint64_t seed = test_seed(2804);
  const std::size_t count = kCases / 3;
  Random seeds(seed);
  std::vector<std::unique_ptr<CopyCase>> cases;
  std::vector<Emitted> launches;
  std::vector<std::vector<OutputView>> outputs(count);
  std::vector<std::vector<TensorView>> inputs(count);
  for (std::size_t i = 0; i < count; ++i) {
    cases.push_back(std::make_unique<CopyCase>(seeds.bits()));
    outputs[i] = cases[i]->outputs();
    inputs[i] = cases[i]->inputs();
    launches.push_back({cases[i]->tail(), outputs[i], inputs[i]});
  }
  const auto problems = run_emitted(launches);
  for (std::size_t i = 0; i < count; ++i)
    EXPECT_EQ(problems[i].value_or(cases[i]->judge()), "") << cases[i]->text() << "\n  EPIFUSE_TEST_SEED=" << seed;
}

// The same of slices behind a norm, by rows and by columns: what indices do not name stays.
TEST(EmittedViews, SlicesBehindNormsAreWrittenWhereIndicesSay) {
  const std::vector<float> x = {1, 2, 3, 6, 4, 4, 4, 8};  // means 3 and 5
  const std::vector<std::int64_t> slots = {2, 0};
  struct Row {
    const char* chain;
    std::vector<float> expected;
  };
  const std::vector<Row> rows = {
      {"y = x - mean(x, 1, true); index_copy(c, 0, s, y[:, ::2])", {-1, -1, 9, 9, -2, 0}},
      {"y = x - mean(x, 1, true); index_copy(c, 1, s, y[:, 2:])", {3, 9, 0, 3, 9, -1}},
  };
  for (const Row& row : rows) {
    std::vector<float> cache(6, 9);
    const Dims shape = std::string_view(row.chain).find("(c, 0") != std::string_view::npos ? Dims{3, 2} : Dims{2, 3};
    const std::vector<TensorView> inputs = {TensorView(x.data(), DType::f32, {2, 4}),
                                            TensorView(cache.data(), DType::f32, shape),
                                            TensorView(slots.data(), DType::i64, {2})};
    const OutputView out(cache.data(), DType::f32, shape);
    const Epilogue tail = Epilogue::parse(row.chain);
    const Emitted launch{tail, std::span(&out, 1), inputs};
    EXPECT_EQ(run_emitted(std::span(&launch, 1))[0].value_or(""), "") << row.chain;
    EXPECT_EQ(cache, row.expected) << row.chain;
  }
}

// What an index out of range reads is nothing: the table's memory is surrounded by what no test reads. NaN of floats, 0
// of others.
template <class T>
std::vector<T> read_out_of_range(const char* chain, const std::vector<std::int64_t>& ids, std::int64_t width,
                                 DType type) {
  constexpr std::int64_t kRows = 3;
  const auto rows =
      std::make_unique<T[]>(static_cast<std::size_t>(kRows * width));  // the sanitizers see what is read beside it
  for (std::int64_t i = 0; i < kRows * width; ++i) rows[static_cast<std::size_t>(i)] = static_cast<T>(i + 1);
  const auto count = static_cast<std::int64_t>(ids.size());
  const std::vector<TensorView> inputs = {TensorView(rows.get(), type, {kRows, width}),
                                          TensorView(ids.data(), DType::i64, {count})};
  std::vector<T> result(static_cast<std::size_t>(count * width));
  const OutputView out(result.data(), type, {count, width});
  const Epilogue tail = Epilogue::parse(chain);
  const Emitted launch{tail, std::span(&out, 1), inputs};
  EXPECT_EQ(run_emitted(std::span(&launch, 1))[0].value_or(""), "") << chain;
  return result;
}

TEST(EmittedViews, IndicesOutOfRangeReadNothing) {
  constexpr std::int64_t kFar = std::int64_t{1} << 40;
  const std::vector<std::int64_t> ids = {2, 3, -1, kFar, -kFar, 0, -3, -4};
  for (const std::int64_t width : {1, 5, 8}) {
    for (const char* chain : {"index_select(x, 0, i)", "take(x, i)"}) {
      const bool wraps = chain[0] == 't';
      const auto row_of = [&](std::size_t k) {
        const std::int64_t at = wraps && ids[k] < 0 ? ids[k] + 3 : ids[k];
        return at >= 0 && at < 3 ? at : std::int64_t{-1};
      };
      const std::vector<float> floats = read_out_of_range<float>(chain, ids, width, DType::f32);
      const std::vector<std::int32_t> integers = read_out_of_range<std::int32_t>(chain, ids, width, DType::i32);
      for (std::size_t i = 0; i < floats.size(); ++i) {
        const std::int64_t row = row_of(i / static_cast<std::size_t>(width));
        const std::int64_t expected = row * width + static_cast<std::int64_t>(i) % width + 1;
        EXPECT_EQ(integers[i], row < 0 ? 0 : expected) << chain << " " << i << " of " << width;
        if (row < 0) {
          EXPECT_TRUE(std::isnan(floats[i])) << chain << " " << i << " of " << width;
        } else {
          EXPECT_EQ(floats[i], static_cast<float>(expected)) << chain << " " << i << " of " << width;
        }
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::test
