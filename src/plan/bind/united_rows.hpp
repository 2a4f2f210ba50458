// Rows that several reductions have, as rows of one loop. For shapes.cpp.
#pragma once

#include <span>

#include "plan/bind/axis_numbers.hpp"

namespace epifuse::plan {

/// Identifies the dimensions that different reductions reduce, where no value of the chain has them all and rows have
/// one shape: `sum(x, 1) / sum(y, 1)`, or a window's rows, each of which has a norm. The same of results, as in
/// `y = softmax(x, 1); return y[:, :4], y[:, 4:8]`. `values`: by node.
void unite_rows(const ir::Program& program, AxisTable& table, std::span<const Shaped> values);

}  // namespace epifuse::plan
