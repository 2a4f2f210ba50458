// Gradients: the backward pass of an epilogue as an epilogue of its own, and what the forward pass must save for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include <epifuse/epilogue.hpp>

namespace epifuse {

/// Where the backward pass gets an operand from.
enum class GradientSource : std::uint8_t {
  gradient,  ///< the gradient of a result, of that result's shape
  result,    ///< a result of the forward pass, as that stored it
  saved,     ///< a further result of the forward pass: one number per row, or a truth value per element
  operand,   ///< an operand of the forward pass, unchanged
  shape,  ///< the same, but its elements are not read: any tensor of that shape will do, one with strides of 0 for example
};

struct GradientOperand {
  std::string name;  ///< in `backward`: "dout" for the gradient of "out"
  GradientSource source = GradientSource::operand;
  std::size_t index =
      0;  ///< gradient, result, saved: position in forward.results(); operand, shape: in forward.inputs()
};

/// Two epilogues that belong together. Both are values: they own no memory, and outlive the one that they were made of.
struct Gradient {
  Epilogue forward;   ///< the epilogue's results, then `saved` further ones
  Epilogue backward;  ///< a result for each operand that was asked for, of that operand's shape: "dx" for "x"
  std::vector<GradientOperand> operands;  ///< of `backward`, in the order of backward.inputs()
  std::size_t saved = 0;                  ///< how many these are

  /// The types of the results of `forward` for operands of these types and shapes, as PyTorch keeps them: the
  /// epilogue's own as promotion gives them, what is saved in the compute type, f32 or f64 (truth values as bool),
  /// whatever the type of the operands.
  std::vector<DType> forward_types(std::span<const TensorView> inputs) const;
  std::vector<DType> forward_types(const Arguments& inputs) const;
};

struct GradientOptions {
  /// Operands that the forward pass writes results over. Backward will not read them.
  std::vector<std::string> overwritten;
};

/// The gradient of `tail` with respect to the operands named in `wrt`. With respect to what an operand broadcasts
/// along, gradients are summed. Conventions at kinks are PyTorch's: relu'(0) = 0, abs'(0) = 0, equal largest elements
/// share the gradient of amax. `cast` to a float type passes gradients on as they are.
///
/// The backward pass reads what is in memory anyway and computes pointwise values again; docs/guide/training.md has the
/// policy. Run-time scalars that it needs keep their names. It is an epilogue as any other: it has no gradient of its
/// own only where an operation has none.
///
/// By position `forward` takes operands as `tail` does: where the order of tail.inputs() is stated. `backward` takes
/// them as Gradient::operands lists them, and scalars in the order of backward.scalars(): these lists state an order.
///
/// Throws Error(invalid_argument) for a name that is no operand, or is named twice, where no path of operations with a
/// derivative leads from an operand to a result, and where backward would need an overwritten operand;
/// Error(unsupported) for a run-time scalar.
Gradient gradient(const Epilogue& tail, std::span<const std::string> wrt, const GradientOptions& options = {});
Gradient gradient(const Epilogue& tail, std::initializer_list<std::string> wrt, const GradientOptions& options = {});

}  // namespace epifuse
