// Counter-based: element i depends on (seed, name, i) alone, so pieces can be made on all cores and in any order.
#include "random.hpp"

#include <cmath>
#include <numbers>
#include <string_view>

#include "convert.hpp"
#include "support.hpp"

namespace epifuse::tool {
namespace {

// SplitMix64's output function (Steele, Lea, Flood 2014) over a Weyl sequence.
std::uint64_t hash(std::uint64_t key, std::uint64_t index) noexcept {
  std::uint64_t z = key + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

std::uint64_t key_of(std::uint64_t seed, std::string_view name) noexcept {
  std::uint64_t key = hash(seed, 0);
  for (const char c : name) key = hash(key ^ static_cast<unsigned char>(c), 1);
  return key;
}

// Box and Muller: each hash gives two normal values, elements 2k and 2k + 1.
template <class Real>
void normals(Real* values, std::uint64_t first, std::uint64_t last, std::uint64_t key) noexcept {
  constexpr Real kStep = Real{1} / 16777216;  // 24 bits, exact in both types
  for (std::uint64_t i = first; i < last; i += 2) {
    const std::uint64_t bits = hash(key, i / 2);
    const Real uniform = static_cast<Real>((bits >> 40) + 1) * kStep;  // never 0
    const Real angle = static_cast<Real>((bits >> 8) & 0xffffff) * kStep * 2 * std::numbers::pi_v<Real>;
    const Real radius = std::sqrt(-2 * std::log(uniform));
    values[i] = radius * std::cos(angle);
    if (i + 1 < last) values[i + 1] = radius * std::sin(angle);
  }
}

template <class Int>
void integers(Int* values, std::uint64_t first, std::uint64_t last, std::uint64_t key, std::int64_t low,
              std::uint64_t count) {
  for (std::uint64_t i = first; i < last; ++i) {
    // The high half of a product: all values alike, to within 2^-32.
    const std::uint64_t choice = ((hash(key, i) >> 32) * count) >> 32;
    values[i] = static_cast<Int>(low + static_cast<std::int64_t>(choice));
  }
}

// Pieces start at even positions, where a pair of normal values starts.
constexpr std::uint64_t kGrain = 1 << 14;

template <class Fill>
void fill_in_parallel(const HostTensor& dense, const Fill& fill) {
  parallel_pieces(static_cast<std::uint64_t>(element_count(dense.info().shape)), kGrain, fill);
}

template <class Real>
void fill_normals(const HostTensor& dense, std::uint64_t key) {
  auto* values = static_cast<Real*>(dense.view().writable());
  fill_in_parallel(dense, [=](std::uint64_t first, std::uint64_t last) { normals(values, first, last, key); });
}

template <class Int>
void fill_integers(const HostTensor& dense, std::uint64_t key, std::int64_t low, std::uint64_t count) {
  auto* values = static_cast<Int*>(dense.view().writable());
  fill_in_parallel(dense,
                   [=](std::uint64_t first, std::uint64_t last) { integers(values, first, last, key, low, count); });
}

// For the type that has no sign.
void take_magnitudes(const HostTensor& dense) {
  auto* values = static_cast<float*>(dense.view().writable());
  fill_in_parallel(dense, [=](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) values[i] = std::fabs(values[i]);
  });
}

// The types that C++ has. The others are converted from f32.
void fill_native(const HostTensor& dense, std::uint64_t key) {
  switch (dense.info().dtype) {
    case DType::f64:
      return fill_normals<double>(dense, key);
    case DType::i8:
      return fill_integers<std::int8_t>(dense, key, -128, 256);
    case DType::u8:
      return fill_integers<std::uint8_t>(dense, key, 0, 256);
    case DType::i16:
      return fill_integers<std::int16_t>(dense, key, -1000, 2001);
    case DType::u16:
      return fill_integers<std::uint16_t>(dense, key, 0, 2001);
    case DType::u32:
      return fill_integers<std::uint32_t>(dense, key, 0, 2001);
    case DType::i32:
      return fill_integers<std::int32_t>(dense, key, -1000, 2001);
    case DType::i64:
      return fill_integers<std::int64_t>(dense, key, -1000, 2001);
    case DType::boolean:
      return fill_integers<std::uint8_t>(dense, key, 0, 2);
    default:
      return fill_normals<float>(dense, key);
  }
}

HostTensor random_dense(const TensorInfo& info, std::uint64_t key) {
  const bool is_native = (!is_floating(info.dtype) && !is_packed(info.dtype)) || info.dtype == DType::f64;
  const DType native = is_native ? info.dtype : DType::f32;
  HostTensor dense = HostTensor::uninitialised({info.name, native, info.shape, row_major(info.shape), 0});
  fill_native(dense, key);
  if (info.dtype == DType::f8e8m0) take_magnitudes(dense);
  if (native == info.dtype) return dense;
  HostTensor converted = HostTensor::uninitialised({info.name, info.dtype, info.shape, row_major(info.shape), 0});
  convert_elements(converted.view(), dense.view());
  return converted;
}

}  // namespace

HostTensor random_tensor(const TensorInfo& info, std::uint64_t seed) {
  const std::uint64_t key = key_of(seed, info.name);
  if (info.offset == 0 && info.strides == row_major(info.shape)) return random_dense(info, key);
  HostTensor tensor = HostTensor::filled(info);
  copy_elements(tensor.view(), random_dense(info, key).view());
  return tensor;
}

}  // namespace epifuse::tool
