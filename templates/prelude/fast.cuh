// Cheaper formulas, for values whose results are rounded to 16 or 8 bits, and for terms of long sums in f32.
// src/plan/analysis/formulas.def has their errors, src/plan/analysis/accuracy.cpp says where codegen takes them, and
// docs/guide/accuracy.md has what was measured; nothing else may use them. What lies below 2^-117 may be zero here. NaN
// and infinities are as in PyTorch.

//@section fast_exp2
namespace fast {

__device__ __forceinline__ float exp2(float t) {
#if defined(__CUDACC__)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
  return r;
#else
  float r = ::exp2f(t);
  return r < 0x1p-126f ? 0.0f : r;
#endif
}

}  // namespace fast
//@end

//@section fast_exp : fast_exp2
namespace fast {

__device__ __forceinline__ float exp(float a) { return fast::exp2(a * 0x1.715476p+0f); }  // log2(e)

}  // namespace fast
//@end

//@section fast_expm1 : fast_exp2
namespace fast {

// Near 0, where the difference would lose bits, a + a^2 / 2.
__device__ __forceinline__ float expm1(float a) {
  float far = fast::exp2(a * 0x1.715476p+0f) - 1.0f;
  return ::fabsf(a) < 0x1p-7f ? ::fmaf(0.5f * a, a, a) : far;
}

}  // namespace fast
//@end

//@section fast_elu : fast_expm1
namespace fast {

__device__ __forceinline__ float elu(float a, float alpha) { return a < 0.0f ? alpha * fast::expm1(a) : a; }

}  // namespace fast
//@end

//@section fast_selu : fast_expm1
namespace fast {

// As ops::selu.
__device__ __forceinline__ float selu(float a) {
  return a > 0.0f ? 0x1.0cfabep+0f * a : 0x1.c212ccp+0f * fast::expm1(a);
}

}  // namespace fast
//@end

//@section fast_celu : fast_exp2
namespace fast {

// No division at run time where alpha is a literal. Near 0 as expm1, with a * y / 2, which no alpha makes vanish.
__device__ __forceinline__ float celu(float a, float alpha) {
  float y = a * (1.0f / alpha);
  float far = alpha * (fast::exp2(y * 0x1.715476p+0f) - 1.0f);
  float below = ::fabsf(y) < 0x1p-7f ? ::fmaf(0.5f * y, a, a) : far;
  return a < 0.0f ? below : a;
}

}  // namespace fast
//@end

//@section fast_sigmoid : fast_exp2, reciprocal_guess
namespace fast {

// Far below 0 the exponential is infinite, and its reciprocal 0.
__device__ __forceinline__ float sigmoid(float a) {
  return detail::reciprocal_guess(1.0f + fast::exp2(a * -0x1.715476p+0f));
}
// Of a * factor, where many share a factor of at most 2^127: one product less. Beside a * factor rounded 2^-16.5.
__device__ __forceinline__ float sigmoid(float a, float factor) {
  return detail::reciprocal_guess(1.0f + fast::exp2(a * (factor * -0x1.715476p+0f)));
}

}  // namespace fast
//@end

//@section fast_silu : fast_sigmoid
namespace fast {

__device__ __forceinline__ float silu(float a) { return a * fast::sigmoid(a); }

}  // namespace fast
//@end

//@section fast_sigmoid_term : fast_sigmoid
namespace fast {

// Of a sum whose results round to few bits: (1 + tanh(a / 2)) / 2 by one instruction of an H100: 2^-17.9. Of a * factor as above.
__device__ __forceinline__ float sigmoid_term(float a, float factor) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a * (0.5f * factor)));
  return ::fmaf(0.5f, r, 0.5f);
#else
  return fast::sigmoid(a * factor);
#endif
}
__device__ __forceinline__ float sigmoid_term(float a) { return fast::sigmoid_term(a, 1.0f); }

}  // namespace fast
//@end

//@section fast_silu_term : fast_sigmoid_term
namespace fast {

__device__ __forceinline__ float silu_term(float a) { return a * fast::sigmoid_term(a); }

}  // namespace fast
//@end

//@section fast_tanh_term : fast_exp2, reciprocal_guess
namespace fast {

// 1 - 2 / (1 + exp(2a)): right to 2^-21.9 beside 1, not beside small results.
__device__ __forceinline__ float tanh_term(float a) {
  return ::fmaf(-2.0f, detail::reciprocal_guess(1.0f + fast::exp2(a * 0x1.715476p+1f)), 1.0f);
}

}  // namespace fast
//@end

//@section fast_tanh : fast_tanh_term
namespace fast {

// Below 2^-6.8, where the other would lose more bits than this, a itself. An H100's own instruction errs by 2^-16.4 over all floats, though
// PTX promises 2^-11 only.
__device__ __forceinline__ float tanh(float a) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
#else
  return ::fabsf(a) < 0x1.2p-7f ? a : fast::tanh_term(a);
#endif
}

}  // namespace fast
//@end

//@section fast_tanh_approx : fast_tanh
namespace fast {

// The hardware's, from sm_75 on.
__device__ __forceinline__ float tanh_approx(float a) {
#if defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 750
  float r;
  asm("tanh.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
#else
  return fast::tanh(a);
#endif
}

}  // namespace fast
//@end

//@section gelu_of_power : fast_exp2, maximum
namespace fast {

// max(a, 0) - t * Q(t), t = |a|, Q = 1 - Phi = 2^r, r a polynomial of t whose coefficients come from the highest power on: one exponential and no
// reciprocal. Where t * 0 would be NaN, a itself; -Inf gives NaN. The 0 is a negative one, so that zeros keep the sign of a.
template <class... Coefficients>
__device__ __forceinline__ float gelu_of_power(float a, float r, Coefficients... coefficients) {
  float t = ::fabsf(a);
  ((r = ::fmaf(r, t, coefficients)), ...);
  float result = ::fmaf(-t, fast::exp2(r), ops::maximum(-0.0f, a));
  return a > 64.0f ? a : result;
}

}  // namespace fast
//@end

//@section fast_gelu : gelu_of_power
namespace fast {

// r is a minimax fit of degree 7 for t in [0, 7.2], 2^-16.6 beside the larger of the result and 2^-36, and falls beyond.
__device__ __forceinline__ float gelu(float a) {
  return gelu_of_power(a, -0x1.a8c762p-20f, 0x1.d5ee9ap-15f, -0x1.ce6e64p-11f, 0x1.0fe7b8p-7f, -0x1.b62ee4p-5f,
                       -0x1.d5fe36p-2f, -0x1.26a9ecp+0f, -0x1.0000fp+0f);
}

}  // namespace fast
//@end

//@section fast_gelu_wide : gelu_of_power
namespace fast {

// The same with a fit that is right beside every result: t in [0, 13.5], 2^-10.7.
__device__ __forceinline__ float gelu_wide(float a) {
  return gelu_of_power(a, -0x1.3d8af2p-22f, 0x1.19fcf2p-16f, -0x1.a54a2cp-12f, 0x1.5cb22ap-8f, -0x1.673da6p-5f,
                       -0x1.e56266p-2f, -0x1.24664ep+0f, -0x1.0038b8p+0f);
}

}  // namespace fast
//@end

//@section fast_gelu_fine : gelu_of_power
namespace fast {

// And of degree 9: 2^-15.2, of which the rounding of large r leaves 2^-14.5. (The fit of degree 8 rises beyond t = 25.)
__device__ __forceinline__ float gelu_fine(float a) {
  return gelu_of_power(a, -0x1.ed8fc2p-30f, 0x1.1dd408p-23f, -0x1.22c206p-18f, 0x1.57bd94p-14f, -0x1.085134p-10f,
                       0x1.1a2f52p-7f, -0x1.b8e630p-5f, -0x1.d5f950p-2f, -0x1.26a184p+0f, -0x1.000256p+0f);
}

}  // namespace fast
//@end

//@section gelu_of_tail : fast_exp2, reciprocal_guess
namespace fast {

// max(a, 0) - t * Q(t), t = |a|, Q(t) = exp(-t^2 / 2) * u * P(u), u = 1 / (1 + 0.265 t): `tail` is P, a minimax fit for t in [0, 14].
template <class Tail>
__device__ __forceinline__ float gelu_of_tail(float a, const Tail& tail) {
  float t = ::fabsf(a);
  t = t > 14.0f ? 14.0f : t;
  float u = detail::reciprocal_guess(::fmaf(t, 0.265f, 1.0f));
  float e = fast::exp2(t * t * -0x1.715476p-1f);
  return ::fmaf(-t * u, tail(u) * e, a > 0.0f ? a : 0.0f * a);  // 0 * a: NaN of NaN, and of -Inf as in PyTorch
}

}  // namespace fast
//@end

//@section fast_gelu_close : gelu_of_tail
namespace fast {

// The fit has a relative error of 2^-20.6.
__device__ __forceinline__ float gelu_close(float a) {
  return gelu_of_tail(a, [](float u) {
    float q = ::fmaf(u, -0.06778691f, 0.19527267f);
    q = ::fmaf(q, u, -0.0663623f);
    q = ::fmaf(q, u, 0.14249288f);
    q = ::fmaf(q, u, 0.0829468f);
    q = ::fmaf(q, u, 0.10783674f);
    return ::fmaf(q, u, 0.10559984f);
  });
}

}  // namespace fast
//@end

//@section fast_gelu_term : gelu_of_tail
namespace fast {

// Of a sum in f32. The fit has a relative error of 2^-26.3, all of it at most 2^-22.5 |a|.
__device__ __forceinline__ float gelu_term(float a) {
  return gelu_of_tail(a, [](float u) {
    float q = ::fmaf(u, 0x1.f8f7b6p-6f, -0x1.276126p-3f);
    q = ::fmaf(q, u, 0x1.be1566p-3f);
    q = ::fmaf(q, u, -0x1.dc9e40p-4f);
    q = ::fmaf(q, u, 0x1.1a86e8p-3f);
    q = ::fmaf(q, u, 0x1.ee1624p-5f);
    q = ::fmaf(q, u, 0x1.a4a9bep-4f);
    q = ::fmaf(q, u, 0x1.af1722p-4f);
    return ::fmaf(q, u, 0x1.b11e10p-4f);
  });
}

}  // namespace fast
//@end

//@section fast_gelu_positive : bits, exp2_fraction
namespace fast {

// For a >= 0, within 2 ulp of f32: a - a * Q(a), Q = 2^(y - 1), y = a * P(a). P is a minimax fit of degree 7 for a in [0, 5.7], 2^-26.4 of
// the result, beyond which the result is a.
__device__ __forceinline__ float gelu_positive(float a) {
  float t = a > 5.7f ? 5.7f : a;
  float y = -0x1.8cbd76p-19f;
  y = ::fmaf(y, t, 0x1.575530p-15f);
  y = ::fmaf(y, t, -0x1.967032p-13f);
  y = ::fmaf(y, t, -0x1.f0db02p-14f);
  y = ::fmaf(y, t, 0x1.cd5f6ap-8f);
  y = ::fmaf(y, t, -0x1.adecc4p-5f);
  y = ::fmaf(y, t, -0x1.d63bd2p-2f);
  y = ::fmaf(y, t, -0x1.26aecep+0f) * t;
  float biased = y + 0x1.8p+23f;
  float p = detail::exp2_fraction(y - (biased - 0x1.8p+23f));
  float q = detail::from_bits(detail::bits(p) + (detail::bits(biased) << 23) - 0x00800000u);
  return ::fmaf(-t, q, a);
}

}  // namespace fast
//@end

//@section fast_gelu_unit : maximum
namespace fast {

// For |a| <= 1, within 2 ulp of f32: max(a, 0) - t * Q(t), t = |a|, Q = 1/2 - t * (1 / sqrt(2 pi) + t^2 * P(t^2)), P a minimax fit of
// degree 4, 2^-28.4 of the result.
__device__ __forceinline__ float gelu_unit(float a) {
  float t = ::fabsf(a);
  float s = a * a;
  float p = -0x1.12241ap-17f;
  p = ::fmaf(p, s, 0x1.e26d28p-14f);
  p = ::fmaf(p, s, -0x1.376eaep-10f);
  p = ::fmaf(p, s, 0x1.46d558p-7f);
  p = ::fmaf(p, s, -0x1.105862p-4f);
  float q = ::fmaf(-t * s, p, ::fmaf(-t, 0x1.988454p-2f, 0.5f));
  return ::fmaf(-t, q, ops::maximum(-0.0f, a));
}

}  // namespace fast
//@end

//@section fast_mish : fast_exp2, reciprocal_guess
namespace fast {

// a * tanh(log(1 + e)) = a * n / (n + 2), n = e * (e + 2), e = exp(a). Above 20 that is a.
__device__ __forceinline__ float mish(float a) {
  float e = fast::exp2((a > 20.0f ? 20.0f : a) * 0x1.715476p+0f);
  float n = e * (e + 2.0f);
  return a * (n * detail::reciprocal_guess(n + 2.0f));
}

}  // namespace fast
//@end

//@section fast_gelu_tanh : fast_exp2, reciprocal_guess
namespace fast {

// a / (1 + exp(-2u)), 2u = a * (k + j * a^2): k and j as in ops::gelu_tanh, times log2(e).
__device__ __forceinline__ float gelu_tanh(float a) {
  float z = a * ::fmaf(a * a, -0x1.a5a7dp-4f, -0x1.26aec2p+1f);
  return a * detail::reciprocal_guess(1.0f + fast::exp2(z));
}

}  // namespace fast
//@end

//@section fast_log1p_exp : fast_exp2
namespace detail {

// log(1 + exp(-t)) for t >= 0; of a small exponential e, where 1 + e would lose its bits, e - e^2 / 2.
__device__ __forceinline__ float fast_log1p_exp(float t) {
  float e = fast::exp2(t * -0x1.715476p+0f);
#if defined(__CUDACC__)
  float l;
  asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(l) : "f"(1.0f + e));
#else
  float l = ::log2f(1.0f + e);
#endif
  return e < 0x1p-7f ? ::fmaf(-0.5f * e, e, e) : l * 0x1.62e430p-1f;  // ln 2
}

}  // namespace detail
//@end

//@section fast_softplus : fast_log1p_exp, maximum
namespace fast {

__device__ __forceinline__ float softplus(float a, float beta, float threshold) {
  float y = beta * a;
  float r = (ops::maximum(y, 0.0f) + detail::fast_log1p_exp(::fabsf(y))) * (1.0f / beta);
  return y > threshold ? a : r;
}

}  // namespace fast
//@end

//@section fast_logsigmoid : fast_log1p_exp, minimum
namespace fast {

__device__ __forceinline__ float logsigmoid(float a) {
  return ops::minimum(a, 0.0f) - detail::fast_log1p_exp(::fabsf(a));
}

}  // namespace fast
//@end

//@section fast_div
namespace fast {

// To 2 ulp, whatever the divisor; without the branch of an exact division.
__device__ __forceinline__ float div(float a, float b) {
#if defined(__CUDACC__)
  float r;
  asm("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
  return r;
#else
  return a / b;
#endif
}

}  // namespace fast
//@end

//@section fast_softsign : fast_div
namespace fast {

__device__ __forceinline__ float softsign(float a) { return fast::div(a, 1.0f + ::fabsf(a)); }

}  // namespace fast
//@end

//@section fast_sqrt
namespace fast {

__device__ __forceinline__ float sqrt(float a) {
#if defined(__CUDACC__)
  float r;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
#else
  return ::sqrtf(a);
#endif
}

}  // namespace fast
//@end

//@section fast_reciprocal
namespace fast {

__device__ __forceinline__ float reciprocal(float a) {
#if defined(__CUDACC__)
  float r;
  asm("rcp.approx.f32 %0, %1;" : "=f"(r) : "f"(a));
  return r;
#else
  return 1.0f / a;
#endif
}

}  // namespace fast
//@end
