// What a caller gives for operands and run-time scalars, by position or by name. For the files of api/ only.
#pragma once

#include <span>
#include <string_view>

#include <epifuse/epilogue.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"

namespace epifuse {

/// Named arguments in the chain's order.
struct Positional {
  base::InlineVector<TensorView, 8> inputs;
  base::InlineVector<double, 8> scalars;
};

/// Throws Error(invalid_argument) for a missing, an unknown and a repeated name. Scalars are values that a kernel does
/// not depend on: only launches need them.
Positional in_order(const Epilogue& tail, const Arguments& arguments, bool needs_scalars);

/// The Error(invalid_argument) for operands by position in an order that nobody stated. `remedy` says how the caller's
/// interface states one, or names operands.
[[noreturn]] void refuse_positions(const Epilogue& tail, std::string_view remedy);

/// Throws unless the chain takes operands by position; the remedy is that of the C++ interface.
void check_input_order(const Epilogue& tail);
/// The same for scalars.
void check_scalar_order(const Epilogue& tail);
/// Throws unless these are the scalars of a launch, in the chain's order.
void check_scalars(const ir::Program& program, std::span<const double> scalars);

}  // namespace epifuse
