// The tests' own form of a chain: what the oracle evaluates and the random generator builds. It becomes text for the library, so
// that parser, simplifier and emitter are all between the two.
#pragma once

#include <string>
#include <vector>

#include <epifuse/dtype.hpp>
#include <epifuse/epilogue.hpp>

#include "support/definitions.hpp"

namespace epifuse::test {

struct Step {
  enum class Kind { input, scalar, constant, cast, op };
  Kind kind = Kind::constant;
  int ordinal = 0;                         ///< of input and scalar
  double constant = 0;                     ///< of constant
  DType dtype = DType::f32;                ///< of cast
  const Definition* definition = nullptr;  ///< of op
  std::vector<int> args = {};              ///< earlier steps
};

struct Chain {
  std::vector<Step> steps;
  std::vector<int> results;  ///< steps
  int inputs = 0;
  int scalars = 0;

  int input(int ordinal);
  int scalar(int ordinal);
  int constant(double value);
  int cast(int value, DType dtype);
  int op(std::string_view name, std::initializer_list<int> args) { return op(name, std::vector<int>(args)); }
  int op(std::string_view name, std::vector<int> args);

  int operations() const noexcept;
};

/// The names under which a chain's text knows its operands.
std::string input_name(int ordinal);
std::string scalar_name(int ordinal);

/// In the text language: one statement per operation, infix where there is an infix form for every other of them.
std::string to_text(const Chain& chain);
/// parse(to_text(chain)).
Epilogue to_epilogue(const Chain& chain);
/// The chain of an epilogue that was written as text, read from the library's Program.
Chain from_epilogue(const Epilogue& tail);

/// Without the steps that no result needs, operands renumbered; `kept_inputs` and `kept_scalars` tell the old ordinals.
Chain without_dead_steps(const Chain& chain, std::vector<int>& kept_inputs, std::vector<int>& kept_scalars);

}  // namespace epifuse::test
