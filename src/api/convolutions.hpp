// A convolution apart from its chain: its windows are copied to the rows of a matrix, and that is multiplied as any
// other. For products.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.hpp"
#include "plan/bind/products.hpp"

namespace epifuse {

/// One pixel of the filters: one launch copies what all windows have there.
struct WindowCopy {
  ir::Program program;  ///< of the images alone
  std::int64_t column;  ///< of the matrix, that takes the first channel
  Dims shape, strides;  ///< of these elements in the matrix, in elements

  OutputView in(const OutputView& matrix) const;
};

/// [pixels of the result, depth] in no memory: a row has the pixels of a window, and of each its channels.
TensorView matrix_of_windows(const plan::Product& convolution);
std::vector<WindowCopy> copies_of_windows(const plan::Product& convolution);

/// Filters [K, C, R, S] as the right factor of that matrix, [depth, K]; nothing if they do not lie so, as channels-last
/// ones do.
std::optional<TensorView> matrix_of_filters(const TensorView& filters);

/// The result of the convolution as that of the product, [pixels, K].
OutputView matrix_of_result(const OutputView& result);

}  // namespace epifuse
