// Parts of a chain: a Program that is cut at some of its values, as Programs of their own. Called by api/.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

struct Subchain {
  Program program;
  std::vector<Value> reads;  ///< what each operand of `program` is in the whole: an operand, or a value of `known`
};

/// The part of `whole` that computes the values `writes`, in that order, from operands and from the values `known`.
/// Operands and scalars keep their names; value 3 is called "v3" where it is read, or a name behind that which nothing
/// has. `in_f64`: results are cast to f64, so that the part computes in it also if it reads nothing of f64.
Subchain subchain_of(const Program& whole, std::span<const Value> writes, std::span<const Value> known,
                     bool in_f64 = false);

/// The chain of one operand that computes nothing. What runs it copies, reads strides and converts types.
const Program& identity();

/// By value: what computes `writes` reads or computes it. Behind what is known nothing is needed.
std::vector<bool> needed_for(const Program& whole, std::span<const Value> writes, const std::vector<bool>& is_known);

/// Of a tensor or a scalar its name, of other nodes nothing: what rebuilt() takes.
std::string name_of_operand(const Program& whole, const Node& node);

}  // namespace epifuse::ir
