// Backward passes of random chains, as cases of their own: the operands are the gradients of the results, what the
// forward pass saved, and the chain's operands, all filled as those of any case. Whether a backward pass is the
// gradient is python/tests/test_gradient.py's question.
#pragma once

#include <optional>
#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// The backward pass of `test` with respect to every operand that has a gradient; nothing if none has.
std::optional<Case> backward_case(const Case& test);

/// `count` backward passes of random chains that are one kernel. The chains are pointwise ones and reductions in turn,
/// of at most about `elements` elements.
std::vector<Case> random_gradients(std::uint64_t seed, std::size_t count, int elements);

/// Sums over rows beside reductions of each row: backward passes of norms with weights, and chains that say so
/// themselves. Rows of any length, one and many of them, in several types.
std::vector<Case> column_sum_cases();

/// Backward passes of batch_norm in training whose rows lie side by side, and are longer than registers hold.
std::vector<Case> batch_norm_cases();

/// The same for segments of rows that are longer than the registers of a block hold.
std::vector<Case> column_run_cases();

}  // namespace epifuse::test
