// The error of every op of templates/ over the floats, and every conversion of templates/prelude/types.cuh, on the CPU.
//   g++ -std=c++20 -O2 -mavx2 -mfma -ffp-contract=off -I../../templates/prelude ulp_sweep.cpp -o ulp_sweep
//   ./ulp_sweep [--stride N] [--from BITS] [--to BITS] [--op NAME]    every N-th bit pattern (1: all 2^32); 0 if all is
// within bounds
#include <cstdio>
#include <cstdlib>
#include <string>

#include "reference.hpp"

#define __device__
#define __forceinline__ inline
namespace device {
#include "types.cuh"

#include "integers.cuh"

#include "arithmetic.cuh"
#include "exponentials.cuh"
// needs both
#include "activations.cuh"
#include "fast.cuh"
}  // namespace device

namespace {

using Real = long double;
namespace ops = device::ops;
namespace fast = device::fast;
using device::from_real, device::to_real;

std::uint64_t stride = 1021, first = 0, last = 0xffffffffu;
std::string only;
bool failed = false;

struct Worst {
  double error = -1;
  float x = 0, y = 0;
  std::uint64_t count = 0;
  void see(double e, float a, float b = 0) {
    ++count;
    if (e > error) error = e, x = a, y = b;
  }
};

void report(const char* name, double bound, const Worst& w, float got, Real want) {
  bool bad = w.error > bound + 1e-3;  // 0.5 is correct rounding as a long double sees it
  failed |= bad;
  std::printf("%-20s %9.4f  (%.1f)  at %.9g, %.9g: %.9g, exactly %.12Lg; %llu inputs%s\n", name, w.error, bound,
              double(w.x), double(w.y), double(got), want, static_cast<unsigned long long>(w.count),
              bad ? "  FAILED" : "");
  std::fflush(stdout);
}

template <class Got, class Want>
void unary(const char* name, double bound, Got got, Want want) {
  if (!only.empty() && only != name) return;
  Worst w;
  for (std::uint64_t b = first; b <= last; b += stride) {
    float x = ref::float_of(std::uint32_t(b));
    w.see(ref::ulp_error<Real>(got(x), want(Real(x))), x);
  }
  for (int i = 0; i < ref::specials; ++i) {
    float x = ref::special(i);
    w.see(ref::ulp_error<Real>(got(x), want(Real(x))), x);
  }
  report(name, bound, w, got(w.x), want(Real(w.x)));
}

template <class Got, class Want>
void binary(const char* name, double bound, Got got, Want want) {
  if (!only.empty() && only != name) return;
  Worst w;
  for (std::uint64_t i = 0; i < 1000 + (1ull << 32) / stride; ++i) {
    float x, y;
    ref::pair(i, x, y);
    w.see(ref::ulp_error<Real>(got(x, y), want(Real(x), Real(y))), x, y);
  }
  report(name, bound, w, got(w.x, w.y), want(Real(w.x), Real(w.y)));
}

struct Mismatches {
  const char* what;
  std::uint64_t count = 0, tried = 0;
  explicit Mismatches(const char* w) : what(w) {}
  void see(bool right, double v, double got, double want) {
    ++tried;
    if (!right && count++ < 4) std::printf("  %s: %.17g gives %.17g, should be %.17g\n", what, v, got, want);
  }
  ~Mismatches() {
    failed |= count != 0;
    std::printf("%-28s %llu of %llu wrong\n", what, static_cast<unsigned long long>(count),
                static_cast<unsigned long long>(tried));
  }
};

template <class T>
void small_float(const ref::SmallFloat& type) {
  std::string name = type.name;
  auto mids = type.midpoints();
  auto count = std::uint32_t(mids.size());
  {
    std::string title = name + " to_real";
    Mismatches m(title.c_str());
    for (std::uint32_t c = 0; c < 2 * type.sign_bit; ++c) {
      T v;
      v.bits = static_cast<decltype(v.bits)>(c);
      std::uint32_t a = c & (type.sign_bit - 1u);
      bool infinite = a == type.largest + 1u && type.exponent_bits != 4, nan = a > type.largest && !infinite;
      double want = infinite ? ref::inf<double>() : type.value(a);
      if (c & type.sign_bit) want = -want;
      float got = to_real<float>(v);
      bool right = nan ? got != got : double(got) == want && std::signbit(got) == std::signbit(want);
      double wide = to_real<double>(v);
      right = right && (nan ? wide != wide : wide == want);
      m.see(right, c, double(got), want);
    }
  }
  auto check = [&](Mismatches& m, auto v, std::uint32_t want) {
    std::uint32_t got = from_real<T>(v).bits;
    bool nan = v != v;
    if (std::signbit(v)) want |= type.sign_bit;
    bool right = nan ? (got & (type.sign_bit - 1u)) > type.largest &&
                           (got & (type.sign_bit - 1u)) != type.largest + 1u - (type.exponent_bits == 4 ? 1u : 0u) &&
                           ((got & type.sign_bit) != 0) == bool(std::signbit(v))
                     : got == want;
    m.see(right, double(v), got, want);
  };
  {
    std::string title = name + " from float";
    Mismatches m(title.c_str());
    std::uint32_t code = 0;  // ascending with the floats
    for (std::uint64_t b = 0; b < 0x80000000u; b += stride) {
      float v = ref::float_of(std::uint32_t(b));
      while (code < count && (double(v) > mids[code] || (double(v) == mids[code] && code % 2 == 1))) ++code;
      std::uint32_t want = code == count ? type.overflow : code;
      check(m, v, want);
      check(m, -v, want);
    }
    for (std::uint32_t c = 0; c < count; ++c)
      for (float v : {float(mids[c]), std::nextafter(float(mids[c]), 0.0f), std::nextafter(float(mids[c]), 1e38f)})
        check(m, v, ref::nearest_code(mids.data(), count, type.overflow, double(v)));
    for (int i = 0; i < ref::specials; ++i)
      check(m, ref::special(i), ref::nearest_code(mids.data(), count, type.overflow, double(ref::special(i))));
  }
  {
    std::string title = name + " from double";
    Mismatches m(title.c_str());
    for (std::uint32_t c = 0; c < count; ++c)  // where a rounding to float in between would go wrong
      for (double v : {mids[c], std::nextafter(mids[c], 0.0), std::nextafter(mids[c], 1e300), type.value(c)})
        for (double s : {v, -v}) check(m, s, ref::nearest_code(mids.data(), count, type.overflow, v));
    for (double v : {0.0, 1e-320, 1e-300, 1e-50, 1e-45, 3.5e38, 1e300, ref::inf<double>(), std::nan("")})
      for (double s : {v, -v}) check(m, s, ref::nearest_code(mids.data(), count, type.overflow, v));
  }
}

template <class T>
void integer(const char* name, double low, double high) {
  std::string title = std::string(name) + " from real";
  Mismatches m(title.c_str());
  auto check = [&](auto v) {
    T want = 0;
    double w = ref::nearest_integer(v, low, high);
    if (w >= 0x1p63)
      want = std::numeric_limits<T>::max();
    else
      want = static_cast<T>(w);
    T got = from_real<T>(v);
    m.see(got == want, double(v), double(got), double(want));
  };
  for (std::uint64_t b = 0; b <= 0xffffffffu; b += stride) check(ref::float_of(std::uint32_t(b)));
  for (double d : {low - 1, low - 0.5, low, low + 0.5, high - 0.5, high, high + 0.5, high + 1, 0.5, 1.5, 2.5, -0.5,
                   -1.5, 0.0, 1e300, -1e300, ref::inf<double>(), -ref::inf<double>(), std::nan("")})
    for (double v : {d, std::nextafter(d, 1e300), std::nextafter(d, -1e300)}) check(v), check(float(v));
}

// Every float: the codes of E8M0 by their definition, in the order of their values.
void scale() {
  Mismatches m("f8e8m0 from real");
  const auto want = [](double v) -> unsigned {
    if (v != v || v < 0 || v >= 0x1.8p127) return 255;
    if (v <= 0x1p-127) return 0;
    if (v < 0x1p-126) return 1;  // as PyTorch and ml_dtypes
    const int exponent = std::ilogb(v);
    return static_cast<unsigned>(exponent + 127) + (v >= std::ldexp(1.5, exponent) ? 1u : 0u);
  };
  const auto check = [&](auto v) {
    const unsigned got = from_real<device::f8e8m0>(v).bits;
    m.see(got == want(double(v)), double(v), got, want(double(v)));
  };
  for (std::uint64_t b = 0; b <= 0xffffffffu; b += stride) check(ref::float_of(std::uint32_t(b)));
  for (unsigned code = 0; code < 256; ++code) {
    const float got = to_real<float>(device::f8e8m0{static_cast<unsigned char>(code)});
    const double value = std::ldexp(1.0, int(code) - 127);
    m.see(code == 255 ? got != got : double(got) == value, code, got, value);
    for (double d : {value, 1.5 * value})
      for (double v : {d, std::nextafter(d, 0.0), std::nextafter(d, 1e300), -d}) check(v), check(float(v));
  }
  for (int i = 0; i < ref::specials; ++i) check(ref::special(i)), check(double(ref::special(i)));
  for (double v : {1e-320, -1e-320, 1e-50, -1e-50, 1e300, -1e300}) check(v);
}

void conversions() {
  scale();
  small_float<device::f16>(ref::small_floats[0]);
  small_float<device::bf16>(ref::small_floats[1]);
  small_float<device::f8e4m3>(ref::small_floats[2]);
  small_float<device::f8e5m2>(ref::small_floats[3]);
  integer<device::i8>("i8", -128, 127);
  integer<device::u8>("u8", 0, 255);
  integer<device::i16>("i16", -32768, 32767);
  integer<device::u16>("u16", 0, 65535);
  integer<device::u32>("u32", 0, 4294967295.0);
  integer<device::i32>("i32", -2147483648.0, 2147483647.0);
  integer<device::i64>("i64", -0x1p63, 0x1p63);
  Mismatches m("boolean");
  for (int b = 0; b < 256; ++b) {
    device::boolean v{static_cast<unsigned char>(b)};
    m.see(to_real<bool>(v) == (b != 0) && to_real<float>(v) == (b != 0 ? 1.0f : 0.0f), b, to_real<float>(v), b != 0);
  }
  for (int i = 0; i < ref::specials; ++i) {
    float v = ref::special(i);
    m.see(from_real<device::boolean>(v).bits == (v != 0) && from_real<device::boolean>(double(v)).bits == (v != 0),
          double(v), 0, v != 0);
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string key = argv[i];
    if (key == "--stride") stride = std::strtoull(argv[i + 1], nullptr, 0);
    if (key == "--from") first = std::strtoull(argv[i + 1], nullptr, 0);
    if (key == "--to") last = std::strtoull(argv[i + 1], nullptr, 0);
    if (key == "--op") only = argv[i + 1];
  }
  std::printf("%-20s %9s  bound\n", "op", "max ulp");
#define ULP_CASE(name, cpu, gpu, got, want)            \
  unary(                                               \
      name, cpu, [](float x) -> float { return got; }, \
      [](Real X) -> Real {                             \
        (void)X;                                       \
        return want;                                   \
      });
#define ULP_PAIR(name, cpu, gpu, got, want) \
  binary(                                   \
      name, cpu, [](float x, float y) -> float { return got; }, [](Real X, Real Y) -> Real { return want; });
#include "cases.def"
  if (only.empty() || only == "conversions") conversions();
  std::printf(failed ? "FAILED\n" : "all within bounds\n");
  return failed ? 1 : 0;
}
