// Epilogues written in C++: operators and functions that build an expression. Nothing is computed here; an Expr is a
// small shared handle to an immutable graph, safe to copy and to share between threads.
//
//     auto x = ef::input("x"), bias = ef::input("bias");
//     ef::Epilogue tail{ef::relu(x + bias) * 2};
//
// Functions have PyTorch's names, parameters, defaults and NaN behaviour; a number stands wherever an expression may.
// What an operation refuses (a truth value where it takes numbers, say) is an Error(invalid_argument) of the Epilogue's
// constructor.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <epifuse/dtype.hpp>
#include <epifuse/tensor.hpp>
#include <epifuse/ties.hpp>

namespace epifuse {

struct ExprNode;

/// The default bounds of clamp.
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Index;

class Expr {
 public:
  /// A constant. Arithmetic among constants is done in f64, as Python does it; the result is rounded once to the
  /// epilogue's compute type where it meets a tensor. As in PyTorch `x * 2` of integers is of integers, and `x * 2.0`
  /// of floats (Epilogue::result_types).
  Expr(double constant)
      : Expr(constant, DType::f32) {}  // NOLINT(google-explicit-constructor): numbers mix with expressions
  template <std::integral T>
  Expr(T constant)  // NOLINT(google-explicit-constructor): likewise
      : Expr(static_cast<double>(constant), std::same_as<T, bool> ? DType::boolean : DType::i64) {}
  explicit Expr(std::shared_ptr<const ExprNode> node) noexcept : node_(std::move(node)) {}

  /// Elements at other places, as NumPy writes it: `x[{ef::ellipsis, ef::Slice{.stop = 128}}]` is `x[..., :128]`,
  /// `x[{ef::newaxis}]` adds a dimension of one element, `x[0]` takes one element of the first dimension, which goes.
  Expr operator[](std::initializer_list<Index> items) const;
  Expr operator[](std::int64_t at) const;

  const ExprNode& node() const noexcept { return *node_; }
  const std::shared_ptr<const ExprNode>& shared() const noexcept { return node_; }

 private:
  Expr(double constant, DType written);
  std::shared_ptr<const ExprNode> node_;
};

/// Beside a position and a Slice (tensor.hpp): as many whole dimensions as there are, `...`.
struct Ellipsis {};
inline constexpr Ellipsis ellipsis;
/// A dimension of one element: `None`.
struct NewAxis {};
inline constexpr NewAxis newaxis;

/// What stands at one place between brackets: a position, a Slice, `ellipsis` or `newaxis`.
class Index {
 public:
  template <std::integral T>
  Index(T at) : what_(static_cast<std::int64_t>(at)) {}  // NOLINT(google-explicit-constructor): a position is a number
  Index(Slice slice) : what_(slice) {}                   // NOLINT(google-explicit-constructor)
  Index(Ellipsis) : what_(Ellipsis{}) {}                 // NOLINT(google-explicit-constructor)
  Index(NewAxis) : what_(NewAxis{}) {}                   // NOLINT(google-explicit-constructor)

  const std::variant<std::int64_t, Slice, Ellipsis, NewAxis>& what() const noexcept { return what_; }

 private:
  std::variant<std::int64_t, Slice, Ellipsis, NewAxis> what_;
};

/// A tensor operand. Names are identifiers (letters, digits, `_`, at most 64) and not words of the text language.
Expr input(std::string_view name);
/// A number given by value at each launch: changing it compiles nothing.
Expr scalar(std::string_view name);
/// `value` rounded to `dtype` and back (floats: to nearest even, fp8 saturating; integers: half to even, saturating;
/// NaN to 0).
Expr cast(const Expr& value, DType dtype);

Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
/// True division.
Expr operator/(const Expr& a, const Expr& b);
Expr operator-(const Expr& a);

inline Expr& operator+=(Expr& a, const Expr& b) { return a = a + b; }
inline Expr& operator-=(Expr& a, const Expr& b) { return a = a - b; }
inline Expr& operator*=(Expr& a, const Expr& b) { return a = a * b; }
inline Expr& operator/=(Expr& a, const Expr& b) { return a = a / b; }

// Comparisons give truth values. `&&` and `||` do not short-circuit: both sides are part of the epilogue.
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
/// input * other + addend, rounded once.
Expr fma(const Expr& input, const Expr& other, const Expr& addend);

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

/// The dimensions that a reduction runs over, counted from the front or, negative, from the back: `1`, `{-2, -1}`,
/// `Axes::from(2)`.
class Axes {
 public:
  /// All dimensions.
  Axes() = default;
  Axes(int axis) : at_{axis} {}                         // NOLINT(google-explicit-constructor): one axis is a number
  Axes(std::initializer_list<int> axes) : at_(axes) {}  // NOLINT(google-explicit-constructor)
  Axes(std::vector<int> axes) noexcept : at_(std::move(axes)) {}  // NOLINT(google-explicit-constructor)
  /// A keepdim or an eps in the place of the axes.
  template <class Wrong>
  requires(std::same_as<Wrong, bool> || std::floating_point<Wrong>) Axes(Wrong)
  = delete;

  static Axes all() { return {}; }
  /// This dimension and all behind it: `(first, ...)` in text.
  static Axes from(int first) {
    Axes axes(first);
    axes.rest_ = true;
    return axes;
  }

  const std::vector<int>& at() const noexcept { return at_; }
  bool rest() const noexcept { return rest_; }

 private:
  std::vector<int> at_;
  bool rest_ = false;
};

// Reductions: many elements become one. The reduced dimensions vanish, or stay with one element (keepdim), so that the
// result broadcasts back: `e / sum(e, -1, true)`. One kernel computes all of it.
/// sum of the elements; 0 of none.
Expr sum(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// sum / count; NaN of none.
Expr mean(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// product of the elements; 1 of none.
Expr prod(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// the largest; NaN if any is. `ties`: where its gradient goes.
Expr amax(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false, Ties ties = Ties::share);
/// the smallest; NaN if any is. `ties`: where its gradient goes.
Expr amin(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false, Ties ties = Ties::share);
/// sum((element - mean) ** 2) / max(count - correction, 0). The parameters stand in PyTorch's order.
Expr var(const Expr& input, const Axes& axis = Axes::all(), double correction = 1, bool keepdim = false);
/// sqrt(var).
Expr std(const Expr& input, const Axes& axis = Axes::all(), double correction = 1, bool keepdim = false);
/// a truth value: one is true.
Expr any(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// a truth value: none is false.
Expr all(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// log(sum(exp(input))), without overflow.
Expr logsumexp(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// The variance and the mean.
std::array<Expr, 2> var_mean(const Expr& input, const Axes& axis = Axes::all(), double correction = 1,
                             bool keepdim = false);
/// how many elements are not 0.
Expr count_nonzero(const Expr& input, const Axes& axis = Axes::all());
/// where the largest stands along a dimension, or among all elements in row-major order: the first of equals. A NaN
/// counts as the largest.
Expr argmax(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// the same of the smallest; a NaN counts as the smallest.
Expr argmin(const Expr& input, const Axes& axis = Axes::all(), bool keepdim = false);
/// sum(|input| ** p) ** (1 / p); the largest or smallest |input| for p = ±kInfinity; how many are not 0 for p = 0.
Expr norm(const Expr& input, double p = 2, const Axes& axis = Axes::all(), bool keepdim = false);

// Normalisation: expressions of the above, the same that one would write by hand.
/// exp(input) / sum(exp(input)), without overflow.
Expr softmax(const Expr& input, const Axes& axis);
/// log(softmax(input)), without overflow.
Expr log_softmax(const Expr& input, const Axes& axis);
/// (input - mean) / sqrt(var + eps) over the axes, times weight, plus bias. Weight and bias broadcast from the last
/// dimension.
Expr layer_norm(const Expr& input, const std::optional<Expr>& weight = std::nullopt,
                const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5, const Axes& axis = -1);
/// input / sqrt(mean(square(input)) + eps), times weight. The default eps is f32's, as PyTorch has it.
Expr rms_norm(const Expr& input, const std::optional<Expr>& weight = std::nullopt, double eps = 0x1p-23,
              const Axes& axis = -1);
/// layer_norm of each group of channels and all behind them. Channels are dimension 1; weight and bias are vectors of
/// the channels.
Expr group_norm(const Expr& input, std::int64_t groups, const std::optional<Expr>& weight = std::nullopt,
                const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
/// layer_norm of each channel: over dimension 2 and all behind it. Weight and bias are vectors of the channels.
Expr instance_norm(const Expr& input, const std::optional<Expr>& weight = std::nullopt,
                   const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
/// In training: layer_norm of each channel over all dimensions but 1. Weight and bias are vectors of the channels.
Expr batch_norm(const Expr& input, const std::optional<Expr>& weight = std::nullopt,
                const std::optional<Expr>& bias = std::nullopt, double eps = 1e-5);
/// input / maximum(norm(input, p), eps).
Expr normalize(const Expr& input, double p = 2, const Axes& axis = 1, double eps = 1e-12);

// Quantisation (docs/guide/quantisation.md): narrow values and the scales that they are multiplied by, from one pass.
struct QuantizeOptions {
  std::int64_t block = 0;     ///< elements of the last dimension that share a scale; 0: all of them
  bool power_of_two = false;  ///< scales are rounded up to powers of two
  double eps = 1e-4;          ///< the least that the largest |input| of a block counts as
};
struct Quantized {
  Expr values;  ///< cast(input * (1 / scale), dtype), in the shape of input
  Expr
      scale;  ///< its last dimension is that of input over block, or 1; of quantize f32, of mx_quantize f8e8m0, of nv_quantize f8e4m3
};
/// `dtype` is f8e4m3, f8e5m2, f4e2m1, i8 or i4. The scale is maximum(amax(|input|), eps) over the type's largest value:
/// 448, 57344, 6, 127 or 7.
Quantized quantize(const Expr& input, DType dtype, const QuantizeOptions& options = {});
/// How a scale becomes a power of two: to the least that saturates nothing, or as OCP's document of the MX formats has
/// it.
enum class ScaleRounding : std::uint8_t { up, floor };
/// MXFP8 and MXFP4: blocks of 32 elements of the last dimension, in f8e4m3, f8e5m2 or f4e2m1, with a scale in f8e8m0.
Quantized mx_quantize(const Expr& input, DType dtype = DType::f8e4m3, ScaleRounding rounding = ScaleRounding::up);
/// NVFP4: blocks of 16 elements of the last dimension in f4e2m1, with a scale in f8e4m3. All scales are multiplied by
/// `global_scale`, one number in f32: 448 * 6 / amax(|input|) of the whole tensor. The way back is dequantize(values,
/// scale, 16) / global_scale.
Quantized nv_quantize(const Expr& input, const Expr& global_scale);
/// values * scale, in f32.
Expr dequantize(const Expr& values, const Expr& scale, std::int64_t block = 0);

// Random numbers, the same wherever and however they are computed: Philox4x32-10 of (seed, offset, row-major index of
// the element). `seed` and `offset` are run-time scalars or whole numbers from 0 to below 2^53.
/// uniform in [0, 1), an f32 for each element of values shaped like input.
Expr rand_like(const Expr& input, const Expr& seed, const Expr& offset);
/// input / (1 - p) where rand_like(input, seed, offset) >= p, else 0. Its gradient draws the same numbers again.
Expr dropout(const Expr& input, const Expr& p, const Expr& seed, const Expr& offset);

// shape
/// dimension dim as two of these sizes; one of them may be -1: what the other leaves.
Expr unflatten(const Expr& input, int dim, std::array<std::int64_t, 2> sizes);
/// dimensions start_dim … end_dim as one.
Expr flatten(const Expr& input, int start_dim = 0, int end_dim = -1);
/// a vector laid along dimension dim of values shaped like other: `along(bias, x, 1)` is a bias per channel.
Expr along(const Expr& vector, const Expr& other, int dim);

/// for each element of input where it stands along dimension dim: 0, 1, ….
Expr iota(const Expr& input, int dim);
/// input where column - row <= diagonal, else 0, in the last two dimensions.
Expr tril(const Expr& input, std::int64_t diagonal = 0);
/// input where column - row >= diagonal, else 0, in the last two dimensions.
Expr triu(const Expr& input, std::int64_t diagonal = 0);

/// One number for all dimensions, or one for each.
using PerDimension = std::vector<std::int64_t>;

// Matrix products and convolutions. Both factors are operands, or views of operands that lie in memory with strides;
// the rest of the epilogue runs in the product's kernel, or in one behind it (docs/guide/products.md).
/// [..., rows, depth] times [..., depth, columns]; the dimensions in front broadcast. `tf32`: a GPU may round f32
/// factors to TF32, whose significand has 11 bits, for its tensor cores; sums are f32. Other types refuse it.
Expr matmul(const Expr& input, const Expr& other, bool tf32 = false);
/// input @ weight^T + bias, with a weight of [outputs, inputs] as torch.nn.functional.linear takes it. `tf32` as above.
Expr linear(const Expr& input, const Expr& weight, const std::optional<Expr>& bias = std::nullopt, bool tf32 = false);
/// The product of float8 matrices [rows, depth] and [depth, columns], each times f32 scales of its blocks; the result
/// is f32 by default. With K for ⌈depth / 128⌉, `scale_a` has one element, or is [rows, K], [⌈rows / 128⌉, K] or
/// [rows, 1]; `scale_b` has one, or is [K, columns], [K, ⌈columns / 128⌉] or [1, columns].
Expr scaled_mm(const Expr& input, const Expr& mat2, const Expr& scale_a, const Expr& scale_b);
/// A factor of matmul with such scales, of which scaled_mm has two. Nothing else reads it.
Expr block_scaled(const Expr& input, const Expr& scale);
/// Images [N, C, H, W] with filters [K, C, R, S]: [N, K, OH, OW], as torch.nn.functional.conv2d without groups. One
/// kernel for it and the epilogue wants images, filters and result channels-last.
Expr conv2d(const Expr& input, const Expr& weight, const std::optional<Expr>& bias = std::nullopt,
            const PerDimension& stride = {1}, const PerDimension& padding = {0}, const PerDimension& dilation = {1});

// Views: a value that reads another one's elements at other places. Each is read where it lies; nothing is copied.
// Besides `x[{…}]`:
/// input[start : start + length] along dimension dim.
Expr narrow(const Expr& input, int dim, std::int64_t start, std::int64_t length);
/// input[index] along dimension dim, which goes.
Expr select(const Expr& input, int dim, std::int64_t index);
/// So many pieces of dimension dim, the last of which may be smaller.
std::vector<Expr> chunk(const Expr& input, int chunks, int dim = 0);
/// Piece `index` of the pieces of that size of dimension dim, the last of which may be smaller.
Expr split(const Expr& input, std::int64_t split_size, int dim, std::int64_t index);
/// input in reverse order along these dimensions.
Expr flip(const Expr& input, std::vector<std::int64_t> dims);
/// Dimension i is dimension dims[i] of input.
Expr permute(const Expr& input, std::vector<std::int64_t> dims);
/// input with these two dimensions exchanged.
Expr transpose(const Expr& input, int dim0, int dim1);
/// input with a dimension of one element at place dim.
Expr unsqueeze(const Expr& input, int dim);
/// input without dimension dim, which has one element.
Expr squeeze(const Expr& input, int dim);
/// input broadcast to these sizes; -1 keeps one.
Expr expand(const Expr& input, std::vector<std::int64_t> sizes);
/// input in these sizes, one of which may be -1, in row-major order.
Expr reshape(const Expr& input, std::vector<std::int64_t> sizes);

/// Element `index` of each window of `size` elements along dimension dim; windows are `stride` apart, their elements
/// `dilation`. `padding` elements stand before and behind the dimension, each of which is `value`; with `ceil_mode` the
/// last window may end behind these.
Expr window(const Expr& input, int dim, std::int64_t size, std::int64_t stride, std::int64_t index,
            std::int64_t dilation = 1, std::int64_t padding = 0, bool ceil_mode = false, double value = 0);
/// Windows of `size` elements along a dimension, `step` apart. Their elements are a dimension behind all others: what
/// reduces it reads each where it lies, also where windows overlap. `padding`, `ceil_mode` and `value` as in window().
Expr unfold(const Expr& input, int dimension, std::int64_t size, std::int64_t step, std::int64_t padding = 0,
            bool ceil_mode = false, double value = 0);
/// So many elements before and behind the last dimension, the one before it, …, each of which is `value`. A negative
/// size takes elements away.
Expr pad(const Expr& input, std::vector<std::int64_t> sizes, double value = 0);
/// Elements that leave a dimension at its end come in at its beginning: dimension dims[i] by shifts[i].
Expr roll(const Expr& input, std::vector<std::int64_t> shifts, std::vector<std::int64_t> dims);
/// tensors one behind the other along dimension dim. A result is written in pieces, each where it belongs.
Expr cat(const std::vector<Expr>& tensors, int dim = 0);
/// tensors side by side, in a new dimension at place dim.
Expr stack(const std::vector<Expr>& tensors, int dim = 0);
/// [n, c * r * r, h, w] as [n, c, h * r, w * r].
Expr pixel_shuffle(const Expr& input, std::int64_t upscale_factor);
/// [n, c, h * r, w * r] as [n, c * r * r, h, w].
Expr pixel_unshuffle(const Expr& input, std::int64_t downscale_factor);
/// Rotary embedding: halves (or, interleaved, pairs) (a, b) of the last dimension as (fma(a, cos, -(b * sin)), fma(b,
/// cos, a * sin)). `cos` and `sin` have half as many elements there.
Expr rope(const Expr& input, const Expr& cos, const Expr& sin, bool interleaved = false);
/// The same, where `cos` and `sin` have a row for each position. `positions`, an operand of i32 or i64, says which row
/// each vector of input takes: it broadcasts with input's dimensions but the last.
Expr rope(const Expr& input, const Expr& cos, const Expr& sin, const Expr& positions, bool interleaved = false);

// Indices: a value that is read where the elements of an operand of i32 or i64, or of a view of one, say. An index that
// is out of range reads nothing: on a GPU the element is NaN, or 0 if the operand is no floating one, and what is
// computed of it follows; on the CPU the launch throws Error(invalid_argument).
/// input at `indices` along dimension axis; the dimensions of `indices` take its place. A negative index counts from
/// the end.
Expr take(const Expr& input, const Expr& indices, int axis = 0);
/// The same, where negative indices are out of range.
Expr index_select(const Expr& input, int dim, const Expr& index);
/// The rows of `weight` that input names: index_select(weight, 0, input).
Expr embedding(const Expr& input, const Expr& weight);
/// For each element of `index` the element of input that it names along dimension dim, at the element's own place in
/// the others, of which `index` has no more elements than input. Negative indices are out of range.
Expr gather(const Expr& input, int dim, const Expr& index);
/// The operand `input` with `source` in the place of its elements along dimension dim at the positions that `index`
/// (one dimension, i32 or i64) holds: a cache with new rows in its slots. It is a result of the chain and nothing
/// computes with it. The output of a launch is the operand's own memory, of which the kernel writes these elements
/// alone, in its type. Where an index is negative or out of range nothing is written, so that padding may have -1. Of
/// equal indices any one counts.
Expr index_copy(const Expr& input, int dim, const Expr& index, const Expr& source);
/// Classes as i64: 1 where a new last dimension of `num_classes` elements stands at the class that input names, else 0.
Expr one_hot(const Expr& input, std::int64_t num_classes);

// Pooling and upsampling over the last dimensions. An empty stride is kernel_size.
/// the largest of each window. What `padding` stands around the tensor is less than any number, and at most half of a
/// window; with `ceil_mode` the last window may end outside.
Expr max_pool1d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, const PerDimension& dilation = {1}, bool ceil_mode = false);
Expr max_pool2d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, const PerDimension& dilation = {1}, bool ceil_mode = false);
Expr max_pool3d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, const PerDimension& dilation = {1}, bool ceil_mode = false);
/// the mean of each window; or its sum divided by another number. What `padding` stands around the tensor is 0, and
/// counts as elements of windows where `count_include_pad` says so.
Expr avg_pool1d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, bool ceil_mode = false, bool count_include_pad = true);
Expr avg_pool2d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, bool ceil_mode = false, bool count_include_pad = true,
                std::optional<std::int64_t> divisor_override = std::nullopt);
Expr avg_pool3d(const Expr& input, const PerDimension& kernel_size, const PerDimension& stride = {},
                const PerDimension& padding = {0}, bool ceil_mode = false, bool count_include_pad = true,
                std::optional<std::int64_t> divisor_override = std::nullopt);
/// sum(input ** norm_type) ** (1 / norm_type) of each window. With `ceil_mode` the sum of a window that ends outside is
/// as much larger as it has fewer elements, as in PyTorch.
Expr lp_pool1d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride = {},
               bool ceil_mode = false);
Expr lp_pool2d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride = {},
               bool ceil_mode = false);
Expr lp_pool3d(const Expr& input, double norm_type, const PerDimension& kernel_size, const PerDimension& stride = {},
               bool ceil_mode = false);
/// the mean of each of so many equal parts.
Expr adaptive_avg_pool1d(const Expr& input, const PerDimension& output_size);
Expr adaptive_avg_pool2d(const Expr& input, const PerDimension& output_size);
Expr adaptive_avg_pool3d(const Expr& input, const PerDimension& output_size);
/// the largest of each of so many equal parts.
Expr adaptive_max_pool1d(const Expr& input, const PerDimension& output_size);
Expr adaptive_max_pool2d(const Expr& input, const PerDimension& output_size);
Expr adaptive_max_pool3d(const Expr& input, const PerDimension& output_size);
/// each element so often, along the dimensions behind batch and channel.
Expr upsample_nearest1d(const Expr& input, const PerDimension& scale_factor);
Expr upsample_nearest2d(const Expr& input, const PerDimension& scale_factor);
Expr upsample_nearest3d(const Expr& input, const PerDimension& scale_factor);

// What gradients are made of. Of `other` only the shape counts: it is not read.
/// input broadcast to the shape of other.
Expr expand_as(const Expr& input, const Expr& other);
/// the sum of input over the dimensions that other lacks, or has one element in.
Expr sum_to(const Expr& input, const Expr& other);
/// input in the shape of other, which has as many elements, in row-major order.
Expr reshape_as(const Expr& input, const Expr& other);
/// a reduction of other over axis, with keepdim=true from now on.
Expr unsqueeze_as(const Expr& input, const Expr& other, const Axes& axis);
/// input[(i + shift) // times] at each place i along dimension dim of other, and 0 where there is none. The other
/// dimensions are those of both.
Expr repeat_as(const Expr& input, const Expr& other, int dim, std::int64_t times, std::int64_t shift = 0);
/// how many elements of input a reduction over axis makes one of.
Expr count(const Expr& input, const Axes& axis = {});

}  // namespace epifuse
