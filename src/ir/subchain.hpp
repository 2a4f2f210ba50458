// Parts of a chain: a Program that is cut at some of its values, as Programs of their own. Called by api/.
#pragma once

#include <span>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

struct Subchain {
  Program program;
  std::vector<Value> reads;  ///< what each operand of `program` is in the whole: an operand, or a value of `known`
};

/// The part of `whole` that computes the values `writes`, in that order, from operands and from the values `known`. Operands and scalars
/// keep their names; value 3 is called "v3" where it is read, or a name behind that which nothing has. `in_f64`: results are
/// cast to f64, so that the part computes in it also if it reads nothing of f64.
Subchain subchain_of(const Program& whole, std::span<const Value> writes, std::span<const Value> known,
                     bool in_f64 = false);

}  // namespace epifuse::ir
