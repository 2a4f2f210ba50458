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

/// The chain's results for these inputs, which are numbers of the compute type. Throws ShapeError.
std::vector<Tensor<Range>> evaluate(const Chain& chain, Compute compute, std::span<const double> scalars,
                                    std::span<const Tensor<double>> inputs, const Slack& slack = {});

}  // namespace epifuse::test
