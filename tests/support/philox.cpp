#include "support/philox.hpp"

#include <cmath>

namespace epifuse::test {

// A round takes counter (R0, L0, R1, L1), as the paper's figure has it: S-box mulhi and mullo of R by a constant, and a
// permutation.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  constexpr std::array<std::uint64_t, 2> kMultiplier = {0xD2511F53, 0xCD9E8D57};
  constexpr std::array<std::uint32_t, 2> kWeyl = {0x9E3779B9, 0xBB67AE85};  // golden ratio, sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    std::array<std::uint32_t, 4> next{};
    for (std::size_t side = 0; side < 2; ++side) {
      const std::uint64_t product = kMultiplier[side] * counter[2 * side];
      const std::size_t other = 2 - 2 * side;
      next[other] = static_cast<std::uint32_t>(product / 0x1'0000'0000) ^ counter[other + 1] ^ key[other / 2];
      next[other + 1] = static_cast<std::uint32_t>(product % 0x1'0000'0000);
    }
    counter = next;
    for (std::size_t i = 0; i < 2; ++i) key[i] += kWeyl[i];
  }
  return counter;
}

float random_number(std::uint64_t seed, std::uint64_t offset, std::uint64_t index) {
  const auto low = [](std::uint64_t word) { return static_cast<std::uint32_t>(word % 0x1'0000'0000); };
  const auto high = [](std::uint64_t word) { return static_cast<std::uint32_t>(word / 0x1'0000'0000); };
  const auto words = philox({low(index / 4), high(index / 4), low(offset), high(offset)}, {low(seed), high(seed)});
  return std::ldexp(static_cast<float>(words[index % 4] / 256), -24);
}

}  // namespace epifuse::test
