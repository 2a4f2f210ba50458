// Tensors of the examples: filled with normal numbers from a seed, and read back as doubles.
#pragma once

#include <cstdint>
#include <vector>

#include <epifuse/epifuse.hpp>

namespace examples {

namespace ef = epifuse;

/// Number of elements of a shape.
std::int64_t count_of(const ef::Dims& shape) noexcept;

/// Fills a dense device tensor (f32, f16, bf16, f8e4m3 or i8) with normal numbers times `scale`, rounded to its type.
/// The same seed gives the same numbers on every machine and with any number of threads.
void fill_normal(const ef::OutputView& tensor, double scale, std::uint64_t seed);

/// A dense tensor on the engine's device, filled as above.
ef::Array normal(ef::Engine& engine, ef::DType dtype, const ef::Dims& shape, double scale, std::uint64_t seed);

/// `count` elements from device memory, starting `first` elements after `data`.
std::vector<double> download(const void* data, ef::DType dtype, std::int64_t first, std::int64_t count);

/// Where the element at `at` lies, in elements from the view's start; the view broadcasts as in NumPy.
std::int64_t offset_of(const ef::TensorView& view, const ef::Dims& at) noexcept;

/// The view's elements at these coordinates.
std::vector<double> gather(const ef::TensorView& view, const std::vector<ef::Dims>& at);

/// The view's elements at the coordinates of a box, which begins at `first` and has these extents, row-major. The view
/// broadcasts; no stride is negative.
std::vector<double> gather_box(const ef::TensorView& view, const ef::Dims& first, const ef::Dims& extents);

/// Steps to the next coordinates of a box, the last dimension fastest; false after the last.
bool next_in_box(ef::Dims& at, const ef::Dims& extents) noexcept;

/// Bytes that reading or writing the view moves, each element once.
std::int64_t bytes_of(const ef::TensorView& view) noexcept;

}  // namespace examples
