// Sums over rows beside reductions of each row, as emitted text: every result against the oracle, and the same bits in
// any order of blocks.
#include <gtest/gtest.h>

#include "emitted/workshop.hpp"
#include "support/gradient_cases.hpp"

namespace epifuse::test {
namespace {

// Few enough that blocks have several rows, and not as many as the rows that some cases have.
const plan::Machine kSmall(90, 3);

TEST(ColumnSums, AgreeWithTheOracle) {
  Workshop workshop;
  for (const Case& test : column_sum_cases()) {
    workshop.add(test, kSmall);
    if (test.elements() < 100'000) workshop.add(test, plan::Machine(80, 1));
  }
  EXPECT_EQ(workshop.ambiguous_classes(), 0U);
  EXPECT_GT(workshop.kernels_with("has all rows of its result.\n"), 0U);
  EXPECT_GT(4 * workshop.kernels_with("sum_columns"), workshop.kernels());
  EXPECT_GT(workshop.kernels_with("combine_columns"), 20U);
  const WorkshopReport report = workshop.run();
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

TEST(ColumnSums, HaveTheSameBitsInAnyOrderOfBlocks) {
  std::size_t count = 0;
  for (const Case& test : column_sum_cases()) {
    if (count++ % 7 != 0) continue;
    const auto problem = run_in_any_order(test, kSmall);
    EXPECT_FALSE(problem) << *problem << '\n' << test.str();
  }
}

}  // namespace
}  // namespace epifuse::test
