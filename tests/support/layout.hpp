// How an operand of a random case lies in memory: drawn once for all cases of a family, so that they share kernels.
#pragma once

#include <vector>

#include "support/operand.hpp"

namespace epifuse::test {

/// Kinds: 0 dense, 1 and 2 permuted (by `order`), 3 with gaps between rows, 4 every second or third element, 5 in
/// reverse order, 6 one dimension repeated by stride 0.
struct Order {
  int kind = 0;
  std::vector<int> order;  ///< dimensions, outermost in memory first
};

Order dense_order(int rank);
/// Any kind; of an output none that repeats elements.
void draw_kind(Order& order, Random& random, bool output);
/// For a shape that lacks the first `dropped` dimensions of the order.
Dims strides_of(const Order& order, Random& random, const Dims& shape, int dropped);

}  // namespace epifuse::test
