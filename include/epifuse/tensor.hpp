// Views of memory that the caller owns. A view is a small value (no heap): pointer, type, shape, strides.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>

#include <epifuse/dtype.hpp>

namespace epifuse {

inline constexpr int kMaxRank = 8;

/// Up to kMaxRank extents or strides, outermost first. Assigning more throws Error(invalid_argument).
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> values) : Dims(std::span(values.begin(), values.size())) {}
  explicit Dims(std::span<const std::int64_t> values);

  int size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  std::int64_t operator[](int i) const noexcept { return values_[static_cast<std::size_t>(i)]; }
  std::int64_t& operator[](int i) noexcept { return values_[static_cast<std::size_t>(i)]; }
  const std::int64_t* begin() const noexcept { return values_.data(); }
  const std::int64_t* end() const noexcept { return values_.data() + size_; }
  void push_back(std::int64_t value);
  friend bool operator==(const Dims& a, const Dims& b) noexcept;

 private:
  std::array<std::int64_t, kMaxRank> values_{};
  int size_ = 0;
};

/// "[128, 32, 1, 1]"
std::string to_string(const Dims& dims);

/// Strides (in elements) of a dense row-major tensor of that shape.
Dims row_major(const Dims& shape) noexcept;
/// Strides of a dense tensor [N, C, …] whose channels are the innermost dimension in memory (NHWC, NDHWC). Of fewer
/// than three dimensions those of row_major().
Dims channels_last(const Dims& shape) noexcept;

/// start:stop:step; what is not given is all there is. Negative positions count from the back.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

/// An operand. `data` is memory of the device that runs the epilogue (host memory for the CPU device), aligned at least
/// to the element; strides are in elements and may be 0 or negative; they count from `data`, which addresses element 0.
struct TensorView {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;

  TensorView() = default;
  /// Dense, row-major.
  TensorView(const void* pointer, DType type, const Dims& extents)
      : data(pointer), dtype(type), shape(extents), strides(row_major(extents)) {}
  TensorView(const void* pointer, DType type, const Dims& extents, const Dims& steps)
      : data(pointer), dtype(type), shape(extents), strides(steps) {}

  /// `range` of dimension `axis` (negative: from the back), as NumPy's x[start:stop:step]: bounds beyond the extent are
  /// cut, and a negative step counts down. Nothing is copied. Throws Error(invalid_argument) for an axis that is not
  /// there and for a step of 0.
  TensorView slice(int axis, const Slice& range) const;
  /// Dimension i of the result is dimension order[i] of this one. Throws Error(invalid_argument) unless each dimension
  /// stands there once.
  TensorView permute(const Dims& order) const;
};

/// A result: a view that may be written. It converts to TensorView, so that the same tensor can be input and output.
struct OutputView : TensorView {
  OutputView() = default;
  OutputView(void* pointer, DType type, const Dims& extents) : TensorView(pointer, type, extents) {}
  OutputView(void* pointer, DType type, const Dims& extents, const Dims& steps)
      : TensorView(pointer, type, extents, steps) {}

  /// As those of TensorView.
  OutputView slice(int axis, const Slice& range) const;
  OutputView permute(const Dims& order) const;

  /// A dense tensor at `pointer` of the type and shape of `other`, whose dimensions lie in memory in the same order.
  /// Where `other` repeats elements (strides of 0), and among equal strides, the order is row-major.
  static OutputView like(const TensorView& other, void* pointer);

  /// Writable by construction: only the constructors from void* set it.
  void* writable() const noexcept { return const_cast<void*>(data); }
};

}  // namespace epifuse
