// The table of definitions. Formulas are written so that nothing cancels in long double: 1 + tanh(u) as 2 / (1 +
// exp(-2u)).
#include "support/definitions.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <numbers>
#include <type_traits>

namespace epifuse::test {
namespace {

using Real = long double;
constexpr double kInf = std::numeric_limits<double>::infinity();

Definition unary(std::string_view name) { return {.name = name, .arity = 1, .kinds = "r"}; }

// F is a captureless generic lambda; it becomes the function of both compute types.
template <class F>
Definition exact1(std::string_view name, F) {
  Definition d = unary(name);
  d.exact32 = [](float a, float, float) -> float { return F{}(a); };
  d.exact64 = [](double a, double, double) -> double { return F{}(a); };
  return d;
}
template <class F>
Definition exact2(std::string_view name, F) {
  Definition d{.name = name, .arity = 2, .kinds = "rr"};
  d.exact32 = [](float a, float b, float) -> float { return F{}(a, b); };
  d.exact64 = [](double a, double b, double) -> double { return F{}(a, b); };
  return d;
}
template <class F>
Definition exact3(std::string_view name, F) {
  Definition d{.name = name, .arity = 3, .kinds = "rrr"};
  d.exact32 = [](float a, float b, float c) -> float { return F{}(a, b, c); };
  d.exact64 = [](double a, double b, double c) -> double { return F{}(a, b, c); };
  return d;
}
Definition gives_truth(Definition d, std::string_view kinds = {}) {
  d.truth = true;
  if (!kinds.empty()) d.kinds = kinds;
  return d;
}
// Of a truth value: refused.
Definition number_only(Definition d) {
  d.kinds = "n";
  return d;
}
Definition shaped(Definition d, Shape shape) {
  d.shape = shape;
  return d;
}
Definition either_zero(Definition d) {
  d.either_zero = true;
  return d;
}
Definition over_zero(Definition d) {
  d.either_zero = d.zero_operand = true;
  return d;
}
Definition with_defaults(Definition d, std::vector<double> defaults) {
  d.defaults = std::move(defaults);
  return d;
}

Definition within64(double ulps, Definition d) {
  d.ulps64 = ulps;
  return d;
}

template <class F>
requires std::is_class_v<F>  // a function pointer's type does not say which function
    Definition real1(std::string_view name, double lowest, double highest, F, std::vector<double> turning = {}) {
  Definition d = unary(name);
  d.real = [](Real a, Real, Real) -> Real { return F{}(a); };
  d.lowest = lowest;
  d.highest = highest;
  d.turning = std::move(turning);
  return d;
}

// PyTorch propagates a NaN of either side.
constexpr auto kMinimum = [](auto a, auto b) { return std::isnan(a) || std::isnan(b) ? a + b : b < a ? b : a; };
constexpr auto kMaximum = [](auto a, auto b) { return std::isnan(a) || std::isnan(b) ? a + b : b > a ? b : a; };
constexpr auto kClamp = [](auto a, auto b, auto c) { return kMinimum(kMaximum(a, b), c); };

// PyTorch: fmod, then one addition where the signs differ; a zero keeps the sign that fmod gave it.
constexpr auto kRemainder = [](auto a, auto b) {
  const auto rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
};

// x - tanh(x) = (x cosh x - sinh x) / cosh x, whose series has terms of one sign.
Real tanhshrink(Real x) {
  if (std::fabs(x) >= 1) return x - std::tanh(x);
  Real sum = 0;
  Real power = x;  // x^(2k+1) / (2k+1)!
  for (int k = 1; k < 16; ++k) {
    power *= x * x / static_cast<Real>(2 * k * (2 * k + 1));
    sum += power * static_cast<Real>(2 * k);
  }
  return sum / std::cosh(x);
}

// Zeros and infinities by the C library's double function: some powl are wrong for (-inf)^-2^63.
Real power(Real a, Real b, Real) {
  const bool special = a == 0 || std::isinf(a) || std::isinf(b);
  return special ? std::pow(static_cast<double>(a), static_cast<double>(b)) : std::pow(a, b);
}

Real gelu_tanh(Real x) {
  const Real u = std::sqrt(2 / std::numbers::pi_v<Real>) * (x + 0.044715L * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

Real mish(Real x) {
  if (x > 100) return x;  // exp would overflow far above; tanh(softplus(x)) is 1 here
  const Real e = std::exp(x);
  const Real n = e * (e + 2);  // tanh(log(1 + e)) = n / (n + 2)
  return x * (n / (n + 2));
}

Real softplus(Real x, Real beta, Real threshold) {
  const Real z = beta * x;
  if (z > threshold) return x;
  return (z > 100 ? z + std::log1p(std::exp(-z)) : std::log1p(std::exp(z))) / beta;
}

constexpr Real kSeluAlpha = 1.6732632423543772848170429916717L;
constexpr Real kSeluScale = 1.0507009873554804934193349852946L;

std::vector<Definition> arithmetic() {
  return {
      exact2("add", [](auto a, auto b) { return a + b; }),
      exact2("sub", [](auto a, auto b) { return a - b; }),
      exact2("mul", [](auto a, auto b) { return a * b; }),
      exact2("div", [](auto a, auto b) { return a / b; }),
      {.name = "pow",
       .arity = 2,
       .kinds = "rr",
       .shape = Shape::power,
       .real = power,
       .lowest = -kInf,
       .highest = kInf},
      shaped(exact2("fmod", [](auto a, auto b) { return std::fmod(a, b); }), Shape::modulo),
      shaped(exact2("remainder", kRemainder), Shape::modulo),
      number_only(exact1("neg", [](auto a) { return -a; })),
      exact1("abs", [](auto a) { return std::fabs(a); }),
      exact1("sign", [](auto a) { return static_cast<decltype(a)>((a > 0) - (a < 0)); }),
      exact1("square", [](auto a) { return a * a; }),
      exact1("sqrt", [](auto a) { return std::sqrt(a); }),
      real1("rsqrt", 0, kInf, [](Real a) { return 1 / std::sqrt(a); }),
      exact1("reciprocal", [](auto a) { return 1 / a; }),
      either_zero(exact2("minimum", kMinimum)),
      either_zero(exact2("maximum", kMaximum)),
      with_defaults(either_zero(exact3("clamp", kClamp)), {-kInf, kInf}),
      exact3("fma", [](auto a, auto b, auto c) { return std::fma(a, b, c); }),
      number_only(exact1("floor", [](auto a) { return std::floor(a); })),
      number_only(exact1("ceil", [](auto a) { return std::ceil(a); })),
      number_only(exact1("round", [](auto a) { return std::nearbyint(a); })),
      number_only(exact1("trunc", [](auto a) { return std::trunc(a); })),
  };
}

std::vector<Definition> exponentials() {
  return {
      real1("exp", 0, kInf, [](Real a) { return std::exp(a); }),
      real1("exp2", 0, kInf, [](Real a) { return std::exp2(a); }),
      real1("expm1", -1, kInf, [](Real a) { return std::expm1(a); }),
      real1("log", -kInf, kInf, [](Real a) { return std::log(a); }),
      real1("log1p", -kInf, kInf, [](Real a) { return std::log1p(a); }, {-1}),
      real1("log2", -kInf, kInf, [](Real a) { return std::log2(a); }),
      shaped(real1("sin", -1, 1, [](Real a) { return std::sin(a); }), Shape::wave),
      shaped(real1("cos", -1, 1, [](Real a) { return std::cos(a); }), Shape::wave),
      real1("tanh", -1, 1, [](Real a) { return std::tanh(a); }),
      real1("erf", -1, 1, [](Real a) { return std::erf(a); }),
  };
}

std::vector<Definition> logic() {
  const auto b2 = [](Definition d) { return gives_truth(std::move(d), "bb"); };
  Definition where = exact3("where", [](auto a, auto b, auto c) { return a != 0 ? b : c; });
  where.kinds = "brr";
  return {
      shaped(gives_truth(exact2("eq", [](auto a, auto b) { return static_cast<decltype(a)>(a == b); })),
             Shape::equality),
      shaped(gives_truth(exact2("ne", [](auto a, auto b) { return static_cast<decltype(a)>(a != b); })),
             Shape::equality),
      gives_truth(exact2("lt", [](auto a, auto b) { return static_cast<decltype(a)>(a < b); })),
      gives_truth(exact2("le", [](auto a, auto b) { return static_cast<decltype(a)>(a <= b); })),
      gives_truth(exact2("gt", [](auto a, auto b) { return static_cast<decltype(a)>(a > b); })),
      gives_truth(exact2("ge", [](auto a, auto b) { return static_cast<decltype(a)>(a >= b); })),
      b2(exact2("logical_and", [](auto a, auto b) { return static_cast<decltype(a)>(a != 0 && b != 0); })),
      b2(exact2("logical_or", [](auto a, auto b) { return static_cast<decltype(a)>(a != 0 || b != 0); })),
      b2(exact2("logical_xor", [](auto a, auto b) { return static_cast<decltype(a)>((a != 0) != (b != 0)); })),
      gives_truth(exact1("logical_not", [](auto a) { return static_cast<decltype(a)>(a == 0); }), "b"),
      gives_truth(exact1("isnan", [](auto a) { return static_cast<decltype(a)>(std::isnan(a)); })),
      gives_truth(exact1("isinf", [](auto a) { return static_cast<decltype(a)>(std::isinf(a)); })),
      std::move(where),
  };
}

std::vector<Definition> piecewise_activations() {
  Definition threshold = exact3("threshold", [](auto a, auto b, auto c) { return a <= b ? c : a; });
  return {
      over_zero(exact1("relu", [](auto a) { return kMaximum(a, decltype(a){0}); })),
      over_zero(exact1("relu6", [](auto a) { return kClamp(a, decltype(a){0}, decltype(a){6}); })),
      with_defaults(exact2("leaky_relu", [](auto a, auto b) { return a > 0 ? a : a * b; }), {0.01}),
      with_defaults(either_zero(exact3("hardtanh", kClamp)), {-1, 1}),
      shaped(std::move(threshold), Shape::threshold),
      real1("hardsigmoid", 0, 1, [](Real a) { return kClamp(a + 3, 0.0L, 6.0L) / 6; }),
      real1("hardswish", -0.375, kInf, [](Real a) { return a * kClamp(a + 3, 0.0L, 6.0L) / 6; }, {-3, -1.5}),
      real1("softsign", -1, 1, [](Real a) { return a / (1 + std::fabs(a)); }),
  };
}

std::vector<Definition> smooth_activations() {
  Definition elu{.name = "elu",
                 .arity = 2,
                 .kinds = "rr",
                 .real = [](Real a, Real b, Real) { return a > 0 ? a : b * std::expm1(a); },
                 .lowest = -kInf,
                 .highest = kInf,
                 .defaults = {1}};
  Definition celu{.name = "celu",
                  .arity = 2,
                  .kinds = "rr",
                  .shape = Shape::celu,
                  .real = [](Real a, Real b, Real) { return a > 0 ? a : b * std::expm1(a / b); },
                  .lowest = -kInf,
                  .highest = kInf,
                  .either_zero = true,
                  .defaults = {1}};
  Definition softplus_row{.name = "softplus",
                          .arity = 3,
                          .kinds = "rrr",
                          .shape = Shape::softplus,
                          .real = softplus,
                          .ulps64 = 2048,
                          .lowest = -kInf,
                          .highest = kInf,
                          .either_zero = true,
                          .defaults = {1, 20}};
  Definition tanhshrink_row = real1("tanhshrink", -kInf, kInf, [](Real a) { return tanhshrink(a); });
  Definition logsigmoid = real1("logsigmoid", -kInf, 0,
                                [](Real a) { return a < 0 ? a - std::log1p(std::exp(a)) : -std::log1p(std::exp(-a)); });
  // x - tanh(x) and min(0, x) - log1p(…) give +0 where the real function goes to -0.
  tanhshrink_row.ulps64 = 32;
  tanhshrink_row.either_zero = logsigmoid.either_zero = true;
  return {
      std::move(elu),
      real1("selu", -2, kInf, [](Real a) { return kSeluScale * (a > 0 ? a : kSeluAlpha * std::expm1(a)); }),
      std::move(celu),
      within64(64,
               real1("gelu", -0.25, kInf, [](Real a) { return a * (std::erfc(-a / std::numbers::sqrt2_v<Real>) / 2); },
                     {-0.7517915246935645})),
      // exp magnifies the rounding of an argument by the argument, up to 745 in f64.
      within64(2048, real1("gelu_tanh", -0.25, kInf, [](Real a) { return gelu_tanh(a); }, {-0.752461423})),
      real1("silu", -0.3, kInf, [](Real a) { return a / (1 + std::exp(-a)); }, {-1.278464542761074}),
      real1("sigmoid", 0, 1, [](Real a) { return 1 / (1 + std::exp(-a)); }),
      std::move(logsigmoid),
      real1("mish", -0.4, kInf, [](Real a) { return mish(a); }, {-1.192455467}),
      std::move(softplus_row),
      std::move(tanhshrink_row),
  };
}

std::vector<Definition> make_table() {
  std::vector<Definition> table;
  for (auto part : {arithmetic, exponentials, logic, piecewise_activations, smooth_activations}) {
    for (Definition& row : part()) table.push_back(std::move(row));
  }
  return table;
}

}  // namespace

std::span<const Definition> definitions() {
  static const std::vector<Definition> table = make_table();
  return table;
}

const Definition& definition(std::string_view name) {
  for (const Definition& row : definitions()) {
    if (row.name == name) return row;
  }
  std::fprintf(stderr, "tests/support/definitions.cpp has no definition of '%.*s'\n", static_cast<int>(name.size()),
               name.data());
  std::abort();
}

}  // namespace epifuse::test
