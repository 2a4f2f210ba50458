// What a call of any function of the language means, in steps of the tests' chains. From PyTorch's formulas, apart from
// src/ir/composites.cpp. For the generator that draws calls from signatures (draw.cpp).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "support/chain.hpp"

namespace epifuse::test {

/// One argument of a call. Which fields count depends on the parameter's type.
struct CallArgument {
  int value = -1;     ///< of values: a step; -1: `none`
  double number = 0;  ///< of numbers, integers and flags
  AxisList axes = {};
  std::array<std::int64_t, 2> sizes = {0, 0};
  DType dtype = DType::f32;
  std::string_view word = {};
};

/// Appends the call's steps to the chain; `arguments` holds one for each parameter of the signature. Returns the step
/// of its value. Throws std::out_of_range for a function that has no meaning here: a new one needs its row in
/// meaning.cpp.
int append_call(Chain& chain, std::string_view function, const std::vector<CallArgument>& arguments);

/// False for the functions that gradients are made of, whose shapes other values give: the chains of the tests have no
/// steps for them. Those are tested by tests/api/gradient_test.cpp and python/tests/test_gradient.py.
bool is_drawn(std::string_view function);
/// Whether the chain's steps are the call alone, so that its text is not the function's name: `gelu(x,
/// approximate="tanh")` is one step.
bool is_one_step(std::string_view function);

}  // namespace epifuse::test
