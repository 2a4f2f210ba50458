// Element types of tensors. Storage only: arithmetic is done in f32 or f64 (docs/guide/accuracy.md).
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

namespace epifuse {

/// How one element is stored. Text names are the enumerators' names, but `bool` for `boolean`.
enum class DType : std::uint8_t {
  f64,
  f32,
  f16,     ///< IEEE binary16
  bf16,    ///< bfloat16: the upper half of an f32
  f8e4m3,  ///< OCP 8-bit float, 4 exponent bits, no infinities (PyTorch's float8_e4m3fn)
  f8e5m2,  ///< OCP 8-bit float, 5 exponent bits (PyTorch's float8_e5m2)
  i8,
  u8,
  i32,
  i64,
  boolean,  ///< one byte; nonzero is true; written as 0 or 1
  f8e8m0,   ///< OCP scale type: the powers of two from 2^-127 to 2^127, and NaN (PyTorch's float8_e8m0fnu)
  i16,
  u16,
  u32,
  f4e2m1,  ///< OCP 4-bit float: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives (PyTorch's float4_e2m1fn_x2 holds two)
  i4,      ///< -8 to 7
  u4       ///< 0 to 15
};

/// Those whose elements have an address each.
inline constexpr std::array kAllDTypes = {DType::f64,     DType::f32,    DType::f16, DType::bf16, DType::f8e4m3,
                                          DType::f8e5m2,  DType::i8,     DType::u8,  DType::i32,  DType::i64,
                                          DType::boolean, DType::f8e8m0, DType::i16, DType::u16,  DType::u32};

/// Those of 4 bits: a byte holds two neighbours along the innermost dimension, the first in its lower half. A tensor of
/// them is dense in row-major order, and its innermost dimension is a multiple of 16. Shapes and strides count
/// elements.
inline constexpr std::array kPackedDTypes = {DType::f4e2m1, DType::i4, DType::u4};
constexpr bool is_packed(DType type) noexcept { return type >= DType::f4e2m1; }

/// How many types there are: the enumerators are 0 to one less.
inline constexpr std::size_t kDTypes = kAllDTypes.size() + kPackedDTypes.size();

/// Bytes of one element: 1, 2, 4 or 8; of a packed type 1, the byte that holds two.
constexpr std::size_t size_of(DType type) noexcept {
  switch (type) {
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::f32:
    case DType::i32:
    case DType::u32:
      return 4;
    case DType::f16:
    case DType::bf16:
    case DType::i16:
    case DType::u16:
      return 2;
    default:
      return 1;
  }
}

/// Bytes of so many elements that lie side by side.
template <std::integral Count>
constexpr Count size_of(DType type, Count elements) noexcept {
  return is_packed(type) ? (elements + 1) / 2 : elements * static_cast<Count>(size_of(type));
}

/// Whether the type holds floating-point numbers; the others hold integers or truth values.
constexpr bool is_floating(DType type) noexcept {
  switch (type) {
    case DType::f64:
    case DType::f32:
    case DType::f16:
    case DType::bf16:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::f8e8m0:
    case DType::f4e2m1:
      return true;
    default:
      return false;
  }
}

/// How elements of a C++ type are stored, for arrays that are filled from the program's own containers. Programs add
/// theirs by a specialisation: `template <> inline constexpr DType epifuse::dtype_of<__half> = epifuse::DType::f16;`.
template <class T>
inline constexpr std::nullptr_t dtype_of = nullptr;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<signed char> = DType::i8;
template <>
inline constexpr DType dtype_of<unsigned char> = DType::u8;
template <>
inline constexpr DType dtype_of<short> = DType::i16;
template <>
inline constexpr DType dtype_of<unsigned short> = DType::u16;
template <>
inline constexpr DType dtype_of<int> = DType::i32;
template <>
inline constexpr DType dtype_of<unsigned int> = DType::u32;
template <>
inline constexpr DType dtype_of<long> = DType::i64;
template <>
inline constexpr DType dtype_of<long long> = DType::i64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

/// A C++ type that dtype_of knows.
template <class T>
concept Element = std::same_as<std::remove_cv_t<decltype(dtype_of<std::remove_cv_t<T>>)>, DType>;

/// "f32", "bf16", "bool", …
std::string_view to_string(DType type) noexcept;

/// "f64, f32, …": all of them, between `separator`s.
std::string dtype_names(std::string_view separator);

/// The type of that name, or nothing. It may also be what NumPy, PyTorch, ml_dtypes or C call it: "bfloat16", "half",
/// "e4m3".
std::optional<DType> parse_dtype(std::string_view name) noexcept;

}  // namespace epifuse
