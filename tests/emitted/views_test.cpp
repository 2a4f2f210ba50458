// Views in emitted text: random chains with views, as the CPU device runs them (tests/api/views_test.cpp), here as kernels.
#include <gtest/gtest.h>

#include <cstdio>
#include <memory>

#include <epifuse/error.hpp>
#include <epifuse/inspect.hpp>

#include "emitted/workshop.hpp"
#include "support/view_functions.hpp"
#include "support/views.hpp"

namespace epifuse::test {
namespace {

constexpr std::size_t kCases = 300;  // of each test

// Whether the chain is one kernel.
bool is_planned(const PlacedViewCase& placed) {
  try {
    const Inspection inspection(placed.tail(), placed.outputs(), placed.inputs());
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Draws cases that are one kernel each, runs them as emitted text and judges them.
void run_cases(std::size_t count, std::uint64_t seed, ViewCase (*draw)(std::uint64_t)) {
  Random seeds(seed);
  std::vector<std::unique_ptr<ViewCase>> cases;
  std::vector<std::unique_ptr<PlacedViewCase>> placed;
  std::vector<Emitted> launches;
  while (cases.size() < count) {
    auto test = std::make_unique<ViewCase>(draw(seeds.bits()));
    auto memory = std::make_unique<PlacedViewCase>(*test);
    if (test->used.empty() || test->expected.values.empty() || !is_planned(*memory)) continue;
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

}  // namespace
}  // namespace epifuse::test
