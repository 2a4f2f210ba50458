// Random operands: the same on every machine for a seed, a name and a type, whatever the layout and the number of
// cores.
#pragma once

#include <cstdint>

#include "host_tensor.hpp"

namespace epifuse::tool {

/// Floats: the standard normal distribution. i8, u8: all values alike. i32, i64: -1000 to 1000. bool: a fair coin.
HostTensor random_tensor(const TensorInfo& info, std::uint64_t seed);

}  // namespace epifuse::tool
