// Philox4x32-10, written from the paper for the tests alone (Salmon, Moraes, Dror and Shaw, SC 2011), and the numbers
// that chains draw of it as docs/guide/operations.md defines them.
#pragma once

#include <array>
#include <cstdint>

namespace epifuse::test {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key);

/// The number of the element with that row-major index.
float random_number(std::uint64_t seed, std::uint64_t offset, std::uint64_t index);

}  // namespace epifuse::test
