// Infix operators of the text language: one table for the parser and the printer.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "ir/ops.hpp"

namespace epifuse::ir {

/// Precedences, loosest first, as in Python.
inline constexpr int kOr = 1, kAnd = 2, kNot = 3, kComparison = 4, kSum = 5, kProduct = 6, kUnary = 7, kPower = 8,
                     kAtom = 9;

struct InfixRow {
  std::string_view symbol;
  Op op;
  int precedence;
  int left_minimum;  ///< an operand on that side that binds looser than this needs parentheses
  int right_minimum;
};

inline constexpr std::array kInfix = {
    InfixRow{"or", Op::logical_or, kOr, kOr, kAnd},        InfixRow{"and", Op::logical_and, kAnd, kAnd, kNot},
    InfixRow{"==", Op::eq, kComparison, kSum, kSum},       InfixRow{"!=", Op::ne, kComparison, kSum, kSum},
    InfixRow{"<", Op::lt, kComparison, kSum, kSum},        InfixRow{"<=", Op::le, kComparison, kSum, kSum},
    InfixRow{">", Op::gt, kComparison, kSum, kSum},        InfixRow{">=", Op::ge, kComparison, kSum, kSum},
    InfixRow{"+", Op::add, kSum, kSum, kProduct},          InfixRow{"-", Op::sub, kSum, kSum, kProduct},
    InfixRow{"*", Op::mul, kProduct, kProduct, kUnary},    InfixRow{"/", Op::div, kProduct, kProduct, kUnary},
    InfixRow{"@", Op::matmul, kProduct, kProduct, kUnary}, InfixRow{"**", Op::pow, kPower, kAtom, kUnary},
};

inline const InfixRow* find_infix(std::string_view symbol) {
  const auto it = std::ranges::find(kInfix, symbol, &InfixRow::symbol);
  return it == kInfix.end() ? nullptr : &*it;
}

inline const InfixRow* find_infix(Op op) {
  const auto it = std::ranges::find(kInfix, op, &InfixRow::op);
  return it == kInfix.end() ? nullptr : &*it;
}

}  // namespace epifuse::ir
