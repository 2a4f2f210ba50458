// The storage types of kernels, and how each becomes the type that is computed in and back. Codegen pastes the sections
// that a chain needs into one source that includes nothing; the host device and the tests compile the same text as C++.
// Where the hardware converts, it does; elsewhere one software codec serves every small float. All of it rounds ONCE,
// half to even; i8 … i64 saturate and take NaN to 0, fp8 saturates too, f16 and bf16 overflow to Inf.

//@section bits
namespace detail {

// The bits of a number and back.
__device__ __forceinline__ unsigned bits(float v) {
#if defined(__CUDACC__)
  return __float_as_uint(v);
#else
  return __builtin_bit_cast(unsigned, v);
#endif
}

__device__ __forceinline__ float from_bits(unsigned v) {
#if defined(__CUDACC__)
  return __uint_as_float(v);
#else
  return __builtin_bit_cast(float, v);
#endif
}

}  // namespace detail
//@end

//@section stored
// `to_real<Real>(v)`: a stored value as float or double. `from_real<T>(v)`: the stored value nearest to v. The integers
// and floats that C++ itself has convert as C++ does; each other type overloads the one and specialises the other.
template <class Real, class T>
__device__ __forceinline__ Real to_real(T v) {
  return static_cast<Real>(v);
}

template <class T>
__device__ __forceinline__ T from_real(float v);
template <class T>
__device__ __forceinline__ T from_real(double v);
//@end

//@section truth : stored
template <class T>
__device__ __forceinline__ T from_real(bool v) {
  return from_real<T>(v ? 1.0f : 0.0f);
}
//@end

//@section convert : stored
// The same for neighbours. 8-bit types overload these: of two bytes per element and copy speed an H100 has 20 instructions for each.
template <int kCount, class T, class Real>
__device__ __forceinline__ void to_reals(const T* from, Real* to) {
  for (int i = 0; i < kCount; ++i) to[i] = to_real<Real>(from[i]);
}
template <int kCount, class T, class Real>
__device__ __forceinline__ void from_reals(const Real* from, T* to) {
  for (int i = 0; i < kCount; ++i) to[i] = from_real<T>(from[i]);
}
//@end

//@section real_of : convert
// Number e of stored values that lie in words.
template <class Real, class T>
__device__ __forceinline__ Real real_of(const unsigned* words, int e) {
  return to_real<Real>(reinterpret_cast<const T*>(words)[e]);
}
//@end

//@section round_to : convert
// v rounded to what T can hold: the `cast` operation.
template <class T, class Real>
__device__ __forceinline__ Real round_to(Real v) {
  return to_real<Real>(from_real<T>(v));
}
//@end

//@section round_odd : bits
namespace detail {

// v as a float, rounded to odd: toward zero, and the last bit set when anything was lost. A second rounding to half the
// float's precision or less then gives what one rounding of v would (Boldo and Melquiond 2008, "Emulation of a FMA and
// correctly rounded sums"). Beyond the float's range it gives the largest finite float, which every narrower type
// rounds as it would v.
__device__ __forceinline__ float round_odd(double v) {
#if defined(__CUDACC__)
  float r = __double2float_rz(v);
  return from_bits(bits(r) | (static_cast<double>(r) != v ? 1u : 0u));
#else
  float r = static_cast<float>(v);
  double back = static_cast<double>(r);
  bool above = (back > 0.0 && back > v) || (back < 0.0 && back < v);
  unsigned u = bits(r) - (above ? 1u : 0u);
  return from_bits(u | (back != v ? 1u : 0u));
#endif
}

}  // namespace detail
//@end

//@section small_float : bits
namespace detail {

// Floats of E exponent and M mantissa bits under a sign bit, E <= 8, M <= 10. `largest` is the code, without sign, that
// overflow becomes (Inf for IEEE-like types, the largest finite one where the type saturates); `nan` is the code of
// NaN.
//
// Encoding. At and above the smallest normal number 2^(1-bias), rebias the exponent and round the integer code: adding
// half a unit less one, plus the last bit kept, is round-half-to-even, and a carry runs into the exponent as it should.
// Below, add C = 2^(1-bias-M+23): the last place of the sum is the type's denormal spacing, so that the float addition
// itself rounds half to even, and the code is what was added to C's bits.
template <int E, int M>
__device__ __forceinline__ unsigned encode(float v, unsigned largest, unsigned nan) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr unsigned smallest_normal = static_cast<unsigned>(128 - bias) << 23;
  constexpr unsigned rebias = static_cast<unsigned>(127 - bias) << 23;
  constexpr unsigned shifter = static_cast<unsigned>(151 - bias - M) << 23;
  unsigned sign = (bits(v) >> 31) << (E + M);
  unsigned a = bits(v) & 0x7fffffffu;
  unsigned normal = (a - rebias + ((1u << (22 - M)) - 1u) + ((a >> (23 - M)) & 1u)) >> (23 - M);
  unsigned denormal = bits(from_bits(a) + from_bits(shifter)) - shifter;
  unsigned code = a < smallest_normal ? denormal : normal;
  code = code > largest ? largest : code;
  code = a > 0x7f800000u ? nan : code;
  return sign | code;
}

// Decoding. Moved into the float's fields the code is the value times 2^(bias-127), denormals included, and the product
// that undoes the factor is exact. `infinity` is the first code, without sign, that is not a number.
template <int E, int M>
__device__ __forceinline__ float decode(unsigned code, unsigned infinity) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr unsigned factor = static_cast<unsigned>(254 - bias) << 23;
  unsigned sign = (code >> (E + M)) << 31;
  unsigned a = code & ((1u << (E + M)) - 1u);
  unsigned finite = bits(from_bits(a << (23 - M)) * from_bits(factor));
  unsigned special = 0x7f800000u | ((a - infinity) << (23 - M));
  return from_bits(sign | (a >= infinity ? special : finite));
}

}  // namespace detail
//@end

//@section f32 : convert
typedef float f32;

template <>
__device__ __forceinline__ f32 from_real<f32>(float v) {
  return v;
}

template <>
__device__ __forceinline__ f32 from_real<f32>(double v) {
  return static_cast<float>(v);
}
//@end

//@section f64 : convert
typedef double f64;

template <>
__device__ __forceinline__ f64 from_real<f64>(float v) {
  return static_cast<double>(v);
}

template <>
__device__ __forceinline__ f64 from_real<f64>(double v) {
  return v;
}
//@end

//@section f16 : convert, small_float, round_odd
// IEEE binary16. Every GPU converts it, from double in one rounding too (PTX ISA, cvt).
struct f16 {
  unsigned short bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(f16 v) {
#if defined(__CUDACC__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v.bits));
  return static_cast<Real>(f);
#else
  return static_cast<Real>(detail::decode<5, 10>(v.bits, 0x7c00u));
#endif
}

template <>
__device__ __forceinline__ f16 from_real<f16>(float v) {
#if defined(__CUDACC__)
  f16 r;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
#else
  return f16{static_cast<unsigned short>(detail::encode<5, 10>(v, 0x7c00u, 0x7e00u))};
#endif
}

template <>
__device__ __forceinline__ f16 from_real<f16>(double v) {
#if defined(__CUDACC__)
  f16 r;
  asm("cvt.rn.f16.f64 %0, %1;" : "=h"(r.bits) : "d"(v));
  return r;
#else
  return from_real<f16>(detail::round_odd(v));
#endif
}
//@end

//@section bf16 : convert, real_of, small_float, round_odd
// bfloat16, the upper half of a float: to real it is a shift.
struct bf16 {
  unsigned short bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(bf16 v) {
  return static_cast<Real>(detail::from_bits(static_cast<unsigned>(v.bits) << 16));
}
// A word's upper half stays where it is: the compiler would take the word apart first.
template <>
__device__ __forceinline__ float real_of<float, bf16>(const unsigned* words, int e) {
  const unsigned word = words[e / 2];
  return detail::from_bits(e % 2 == 0 ? word << 16 : word & 0xffff0000u);
}

template <>
__device__ __forceinline__ bf16 from_real<bf16>(float v) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  bf16 r;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(r.bits) : "f"(v));
  return r;
#else
  return bf16{static_cast<unsigned short>(detail::encode<8, 7>(v, 0x7f80u, 0x7fc0u))};
#endif
}

template <>
__device__ __forceinline__ bf16 from_real<bf16>(double v) {
  return from_real<bf16>(detail::round_odd(v));
}
//@end

//@section byte_pairs : bits
#if defined(__CUDACC__)
namespace detail {

// One or two neighbouring bytes, which lie in one word.
template <int kCount, class T>
__device__ __forceinline__ unsigned byte_pair(const T* from) {
  static_assert(sizeof(T) == 1 && kCount <= 2, "one instruction converts two");
  return kCount == 2 ? *reinterpret_cast<const unsigned short*>(from) : *reinterpret_cast<const unsigned char*>(from);
}
template <int kCount, class T>
__device__ __forceinline__ void put_byte_pair(unsigned short pair, T* to) {
  static_assert(sizeof(T) == 1 && kCount <= 2, "one instruction converts two");
  if (kCount == 2) {
    *reinterpret_cast<unsigned short*>(to) = pair;
  } else {
    *reinterpret_cast<unsigned char*>(to) = static_cast<unsigned char>(pair);
  }
}

// Two binary16 numbers.
template <int kCount>
__device__ __forceinline__ void halves_to_reals(unsigned halves, float* to) {
  asm("cvt.f32.f16 %0, %1;" : "=f"(to[0]) : "h"(static_cast<unsigned short>(halves)));
  if (kCount == 2) asm("cvt.f32.f16 %0, %1;" : "=f"(to[kCount - 1]) : "h"(static_cast<unsigned short>(halves >> 16)));
}

// Two bytes as the last digits of 2^23, whatever is less: conversion instructions run at a quarter of the rate.
template <int kCount>
__device__ __forceinline__ void bytes_to_reals(unsigned bytes, float zero, float* to) {
  to[0] = from_bits(__byte_perm(bytes, 0x4b000000u, 0x7440)) - zero;
  if (kCount == 2) to[kCount - 1] = from_bits(__byte_perm(bytes, 0x4b000000u, 0x7441)) - zero;
}

}  // namespace detail
#endif
//@end

//@section f8e4m3 : convert, small_float, round_odd, byte_pairs
// OCP FP8 E4M3 ("fn"): no Inf, one NaN code, largest 448. The hardware's conversion drops NaN's sign.
struct f8e4m3 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(f8e4m3 v) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned pair;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(pair) : "h"(static_cast<unsigned short>(v.bits)));
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<unsigned short>(pair)));
  return static_cast<Real>(f);
#else
  return static_cast<Real>(detail::from_bits(detail::bits(detail::decode<4, 3>(v.bits, 0x80u)) |
                                             ((v.bits & 0x7fu) == 0x7fu ? 0x7fc00000u : 0u)));
#endif
}

template <>
__device__ __forceinline__ f8e4m3 from_real<f8e4m3>(float v) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(v));
  return f8e4m3{static_cast<unsigned char>(pair)};
#else
  return f8e4m3{static_cast<unsigned char>(detail::encode<4, 3>(v, 0x7eu, 0x7fu))};
#endif
}

template <>
__device__ __forceinline__ f8e4m3 from_real<f8e4m3>(double v) {
  return from_real<f8e4m3>(detail::round_odd(v));
}

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <int kCount>
__device__ __forceinline__ void to_reals(const f8e4m3* from, float* to) {
  unsigned halves;
  asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(detail::byte_pair<kCount>(from))));
  detail::halves_to_reals<kCount>(halves, to);
}

template <int kCount>
__device__ __forceinline__ void from_reals(const float* from, f8e4m3* to) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(from[kCount - 1]), "f"(from[0]));
  detail::put_byte_pair<kCount>(pair, to);
}
#endif
//@end

//@section f8e5m2 : convert, small_float, round_odd, byte_pairs
// OCP FP8 E5M2, the upper half of a binary16: to real it is a shift and binary16's conversion. Storing saturates at
// 57344.
struct f8e5m2 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(f8e5m2 v) {
#if defined(__CUDACC__)
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(static_cast<unsigned short>(static_cast<unsigned>(v.bits) << 8)));
  return static_cast<Real>(f);
#else
  return static_cast<Real>(detail::decode<5, 2>(v.bits, 0x7cu));
#endif
}

template <>
__device__ __forceinline__ f8e5m2 from_real<f8e5m2>(float v) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(v));
  return f8e5m2{static_cast<unsigned char>(pair)};
#else
  return f8e5m2{static_cast<unsigned char>(detail::encode<5, 2>(v, 0x7bu, 0x7fu))};
#endif
}

template <>
__device__ __forceinline__ f8e5m2 from_real<f8e5m2>(double v) {
  return from_real<f8e5m2>(detail::round_odd(v));
}

#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
template <int kCount>
__device__ __forceinline__ void to_reals(const f8e5m2* from, float* to) {
  unsigned halves;
  asm("cvt.rn.f16x2.e5m2x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(detail::byte_pair<kCount>(from))));
  detail::halves_to_reals<kCount>(halves, to);
}

template <int kCount>
__device__ __forceinline__ void from_reals(const float* from, f8e5m2* to) {
  unsigned short pair;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(from[kCount - 1]), "f"(from[0]));
  detail::put_byte_pair<kCount>(pair, to);
}
#endif
//@end

//@section f8e8m0 : convert, round_odd
// OCP E8M0, a scale of block-scaled formats: an exponent and nothing else, 2^-127 to 2^127, or NaN. To nearest, halfway upwards, as
// PyTorch and ml_dtypes; above 2^-127 their next is 2^-126. Zeros give the smallest, what is negative or too large NaN.
struct f8e8m0 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(f8e8m0 v) {
  unsigned finite = v.bits == 0 ? 0x00400000u : static_cast<unsigned>(v.bits) << 23;
  return static_cast<Real>(detail::from_bits(v.bits == 255 ? 0x7fc00000u : finite));
}

template <>
__device__ __forceinline__ f8e8m0 from_real<f8e8m0>(float v) {
  unsigned u = detail::bits(v);
  u = u == 0x80000000u ? 0u : u;
  unsigned code = (u + (u < 0x00800000u ? 0x3fffffu : 0x400000u)) >> 23;
  return f8e8m0{static_cast<unsigned char>(u < 0x7f800000u ? code : 255u)};
}

template <>
__device__ __forceinline__ f8e8m0 from_real<f8e8m0>(double v) {
  return from_real<f8e8m0>(detail::round_odd(v));
}
//@end

//@section f4e2m1 : convert, small_float, round_odd
// OCP E2M1, in the lower half of a byte: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives. Saturates; NaN, which it has not, is -0.
struct f4e2m1 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(f4e2m1 v) {
  return static_cast<Real>(detail::decode<2, 1>(v.bits, 8u));
}

template <>
__device__ __forceinline__ f4e2m1 from_real<f4e2m1>(float v) {
  return f4e2m1{static_cast<unsigned char>(v == v ? detail::encode<2, 1>(v, 7u, 0u) : 8u)};
}

template <>
__device__ __forceinline__ f4e2m1 from_real<f4e2m1>(double v) {
  return from_real<f4e2m1>(detail::round_odd(v));
}
//@end

//@section boolean : truth, convert
// A truth value in a byte: read as "not zero", stored as 0 or 1. NaN is not zero.
struct boolean {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(boolean v) {
  return static_cast<Real>(v.bits != 0);
}

template <>
__device__ __forceinline__ boolean from_real<boolean>(float v) {
  return boolean{static_cast<unsigned char>(v != 0.0f ? 1 : 0)};
}

template <>
__device__ __forceinline__ boolean from_real<boolean>(double v) {
  return boolean{static_cast<unsigned char>(v != 0.0 ? 1 : 0)};
}

template <>
__device__ __forceinline__ boolean from_real<boolean>(bool v) {
  return boolean{static_cast<unsigned char>(v ? 1 : 0)};
}
//@end
