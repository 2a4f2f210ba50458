// What ops.def's expressions call, in float and in double. Codegen pastes the sections that a chain needs (`bits` comes
// from types.cuh); the host device and the tests compile the same text as C++. In float each op is within 2 ulp of its
// exact value for every input, denormal results included; tests/ulp measures that, and the figure beside each op is
// what it found over all 2^32 inputs on an H100. Where a number is said to be a minimax fit, it is: Remez-like, in 40
// digits, coefficients rounded to float one by one.

//@section fast_pieces : bits
namespace detail {

// 1/d to about 1 ulp for 2^-126 < |d| < 2^126. Only ever a first guess: see `quotient`.
__device__ __forceinline__ float reciprocal_guess(float d) {
#if defined(__CUDACC__)
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
  return r;
#else
  return 1.0f / d;
#endif
}

// n/d in all but the rarest case correctly rounded, for quotients and divisors far from the ends of the range: the
// remainder of a first quotient, which fma gives exactly, corrects it. No branch, unlike the division operator's code.
__device__ __forceinline__ float quotient(float n, float d) {
  float r = reciprocal_guess(d);
  float q = n * r;
  return ::fmaf(::fmaf(-q, d, n), r, q);
}

// (n + n_low) / (d + d_low), the lows being what rounding n and d left behind.
__device__ __forceinline__ float quotient(float n, float n_low, float d, float d_low) {
  float r = reciprocal_guess(d);
  float q = n * r;
  float rest = ::fmaf(-q, d, n) + ::fmaf(-q, d_low, n_low);
  return ::fmaf(rest, r, q);
}

// The smaller of v and limit; v where v is NaN.
__device__ __forceinline__ float at_most(float v, float limit) { return v > limit ? limit : v; }

__device__ __forceinline__ float at_least(float v, float limit) { return v < limit ? limit : v; }

}  // namespace detail
//@end

//@section exp_scaled : bits
namespace detail {

// 2^64 * exp(x + x_low) for x in [-126, 0], |x_low| <= ulp(x): the factor keeps it a normal number where exp is not,
// so that whatever it is multiplied with is rounded to a denormal once, at the end, by `fma(…, 2^-64, …)`.
// n = rint(x / ln 2) sits in the last bits of x * log2(e) + 1.5 * 2^23; r = x - n * ln 2 in two steps (Cody and
// Waite), the first exact; exp(r) = 1 + r (1 + r q(r)), q a minimax fit on |r| <= 0.3476, 2^-28.2. Error 0.88 ulp.
// NaN stays NaN.
__device__ __forceinline__ float exp_scaled(float x, float x_low) {
  float t = ::fmaf(x, 0x1.715476p+0f, 0x1.8p+23f);  // log2(e)
  float n = t - 0x1.8p+23f;
  float r = ::fmaf(n, -0x1.62e430p-1f, x);    // ln 2
  r = ::fmaf(n, 0x1.05c610p-29f, r) + x_low;  // what ln 2 above has too much
  float q = 0x1.6a5408p-10f;
  q = ::fmaf(q, r, 0x1.123b0ep-7f);
  q = ::fmaf(q, r, 0x1.5558acp-5f);
  q = ::fmaf(q, r, 0x1.555490p-3f);
  q = ::fmaf(q, r, 0x1.fffffcp-2f);
  q = ::fmaf(q, r, 1.0f);
  float p = ::fmaf(q, r, 1.0f);
  return p * from_bits((bits(t) << 23) + 0x5f800000u);  // 2^(n + 64)
}

}  // namespace detail
//@end

//@section exp_scaled_pair : bits
namespace detail {

// The same with what the last step rounds off, most of its error, in `low`.
__device__ __forceinline__ float exp_scaled(float x, float x_low, float& low) {
  float t = ::fmaf(x, 0x1.715476p+0f, 0x1.8p+23f);  // log2(e)
  float n = t - 0x1.8p+23f;
  float r = ::fmaf(n, -0x1.62e430p-1f, x);    // ln 2
  r = ::fmaf(n, 0x1.05c610p-29f, r) + x_low;  // what ln 2 above has too much
  float q = 0x1.6a5408p-10f;
  q = ::fmaf(q, r, 0x1.123b0ep-7f);
  q = ::fmaf(q, r, 0x1.5558acp-5f);
  q = ::fmaf(q, r, 0x1.555490p-3f);
  q = ::fmaf(q, r, 0x1.fffffcp-2f);
  q = ::fmaf(q, r, 1.0f);
  float p = ::fmaf(q, r, 1.0f);
  float scale = from_bits((bits(t) << 23) + 0x5f800000u);  // 2^(n + 64)
  low = ::fmaf(q, r, 1.0f - p) * scale;
  return p * scale;
}

}  // namespace detail
//@end

//@section expm1_negative : bits
namespace detail {

// exp(x) - 1 for x <= 0: 2^n (exp(r) - 1) + (2^n - 1), reduced as in `exp_scaled`; q a minimax fit, 2^-31 relative to
// r. 0.88 ulp.
__device__ __forceinline__ float expm1_negative(float x) {
  x = x < -40.0f ? -40.0f : x;                      // exp(-40) is nothing beside 1
  float t = ::fmaf(x, 0x1.715476p+0f, 0x1.8p+23f);  // log2(e)
  float n = t - 0x1.8p+23f;
  float r = ::fmaf(n, -0x1.62e430p-1f, x);
  r = ::fmaf(n, 0x1.05c610p-29f, r);
  float q = 0x1.a26204p-13f;
  q = ::fmaf(q, r, 0x1.6d3f40p-10f);
  q = ::fmaf(q, r, 0x1.110ff6p-7f);
  q = ::fmaf(q, r, 0x1.5554f4p-5f);
  q = ::fmaf(q, r, 0x1.555556p-3f);
  q = ::fmaf(q, r, 0x1.000000p-1f);
  float p = ::fmaf(r * r, q, r);
  float s = from_bits((bits(t) << 23) + 0x3f800000u);  // 2^n
  return x == 0.0f ? x : ::fmaf(s, p, s - 1.0f);  // -0 stays -0
}

}  // namespace detail
//@end

//@section pow : fast_pieces
namespace detail {

// log2(x) as a sum hi + lo, for finite x > 0, to about 2^-34 of its value: x = m * 2^e with m in [sqrt(1/2), sqrt(2)),
// q = (m - 1) / (m + 1), log2(m) = q * (2 / ln 2 + q^2 (2 / (3 ln 2) + q^2 P(q^2))), P a minimax fit; all but P's own
// value is carried as pairs of floats.
__device__ __forceinline__ float log2_pair(float x, float& lo) {
  float scaled = x < 0x1p-126f ? x * 0x1p+24f : x;
  int e = static_cast<int>(bits(scaled) - 0x3f3504f3u) >> 23;  // 0x3f3504f3: sqrt(1/2)
  float m = from_bits(bits(scaled) - (static_cast<unsigned>(e) << 23));
  float exponent = static_cast<float>(e) - (x < 0x1p-126f ? 24.0f : 0.0f);
  float n = m - 1.0f;  // exact
  float d = m + 1.0f;
  float d_low = n - (d - 2.0f);  // m + 1 = 2 + n, and |n| < 1
  float r = reciprocal_guess(d);
  float q = n * r;
  float q_low = r * (::fmaf(-q, d, n) - q * d_low);
  float s = q * q;
  float s_low = ::fmaf(q, q, -s) + 2.0f * (q * q_low);
  float c = 0x1.227576p-2f;
  c = ::fmaf(c, s, 0x1.479a02p-2f);
  c = ::fmaf(c, s, 0x1.a61990p-2f);
  c = ::fmaf(c, s, 0x1.2776c4p-1f);
  float p = ::fmaf(s, c, 0x1.ec709ep-1f);  // 2 / (3 ln 2)
  float p_low = ::fmaf(s, c, 0x1.ec709ep-1f - p) - 0x1.e2fe02p-28f;
  float u = s * p;
  float u_low = ::fmaf(s, p, -u) + ::fmaf(s, p_low, s_low * p);
  float w = 0x1.715476p+1f + u;  // 2 / ln 2
  float w_low = (u - (w - 0x1.715476p+1f)) + (u_low + 0x1.4ae0c0p-25f);
  float l = q * w;
  float l_low = ::fmaf(q, w, -l) + ::fmaf(q, w_low, q_low * w);
  float hi = exponent + l;
  lo = (l - (hi - exponent)) + l_low;
  return hi;
}

}  // namespace detail

namespace ops {

// C's pow, as PyTorch has it: |a|^b = 2^(b * log2|a|) with the logarithm and the product as pairs of floats (CUDA's
// powf is allowed 4 ulp), then what is special: 0.94 ulp. 2^f = 1 + f * E(f), E a minimax fit on [-0.5, 0.5]; the power
// of two is applied in two steps so that a denormal result is rounded once.
__device__ __forceinline__ float pow(float a, float b) {
  float x = ::fabsf(a);
  float y = b > 0x1p+100f ? 0x1p+100f : (b < -0x1p+100f ? -0x1p+100f : b);  // Inf would make NaN of x == 1
  float lo;
  float hi = detail::log2_pair(x, lo);
  float z = y * hi;
  float z_low = ::fmaf(y, hi, -z) + y * lo;
  z_low = ::fabsf(z) < 200.0f ? z_low : 0.0f;
  z = z > 200.0f ? 200.0f : (z < -200.0f ? -200.0f : z);
  float t = z + 0x1.8p+23f;
  float n = t - 0x1.8p+23f;
  float f = (z - n) + z_low;
  float p = 0x1.e0b770p-17f;
  p = ::fmaf(p, f, 0x1.440e4ap-13f);
  p = ::fmaf(p, f, 0x1.5da584p-10f);
  p = ::fmaf(p, f, 0x1.3b2a5cp-7f);
  p = ::fmaf(p, f, 0x1.c6b06ep-5f);
  p = ::fmaf(p, f, 0x1.ebfbe0p-3f);
  p = ::fmaf(p, f, 0x1.62e430p-1f);
  p = ::fmaf(p, f, 1.0f);
  int k = static_cast<int>(detail::bits(t) - 0x4b400000u);
  int half = k >> 1;
  float result = p * detail::from_bits(static_cast<unsigned>(half + 127) << 23) *
                 detail::from_bits(static_cast<unsigned>(k - half + 127) << 23);

  constexpr float largest = 0x1.fffffep+127f;
  bool extreme = x == 0.0f || x > largest;  // 0, Inf
  float limit = (x > 1.0f) == (b > 0.0f) ? detail::from_bits(0x7f800000u) : 0.0f;
  result = extreme ? limit : result;
  result = a != a ? a : result;  // NaN, unless b is 0
  bool whole = ::truncf(b) == b;
  bool odd = whole && ::truncf(0.5f * b) != 0.5f * b;
  bool negative = (detail::bits(a) >> 31) != 0u;
  result = a < 0.0f && !whole && !(a < -largest) ? detail::from_bits(0x7fc00000u) : result;
  result = negative && odd ? -result : result;
  result = b != b ? b : result;  // NaN, unless a is 1
  return b == 0.0f || a == 1.0f ? 1.0f : result;
}

__device__ __forceinline__ double pow(double a, double b) { return ::pow(a, b); }

}  // namespace ops
//@end

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

//@section abs
namespace ops {

__device__ __forceinline__ float abs(float a) { return ::fabsf(a); }

__device__ __forceinline__ double abs(double a) { return ::fabs(a); }

}  // namespace ops
//@end

//@section sign
namespace ops {

// 0 for NaN, as in PyTorch: both comparisons fail.
__device__ __forceinline__ float sign(float a) { return (a > 0.0f ? 1.0f : 0.0f) - (a < 0.0f ? 1.0f : 0.0f); }

__device__ __forceinline__ double sign(double a) { return (a > 0.0 ? 1.0 : 0.0) - (a < 0.0 ? 1.0 : 0.0); }

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

//@section exp : bits
namespace ops {

// The scheme of `exp_scaled` over the whole range, the power of two in two steps: 0.9 ulp. CUDA's own expf, for which its
// manual promises 1 ulp, measured 1.93 on an H100; this costs some ten instructions more.
__device__ __forceinline__ float exp(float a) {
  float x = a > 89.0f ? 89.0f : a;
  x = x < -104.0f ? -104.0f : x;
  float t = ::fmaf(x, 0x1.715476p+0f, 0x1.8p+23f);
  float n = t - 0x1.8p+23f;
  float r = ::fmaf(n, -0x1.62e430p-1f, x);
  r = ::fmaf(n, 0x1.05c610p-29f, r);
  float q = 0x1.6a5408p-10f;
  q = ::fmaf(q, r, 0x1.123b0ep-7f);
  q = ::fmaf(q, r, 0x1.5558acp-5f);
  q = ::fmaf(q, r, 0x1.555490p-3f);
  q = ::fmaf(q, r, 0x1.fffffcp-2f);
  q = ::fmaf(q, r, 1.0f);
  float p = ::fmaf(q, r, 1.0f);
  int k = static_cast<int>(detail::bits(t) - 0x4b400000u);
  int half = k >> 1;
  return p * detail::from_bits(static_cast<unsigned>(half + 127) << 23) *
         detail::from_bits(static_cast<unsigned>(k - half + 127) << 23);
}

__device__ __forceinline__ double exp(double a) { return ::exp(a); }

}  // namespace ops
//@end

//@section exp2 : bits
namespace ops {

// 2^f = 1 + f * E(f), E a minimax fit of degree 5, 2^-28.3, the power of two in two steps: 0.88 ulp. (CUDA's exp2f is
// 2.38 ulp off where results become denormal.)
__device__ __forceinline__ float exp2(float a) {
  float x = a > 129.0f ? 129.0f : a;
  x = x < -151.0f ? -151.0f : x;
  float t = x + 0x1.8p+23f;
  float f = x - (t - 0x1.8p+23f);
  float p = 0x1.4172bap-13f;
  p = ::fmaf(p, f, 0x1.5f0976p-10f);
  p = ::fmaf(p, f, 0x1.3b2ddap-7f);
  p = ::fmaf(p, f, 0x1.c6af7ap-5f);
  p = ::fmaf(p, f, 0x1.ebfbdcp-3f);
  p = ::fmaf(p, f, 0x1.62e430p-1f);
  p = ::fmaf(p, f, 1.0f);
  int k = static_cast<int>(detail::bits(t) - 0x4b400000u);
  int half = k >> 1;
  return p * detail::from_bits(static_cast<unsigned>(half + 127) << 23) *
         detail::from_bits(static_cast<unsigned>(k - half + 127) << 23);
}

__device__ __forceinline__ double exp2(double a) { return ::exp2(a); }

}  // namespace ops
//@end

//@section expm1 : bits
namespace ops {

// To 1 ulp (CUDA's own expm1f: 1.44 on an H100): the scheme of `expm1_negative` over the whole range; below 0.5 nothing
// is reduced, since the sum would magnify the reduced argument's rounding; 2^(n-1) and a doubling, since 2^n overflows
// before the result does.
__device__ __forceinline__ float expm1(float a) {
  float x = a > 89.0f ? 89.0f : a;
  x = x < -40.0f ? -40.0f : x;
  float t = ::fmaf(x, 0x1.715476p+0f, 0x1.8p+23f);  // log2(e)
  t = ::fabsf(x) < 0.5f ? 0x1.8p+23f : t;
  float n = t - 0x1.8p+23f;
  float r = ::fmaf(n, -0x1.62e430p-1f, x);
  r = ::fmaf(n, 0x1.05c610p-29f, r);
  float q = 0x1.a2792cp-13f;
  q = ::fmaf(q, r, 0x1.6f47ccp-10f);
  q = ::fmaf(q, r, 0x1.110fecp-7f);
  q = ::fmaf(q, r, 0x1.5551c2p-5f);
  q = ::fmaf(q, r, 0x1.555556p-3f);
  q = ::fmaf(q, r, 0x1.000002p-1f);
  float p = ::fmaf(r * r, q, r);
  float s = detail::from_bits((detail::bits(t) << 23) + 0x3f000000u);  // 2^(n-1)
  float low = n > 20.0f ? 0.5f / s : 0.0f;                             // from there s - 0.5 would round
  float y = n == 0.0f ? p : 2.0f * ::fmaf(s, p - low, n > 20.0f ? s : s - 0.5f);
  return a == 0.0f ? a : y;  // -0 stays -0
}

__device__ __forceinline__ double expm1(double a) { return ::expm1(a); }

}  // namespace ops
//@end

//@section log1p_reduced
namespace detail {

// log(1 + f) - f for f in [-1/4, 1/2): f^2 (-1/2 + f P(f)), P a minimax fit of degree 7, 2^-27.59 of the logarithm. For
// the CPU: CUDA has its own logarithms.
__device__ __forceinline__ float log1p_reduced(float f) {
  float p = -0x1.71428ep-5f;
  p = ::fmaf(p, f, 0x1.aca446p-4f);
  p = ::fmaf(p, f, -0x1.0d93fcp-3f);
  p = ::fmaf(p, f, 0x1.2885dcp-3f);
  p = ::fmaf(p, f, -0x1.54eed4p-3f);
  p = ::fmaf(p, f, 0x1.996970p-3f);
  p = ::fmaf(p, f, -0x1.000044p-2f);
  p = ::fmaf(p, f, 0x1.5555a4p-2f);
  p = ::fmaf(p, f, -0.5f);
  return p * (f * f);
}

// k ln 2 + log(1 + f): ln 2 in two floats, the upper of 16 bits so that k times it is exact; each sum's rounding is
// added again.
__device__ __forceinline__ float log_of(float k, float f) {
  float rest = log1p_reduced(f);
  float w = f + rest;
  float w_low = rest - (w - f);
  float h = k * 0x1.62e4p-1f;
  float sum = h + w;
  return sum + ((w - (sum - h)) + ::fmaf(k, 0x1.7f7d1cp-20f, w_low));
}

}  // namespace detail
//@end

//@section log : bits, log1p_reduced
namespace ops {

// CUDA's logf: 0.86 ulp. Elsewhere a = 2^e m with m in [3/4, 3/2): e ln 2 + log(m), 0.82 ulp.
__device__ __forceinline__ float log(float a) {
#if defined(__CUDACC__)
  return ::logf(a);
#else
  bool tiny = a < 0x1p-126f;
  float scaled = tiny ? a * 0x1p+24f : a;
  int e = static_cast<int>(detail::bits(scaled) - 0x3f400000u) >> 23;  // 3/4
  float f = detail::from_bits(detail::bits(scaled) - (static_cast<unsigned>(e) << 23)) - 1.0f;
  float k = static_cast<float>(e) - (tiny ? 24.0f : 0.0f);
  float result = detail::log_of(k, f);
  float special = a == 0.0f ? -detail::from_bits(0x7f800000u) : (a < 0.0f ? detail::from_bits(0x7fc00000u) : a);
  return a > 0.0f && a <= 0x1.fffffep+127f ? result : special;
#endif
}

__device__ __forceinline__ double log(double a) { return ::log(a); }

}  // namespace ops
//@end

//@section log1p : bits, log1p_reduced
namespace ops {

// CUDA's log1pf: 0.89 ulp. Elsewhere as `log`, with f = 2^-e (1 + a) - 1, which the choice of 3/4 makes exact wherever
// it matters; where the 1 no longer counts, a is scaled so that 2^-e is a normal number. 0.85 ulp.
__device__ __forceinline__ float log1p(float a) {
#if defined(__CUDACC__)
  return ::log1pf(a);
#else
  bool large = a > 0x1p+60f;
  float one = large ? 0.0f : 1.0f;
  float scaled = large ? a * 0x1p-64f : a;
  int e = static_cast<int>(detail::bits(scaled + one) - 0x3f400000u) >> 23;  // 3/4
  float s = detail::from_bits(0x3f800000u - (static_cast<unsigned>(e) << 23));
  float f = ::fmaf(s, scaled, ::fmaf(s, one, -1.0f));
  float k = static_cast<float>(e) + (large ? 64.0f : 0.0f);
  float result = ::copysignf(detail::log_of(k, f), a);  // the sign: of 0
  float special = a == -1.0f ? -detail::from_bits(0x7f800000u) : (a < -1.0f ? detail::from_bits(0x7fc00000u) : a);
  return a > -1.0f && a <= 0x1.fffffep+127f ? result : special;
#endif
}

__device__ __forceinline__ double log1p(double a) { return ::log1p(a); }

}  // namespace ops
//@end

//@section log2
namespace ops {

// CUDA's log2f: 0.92 ulp. Elsewhere C's.
__device__ __forceinline__ float log2(float a) { return ::log2f(a); }

__device__ __forceinline__ double log2(double a) { return ::log2(a); }

}  // namespace ops
//@end

//@section sin
namespace ops {

// CUDA's sinf: 1.50 ulp, with the full reduction of large arguments.
__device__ __forceinline__ float sin(float a) { return ::sinf(a); }

__device__ __forceinline__ double sin(double a) { return ::sin(a); }

}  // namespace ops
//@end

//@section cos
namespace ops {

// CUDA's cosf: 1.51 ulp, with the full reduction of large arguments.
__device__ __forceinline__ float cos(float a) { return ::cosf(a); }

__device__ __forceinline__ double cos(double a) { return ::cos(a); }

}  // namespace ops
//@end

//@section tanh : fast_pieces, expm1_negative
namespace ops {

// CUDA's tanhf: 1.81 ulp. Elsewhere, to 1.84 ulp, -t / (2 + t) with t = exp(-2|a|) - 1, a denominator in [1, 2], and
// a's sign.
__device__ __forceinline__ float tanh(float a) {
#if defined(__CUDACC__)
  return ::tanhf(a);
#else
  float t = detail::expm1_negative(-2.0f * ::fabsf(a));
  float d = 2.0f + t;
  float d_low = t - (d - 2.0f);
  return ::copysignf(detail::quotient(-t, 0.0f, d, d_low), a);
#endif
}

__device__ __forceinline__ double tanh(double a) { return ::tanh(a); }

}  // namespace ops
//@end

//@section erf : exp_scaled
namespace ops {

// CUDA's erff: 1.04 ulp. Elsewhere a + a P(a^2) below 0.925, and 1 - exp(-R(|a|)) above, R = -log(erfc); minimax fits
// of degree 5, 2^-25.7, and 6, 2^-29.3. 1.04 ulp.
__device__ __forceinline__ float erf(float a) {
#if defined(__CUDACC__)
  return ::erff(a);
#else
  float t = ::fabsf(a);
  float s = a * a;
  float p = -0x1.37d6ecp-11f;
  p = ::fmaf(p, s, 0x1.46b404p-8f);
  p = ::fmaf(p, s, -0x1.b675cap-6f);
  p = ::fmaf(p, s, 0x1.ce1920p-4f);
  p = ::fmaf(p, s, -0x1.8126e0p-2f);
  p = ::fmaf(p, s, 0x1.06eba6p-3f);
  float inner = ::fmaf(p, a, a);
  float u = t > 4.0f ? 4.0f : t;
  float r = -0x1.9aef6ap-13f;
  r = ::fmaf(r, u, 0x1.8ee4c4p-9f);
  r = ::fmaf(r, u, -0x1.6c2bdep-6f);
  r = ::fmaf(r, u, 0x1.a9b4cap-4f);
  r = ::fmaf(r, u, 0x1.463caep-1f);
  r = ::fmaf(r, u, 0x1.20af5ep+0f);
  r = ::fmaf(r, u, 0x1.9a40fcp-13f);
  float outer = ::copysignf(::fmaf(detail::exp_scaled(-r, 0.0f), -0x1p-64f, 1.0f), a);
  return t < 0.925f ? inner : outer;
#endif
}

__device__ __forceinline__ double erf(double a) { return ::erf(a); }

}  // namespace ops
//@end

//@section isinf
namespace ops {

// Above the largest finite number. (Not std::isinf, which is a macro in places.)
__device__ __forceinline__ bool isinf(float a) { return ::fabsf(a) > 0x1.fffffep+127f; }

__device__ __forceinline__ bool isinf(double a) { return ::fabs(a) > 0x1.fffffffffffffp+1023; }

}  // namespace ops
//@end

//@section relu : maximum
namespace ops {

__device__ __forceinline__ float relu(float a) { return maximum(a, 0.0f); }

__device__ __forceinline__ double relu(double a) { return maximum(a, 0.0); }

}  // namespace ops
//@end

//@section relu6 : clamp
namespace ops {

__device__ __forceinline__ float relu6(float a) { return clamp(a, 0.0f, 6.0f); }

__device__ __forceinline__ double relu6(double a) { return clamp(a, 0.0, 6.0); }

}  // namespace ops
//@end

//@section leaky_relu
namespace ops {

__device__ __forceinline__ float leaky_relu(float a, float slope) { return a > 0.0f ? a : slope * a; }

__device__ __forceinline__ double leaky_relu(double a, double slope) { return a > 0.0 ? a : slope * a; }

}  // namespace ops
//@end

//@section elu : expm1_negative
namespace ops {

// The comparison sends NaN through the exponential, which keeps it. 0.88 ulp, and the product's rounding: 1.63 with
// alpha 1.3.
__device__ __forceinline__ float elu(float a, float alpha) { return a > 0.0f ? a : alpha * detail::expm1_negative(a); }

__device__ __forceinline__ double elu(double a, double alpha) { return a > 0.0 ? a : alpha * ::expm1(a); }

}  // namespace ops
//@end

//@section selu : expm1_negative
namespace ops {

// scale * (a if a > 0 else alpha * (exp(a) - 1)), scale = 1.0507009873554804934193349852946 and alpha =
// 1.6732632423543772848170429916717 as in PyTorch (Klambauer et al. 2017); 1.7580993408473768599 is their product. 1.79
// ulp.
__device__ __forceinline__ float selu(float a) {
  return a > 0.0f ? 0x1.0cfabep+0f * a : 0x1.c212ccp+0f * detail::expm1_negative(a);
}

__device__ __forceinline__ double selu(double a) {
  return a > 0.0 ? 1.0507009873554804934193349852946 * a : 1.7580993408473768599402175208123 * ::expm1(a);
}

}  // namespace ops
//@end

//@section celu : expm1_negative
namespace ops {

// What the quotient rounds off goes in again to first order: alpha times it, times the slope exp(y). A negative alpha
// makes y positive and the function as steep as exp: that is answered, but not within 2 ulp. 1.82 ulp with alpha 0.3.
__device__ __forceinline__ float celu(float a, float alpha) {
  float y = a / alpha;
  float e = alpha < 0.0f ? ::expm1f(y) : detail::expm1_negative(y);
  float rest = y > -40.0f && alpha > 0.0f ? ::fmaf(-y, alpha, a) : 0.0f;
  float below = rest != 0.0f ? ::fmaf(alpha, e, rest * (e + 1.0f)) : alpha * e;
  return a > 0.0f ? a : below;
}

__device__ __forceinline__ double celu(double a, double alpha) { return a > 0.0 ? a : alpha * ::expm1(a / alpha); }

}  // namespace ops
//@end

//@section gelu : fast_pieces, exp_scaled_pair
namespace ops {

// a * Phi(a) = max(a, 0) - t * Q(t) with t = |a| and Q = 1 - Phi = exp(-t^2 / 2) * S(w) / (t + 1.25), w = (t - 2) / (t
// + 3.5): no cancellation on either side of 0. S lies between 0.43 and 0.63 and is flattest where w is least exact; a
// minimax fit of degree 9, 2^-26.4, for t in [0, 14.55]. Everything beside S's lower terms is carried as pairs of
// floats: 1.71 ulp, and without any one of those 2.3 to 3.8.
__device__ __forceinline__ float gelu(float a) {
  float t = detail::at_most(::fabsf(a), 14.5f);  // t * Q(t) is below half the smallest denormal there
  float y = -0.5f * t;
  float x = y * t;
  float e_low;
  float e = detail::exp_scaled(x, ::fmaf(y, t, -x), e_low);
  float w = ::fmaf(-5.5f, detail::reciprocal_guess(t + 3.5f), 1.0f);
  float c = 0x1.4c068ep-10f;
  c = ::fmaf(c, w, -0x1.98447cp-10f);
  c = ::fmaf(c, w, -0x1.a7183ep-8f);
  c = ::fmaf(c, w, 0x1.5526d8p-7f);
  c = ::fmaf(c, w, 0x1.b5830cp-6f);
  c = ::fmaf(c, w, -0x1.9ad27cp-4f);
  c = ::fmaf(c, w, 0x1.e6c0aap-4f);
  c = ::fmaf(c, w, 0x1.3429fcp-11f);
  c = ::fmaf(c, w, -0x1.9338cap-3f);
  float s = ::fmaf(c, w, 0x1.17b8c4p-1f);
  float d = t + 1.25f;
  float d_low = t - (d - 1.25f);
  float s_low = ::fmaf(c, w, 0x1.17b8c4p-1f - s) + -0x1.153482p-26f;
  float m = t * s;
  float m_low = ::fmaf(t, s, -m) + t * s_low;
  float n = m * e;
  float n_low = ::fmaf(m, e, -n) + ::fmaf(m_low, e, m * e_low);
  float h = detail::quotient(n, n_low, d, d_low);
  return ::fmaf(-h, 0x1p-64f, a > 0.0f ? a : 0.0f * a);  // 0 * a: NaN of NaN, and of -Inf as in PyTorch
}

// The error of the argument of erfc, which its steepness would magnify, goes in again to first order.
__device__ __forceinline__ double gelu(double a) {
  constexpr double sqrt_half = 0.70710678118654752440, sqrt_half_low = -4.8336466567264567e-17;
  double y = -a * sqrt_half;
  double y_low = ::fma(-a, sqrt_half, -y) - a * sqrt_half_low;
  double tail = ::erfc(y);
  tail = a < -1.0 && a > -39.0 ? tail - 1.12837916709551257390 * ::exp(-y * y) * y_low : tail;  // 2 / sqrt(pi)
  return 0.5 * a * tail;
}

}  // namespace ops
//@end

//@section gate : fast_pieces, exp_scaled
namespace detail {

// a * sigmoid(z), z of a's sign, given as w = -|z| (in two floats, w >= -126): with e = exp(w) that is max(a, 0) - |a|
// e / (1 + e), without cancellation on either side of 0. t = |a|, held finite. The numerator's and the denominator's
// roundings go into the quotient's remainder.
__device__ __forceinline__ float gate(float a, float t, float w, float w_low) {
  float e = exp_scaled(w, w_low);
  float d = ::fmaf(e, 0x1p-64f, 1.0f);
  float d_low = ::fmaf(e, 0x1p-64f, 1.0f - d);
  float n = t * e;
  float n_low = ::fmaf(t, e, -n);
  float h = quotient(n, n_low, d, d_low);
  return ::fmaf(-h, 0x1p-64f, a > 0.0f ? a : 0.0f * a);  // 0 * a: NaN of NaN, and of -Inf as in PyTorch
}

}  // namespace detail
//@end

//@section gelu_tanh : gate
namespace ops {

// 0.5 * a * (1 + tanh(u)) = a * sigmoid(2u), and 2u = a * (k + j * a^2) with k = 2 * sqrt(2 / pi), j = 0.044715 * k.
// The exponential magnifies its argument's relative error up to a hundredfold, hence the argument in two floats. k's
// upper part has 22 bits, so that subtracting it from the sum is exact. 1.89 ulp.
__device__ __forceinline__ float gelu_tanh(float a) {
  float t = detail::at_most(::fabsf(a), 11.0f);  // the result is below half the smallest denormal there
  float s = t * t;
  float s_low = ::fmaf(t, t, -s);
  float c = ::fmaf(0x1.2444f2p-4f, s, 0x1.988450p+0f);
  float c_low = ::fmaf(0x1.2444f2p-4f, s, 0x1.988450p+0f - c);
  c_low += ::fmaf(0x1.2444f2p-4f, s_low, ::fmaf(0x1.49b16ap-29f, s, 0x1.9ea1b2p-23f));
  float w = -t * c;
  float w_low = ::fmaf(-t, c, -w) - t * c_low;
  return detail::gate(a, t, w, w_low);
}

__device__ __forceinline__ double gelu_tanh(double a) {
  double z = a * (1.59576912160573071176 + 0.07135481627260024878 * a * a);
  double e = ::exp(-::fabs(z));
  return a * ((z < 0.0 ? e : 1.0) / (1.0 + e));
}

}  // namespace ops
//@end

//@section silu : gate
namespace ops {

// 1.67 ulp.
__device__ __forceinline__ float silu(float a) {
  float t = detail::at_most(::fabsf(a), 112.0f);  // the result is below half the smallest denormal there
  return detail::gate(a, t, -t, 0.0f);
}

// Far below zero the exponential is denormal where the result is not: there its square root is multiplied in twice.
__device__ __forceinline__ double silu(double a) {
  double root = ::exp(0.5 * a);
  if (a < -40.0) return a * root * root;
  double e = ::exp(-::fabs(a));
  return a * ((a < 0.0 ? e : 1.0) / (1.0 + e));
}

}  // namespace ops
//@end

//@section sigmoid : fast_pieces, exp_scaled
namespace ops {

// With e = exp(-|a|): e / (1 + e) below 0, where 1 / (1 + exp(-a)) would underflow too early, and 1 minus that above.
// 1.48 ulp.
__device__ __forceinline__ float sigmoid(float a) {
  float e = detail::exp_scaled(-detail::at_most(::fabsf(a), 112.0f), 0.0f);
  float d = ::fmaf(e, 0x1p-64f, 1.0f);
  float d_low = ::fmaf(e, 0x1p-64f, 1.0f - d);
  float h = detail::quotient(e, 0.0f, d, d_low);
  return ::fmaf(h, a > 0.0f ? -0x1p-64f : 0x1p-64f, a > 0.0f ? 1.0f : 0.0f);
}

__device__ __forceinline__ double sigmoid(double a) {
  double e = ::exp(-::fabs(a));
  return (a < 0.0 ? e : 1.0) / (1.0 + e);
}

}  // namespace ops
//@end

//@section log1p_exp : fast_pieces, exp_scaled
namespace detail {

// 2^63 * log(1 + exp(w + w_low)) for w in [-126, 0], as a sum with `low`. With e = exp(w) and q = e / (2 + e), at most
// 1/3, it is 2 atanh(q) = 2 (q + q^3 P(q^2)), P a minimax fit of degree 3, 2^-27.70; the second term is at most a 26th,
// so that little but e is to blame for the error once q and the sum are carried in two floats.
__device__ __forceinline__ float log1p_exp(float w, float w_low, float& low) {
  float e = exp_scaled(w, w_low);
  float d = ::fmaf(e, 0x1p-64f, 2.0f);
  float d_low = ::fmaf(e, 0x1p-64f, 2.0f - d);
  float r = reciprocal_guess(d);
  float q = e * r;
  float q_low = ::fmaf(-q, d_low, ::fmaf(-q, d, e)) * r;
  float z = q * 0x1p-64f;
  z *= z;
  float p = 0x1.1efd6cp-3f;
  p = ::fmaf(p, z, 0x1.1eb4d2p-3f);
  p = ::fmaf(p, z, 0x1.99d294p-3f);
  p = ::fmaf(p, z, 0x1.555500p-2f);
  p *= z;
  float sum = ::fmaf(q, p, q);
  low = ::fmaf(q, p, q - sum) + q_low;
  return sum;
}

}  // namespace detail
//@end

//@section logsigmoid : fast_pieces, log1p_exp
namespace ops {

// min(a, 0) - log(1 + exp(-|a|)): 1.52 ulp.
__device__ __forceinline__ float logsigmoid(float a) {
  float low;
  float h = detail::log1p_exp(-detail::at_most(::fabsf(a), 112.0f), 0.0f, low);
  return ::fmaf(-h, 0x1p-63f, ::fmaf(-low, 0x1p-63f, a < 0.0f ? a : 0.0f));
}

__device__ __forceinline__ double logsigmoid(double a) { return (a < 0.0 ? a : 0.0) - ::log1p(::exp(-::fabs(a))); }

}  // namespace ops
//@end

//@section hardsigmoid : clamp
namespace ops {

// 1.33 ulp.
__device__ __forceinline__ float hardsigmoid(float a) {
  return clamp(a + 3.0f, 0.0f, 6.0f) * 0x1.555556p-3f;  // 1 / 6
}

__device__ __forceinline__ double hardsigmoid(double a) { return clamp(a + 3.0, 0.0, 6.0) / 6.0; }

}  // namespace ops
//@end

//@section hardswish : clamp
namespace ops {

// The factor comes first: it is 1 at and above 3, so that large inputs do not overflow. 1 / 6 in two floats: 1.87 ulp.
__device__ __forceinline__ float hardswish(float a) {
  float w = clamp(a + 3.0f, 0.0f, 6.0f);
  return a * ::fmaf(w, 0x1.555556p-3f, w * -0x1.555556p-28f);
}

__device__ __forceinline__ double hardswish(double a) { return a * (clamp(a + 3.0, 0.0, 6.0) / 6.0); }

}  // namespace ops
//@end

//@section mish : fast_pieces, exp_scaled
namespace ops {

// tanh(log(1 + exp(a))) = n / (n + 2), n = exp(a) * (exp(a) + 2). With e = exp(-|a|), which never overflows: below 0
// the product is a * e (e + 2) / (e (e + 2) + 2); above it is a - a * 2e^2 / (1 + 2e + 2e^2). 1.67 ulp.
__device__ __forceinline__ float mish(float a) {
  float t = detail::at_most(::fabsf(a), 112.0f);  // the result is below half the smallest denormal there
  float scaled = detail::exp_scaled(-t, 0.0f);
  float e = scaled * 0x1p-64f;
  float twice = 2.0f * e;
  float f = a > 0.0f ? twice : e + 2.0f;
  float g = a > 0.0f ? twice + 1.0f : 2.0f;
  float f_low = a > 0.0f ? 0.0f : e - (f - 2.0f);
  float d = ::fmaf(e, f, g);
  float d_low = ::fmaf(e, f, g - d);
  float m = t * scaled;
  float m_low = ::fmaf(t, scaled, -m);
  float n = m * f;
  float n_low = ::fmaf(m, f, -n) + ::fmaf(m, f_low, m_low * f);
  float h = detail::quotient(n, n_low, d, d_low);
  return ::fmaf(-h, 0x1p-64f, a > 0.0f ? a : 0.0f * a);  // 0 * a: NaN of NaN, and of -Inf as in PyTorch
}

// As silu far below zero, where both are a * exp(a).
__device__ __forceinline__ double mish(double a) {
  double root = ::exp(0.5 * a);
  if (a < -40.0) return a * root * root;
  double e = ::exp(-::fabs(a));
  double n = a > 0.0 ? 1.0 + 2.0 * e : e * (e + 2.0);
  return a * (n / (n + (a > 0.0 ? 2.0 * e * e : 2.0)));
}

}  // namespace ops
//@end

//@section softplus : fast_pieces, log1p_exp
namespace ops {

// max(a, 0) + log(1 + exp(-|y|)) / beta with y = beta * a in two floats, since the exponential magnifies y's relative
// error. For 2^-30 <= |beta|; where beta * a is above the threshold, a itself. 1.52 ulp with beta 1, 1.71 with 0.3.
__device__ __forceinline__ float softplus(float a, float beta, float threshold) {
  float y = beta * a;
  float y_low = ::fmaf(beta, a, -y);
  bool positive = y > 0.0f;
  float w = positive ? -y : y;
  float w_low = positive ? -y_low : y_low;
  w_low = w < -126.0f ? 0.0f : w_low;
  w = detail::at_least(w, -126.0f);
  float low;
  float l = detail::log1p_exp(w, w_low, low);
  float r = 1.0f / beta;  // no division at run time where beta is a literal
  float h = l * r;
  float h_low = (::fmaf(-h, beta, l) + low) * r;
  float result = ::fmaf(h, 0x1p-63f, ::fmaf(h_low, 0x1p-63f, positive ? a : 0.0f));
  return y > threshold ? a : result;
}

__device__ __forceinline__ double softplus(double a, double beta, double threshold) {
  double y = beta * a;
  double result = (y > 0.0 ? a : 0.0) + ::log1p(::exp(-::fabs(y))) / beta;
  return y > threshold ? a : result;
}

}  // namespace ops
//@end

//@section softsign
namespace ops {

// 1.50 ulp. NaN at Inf, as in PyTorch.
__device__ __forceinline__ float softsign(float a) { return a / (1.0f + ::fabsf(a)); }

__device__ __forceinline__ double softsign(double a) { return a / (1.0 + ::fabs(a)); }

}  // namespace ops
//@end

//@section tanhshrink : fast_pieces, exp_scaled
namespace ops {

// Near 0 a - tanh(a) cancels: below 1.12 it is a^3 * P(a^2), P a minimax fit of degree 7, 2^-25. Above, with e =
// exp(-2|a|), it is (|a| - 1) + 2e / (1 + e), a sum of positive numbers. 1.58 ulp.
__device__ __forceinline__ float tanhshrink(float a) {
  float t = ::fabsf(a);
  float s = a * a;
  float s_low = ::fmaf(a, a, -s);
  float p = -0x1.d05e46p-14f;
  p = ::fmaf(p, s, 0x1.a9b658p-11f);
  p = ::fmaf(p, s, -0x1.90d85cp-9f);
  p = ::fmaf(p, s, 0x1.19efcep-7f);
  p = ::fmaf(p, s, -0x1.65344ap-6f);
  p = ::fmaf(p, s, 0x1.ba0b9ep-5f);
  p = ::fmaf(p, s, -0x1.1110fep-3f);
  float u = ::fmaf(p, s, 0x1.555556p-2f);  // P
  float u_low = ::fmaf(p, s, 0x1.555556p-2f - u);
  float m = s * u;
  float m_low = ::fmaf(s, u, -m) + ::fmaf(s, u_low, s_low * u);
  float inner = ::fmaf(a, m, a * m_low);
  float e = detail::exp_scaled(-2.0f * detail::at_most(t, 20.0f), 0.0f) * 0x1p-63f;  // 2 exp(-2t)
  float outer = (t - 1.0f) + detail::quotient(e, ::fmaf(0.5f, e, 1.0f));
  return t < 1.12f ? inner : (a < 0.0f ? -outer : outer);
}

// Below 1/2 the continued fraction tanh(a) = a / (1 + a^2 / (3 + a^2 / (5 + …))) gives a^3 / (3 + T + a^2), T = a^2 /
// (5 + …).
__device__ __forceinline__ double tanhshrink(double a) {
  double t = ::fabs(a);
  double s = a * a;
  double tail = s / (5.0 + s / (7.0 + s / (9.0 + s / (11.0 + s / (13.0 + s / 15.0)))));
  double e = ::exp(-2.0 * t);
  double outer = (t - 1.0) + 2.0 * e / (1.0 + e);
  return t < 0.5 ? a * (s / (3.0 + tail + s)) : (a < 0.0 ? -outer : outer);
}

}  // namespace ops
//@end

//@section threshold
namespace ops {

// PyTorch's: `a <= limit ? value : a`, so that NaN stays.
__device__ __forceinline__ float threshold(float a, float limit, float value) { return a <= limit ? value : a; }

__device__ __forceinline__ double threshold(double a, double limit, double value) { return a <= limit ? value : a; }

}  // namespace ops
//@end
