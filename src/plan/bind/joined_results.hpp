// Pieces of joined results, which one kernel writes. For lower.cpp.
#pragma once

#include <vector>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"

namespace epifuse::plan {

/// A result of the chain without views.
struct ResultValue {
  ir::Value value;
  Dims shape;
  bool is_cut;  ///< of a result that is written in pieces
};

/// A piece that has dimensions of its own takes those of another piece of its shape, which the kernel iterates over
/// anyway: a slice of zeros, or one that shares no operand with the other.
void connect(std::vector<ResultValue>& results, ir::Builder& builder);

}  // namespace epifuse::plan
