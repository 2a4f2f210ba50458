// Cheaper formulas for results that are rounded to 16 or 8 bits: their relative error, at most 2^-17 (2^-19 where no result
// is smaller than exp(-60)), is hidden by that rounding: an f16 has 11 bits. Codegen takes them where every result of a chain is such a float (docs/accuracy.md); nothing else may use them.
// What lies below 2^-126 is zero here.
//
// Terms of sums in f32 may be computed here too: the error of sigmoid, tanh, silu, mish and term_gelu is at most 2^-21.9 of 1 or of the argument, whichever
// is larger, and a sum of hundreds of terms rounds by more.

//@section fast_exp2
namespace fast {

// 2^t, relative error 2^-22.
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

//@section fast_sigmoid : fast_exp2, reciprocal_guess
namespace fast {

// e / (1 + e) below 0 and 1 / (1 + e) above, e = exp(-|a|): no overflow, and no cancellation.
__device__ __forceinline__ float sigmoid(float a) {
  float e = fast::exp2(::fabsf(a) * -0x1.715476p+0f);
  return (a > 0.0f ? 1.0f : e) * detail::reciprocal_guess(1.0f + e);
}

}  // namespace fast
//@end

//@section fast_silu : fast_sigmoid
namespace fast {

// -Inf gives NaN, as in PyTorch.
__device__ __forceinline__ float silu(float a) { return a * fast::sigmoid(a); }

}  // namespace fast
//@end

//@section fast_tanh : fast_exp2, reciprocal_guess
namespace fast {

// (1 - e) / (1 + e), e = exp(-2 |a|); near 0, where 1 - e loses bits, |a| - |a|^3 / 3 + 2 |a|^5 / 15.
__device__ __forceinline__ float tanh(float a) {
  float t = ::fabsf(a);
  float e = fast::exp2(t * -0x1.715476p+1f);
  float r = (1.0f - e) * detail::reciprocal_guess(1.0f + e);
  float s = t * t;
  r = t < 0x1p-3f ? ::fmaf(t * s, ::fmaf(s, 0x1.111112p-3f, -0x1.555556p-2f), t) : r;
  return ::copysignf(r, a);
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

//@section fast_gelu : gelu_of_tail
namespace fast {

// The fit has a relative error of 2^-20.6.
__device__ __forceinline__ float gelu(float a) {
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

//@section term_gelu : gelu_of_tail
namespace fast {

// Of a sum in f32. The fit has a relative error of 2^-26.3, all of it at most 2^-22.5 |a|.
__device__ __forceinline__ float term_gelu(float a) {
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

//@section exp_below : bits
namespace detail {

// exp(a - top) for the terms of a sum whose largest is exp(0): 2^t with t = (a - top) * log2(e), and to first order what rounding t left
// out. Below 2^-126 nothing is added to a sum that is at least 1. Error 3 ulp.
__device__ __forceinline__ float exp_below(float a, float top) {
  float d = a - top;
#if defined(__CUDACC__)
  float t = d * 0x1.715476p+0f;  // log2(e)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
  float rest = ::fmaf(d, 0x1.715476p+0f, -t);
  rest = ::fmaf(d, 0x1.4ae0cp-26f, rest);
  float corrected = ::fmaf(r, rest * 0x1.62e430p-1f, r);  // ln 2
  return d < -126.0f ? r : corrected;                     // Inf - Inf above
#else
  return ::expf(d);
#endif
}
__device__ __forceinline__ double exp_below(double a, double top) { return ::exp(a - top); }

}  // namespace detail
//@end

//@section fast_exp_below : fast_exp
namespace detail {

__device__ __forceinline__ float exp_below(float a, float top) { return fast::exp(a - top); }

}  // namespace detail
//@end

//@section divide_by_row : reciprocal_guess
namespace detail {

// a / b where many a's share one b, without a branch: the compiler takes the scaled divisor and its reciprocal out of the loop. The
// remainder, which fma gives exactly, corrects the quotient; it is NaN where the quotient is Inf, NaN, or the divisor 0 or Inf. Of a denormal
// quotient the last bit may differ from a / b.
__device__ __forceinline__ float divide_by_row(float a, float b) {
  float size = ::fabsf(b);
  float scale = size < 0x1p-60f ? 0x1p+64f : size > 0x1p+60f ? 0x1p-64f : 1.0f;
  float d = b * scale;
  float r = detail::reciprocal_guess(d);
  float n = a * scale;
  float q = n * r;
  float corrected = ::fmaf(-::fmaf(q, d, -n), r, q);
  return corrected == corrected ? corrected : q;
}
__device__ __forceinline__ double divide_by_row(double a, double b) { return a / b; }

}  // namespace detail
//@end
