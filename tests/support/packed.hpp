// Tensors of 4-bit elements by their definitions: the numbers of each code, the code nearest to a number, two codes to
// a byte. For the tests of packed types; nothing of the library is used.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include <epifuse/tensor.hpp>

namespace epifuse::test {

/// The numbers of the 16 codes. OCP Microscaling Formats 1.0, section 5.3.3: a sign, two bits of exponent with a bias
/// of 1, one of mantissa.
inline std::array<double, 16> numbers_of(DType type) {
  switch (type) {
    case DType::f4e2m1:
      return {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6};
    case DType::i4:
      return {0, 1, 2, 3, 4, 5, 6, 7, -8, -7, -6, -5, -4, -3, -2, -1};
    default:
      return {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  }
}

/// The code of the nearest number, of two the one whose code is even; beyond the ends the last. NaN is 0, or -0 of
/// f4e2m1.
inline std::uint8_t code_of(DType type, double value) {
  const std::array<double, 16> numbers = numbers_of(type);
  if (std::isnan(value)) return type == DType::f4e2m1 ? 8 : 0;
  std::uint8_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  const double bounded = std::clamp(value, -16.0, 16.0);
  for (std::uint8_t code = 0; code < 16; ++code) {
    // -0 is another code than 0.
    if (type == DType::f4e2m1 && std::signbit(numbers[code]) != std::signbit(value)) continue;
    const double distance = std::fabs(numbers[code] - bounded);
    if (distance < least || (distance == least && code % 2 == 0)) best = code;
    least = std::min(least, distance);
  }
  return best;
}

/// A tensor of them: bytes as they lie in memory, and the numbers that these mean.
struct PackedTensor {
  PackedTensor(DType dtype, const Dims& dims) : type(dtype), shape(dims), bytes(elements() / 2) {}
  std::size_t elements() const {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
  void fill(std::mt19937& random) {
    for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  }
  std::uint8_t code(std::size_t i) const { return static_cast<std::uint8_t>(bytes[i / 2] >> (i % 2 * 4) & 15); }
  std::vector<float> numbers() const {
    std::vector<float> all;
    for (std::size_t i = 0; i < elements(); ++i) all.push_back(static_cast<float>(numbers_of(type)[code(i)]));
    return all;
  }
  OutputView view() { return {bytes.data(), type, shape}; }

  DType type;
  Dims shape;
  std::vector<std::uint8_t> bytes;
};

/// The bytes that hold these numbers.
inline std::vector<std::uint8_t> packed_codes(DType type, std::span<const float> values) {
  std::vector<std::uint8_t> bytes(values.size() / 2);
  for (std::size_t i = 0; i < values.size(); ++i)
    bytes[i / 2] =
        static_cast<std::uint8_t>(bytes[i / 2] | code_of(type, static_cast<double>(values[i])) << (i % 2 * 4));
  return bytes;
}

}  // namespace epifuse::test
