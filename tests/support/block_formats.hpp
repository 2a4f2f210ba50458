// Block-scaled formats by their definitions, with the element types of storage.hpp: OCP's MX formats with exact
// arithmetic, those of `quantize` in f32. For the tests of mx_quantize and of what stands before either.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "support/packed.hpp"
#include "support/storage.hpp"

namespace epifuse::test {

struct MxBlocks {
  std::vector<std::uint8_t> values, scales;  // codes of the element type and of f8e8m0
};

inline constexpr std::size_t kMxSize = 32;
inline constexpr std::uint8_t kNaNScale = 255;

// The exponent of a block's scale, where its largest magnitude is finite.
inline int mx_exponent(double largest, DType dtype, bool rounds_up) {
  const int top = dtype == DType::f8e4m3 ? 8 : 15;  // exponent of the type's largest number: 448 or 57344
  if (!rounds_up) return largest == 0 ? -127 : std::max(std::ilogb(largest) - top, -127);
  int exponent = -127;
  while (std::ldexp(1.75, top + exponent) < largest) ++exponent;
  return exponent;
}

inline MxBlocks mx_blocks(std::span<const float> x, DType dtype, bool rounds_up) {
  MxBlocks blocks;
  for (std::size_t at = 0; at < x.size(); at += kMxSize) {
    double largest = 0;
    bool is_finite = true;
    for (const float value : x.subspan(at, kMxSize)) {
      largest = std::max(largest, std::fabs(static_cast<double>(value)));
      is_finite = is_finite && std::isfinite(value);
    }
    const int exponent = is_finite ? mx_exponent(largest, dtype, rounds_up) : 0;
    blocks.scales.push_back(is_finite ? static_cast<std::uint8_t>(exponent + 127) : kNaNScale);
    for (const float value : x.subspan(at, kMxSize)) {
      const double scaled = std::ldexp(static_cast<double>(value), -exponent);
      std::uint8_t code = 0;
      encode(dtype, is_finite ? scaled : std::numeric_limits<double>::quiet_NaN(), &code);
      blocks.values.push_back(code);
    }
  }
  return blocks;
}

// The scale that `quantize` gives a block whose largest magnitude is `largest`.
inline float block_scale(float largest, float most, bool power_of_two) {
  if (!power_of_two) return largest / most;
  int exponent = -127;
  while (std::ldexp(static_cast<double>(most), exponent) < static_cast<double>(largest)) ++exponent;
  return std::ldexp(1.0F, exponent);
}

// Of finite numbers; scales are the bytes of f32.
inline MxBlocks scaled_blocks(std::span<const float> x, std::size_t block, DType dtype, bool power_of_two) {
  const float most = dtype == DType::i8 ? 127.0F : dtype == DType::f8e4m3 ? 448.0F : 57344.0F;
  MxBlocks blocks{std::vector<std::uint8_t>(x.size()), std::vector<std::uint8_t>(x.size() / block * 4)};
  for (std::size_t at = 0; at < x.size(); at += block) {
    float largest = 1e-4F;
    for (const float value : x.subspan(at, block)) largest = std::max(largest, std::fabs(value));
    const float scale = block_scale(largest, most, power_of_two);
    std::memcpy(&blocks.scales[at / block * 4], &scale, 4);
    for (std::size_t i = at; i < at + block; ++i) {
      const float scaled = x[i] * (1 / scale);
      encode(dtype, static_cast<double>(scaled), &blocks.values[i]);
    }
  }
  return blocks;
}

inline float largest_of(std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

// NVFP4 by its definition, in f32: blocks of 16, of which two values share a byte.
inline MxBlocks nv_blocks(const std::vector<float>& x, float global) {
  MxBlocks blocks;
  std::vector<float> scaled(x.size());
  for (std::size_t at = 0; at < x.size(); at += 16) {
    std::uint8_t code = 0;
    encode(DType::f8e4m3, static_cast<double>(largest_of(std::span(x).subspan(at, 16)) / 6 * global), &code);
    blocks.scales.push_back(code);
    const auto scale = static_cast<float>(decode(DType::f8e4m3, reinterpret_cast<const std::byte*>(&code)));
    const float inverse = scale > 0 ? global / scale : 0;
    for (std::size_t i = at; i < at + 16; ++i) scaled[i] = x[i] * inverse;
  }
  blocks.values = packed_codes(DType::f4e2m1, scaled);
  return blocks;
}

// MXFP4 of finite numbers: the largest magnitude of the type is 6, which is 1.5 * 2^2.
inline MxBlocks mx4_blocks(const std::vector<float>& x, bool rounds_up) {
  MxBlocks blocks;
  std::vector<float> scaled(x.size());
  for (std::size_t at = 0; at < x.size(); at += kMxSize) {
    const auto largest = static_cast<double>(largest_of(std::span(x).subspan(at, kMxSize)));
    int exponent = -127;
    if (rounds_up) {
      while (std::ldexp(6.0, exponent) < largest) ++exponent;
    } else if (largest > 0) {
      exponent = std::max(std::ilogb(largest) - 2, -127);
    }
    blocks.scales.push_back(static_cast<std::uint8_t>(exponent + 127));
    for (std::size_t i = at; i < at + kMxSize; ++i) scaled[i] = std::ldexp(x[i], -exponent);
  }
  blocks.values = packed_codes(DType::f4e2m1, scaled);
  return blocks;
}

// Blocks of every size from denormal numbers to the largest; zeros, and largest elements at and beside what decides
// about a scale.
inline std::vector<float> mx_data(std::size_t blocks) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> x;
  for (std::size_t b = 0; b < blocks; ++b) {
    const int exponent = static_cast<int>(b % 270) - 145;
    const std::size_t first = x.size();
    for (std::size_t i = 0; i < kMxSize; ++i)
      x.push_back(std::clamp(std::ldexp(normal(random), exponent), -0x1p126F, 0x1p126F));
    const float bound = std::ldexp(b % 2 == 0 ? 1.75F : 1.0F, std::min(exponent + 2, 127));
    if (b % 5 == 1) x[first] = bound;
    if (b % 5 == 2) x[first] = std::nextafter(bound, 0.0F);
    if (b % 5 == 3) x[first] = -std::nextafter(bound, std::numeric_limits<float>::max());
    if (b % 17 == 4) std::fill_n(x.begin() + static_cast<std::ptrdiff_t>(first), kMxSize, b % 2 == 0 ? 0.0F : -0.0F);
    if (b % 89 == 9) x[first] = std::numeric_limits<float>::max();
    if (b % 97 == 8) x[first + 5] = std::numeric_limits<float>::infinity();
    if (b % 97 == 7) x[first + 6] = std::numeric_limits<float>::quiet_NaN();
  }
  return x;
}

// Codes are equal, or both NaN.
inline bool are_same_values(std::span<const std::uint8_t> found, std::span<const std::uint8_t> expected, DType dtype) {
  const auto is_nan = [&](std::uint8_t code) { return std::isnan(decode(dtype, &code)); };
  return std::ranges::equal(found, expected, [&](auto a, auto b) { return a == b || (is_nan(a) && is_nan(b)); });
}

}  // namespace epifuse::test
