// Operations of kernels, as arithmetic.cuh: PyTorch's activations, each within 2 ulp of its exact value in f32, NaN and infinities as
// PyTorch's formula has them. Figures in ulp are the largest error over all f32, measured on an H100 (tests/ulp, docs/guide/accuracy.md).

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

//@section gelu : bits, fast_pieces
namespace ops {

// a * Phi(a) = max(a, 0) - t * Q(t) with t = |a| and Q = 1 - Phi = exp(-t^2 / 2) * S(w) / (t + c), w = (t - 2) / (t + 4.5):
// no cancellation on either side of 0. c = 1.171875 makes S(0) a float, to 2^-30; S is a minimax fit of degree 9, 2^-26.3, for t in
// [0, 14.5]. exp(-t^2 / 2) = 2^n exp(-g / 2) with g = t^2 + 2n ln 2, t^2 exact inside the fma, 2 ln 2 in two floats (the upper has 15
// bits, so that n times it is exact); exp(-g / 2) = 1 + z. What rounding t (1 + z), the numerator and the divisor leaves goes into the
// quotient's remainder.
__device__ __forceinline__ float gelu(float a) {
  float t = detail::at_most(::fabsf(a), 14.5f);  // t * Q(t) is below half the smallest denormal there
  float biased = ::fmaf(t * t, -0x1.715476p-1f, 0x1.8p+23f);  // n in the last bits: -log2(e) / 2
  float n = biased - 0x1.8p+23f;
  float g = ::fmaf(t, t, n * 0x1.62e4p+0f);
  g = ::fmaf(n, 0x1.7f7d1cp-19f, g);
  float z = 0x1.6a5408p-16f;  // expm1(-g / 2) / g, as in `exp_scaled`
  z = ::fmaf(z, g, -0x1.123b0ep-12f);
  z = ::fmaf(z, g, 0x1.5558acp-9f);
  z = ::fmaf(z, g, -0x1.555490p-6f);
  z = ::fmaf(z, g, 0x1.fffffcp-4f);
  z = ::fmaf(z, g, -0.5f) * g;
  float w = ::fmaf(-6.5f, detail::reciprocal_guess(t + 4.5f), 1.0f);
  float s = -0x1.7813f6p-8f;  // (S(w) - S(0)) / w
  s = ::fmaf(s, w, 0x1.0f872ap-6f);
  s = ::fmaf(s, w, 0x1.53fcf4p-8f);
  s = ::fmaf(s, w, -0x1.af8024p-4f);
  s = ::fmaf(s, w, 0x1.0296e6p-2f);
  s = ::fmaf(s, w, -0x1.4c3c02p-2f);
  s = ::fmaf(s, w, 0x1.c91152p-3f);
  s = ::fmaf(s, w, 0x1.2ffdc2p-8f);
  s = ::fmaf(s, w, -0x1.9b4996p-3f);
  constexpr float at_2 = 0x1.10ff66p-1f;  // S(0)
  float m = ::fmaf(t, z, t);
  float m_low = ::fmaf(t, z, t - m);
  float slope = m * (s * w);
  float numerator = ::fmaf(m, at_2, slope);
  float low = ::fmaf(m_low, at_2, ::fmaf(m, at_2, -numerator) + slope);
  float d = t + 1.171875f;
  float d_low = t - (d - 1.171875f);
  float h = detail::quotient(numerator, low, d, d_low) * detail::from_bits((detail::bits(biased) << 23) + 0x5f800000u);  // 2^(n + 64)
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
// upper segment has 22 bits, so that subtracting it from the sum is exact. 1.89 ulp.
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
// so that little but e is to blame for the error once q and the sum are saved in two floats.
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
// error; where beta * a is above the threshold, a itself. 1.52 ulp with beta 1, 1.71 with 0.3. Where the logarithm
// over beta has no two floats, beyond 2^-30 <= |beta| <= 2^60, it is one division, and +-Inf for a beta of +-0.
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
  float above = positive ? a : 0.0f;
  float result = ::fmaf(h, 0x1p-63f, ::fmaf(h_low, 0x1p-63f, above));
  bool usual = ::fabsf(beta) >= 0x1p-30f && ::fabsf(beta) <= 0x1p60f;  // known where beta is a literal
  result = usual ? result : above + l * 0x1p-63f / beta;
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
