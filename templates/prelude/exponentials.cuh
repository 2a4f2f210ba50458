// Operations of kernels, as arithmetic.cuh: exponentials, logarithms, powers, trigonometry, and the parts that
// activations are made of. Without branches where speed matters, so that loops over them vectorise on the CPU; no f64
// in f32 code: consumer GPUs run it at 1/64 of the rate. Where a number is said to be a minimax fit, it is: Remez-like,
// in 40 digits, coefficients rounded one by one. Figures in ulp are the largest error over all f32, measured on an H100
// (tests/ulp, docs/guide/accuracy.md).

//@section reciprocal_guess
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
__device__ __forceinline__ double reciprocal_guess(double d) { return 1.0 / d; }

}  // namespace detail
//@end

//@section fast_pieces : bits, reciprocal_guess
namespace detail {

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
// value is saved as pairs of floats.
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

//@section exp2_fraction
namespace detail {

// 2^f for |f| <= 1/2: 1 + f * E(f), E a minimax fit of degree 5, 2^-28.3.
__device__ __forceinline__ float exp2_fraction(float f) {
  float p = 0x1.4172bap-13f;
  p = ::fmaf(p, f, 0x1.5f0976p-10f);
  p = ::fmaf(p, f, 0x1.3b2ddap-7f);
  p = ::fmaf(p, f, 0x1.c6af7ap-5f);
  p = ::fmaf(p, f, 0x1.ebfbdcp-3f);
  p = ::fmaf(p, f, 0x1.62e430p-1f);
  return ::fmaf(p, f, 1.0f);
}

}  // namespace detail
//@end

//@section exp2 : bits, exp2_fraction
namespace ops {

// The power of two in two steps: 0.88 ulp. (CUDA's exp2f is 2.38 ulp off where results become denormal.)
__device__ __forceinline__ float exp2(float a) {
  float x = a > 129.0f ? 129.0f : a;
  x = x < -151.0f ? -151.0f : x;
  float t = x + 0x1.8p+23f;
  float p = detail::exp2_fraction(x - (t - 0x1.8p+23f));
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
