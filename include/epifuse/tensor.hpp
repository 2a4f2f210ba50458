// Views of memory that the caller owns. A view is a small value (no heap): pointer, type, shape, strides.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
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
};

/// A result: a view that may be written. It converts to TensorView, so that the same tensor can be input and output.
struct OutputView : TensorView {
  OutputView() = default;
  OutputView(void* pointer, DType type, const Dims& extents) : TensorView(pointer, type, extents) {}
  OutputView(void* pointer, DType type, const Dims& extents, const Dims& steps)
      : TensorView(pointer, type, extents, steps) {}

  /// Writable by construction: only the constructors from void* set it.
  void* writable() const noexcept { return const_cast<void*>(data); }
};

}  // namespace epifuse
