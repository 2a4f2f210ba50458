// The oracle of chains with reductions: whole tensors of ranges, one step after the other.
#pragma once

#include <span>
#include <vector>

#include "support/oracle.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {

template <class T>
struct Tensor {
  Dims shape;
  std::vector<T> values;  ///< row-major
};

/// The chain's results for these inputs, which are numbers of the compute type. Throws ShapeError. `few_bits`: every
/// result is stored as a float of 16 or 8 bits, which allows kernels cheaper formulas (templates/fast.cuh).
std::vector<Tensor<Range>> evaluate(const Chain& chain, Compute compute, std::span<const double> scalars,
                                    std::span<const Tensor<double>> inputs, bool few_bits = false);

}  // namespace epifuse::test
