// Windows as the reverse sweep sees them, whether a chain takes their elements apart or has them as dimensions. For
// reverse_windows.cpp and reverse_unfolds.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/reverse_sweep.hpp"

namespace epifuse::ir {

/// The numbers of a window's view, by name.
struct ReverseSweep::Window {
  static constexpr std::size_t kPadding = 5;  // of a view's numbers
  explicit Window(const View& view)
      : dim(static_cast<int>(view.numbers[0])),
        size(view.numbers[1]),
        stride(view.numbers[2]),
        dilation(view.numbers[3]),
        padding(view.numbers.size() > kPadding ? view.numbers[kPadding] : 0) {}
  int dim;
  std::int64_t size, stride, dilation, padding;

  /// The windows that one element may be in, one before the other; with gaps among their elements they are asked one by
  /// one instead.
  std::int64_t overlapping() const { return (size + stride - 1) / stride; }
  /// How many windows are asked, and how far apart.
  std::int64_t choices() const { return dilation == 1 ? overlapping() : size; }
  std::int64_t step() const { return dilation == 1 ? stride : dilation; }
  /// From one element of a dimension outside this one to the next, in the number that tells a window's elements apart.
  std::int64_t pitch() const { return dilation == 1 ? overlapping() * stride : size; }
};

/// Windows along some dimensions of one value.
struct ReverseSweep::Pool {
  Value x = kNone;              ///< what is pooled
  std::vector<View> views;      ///< by dimension: an element of each window
  std::vector<Window> windows;  ///< by dimension
  std::vector<Value> levels;    ///< where they are taken apart: from what is pooled to the first element of all windows

  /// How many windows an element may be in; with gaps, how many are asked.
  double choices() const {
    double product = 1;
    for (const Window& window : windows) product *= static_cast<double>(window.choices());
    return product;
  }
  /// The type that the numbers of a window's elements fit.
  DType type_of_places() const {
    double most = 1;
    for (const Window& window : windows) most *= static_cast<double>(window.pitch());
    constexpr double kMostOfU8 = 256;
    return most <= kMostOfU8 ? DType::u8 : DType::i32;
  }
};

}  // namespace epifuse::ir
