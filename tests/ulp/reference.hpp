// The definitions that the sweeps measure against, in a wider type (long double on the CPU, double on the GPU), written
// without a look at templates/: each formula is well conditioned, so that the wider type's rounding does not
// show. Also the error measure, the pairs that binary operations are tried on, and the conversions' definitions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#if defined(__CUDACC__)
#define REF_FN __host__ __device__ inline
#else
#define REF_FN inline
#endif

namespace ref {

using std::ceil, std::cos, std::erf, std::erfc, std::exp, std::exp2, std::expm1, std::fabs, std::floor, std::fmod;
using std::log, std::log1p, std::log2, std::pow, std::sin, std::sqrt, std::tanh, std::trunc;

REF_FN float float_of(std::uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

REF_FN float nan_f() { return float_of(0x7fc00000u); }

template <class R>
REF_FN R inf() {
  return static_cast<R>(float_of(0x7f800000u));
}

template <class R>
REF_FN R low_of(R a, R b) {
  return a != a ? a : b != b ? b : a < b ? a : b;
}

template <class R>
REF_FN R high_of(R a, R b) {
  return a != a ? a : b != b ? b : a > b ? a : b;
}

template <class R>
REF_FN R clamp(R a, R low, R high) {
  return low_of(high_of(a, low), high);
}

template <class R>
REF_FN R half_to_even(R a) {
  R below = floor(a), rest = a - below;
  if (!(rest == rest)) return a;  // NaN, Inf
  if (rest != R(0.5)) return rest < R(0.5) ? below : below + 1;
  return fmod(below, R(2)) == 0 ? below : below + 1;
}

template <class R>
REF_FN R sigmoid(R x) {
  R e = exp(-fabs(x));
  return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

template <class R>
REF_FN R elu(R x, R alpha) {
  return x > 0 ? x : alpha * expm1(x);
}

template <class R>
REF_FN R selu(R x) {
  return R(1.0507009873554804934193349852946L) * elu(x, R(1.6732632423543772848170429916717L));
}

template <class R>
REF_FN R celu(R x, R alpha) {
  return x > 0 ? x : alpha * expm1(x / alpha);
}

template <class R>
REF_FN R gelu(R x) {
  return x * (erfc(-x * R(0.70710678118654752440084436210485L)) / 2);
}

template <class R>
REF_FN R gelu_tanh(R x) {
  R u = R(0.79788456080286535587989211986876L) * (x + R(0.044715L) * x * x * x);  // sqrt(2 / pi)
  return x * sigmoid(2 * u);
}

template <class R>
REF_FN R logsigmoid(R x) {
  return (x < 0 ? x : R(0)) - log1p(exp(-fabs(x)));
}

template <class R>
REF_FN R mish(R x) {
  if (x > 60) return x;  // the rest is below 1e-50 of it
  R e = exp(x), n = e * (e + 2);
  return x * (n / (n + 2));
}

template <class R>
REF_FN R softplus(R x, R beta, R threshold) {
  R y = beta * x;
  return y > threshold ? x : ((y > 0 ? y : R(0)) + log1p(exp(-fabs(y)))) / beta;
}

template <class R>
REF_FN R tanhshrink(R x) {
  if (!(fabs(x) < R(0.05))) return x - tanh(x);
  R s = x * x;  // the Taylor series; the first term left out is 2^-50 of the sum
  return x * s * (R(1) / 3 - s * (R(2) / 15 - s * (R(17) / 315 - s * (R(62) / 2835 - s * (R(1382) / 155925)))));
}

template <class R>
REF_FN R remainder(R a, R b) {  // Python's
  R m = fmod(a, b);
  return m != 0 && (b < 0) != (m < 0) ? m + b : m;
}

// The error of `got` in units in the last place of the exact value `want`: the spacing of floats there, 2^-149 among
// the denormals. Beyond the largest float the spacing continues, and Inf counts as 2^128. Infinity where a NaN or an
// Inf of the definition itself is missed or invented.
template <class R>
REF_FN double ulp_error(float got, R want) {
  if (want != want || got != got) return (want != want) == (got != got) ? 0 : inf<double>();
  if (want == inf<R>() || want == -inf<R>()) return R(got) == want ? 0 : inf<double>();
  R g = R(got);
  R edge = R(340282366920938463463374607431768211456.0);  // 2^128
  if (g == inf<R>()) g = edge;
  if (g == -inf<R>()) g = -edge;
  if (want > edge) want = edge;
  if (want < -edge) want = -edge;
  int e = -126;
  if (want != 0) {
    int k;
    (void)frexp(want, &k);
    e = k - 1 < -126 ? -126 : (k - 1 > 127 ? 127 : k - 1);
  }
  return double(fabs(g - want) * R(ldexp(1.0, 23 - e)));
}

REF_FN std::uint64_t mix(std::uint64_t v) {  // splitmix64
  v += 0x9e3779b97f4a7c15u;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return v ^ (v >> 31);
}

// The i-th pair: first all pairs of special values, then in turn any two floats; a power that neither over- nor
// underflows; a base close to 1; a negative base with a whole exponent; two numbers of like size.
constexpr int specials = 30;

REF_FN float special(int i) {
  const std::uint32_t table[specials / 2] = {0x00000000u, 0x00000001u, 0x007fffffu, 0x00800000u, 0x3effffffu,
                                             0x3f000000u, 0x3f800000u, 0x3f800001u, 0x40000000u, 0x40400000u,
                                             0x4b7fffffu, 0x4b800001u, 0x7f7fffffu, 0x7f800000u, 0x7fc00000u};
  return float_of(table[i >> 1] | (i & 1 ? 0x80000000u : 0u));
}

REF_FN void pair(std::uint64_t i, float& x, float& y) {
  if (i < specials * specials) {
    x = special(int(i / specials));
    y = special(int(i % specials));
    return;
  }
  std::uint64_t r = mix(i);
  std::uint32_t a = std::uint32_t(r), b = std::uint32_t(r >> 32);
  double unit = double(mix(r) >> 11) * 0x1p-53;
  x = float_of(a);
  y = float_of(b);
  switch (i % 5) {
    case 0:
      return;
    case 1:
      break;
    case 2:
      x = float_of(0x3f800000u + (a >> 31 ? a & 0xfffffu : 0u - ((a & 0xfffffu) >> (b & 15u))));
      break;
    case 3:
      x = -float_of(0x3f000000u + (a & 0x1ffffffu));
      y = float(rint(unit * 300 - 150));
      return;
    default:
      y = float_of((b & 0x80ffffffu) + (a & 0x7e000000u));
      return;
  }
  x = x < 0 ? -x : x;
  double l = std::log2(double(x));
  if (l != 0 && l == l) y = float((unit * 290 - 155) / l);
}

// A small float's definition: the values of its codes without sign, in ascending order, and the midpoints between them,
// the one after the last code being where overflow begins. Exact in double.
struct SmallFloat {
  const char* name;
  int exponent_bits, mantissa_bits;
  std::uint32_t largest;   // the last finite code
  std::uint32_t overflow;  // what lies above the last midpoint becomes
  std::uint32_t sign_bit;

  double value(std::uint32_t code) const {  // of a finite code without sign, or one past them
    int bias = (1 << (exponent_bits - 1)) - 1;
    int e = int(code >> mantissa_bits);
    double m = double(code & ((1u << mantissa_bits) - 1u));
    return e == 0 ? std::ldexp(m, 1 - bias - mantissa_bits)
                  : std::ldexp(m + double(1u << mantissa_bits), e - bias - mantissa_bits);
  }

  std::vector<double> midpoints() const {
    std::vector<double> m;
    for (std::uint32_t c = 0; c <= largest; ++c) m.push_back((value(c) + value(c + 1)) / 2);
    return m;
  }
};

inline const SmallFloat small_floats[4] = {{"f16", 5, 10, 0x7bffu, 0x7c00u, 0x8000u},
                                           {"bf16", 8, 7, 0x7f7fu, 0x7f80u, 0x8000u},
                                           {"f8e4m3", 4, 3, 0x7eu, 0x7eu, 0x80u},
                                           {"f8e5m2", 5, 2, 0x7bu, 0x7bu, 0x80u}};

// The code nearest to |v|, even at a tie: as many codes as there are midpoints below it. v is not NaN.
REF_FN std::uint32_t nearest_code(const double* mids, std::uint32_t count, std::uint32_t overflow, double v) {
  v = fabs(v);
  std::uint32_t low = 0, high = count;
  while (low < high) {
    std::uint32_t c = (low + high) / 2;
    bool above = v > mids[c] || (v == mids[c] && c % 2 == 1);
    if (above)
      low = c + 1;
    else
      high = c;
  }
  return low == count ? overflow : low;
}

template <class R>
REF_FN double nearest_integer(R v, double low, double high) {
  if (v != v) return 0;
  double r = half_to_even(double(v) < low - 1 ? low : double(v) > high + 1 ? high : double(v));
  return r < low ? low : r > high ? high : r;
}

}  // namespace ref
