// Programs without taste: drawn from the signatures of the language's functions alone, uniformly, over operands of
// every kind. What tests/generator/main.cpp and the soak run. A program follows from a seed and its number.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "support/case.hpp"

namespace epifuse::test {

/// How a call is written: text, a step, text, a step, …, text. The steps between the call and its arguments are then
/// not written.
struct CallText {
  std::vector<std::string> pieces;  ///< one more than `steps`
  std::vector<int> steps;
};

/// How large its tensors are, which decides what is done with a program.
enum class Size : std::uint8_t {
  small,   ///< hundreds of elements
  medium,  ///< ten thousands: rows that blocks share
  large,   ///< as models have them: planned and compiled, never run
  chain    ///< hundreds of calls: planned and printed in bounded time
};

const char* to_string(Size size) noexcept;

struct Program {
  Case test;
  std::map<int, CallText> calls;  ///< of steps that stand for several: softmax, norms
  plan::Machine machine;          ///< for which it is planned
  Size size = Size::small;
  std::uint64_t names = 0;  ///< seed of the names in its text

  bool runs() const noexcept { return size == Size::small || size == Size::medium; }
};

Program draw_program(std::uint64_t seed, std::uint64_t number);

/// A program's text in which names clash wherever they may: values called `t0` and `out`, names that are given again,
/// aliases of operands, operands called as functions.
struct NamedText {
  std::string text;
  std::vector<std::string> inputs;   ///< names, by the case's ordinals
  std::vector<std::string> scalars;  ///< likewise
  std::vector<std::string> results;  ///< as the library has to call them
};
NamedText named_text(const Chain& chain, const std::map<int, CallText>& calls, std::uint64_t names);

/// Views of memory that nobody has: for what plans and never runs. Operands lie far apart, as aligned as the case says.
Views pretended_views(const Case& test, const Epilogue& tail);
/// The same of a tail that calls its operands and scalars otherwise: their positions in the case, in the tail's order.
Views pretended_views(const Case& test, const std::vector<std::size_t>& inputs,
                      const std::vector<std::size_t>& scalars);

}  // namespace epifuse::test
