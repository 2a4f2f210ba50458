// The C++ front end's graph, and its translation into a Program.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/expr.hpp>

#include "ir/program.hpp"

namespace epifuse {

/// One node of the graph behind Expr. Shared and immutable.
struct ExprNode {
  using Expand = std::function<ir::Value(ir::Builder&, std::span<const ir::Value>)>;

  ir::Op op = ir::Op::constant;
  std::vector<std::shared_ptr<const ExprNode>> args;
  std::string name;          ///< of input and scalar
  double constant = 0;       ///< of constant
  DType dtype = DType::f32;  ///< of cast; of constant: bool, i64 or f32, as it was written
  std::string_view written;  ///< of what has `expand`: the function's name, static text
  /// Of reductions, shape operations and composites, instead of `op`: builds the value from those of `args`.
  Expand expand;

  ExprNode() = default;
  ExprNode(const ExprNode&) = delete;
  ExprNode& operator=(const ExprNode&) = delete;
  /// Takes long chains apart without recursion.
  ~ExprNode();
};

/// The node of a function that several operations of the Program may stand behind. `expand` runs when the Program is
/// built: what it refuses is an Error of the Epilogue's constructor, as for all operations.
Expr composite(std::string_view function, const std::vector<Expr>& args, ExprNode::Expand expand);

/// Axes of a call of that function; an Error where one is out of range.
ir::Axes axes_of(std::string_view function, const Axes& axes);

namespace ir {
/// The program that computes these expressions, in this order.
Program translate(std::span<const Expr> results);
}  // namespace ir

}  // namespace epifuse
