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
    // Blocks of a cluster add theirs.
    if (test.elements() < 100'000) workshop.add(test, plan::Machine(90, 16));
  }
  EXPECT_EQ(workshop.ambiguous_classes(), 0U);
  EXPECT_GT(workshop.kernels_with("has all rows of its result.\n"), 0U);
  EXPECT_GT(4 * workshop.kernels_with("sum_columns"), workshop.kernels());
  EXPECT_GT(workshop.kernels_with("combine_columns"), 20U);
  for (const std::string_view cluster : {"2", "4", "8"})
    EXPECT_GT(workshop.classes_with("several_blocks cluster " + std::string(cluster)), 2U) << cluster;
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

TEST(RowsSideBySide, OfSeveralOperandsAreHeldInSharedMemory) {
  Workshop workshop;
  for (const Case& test : batch_norm_cases()) {
    workshop.add(test, plan::Machine(90, 2));
    workshop.add(test, plan::Machine(80, 2));
  }
  EXPECT_GT(workshop.classes_with("resident_shared(cluster"), 5U);
  EXPECT_GT(workshop.classes_with("resident_shared layout not inner_reduction"), 1U);
  const WorkshopReport report = workshop.run();
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

// Many blocks of sm_80, which have no clusters, hold a row; a block or a cluster of sm_90 does.
const std::vector<plan::Machine> kOfLongRows = {plan::Machine(80, 108), plan::Machine(90, 3), plan::Machine(90, 132)};

TEST(ColumnRuns, AgreeWithTheOracle) {
  Workshop workshop;
  for (const Case& test : column_run_cases()) {
    for (const plan::Machine& machine : kOfLongRows) workshop.add(test, machine);
  }
  EXPECT_EQ(workshop.ambiguous_classes(), 0U);
  EXPECT_GT(2 * workshop.kernels_with("slots_per_row"), workshop.kernels());
  EXPECT_GT(workshop.classes_with("split_resident"), 10U);
  EXPECT_GT(workshop.classes_with("resident_shared(cluster"), 10U);
  const WorkshopReport report = workshop.run();
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

TEST(ColumnRuns, HaveTheSameBitsInAnyOrderOfBlocks) {
  std::size_t count = 0;
  for (const Case& test : column_run_cases()) {
    if (count++ % 8 != 0) continue;
    for (const plan::Machine& machine : kOfLongRows) {
      const auto problem = run_in_any_order(test, machine);
      EXPECT_FALSE(problem) << *problem << '\n' << test.str();
    }
  }
}

}  // namespace
}  // namespace epifuse::test
