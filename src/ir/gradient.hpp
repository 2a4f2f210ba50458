// The gradient of a chain as chains: one for the backward pass, and the forward pass with what that one needs as
// further results. Called by api/ and tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// Where the backward pass gets an operand from.
enum class Source : std::uint8_t {
  gradient,  ///< of a result of the chain
  result,    ///< of the chain, as the forward pass stored it
  saved,     ///< a further result of the forward pass
  operand,   ///< of the chain
  shape,     ///< an operand of the chain of which only the shape counts: its elements are not read
};

struct BackwardOperand {
  std::string name;  ///< in the backward chain
  Source source = Source::operand;
  std::size_t index =
      0;  ///< of gradient and result: among the chain's results; of saved: among the forward chain's; of
          ///< operand and shape: among the chain's operands
};

struct Gradient {
  Program forward;                        ///< the chain's results, then what is saved
  std::size_t saved;                      ///< how many are
  Program backward;                       ///< one result for each of `wrt`: "dx" for "x"
  std::vector<BackwardOperand> operands;  ///< of `backward`, in its order
};

struct GradientOptions {
  std::vector<std::string>
      overwritten;  ///< operands that the forward pass writes its results over: backward does not read them
};

/// Throws Error(invalid_argument) for a name that is no operand, is given twice, or that no differentiable path leads
/// to a result from.
Gradient gradient(const Program& program, std::span<const std::string> wrt, const GradientOptions& options = {});

}  // namespace epifuse::ir
