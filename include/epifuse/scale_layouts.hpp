// Where matrix products look for the scales of quantised blocks (docs/guide/quantisation.md).
#pragma once

#include <cstdint>

#include <epifuse/expr.hpp>
#include <epifuse/tensor.hpp>

namespace epifuse {

/// Scales [rows, blocks] in the tiles of 128×4 that cuBLASLt and CUTLASS take: [⌈rows / 128⌉, ⌈blocks / 4⌉, 32, 4, 4].
/// Scale (i, j) is element [i / 128, j / 4, i % 32, i % 128 / 32, j % 4]; in row-major order that is
/// ((i / 128) * ⌈blocks / 4⌉ + j / 4) * 512 + (i % 32) * 16 + (i % 128) / 32 * 4 + j % 4, as cuBLAS documents it
/// under "1D Block Scaling Factors Layout". Elements of the last tiles that are no scale are bytes of 0,
/// 2^-127 in f8e8m0. A result alone: a launch throws Error(unsupported) where something computes with it, and
/// Error(invalid_argument) for scales of other than two dimensions.
Expr scale_tiles(const Expr& scales);

/// A result of scales [rows, blocks] that lies in memory as [blocks, padded_rows(rows)], which DeepGEMM takes, and
/// cuBLASLt for f32 scales of 1×128 where `rows` is a multiple of 4. What pads is not written.
/// Throws Error(invalid_argument) for negative extents.
OutputView transposed_scales(void* data, DType dtype, std::int64_t rows, std::int64_t blocks);
/// `rows` rounded up to a multiple of 4.
std::int64_t padded_rows(std::int64_t rows) noexcept;

}  // namespace epifuse
