// Rows that several reductions have, as rows of one loop. For shapes.cpp.
#pragma once

#include <span>

#include "plan/bind/axis_numbers.hpp"

namespace epifuse::plan {

/// Identifies the dimensions that different reductions reduce, where no value of the chain has them all and rows have
/// one shape: `sum(x, 1) / sum(y, 1)`, or a window's rows, each of which has a norm. `values`: by node.
void unite_rows(const ir::Program& program, AxisTable& table, std::span<const Shaped> values);

}  // namespace epifuse::plan
