// Dims and dense strides: the small values that every component passes around.
#include <algorithm>

#include <epifuse/tensor.hpp>

#include "base/text.hpp"

namespace epifuse {

Dims::Dims(std::span<const std::int64_t> values) {
  for (const std::int64_t value : values) push_back(value);
}

void Dims::push_back(std::int64_t value) {
  if (size_ == kMaxRank) {
    base::fail(ErrorCode::invalid_argument, "a tensor has more than {} dimensions, the most that EpiFuse takes",
               kMaxRank);
  }
  values_[static_cast<std::size_t>(size_++)] = value;
}

bool operator==(const Dims& a, const Dims& b) noexcept { return std::ranges::equal(a, b); }

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

Dims row_major(const Dims& shape) noexcept {
  Dims strides = shape;
  // Unsigned: a shape too large to address is refused when it is bound, not here, and must not be undefined behaviour.
  std::uint64_t step = 1;
  for (int i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
  }
  return strides;
}

}  // namespace epifuse
