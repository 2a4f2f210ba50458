// The windows of pools that tests draw, and what a pool makes of one. For view_functions.cpp, large_windows.cpp and
// window_functions.cpp.
#pragma once

#include <cstddef>
#include <string>

#include "support/places.hpp"

namespace epifuse::test {

/// Over the last dimensions of a tensor, one entry for each of them.
struct Windows {
  Place shape, result;  ///< of the tensor, and of what there is one of for each window
  Place size, stride, dilation;
  Place padding = {};  ///< empty: none
  bool rounds_up = false;
  std::string arguments;

  int rank() const { return static_cast<int>(size.size()); }
  std::string name(const char* stem) const { return stem + std::to_string(rank()) + "d"; }
};

/// Folds `combine` over those elements of the window at `place` of a result that the tensor has.
template <class Combine>
double over_window(const Windows& w, const Place& place, const At& x, double first, Combine combine) {
  double all = first;
  each_place(w.size, [&](const Place& inside) {
    Place at = place;
    const std::size_t outer = place.size() - w.size.size();
    bool exists = true;
    for (std::size_t d = 0; d < w.size.size(); ++d) {
      at[outer + d] =
          place[outer + d] * w.stride[d] + inside[d] * w.dilation[d] - (w.padding.empty() ? 0 : w.padding[d]);
      exists = exists && at[outer + d] >= 0 && at[outer + d] < w.shape[outer + d];
    }
    if (exists) all = combine(all, x(at));
  });
  return all;
}

}  // namespace epifuse::test
