// Matrix products of the CPU device. Called by the engine (api/).
#pragma once

#include <optional>

#include <epifuse/tensor.hpp>

#include "plan/bind/products.hpp"

namespace epifuse::host {

/// result = left @ right over [..., rows, depth] and [..., depth, columns], whose dimensions in front broadcast to the
/// result's. The result is dense: f64 of factors of f64, i32 of i8, else f32, in which products of other floats are
/// summed. Views are of host memory; they were checked before. Factors with scales are matrices.
void multiply(const TensorView& left, const TensorView& right, const OutputView& result,
              const std::optional<plan::ScaleView>& left_scales = std::nullopt,
              const std::optional<plan::ScaleView>& right_scales = std::nullopt);

/// The type of `multiply`'s result for factors of that type.
DType type_of_sums(DType factor) noexcept;

}  // namespace epifuse::host
