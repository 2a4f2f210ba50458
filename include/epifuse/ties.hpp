// Which of equal elements an extreme's gradient goes to.
#pragma once

#include <cstdint>

namespace epifuse {

/// Of the largest or smallest elements of a row:
enum class Ties : std::uint8_t {
  share,  ///< all alike, as those of PyTorch's amax
  first,  ///< the first, and of NaNs the first, as of torch.max along a dimension
  pool,   ///< the first, and of NaNs the last, as of max_pool2d
};

}  // namespace epifuse
