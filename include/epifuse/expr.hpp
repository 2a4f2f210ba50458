// Epilogues written in C++: operators and functions that build an expression. Nothing is computed here; an Expr is a small
// shared handle to an immutable graph, safe to copy and to share between threads.
//
//     auto x = ef::input("x"), bias = ef::input("bias");
//     ef::Epilogue tail{ef::relu(x + bias) * 2};
//
// Functions have PyTorch's names, parameters, defaults and NaN behaviour; a number stands wherever an expression may. What an
// operation refuses (a truth value where it takes numbers, say) is an Error(invalid_argument) of the Epilogue's constructor.
#pragma once

#include <limits>
#include <memory>
#include <string_view>

#include <epifuse/dtype.hpp>

namespace epifuse {

struct ExprNode;

/// The default bounds of clamp.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Expr {
 public:
  /// A constant. Arithmetic among constants is done in f64, as Python does it; the result is rounded once to the chain's
  /// compute type where it meets a tensor.
  Expr(double constant);  // NOLINT(google-explicit-constructor): numbers mix with expressions
  explicit Expr(std::shared_ptr<const ExprNode> node) noexcept : node_(std::move(node)) {}

  const ExprNode& node() const noexcept { return *node_; }
  const std::shared_ptr<const ExprNode>& shared() const noexcept { return node_; }

 private:
  std::shared_ptr<const ExprNode> node_;
};

/// A tensor operand. Names are identifiers (letters, digits, `_`, at most 64) and not words of the text language.
Expr input(std::string_view name);
/// A number given by value at each launch: changing it compiles nothing.
Expr scalar(std::string_view name);
/// `value` rounded to `dtype` and back (floats: to nearest even, fp8 saturating; integers: half to even, saturating; NaN to 0).
Expr cast(const Expr& value, DType dtype);

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// True division.
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

// Comparisons give truth values. `&&` and `||` do not short-circuit: both sides are part of the chain.
Expr operator==(const Expr& a, const Expr& b);
Expr operator!=(const Expr& a, const Expr& b);
Expr operator<(const Expr& a, const Expr& b);
Expr operator<=(const Expr& a, const Expr& b);
Expr operator>(const Expr& a, const Expr& b);
Expr operator>=(const Expr& a, const Expr& b);
Expr operator&&(const Expr& a, const Expr& b);
Expr operator||(const Expr& a, const Expr& b);
Expr operator!(const Expr& a);

/// input * Phi(input) for approximate = "none"; the tanh formula of PyTorch for "tanh".
Expr gelu(const Expr& input, std::string_view approximate = "none");

// arithmetic
/// input ** exponent.
Expr pow(const Expr& input, const Expr& exponent);
/// input - trunc(input / other) * other; sign of input.
Expr fmod(const Expr& input, const Expr& other);
/// input - floor(input / other) * other; sign of other.
Expr remainder(const Expr& input, const Expr& other);
/// |input|.
Expr abs(const Expr& input);
/// -1, 0 or 1; 0 for NaN as in PyTorch.
Expr sign(const Expr& input);
/// input * input.
Expr square(const Expr& input);
/// square root.
Expr sqrt(const Expr& input);
/// 1 / sqrt(input).
Expr rsqrt(const Expr& input);
/// 1 / input.
Expr reciprocal(const Expr& input);
/// the smaller; NaN if either is.
Expr minimum(const Expr& input, const Expr& other);
/// the larger; NaN if either is.
Expr maximum(const Expr& input, const Expr& other);
/// minimum(maximum(input, min), max).
Expr clamp(const Expr& input, const Expr& min = -kInfinity, const Expr& max = kInfinity);

// rounding
/// largest integer not above input.
Expr floor(const Expr& input);
/// smallest integer not below input.
Expr ceil(const Expr& input);
/// nearest integer, half to even.
Expr round(const Expr& input);
/// integer part.
Expr trunc(const Expr& input);

// exponentials
/// e ** input.
Expr exp(const Expr& input);
/// 2 ** input.
Expr exp2(const Expr& input);
/// exp(input) - 1.
Expr expm1(const Expr& input);
/// natural logarithm.
Expr log(const Expr& input);
/// log(1 + input).
Expr log1p(const Expr& input);
/// logarithm to base 2.
Expr log2(const Expr& input);
/// sine, radians.
Expr sin(const Expr& input);
/// cosine, radians.
Expr cos(const Expr& input);
/// hyperbolic tangent.
Expr tanh(const Expr& input);
/// error function.
Expr erf(const Expr& input);

// comparisons and logic
/// one of them, not both.
Expr logical_xor(const Expr& input, const Expr& other);
/// input is NaN.
Expr isnan(const Expr& input);
/// input is +Inf or -Inf.
Expr isinf(const Expr& input);
/// input where condition, else other.
Expr where(const Expr& condition, const Expr& input, const Expr& other);

// activations
/// maximum(input, 0).
Expr relu(const Expr& input);
/// clamp(input, 0, 6).
Expr relu6(const Expr& input);
/// input if input > 0 else negative_slope * input.
Expr leaky_relu(const Expr& input, const Expr& negative_slope = 0.01);
/// input if input > 0 else alpha * (exp(input) - 1).
Expr elu(const Expr& input, const Expr& alpha = 1.0);
/// 1.0507… * elu(input, 1.6732…).
Expr selu(const Expr& input);
/// max(0, input) + min(0, alpha * (exp(input / alpha) - 1)).
Expr celu(const Expr& input, const Expr& alpha = 1.0);
/// input * sigmoid(input).
Expr silu(const Expr& input);
/// 1 / (1 + exp(-input)).
Expr sigmoid(const Expr& input);
/// log(sigmoid(input)).
Expr logsigmoid(const Expr& input);
/// relu6(input + 3) / 6.
Expr hardsigmoid(const Expr& input);
/// input * relu6(input + 3) / 6.
Expr hardswish(const Expr& input);
/// clamp(input, min_val, max_val).
Expr hardtanh(const Expr& input, const Expr& min_val = -1.0, const Expr& max_val = 1.0);
/// input * tanh(softplus(input)).
Expr mish(const Expr& input);
/// log(1 + exp(beta * input)) / beta; input where beta * input > threshold.
Expr softplus(const Expr& input, const Expr& beta = 1.0, const Expr& threshold = 20.0);
/// input / (1 + |input|).
Expr softsign(const Expr& input);
/// input - tanh(input).
Expr tanhshrink(const Expr& input);
/// input if input > threshold else value.
Expr threshold(const Expr& input, const Expr& threshold, const Expr& value);

}  // namespace epifuse
