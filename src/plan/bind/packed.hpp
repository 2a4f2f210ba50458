// Tensors of 4-bit elements, two of which share a byte (is_packed). For bind and what counts bytes.
#pragma once

#include <string>

#include <epifuse/tensor.hpp>

namespace epifuse::plan {

/// The innermost dimension of a packed tensor is a multiple of this: no vector of a thread is cut, and all begin with a
/// byte.
inline constexpr std::int64_t kPackedRun = 16;

/// The bytes of a tensor that check_packed() accepts, as elements of 8 bits. Any other tensor as it is.
TensorView as_bytes(const TensorView& view) noexcept;

/// Throws Error(invalid_argument), naming `who`, where a tensor of a packed type is not dense in row-major order, or
/// its innermost dimension is no multiple of kPackedRun.
void check_packed(const std::string& who, const TensorView& view);

}  // namespace epifuse::plan
