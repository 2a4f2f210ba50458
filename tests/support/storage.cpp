// Minifloats by their parameters (exponent bits, fraction bits, what the top code means); integers by rounding and
// bounds.
#include "support/storage.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace epifuse::test {
namespace {

struct Format {
  int exponent_bits;
  int fraction_bits;
  bool has_infinity;  // otherwise the largest exponent holds numbers, and only the all-ones code is NaN
  bool saturates;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  int top_exponent() const { return (1 << exponent_bits) - 1; }
  int smallest_exponent() const { return 1 - bias(); }
  std::uint64_t sign_bit() const { return std::uint64_t{1} << (exponent_bits + fraction_bits); }
  std::uint64_t fraction_mask() const { return (std::uint64_t{1} << fraction_bits) - 1; }
  std::uint64_t infinity() const { return static_cast<std::uint64_t>(top_exponent()) << fraction_bits; }
  // The code of the largest finite number and of a NaN, without sign.
  std::uint64_t largest() const { return has_infinity ? infinity() - 1 : sign_bit() - 2; }
  std::uint64_t nan() const {
    return has_infinity ? infinity() | (std::uint64_t{1} << (fraction_bits - 1)) : sign_bit() - 1;
  }
};

const Format* format_of(DType type) {
  static constexpr Format kF64{11, 52, true, false}, kF32{8, 23, true, false}, kF16{5, 10, true, false},
      kBF16{8, 7, true, false}, kE4M3{4, 3, false, true}, kE5M2{5, 2, true, true};
  switch (type) {
    case DType::f64:
      return &kF64;
    case DType::f32:
      return &kF32;
    case DType::f16:
      return &kF16;
    case DType::bf16:
      return &kBF16;
    case DType::f8e4m3:
      return &kE4M3;
    case DType::f8e5m2:
      return &kE5M2;
    default:
      return nullptr;
  }
}

long double decode_float(const Format& format, std::uint64_t code) {
  const std::uint64_t magnitude = code & (format.sign_bit() - 1);
  const long double sign = (code & format.sign_bit()) != 0 ? -1 : 1;
  if (format.has_infinity ? magnitude > format.infinity() : magnitude == format.nan()) {
    return std::numeric_limits<long double>::quiet_NaN();
  }
  if (format.has_infinity && magnitude == format.infinity()) return sign * std::numeric_limits<long double>::infinity();
  const int exponent = static_cast<int>(magnitude >> format.fraction_bits);
  const std::uint64_t fraction = magnitude & format.fraction_mask();
  const std::uint64_t hidden = exponent == 0 ? 0 : std::uint64_t{1} << format.fraction_bits;
  const int scale = std::max(exponent, 1) - format.bias() - format.fraction_bits;
  return sign * std::ldexp(static_cast<long double>(hidden | fraction), scale);
}

std::uint64_t encode_float(const Format& format, double value) {
  if (std::isnan(value)) return format.nan();
  const std::uint64_t sign = std::signbit(value) ? format.sign_bit() : 0;
  const double magnitude = std::fabs(value);
  const std::uint64_t beyond = format.saturates ? format.largest() : format.infinity();
  if (std::isinf(value)) return sign | beyond;
  if (magnitude == 0) return sign;
  // In units of the last place of its binade the value is rounded to an integer, which a double holds.
  const int exponent = std::max(std::ilogb(magnitude), format.smallest_exponent());
  const double units = std::nearbyint(std::ldexp(magnitude, format.fraction_bits - exponent));
  // Consecutive numbers have consecutive codes, so a carry out of the fraction lands in the exponent by itself.
  const auto code = (static_cast<std::uint64_t>(exponent - format.smallest_exponent()) << format.fraction_bits) +
                    static_cast<std::uint64_t>(units);
  return sign | (code > format.largest() ? beyond : code);
}

// E8M0: code k is 2^(k - 127), 255 is NaN. PyTorch and ml_dtypes take all between 2^-127 and 2^-126 to the latter.
std::uint8_t encode_scale(double value) {
  if (std::isnan(value) || value < 0 || value >= 0x1.8p127) return 255;
  if (value <= 0x1p-127) return 0;
  if (value < 0x1p-126) return 1;
  const int exponent = std::ilogb(value);
  return static_cast<std::uint8_t>(exponent + 127 + (value >= std::ldexp(1.5, exponent) ? 1 : 0));
}

long double decode_scale(std::uint8_t code) {
  return code == 255 ? std::numeric_limits<long double>::quiet_NaN() : std::ldexp(1.0L, code - 127);
}

template <class Integer>
Integer saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (std::isnan(value)) return 0;
  const double rounded = std::nearbyint(value);
  // The upper bound plus one is a power of two, so a double holds it; the bound itself may not fit one.
  const double above = std::ldexp(1.0, Limits::digits);
  if (rounded >= above) return Limits::max();
  if (rounded < static_cast<double>(Limits::min())) return Limits::min();
  return static_cast<Integer>(rounded);
}

template <class T>
T load(const void* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}
template <class T>
void store(T value, void* bytes) {
  std::memcpy(bytes, &value, sizeof value);
}

std::uint64_t load_code(std::size_t size, const void* bytes) {
  switch (size) {
    case 1:
      return load<std::uint8_t>(bytes);
    case 2:
      return load<std::uint16_t>(bytes);
    case 4:
      return load<std::uint32_t>(bytes);
    default:
      return load<std::uint64_t>(bytes);
  }
}
void store_code(std::size_t size, std::uint64_t code, void* bytes) {
  switch (size) {
    case 1:
      return store(static_cast<std::uint8_t>(code), bytes);
    case 2:
      return store(static_cast<std::uint16_t>(code), bytes);
    case 4:
      return store(static_cast<std::uint32_t>(code), bytes);
    default:
      return store(code, bytes);
  }
}

}  // namespace

long double decode(DType type, const void* bytes) noexcept {
  if (const Format* format = format_of(type)) return decode_float(*format, load_code(size_of(type), bytes));
  switch (type) {
    case DType::i8:
      return load<std::int8_t>(bytes);
    case DType::u8:
      return load<std::uint8_t>(bytes);
    case DType::i32:
      return load<std::int32_t>(bytes);
    case DType::i16:
      return load<std::int16_t>(bytes);
    case DType::u16:
      return load<std::uint16_t>(bytes);
    case DType::u32:
      return load<std::uint32_t>(bytes);
    case DType::f8e8m0:
      return decode_scale(load<std::uint8_t>(bytes));
    case DType::i64:
      return static_cast<long double>(load<std::int64_t>(bytes));  // 64 bits of mantissa hold every one
    default:
      return load<std::uint8_t>(bytes) != 0 ? 1 : 0;
  }
}

void encode(DType type, double value, void* bytes) noexcept {
  if (const Format* format = format_of(type)) return store_code(size_of(type), encode_float(*format, value), bytes);
  switch (type) {
    case DType::i8:
      return store(saturated<std::int8_t>(value), bytes);
    case DType::u8:
      return store(saturated<std::uint8_t>(value), bytes);
    case DType::i32:
      return store(saturated<std::int32_t>(value), bytes);
    case DType::i16:
      return store(saturated<std::int16_t>(value), bytes);
    case DType::u16:
      return store(saturated<std::uint16_t>(value), bytes);
    case DType::u32:
      return store(saturated<std::uint32_t>(value), bytes);
    case DType::f8e8m0:
      return store(encode_scale(value), bytes);
    case DType::i64:
      return store(saturated<std::int64_t>(value), bytes);
    default:
      return store(static_cast<std::uint8_t>(value != 0 ? 1 : 0), bytes);
  }
}

long double stored(DType type, double value) noexcept {
  unsigned char bytes[8];
  encode(type, value, bytes);
  return decode(type, bytes);
}

long double largest(DType type) noexcept {
  if (const Format* format = format_of(type)) return decode_float(*format, format->largest());
  return type == DType::f8e8m0 ? 0x1p127L : stored(type, std::numeric_limits<double>::infinity());
}

long double smallest(DType type) noexcept {
  if (type == DType::f8e8m0) return 0x1p-127L;
  const Format* format = format_of(type);
  return format != nullptr ? decode_float(*format, 1) : 1;
}

long double spacing(DType type, long double value) noexcept {
  if (type == DType::f8e8m0) return std::max(std::fabs(value), 0x1p-127L);
  const Format& format = *format_of(type);
  const int exponent =
      value == 0 ? format.smallest_exponent() : std::max(std::ilogb(value), format.smallest_exponent());
  return std::ldexp(1.0L, exponent - format.fraction_bits);
}

}  // namespace epifuse::test
