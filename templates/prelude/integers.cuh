// The integers of types.cuh. All round half to even, saturate, and take NaN to 0.

//@section round_integer
namespace detail {

// v rounded half to even, held within [low, high] (both integers that are exact as v's type); NaN is 0.
__device__ __forceinline__ int round_within(float v, int low, int high) {
#if defined(__CUDACC__)
  int r = __float2int_rn(v);  // saturates, and NaN is 0 (PTX ISA, cvt: source not f64, destination not 64 bits wide)
  return r < low ? low : (r > high ? high : r);
#else
  float in = v == v ? v : 0.0f;
  in = in > static_cast<float>(low) ? in : static_cast<float>(low);
  in = in < static_cast<float>(high) ? in : static_cast<float>(high);
  return static_cast<int>(::rintf(in));
#endif
}

__device__ __forceinline__ int round_within(double v, int low, int high) {
  double in = v == v ? v : 0.0;  // on GPUs too: there a double's NaN converts to the smallest integer
  in = in > static_cast<double>(low) ? in : static_cast<double>(low);
  in = in < static_cast<double>(high) ? in : static_cast<double>(high);
#if defined(__CUDACC__)
  return __double2int_rn(in);
#else
  return static_cast<int>(::rint(in));
#endif
}

}  // namespace detail
//@end

//@section i8 : convert, round_integer, byte_pairs
typedef signed char i8;

template <>
__device__ __forceinline__ i8 from_real<i8>(float v) {
#if defined(__CUDACC__)
  int r;
  asm("cvt.rni.sat.s8.f32 %0, %1;" : "=r"(r) : "f"(v));  // NaN is 0 (PTX ISA, cvt)
  return static_cast<i8>(r);
#else
  return static_cast<i8>(detail::round_within(v, -128, 127));
#endif
}

template <>
__device__ __forceinline__ i8 from_real<i8>(double v) {
  return static_cast<i8>(detail::round_within(v, -128, 127));
}

#if defined(__CUDACC__)
template <int kCount>
__device__ __forceinline__ void to_reals(const i8* from, float* to) {
  detail::bytes_to_reals<kCount>(detail::byte_pair<kCount>(from) ^ 0x8080u, 8388736.0f, to);
}
#endif
//@end

//@section u8 : convert, round_integer, byte_pairs
typedef unsigned char u8;

template <>
__device__ __forceinline__ u8 from_real<u8>(float v) {
#if defined(__CUDACC__)
  unsigned r;
  asm("cvt.rni.sat.u8.f32 %0, %1;" : "=r"(r) : "f"(v));  // NaN is 0 (PTX ISA, cvt)
  return static_cast<u8>(r);
#else
  return static_cast<u8>(detail::round_within(v, 0, 255));
#endif
}

template <>
__device__ __forceinline__ u8 from_real<u8>(double v) {
  return static_cast<u8>(detail::round_within(v, 0, 255));
}

#if defined(__CUDACC__)
template <int kCount>
__device__ __forceinline__ void to_reals(const u8* from, float* to) {
  detail::bytes_to_reals<kCount>(detail::byte_pair<kCount>(from), 8388608.0f, to);
}
#endif
//@end

//@section i4 : convert, round_integer
// Two's complement, in the lower half of a byte.
struct i4 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(i4 v) {
  return static_cast<Real>(static_cast<int>(v.bits ^ 8u) - 8);
}

template <>
__device__ __forceinline__ i4 from_real<i4>(float v) {
  return i4{static_cast<unsigned char>(detail::round_within(v, -8, 7) & 15)};
}

template <>
__device__ __forceinline__ i4 from_real<i4>(double v) {
  return i4{static_cast<unsigned char>(detail::round_within(v, -8, 7) & 15)};
}
//@end

//@section u4 : convert, round_integer
// In the lower half of a byte.
struct u4 {
  unsigned char bits;
};

template <class Real>
__device__ __forceinline__ Real to_real(u4 v) {
  return static_cast<Real>(static_cast<int>(v.bits));
}

template <>
__device__ __forceinline__ u4 from_real<u4>(float v) {
  return u4{static_cast<unsigned char>(detail::round_within(v, 0, 15))};
}

template <>
__device__ __forceinline__ u4 from_real<u4>(double v) {
  return u4{static_cast<unsigned char>(detail::round_within(v, 0, 15))};
}
//@end

//@section i16 : convert, round_integer
typedef short i16;

template <>
__device__ __forceinline__ i16 from_real<i16>(float v) {
#if defined(__CUDACC__)
  i16 r;
  asm("cvt.rni.sat.s16.f32 %0, %1;" : "=h"(r) : "f"(v));  // NaN is 0 (PTX ISA, cvt)
  return r;
#else
  return static_cast<i16>(detail::round_within(v, -32768, 32767));
#endif
}

template <>
__device__ __forceinline__ i16 from_real<i16>(double v) {
  return static_cast<i16>(detail::round_within(v, -32768, 32767));
}
//@end

//@section u16 : convert, round_integer
typedef unsigned short u16;

template <>
__device__ __forceinline__ u16 from_real<u16>(float v) {
#if defined(__CUDACC__)
  u16 r;
  asm("cvt.rni.sat.u16.f32 %0, %1;" : "=h"(r) : "f"(v));  // NaN is 0 (PTX ISA, cvt)
  return r;
#else
  return static_cast<u16>(detail::round_within(v, 0, 65535));
#endif
}

template <>
__device__ __forceinline__ u16 from_real<u16>(double v) {
  return static_cast<u16>(detail::round_within(v, 0, 65535));
}
//@end

//@section i32 : convert, round_integer
typedef int i32;

template <>
__device__ __forceinline__ i32 from_real<i32>(float v) {
#if defined(__CUDACC__)
  return __float2int_rn(v);  // saturates, and NaN is 0
#else
  // The largest i32 is no float: convert what is in range, then put the ends in place.
  bool in = v >= -2147483648.0f && v < 2147483648.0f;
  i32 r = static_cast<i32>(::rintf(in ? v : 0.0f));
  r = v >= 2147483648.0f ? 2147483647 : r;
  return v < -2147483648.0f ? -2147483647 - 1 : r;
#endif
}

template <>
__device__ __forceinline__ i32 from_real<i32>(double v) {
  return detail::round_within(v, -2147483647 - 1, 2147483647);
}
//@end

//@section u32 : convert
typedef unsigned u32;

// The largest u32 is a double and no float.
template <>
__device__ __forceinline__ u32 from_real<u32>(double v) {
  double in = v > 0.0 ? v : 0.0;  // NaN is 0
  in = in < 4294967295.0 ? in : 4294967295.0;
#if defined(__CUDACC__)
  return __double2uint_rn(in);
#else
  return static_cast<u32>(::rint(in));
#endif
}

template <>
__device__ __forceinline__ u32 from_real<u32>(float v) {
#if defined(__CUDACC__)
  return __float2uint_rn(v);  // saturates, and NaN is 0
#else
  return from_real<u32>(static_cast<double>(v));
#endif
}
//@end

//@section i64 : convert
typedef long long i64;

// 2^63 is a float and a double, the largest i64 is neither; a float or double below it is at most 2^63 - 2^10.
template <>
__device__ __forceinline__ i64 from_real<i64>(double v) {
#if defined(__CUDACC__)
  return v == v ? __double2ll_rn(v) : 0ll;  // saturates; NaN would be the smallest integer
#else
  bool in = v >= -9223372036854775808.0 && v < 9223372036854775808.0;
  i64 r = static_cast<i64>(::rint(in ? v : 0.0));
  r = v >= 9223372036854775808.0 ? 9223372036854775807ll : r;
  return v < -9223372036854775808.0 ? -9223372036854775807ll - 1 : r;
#endif
}

template <>
__device__ __forceinline__ i64 from_real<i64>(float v) {
#if defined(__CUDACC__)
  return v == v ? __float2ll_rn(v) : 0ll;
#else
  return from_real<i64>(static_cast<double>(v));
#endif
}
//@end
