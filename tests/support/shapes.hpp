// Shapes of a chain's values by PyTorch's rules, and plain tensors of them. Shares nothing with src/plan.
#pragma once

#include <span>
#include <stdexcept>
#include <vector>

#include <epifuse/tensor.hpp>

#include "support/chain.hpp"

namespace epifuse::test {

/// The shapes do not fit: what PyTorch refuses.
struct ShapeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// One shape per step, for inputs of these shapes. Throws ShapeError.
std::vector<Dims> infer_shapes(const Chain& chain, std::span<const Dims> inputs);

/// The shape of `a` and `b` together. Throws ShapeError.
Dims broadcast(const Dims& a, const Dims& b);
/// The reduced dimensions as a mask, bit d for dimension d.
unsigned resolve(const AxisList& axes, int rank);

std::int64_t elements_of(const Dims& shape) noexcept;

}  // namespace epifuse::test
