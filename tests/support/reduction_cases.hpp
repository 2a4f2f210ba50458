// Chains with reductions that are always the same: softmax, norms, statistics, and the rows that they find hard.
#pragma once

#include <vector>

#include "support/fixed_cases.hpp"

namespace epifuse::test {

/// The tails of /work/shared/cases/level2_odd.tsv that hold a reduction, scaled down.
std::vector<TailCase> reduction_tails();
/// Every composite over several layouts and types.
std::vector<Case> norm_cases();
/// Results of reduced shape, alone, several at once and beside a full one.
std::vector<Case> statistic_cases();
/// Rows of one element, of none, of -inf, with NaN, far from zero, constant.
std::vector<Case> hard_row_cases();
/// One for each way in which the planner lays out rows (docs/internals/plan.md).
std::vector<Case> schedule_cases();
std::vector<Case> full_row_cases();
/// Operands in channels-last order, results in rows, and the other way round.
std::vector<Case> transposed_reductions();
/// All of the above.
std::vector<Case> reduction_cases();

}  // namespace epifuse::test
