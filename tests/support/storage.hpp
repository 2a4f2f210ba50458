// How each element type stores numbers, written from the definitions of the formats alone: what the tests compare every
// conversion of the library with.
#pragma once

#include <cstdint>

#include <epifuse/dtype.hpp>

namespace epifuse::test {

/// The number that the element at `bytes` holds, exactly. NaN for a NaN; 0 or 1 for bool.
long double decode(DType type, const void* bytes) noexcept;

/// Stores `value` as the element at `bytes`: floats to nearest even (fp8 saturating), integers half to even and
/// saturating with NaN as 0, bool as != 0, f8e8m0 to nearest and halfway upwards, with NaN for what is negative or too
/// large.
void encode(DType type, double value, void* bytes) noexcept;

/// `value` after a store and a load.
long double stored(DType type, double value) noexcept;

/// Largest finite number of that type.
long double largest(DType type) noexcept;
/// Smallest number above zero.
long double smallest(DType type) noexcept;

/// Distance of neighbouring numbers of that floating type around `value`.
long double spacing(DType type, long double value) noexcept;

}  // namespace epifuse::test
