// What the kernels of this folder share: eight halves, which are 16 bytes, and their conversions. For nvcc and NVRTC. Behind
// tests/support/cuda_shim.hpp it is for a C++ compiler that has _Float16: so tests/bench/test_view_kernels.py runs the kernels.
#pragma once

#ifndef __CUDACC__
#include <cmath>
#include <cstring>
#endif

typedef unsigned short Half;  // its bits

// What one memory instruction moves.
struct alignas(16) Eight {
  unsigned words[4];
};

__device__ __forceinline__ Eight load_eight(const Half* from) { return *reinterpret_cast<const Eight*>(from); }
__device__ __forceinline__ void store_eight(Half* to, const Eight& values) { *reinterpret_cast<Eight*>(to) = values; }

#ifdef __CUDACC__
__device__ __forceinline__ float to_float(Half bits) {
  float r;
  asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(bits));
  return r;
}

__device__ __forceinline__ void widen(const Eight& from, float (&to)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Half low, high;
    asm("mov.b32 {%0, %1}, %2;" : "=h"(low), "=h"(high) : "r"(from.words[i]));
    to[2 * i] = to_float(low);
    to[2 * i + 1] = to_float(high);
  }
}

__device__ __forceinline__ Eight narrow(const float (&from)[8]) {
  Eight to;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(to.words[i]) : "f"(from[2 * i + 1]), "f"(from[2 * i]));
  }
  return to;
}

// NaN if either is.
__device__ __forceinline__ float larger(float a, float b) {
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
}

// Each half of a word by itself.
__device__ __forceinline__ unsigned larger_halves(unsigned a, unsigned b) {
  unsigned r;
  asm("max.NaN.f16x2 %0, %1, %2;" : "=r"(r) : "r"(a), "r"(b));
  return r;
}

__device__ __forceinline__ unsigned low_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x5410); }
__device__ __forceinline__ unsigned high_halves(unsigned a, unsigned b) { return __byte_perm(a, b, 0x7632); }

__device__ __forceinline__ float exp2_approximate(float a) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}

__device__ __forceinline__ float reciprocal_approximate(float a) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
}
#else
inline float to_float(Half bits) {
  _Float16 value;
  std::memcpy(&value, &bits, sizeof value);
  return static_cast<float>(value);
}

inline Half to_half(float value) {
  const _Float16 rounded = static_cast<_Float16>(value);
  Half bits;
  std::memcpy(&bits, &rounded, sizeof bits);
  return bits;
}

inline void widen(const Eight& from, float (&to)[8]) {
  for (int e = 0; e < 8; ++e) to[e] = to_float(static_cast<Half>(from.words[e / 2] >> (16 * (e % 2))));
}

inline Eight narrow(const float (&from)[8]) {
  Eight to;
  for (int i = 0; i < 4; ++i) {
    to.words[i] = to_half(from[2 * i]) | static_cast<unsigned>(to_half(from[2 * i + 1])) << 16;
  }
  return to;
}

inline float larger(float a, float b) { return a > b || a != a ? a : b; }

inline unsigned low_halves(unsigned a, unsigned b) { return (a & 0xffffu) | b << 16; }
inline unsigned high_halves(unsigned a, unsigned b) { return a >> 16 | (b & 0xffff0000u); }

inline unsigned larger_halves(unsigned a, unsigned b) {
  const auto of = [](unsigned one, unsigned other) {
    return static_cast<unsigned>(to_half(larger(to_float(static_cast<Half>(one)), to_float(static_cast<Half>(other)))));
  };
  return of(a, b) | of(a >> 16, b >> 16) << 16;
}

inline float exp2_approximate(float a) { return std::exp2(a); }
inline float reciprocal_approximate(float a) { return 1.0f / a; }
inline float rsqrtf(float a) { return 1.0f / std::sqrt(a); }
#endif
