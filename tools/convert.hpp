// Elements of tensors in host memory as other types.
#pragma once

#include <vector>

#include <epifuse/tensor.hpp>

namespace epifuse::tool {

/// `to` = `from` converted to its type, by the CPU device: rounding and saturation are those of chains.
void convert_elements(const OutputView& to, const TensorView& from);
/// Elements in row-major order; exact but for integers beyond 2^53.
std::vector<double> to_doubles(const TensorView& view);

}  // namespace epifuse::tool
