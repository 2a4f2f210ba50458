// Random numbers that are the same on every machine, from one seed that a failing test prints.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <span>

namespace epifuse::test {

class Random {
 public:
  explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t bits() noexcept {
    state_ += 0x9e3779b97f4a7c15u;  // SplitMix64 (Steele, Lea and Flood 2014)
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// From 0 to bound - 1.
  int below(int bound) noexcept { return static_cast<int>(bits() % static_cast<std::uint64_t>(bound)); }
  int between(int low, int high) noexcept { return low + below(high - low + 1); }
  bool percent(int chance) noexcept { return below(100) < chance; }
  double uniform(double low, double high) noexcept {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  template <class T>
  const T& pick(std::span<const T> list) noexcept {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }
  template <class T>
  T pick(std::initializer_list<T> list) noexcept {
    return *(list.begin() + below(static_cast<int>(list.size())));
  }

 private:
  std::uint64_t state_;
};

/// EPIFUSE_TEST_SEED, or `usual`.
inline std::uint64_t test_seed(std::uint64_t usual) {
  const char* text = std::getenv("EPIFUSE_TEST_SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 0) : usual;
}

}  // namespace epifuse::test
