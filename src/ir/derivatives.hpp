// The derivatives of operations (derivatives.def) as pieces of chains. For gradient.cpp.
#pragma once

#include <array>
#include <cstddef>

#include "ir/program.hpp"

namespace epifuse::ir {

/// What an operation's derivative with respect to one argument is.
enum class Slope {
  stops,   ///< there is none: nothing reaches the argument
  zero,    ///< 0 everywhere
  stated,  ///< a formula
};
Slope slope_of(Op op, std::size_t argument);

/// What `g`, the gradient of the result `y`, adds to the gradient of an argument whose slope is stated. `args` are the
/// operation's arguments in `builder`.
Value derivative(Builder& builder, Op op, std::size_t argument, const std::array<Value, kMaxArity>& args, Value y,
                 Value g);

/// The value in `builder` that `node` is with these arguments. Inputs and scalars are found by `name`; `view` is that
/// of a node of Op::view.
Value rebuilt(Builder& builder, const Node& node, const std::array<Value, kMaxArity>& args, std::string_view name,
              const View* view);

}  // namespace epifuse::ir
