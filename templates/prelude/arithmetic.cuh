// Operations of kernels (the `ops::` of src/ir/ops.def), each a section that codegen pastes where a chain needs it; the CPU device and
// the tests compile the same text as C++. This file: arithmetic and rounding, exact but for rsqrt.

//@section fmod
namespace ops {

// Exact, by C's definition.
__device__ __forceinline__ float fmod(float a, float b) { return ::fmodf(a, b); }

__device__ __forceinline__ double fmod(double a, double b) { return ::fmod(a, b); }

}  // namespace ops
//@end

//@section remainder
namespace ops {

// Python's and PyTorch's: the sign of b. fmod is exact, the correction is one addition: 0.5 ulp.
__device__ __forceinline__ float remainder(float a, float b) {
  float m = ::fmodf(a, b);
  return m != 0.0f && (b < 0.0f) != (m < 0.0f) ? m + b : m;
}

__device__ __forceinline__ double remainder(double a, double b) {
  double m = ::fmod(a, b);
  return m != 0.0 && (b < 0.0) != (m < 0.0) ? m + b : m;
}

}  // namespace ops
//@end

//@section abs : bits
namespace ops {

// By its bits: of fabsf(a) > -1 ptxas 13.0 makes true, also where a is NaN.
__device__ __forceinline__ float abs(float a) { return detail::from_bits(detail::bits(a) & 0x7fffffffu); }

__device__ __forceinline__ double abs(double a) { return ::fabs(a); }

}  // namespace ops
//@end

//@section sign
namespace ops {

// 0 for NaN, as in PyTorch. NVRTC 13.0 makes +0 of -sign(0), whether that is a difference of comparisons or a selection: it must not see
// what is negated.
__device__ __forceinline__ float sign(float a) {
  float r = a > 0.0f ? 1.0f : (a < 0.0f ? -1.0f : 0.0f);
#ifdef __CUDACC__
  asm("" : "+f"(r));
#endif
  return r;
}

__device__ __forceinline__ double sign(double a) {
  double r = a > 0.0 ? 1.0 : (a < 0.0 ? -1.0 : 0.0);
#ifdef __CUDACC__
  asm("" : "+d"(r));
#endif
  return r;
}

}  // namespace ops
//@end

//@section fma
namespace ops {

// IEEE 754's: the product is exact, and the sum is rounded.
__device__ __forceinline__ float fma(float a, float b, float c) { return ::fmaf(a, b, c); }

__device__ __forceinline__ double fma(double a, double b, double c) { return ::fma(a, b, c); }

}  // namespace ops
//@end

//@section sqrt
namespace ops {

// Correctly rounded: IEEE 754, and CUDA without fast-math flags.
__device__ __forceinline__ float sqrt(float a) { return ::sqrtf(a); }

__device__ __forceinline__ double sqrt(double a) { return ::sqrt(a); }

}  // namespace ops
//@end

//@section rsqrt
namespace ops {

// CUDA's own: 1.51 ulp. Elsewhere two correct roundings, as much.
__device__ __forceinline__ float rsqrt(float a) {
#if defined(__CUDACC__)
  return ::rsqrtf(a);
#else
  return 1.0f / ::sqrtf(a);
#endif
}

__device__ __forceinline__ double rsqrt(double a) {
#if defined(__CUDACC__)
  return ::rsqrt(a);
#else
  return 1.0 / ::sqrt(a);
#endif
}

}  // namespace ops
//@end

//@section reciprocal
namespace ops {

// Correctly rounded.
__device__ __forceinline__ float reciprocal(float a) { return 1.0f / a; }

__device__ __forceinline__ double reciprocal(double a) { return 1.0 / a; }

}  // namespace ops
//@end

//@section minimum
namespace ops {

// NaN if either is. The first comparison also takes a NaN in b: nothing is below it, so b is chosen.
__device__ __forceinline__ float minimum(float a, float b) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a < b || a != a ? a : b;
#endif
}

__device__ __forceinline__ double minimum(double a, double b) { return a < b || a != a ? a : b; }

}  // namespace ops
//@end

//@section maximum
namespace ops {

// NaN if either is; see minimum.
__device__ __forceinline__ float maximum(float a, float b) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float r;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a > b || a != a ? a : b;
#endif
}

__device__ __forceinline__ double maximum(double a, double b) { return a > b || a != a ? a : b; }

}  // namespace ops
//@end

//@section clamp : minimum, maximum
namespace ops {

// NaN if any of the three is; high where low is above it, as in PyTorch.
__device__ __forceinline__ float clamp(float a, float low, float high) { return minimum(maximum(a, low), high); }

__device__ __forceinline__ double clamp(double a, double low, double high) { return minimum(maximum(a, low), high); }

}  // namespace ops
//@end

//@section floor
namespace ops {

__device__ __forceinline__ float floor(float a) { return ::floorf(a); }

__device__ __forceinline__ double floor(double a) { return ::floor(a); }

}  // namespace ops
//@end

//@section ceil
namespace ops {

__device__ __forceinline__ float ceil(float a) { return ::ceilf(a); }

__device__ __forceinline__ double ceil(double a) { return ::ceil(a); }

}  // namespace ops
//@end

//@section round
namespace ops {

// Half to even, as in PyTorch; C's roundf goes away from zero. (rintf: in the default rounding mode, the only one there
// is.)
__device__ __forceinline__ float round(float a) { return ::rintf(a); }

__device__ __forceinline__ double round(double a) { return ::rint(a); }

}  // namespace ops
//@end

//@section trunc
namespace ops {

__device__ __forceinline__ float trunc(float a) { return ::truncf(a); }

__device__ __forceinline__ double trunc(double a) { return ::trunc(a); }

}  // namespace ops
//@end

//@section isinf
namespace ops {

// Above the largest finite number. (Not std::isinf, which is a macro in places.)
__device__ __forceinline__ bool isinf(float a) { return ::fabsf(a) > 0x1.fffffep+127f; }

__device__ __forceinline__ bool isinf(double a) { return ::fabs(a) > 0x1.fffffffffffffp+1023; }

}  // namespace ops
//@end
