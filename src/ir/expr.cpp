// Operators and functions of the C++ front end: each makes a node; translate() visits the graph into the Builder that
// the parser uses too, so that both front ends give the same Program.
#include "ir/expr.hpp"

#include <unordered_map>

#include <epifuse/scale_layouts.hpp>

#include "base/text.hpp"
#include "ir/composites.hpp"
#include "ir/result_types.hpp"

namespace epifuse {
namespace {

using ir::Builder;
using ir::Op;
using ir::Value;
using Values = std::span<const Value>;

template <class... Args>
Expr make(Op op, const Args&... args) {
  auto node = std::make_shared<ExprNode>();
  node->op = op;
  node->args = {args.shared()...};
  return Expr(std::move(node));
}

Expr reduction(Op op, const Expr& input, const Axes& axis, bool keepdim, double correction = 0) {
  return composite(ir::reduction_row(op).name, {input}, [=](Builder& b, Values args) {
    return b.reduce(op, args[0], axes_of(ir::reduction_row(op).name, axis), keepdim, correction);
  });
}

Expr extreme(Op op, const Expr& input, const Axes& axis, bool keepdim, Ties ties) {
  return composite(ir::reduction_row(op).name, {input}, [=](Builder& b, Values args) {
    return b.extreme(op, args[0], axes_of(ir::reduction_row(op).name, axis), keepdim, ties);
  });
}

// A composite with a weight and a bias that may be missing: expand(builder, input, weight, bias).
template <class Expand>
Expr affine(std::string_view function, const Expr& input, const std::optional<Expr>& weight,
            const std::optional<Expr>& bias, Expand expand) {
  const Expr none = 0.0;  // takes the place of what is not there
  return composite(function, {input, weight.value_or(none), bias.value_or(none)},
                   [expand, has_weight = weight.has_value(), has_bias = bias.has_value()](Builder& b, Values args) {
                     return expand(b, args[0], has_weight ? args[1] : ir::kNone, has_bias ? args[2] : ir::kNone);
                   });
}

Expr operand(Op op, std::string_view name) {
  ir::check_name(name);
  auto node = std::make_shared<ExprNode>();
  node->op = op;
  node->name = name;
  return Expr(std::move(node));
}

}  // namespace

ir::Axes axes_of(std::string_view function, const Axes& axes) {
  const std::vector<std::int64_t> at(axes.at().begin(), axes.at().end());
  return ir::axes_of(function, at, axes.rest());
}

ExprNode::~ExprNode() {
  // A chain of n nodes would otherwise nest n destructors. Children that only this node holds are collected and freed
  // one by one.
  std::vector<std::shared_ptr<const ExprNode>> pending = std::move(args);
  while (!pending.empty()) {
    const std::shared_ptr<const ExprNode> node = std::move(pending.back());
    pending.pop_back();
    if (node.use_count() != 1) continue;
    auto& children = const_cast<ExprNode&>(*node).args;  // NOLINT: the last owner takes it apart
    std::ranges::move(children, std::back_inserter(pending));
    children.clear();
  }
}

Expr::Expr(double constant, DType written) {
  auto node = std::make_shared<ExprNode>();
  node->constant = constant;
  node->dtype = written;
  node_ = std::move(node);
}

Expr composite(std::string_view function, const std::vector<Expr>& args, ExprNode::Expand expand) {
  auto node = std::make_shared<ExprNode>();
  node->written = function;
  for (const Expr& arg : args) node->args.push_back(arg.shared());
  node->expand = std::move(expand);
  return Expr(std::move(node));
}

Expr input(std::string_view name) { return operand(Op::input, name); }
Expr scalar(std::string_view name) { return operand(Op::scalar, name); }

Expr cast(const Expr& value, DType dtype) {
  auto node = std::make_shared<ExprNode>();
  node->op = Op::cast;
  node->args = {value.shared()};
  node->dtype = dtype;
  return Expr(std::move(node));
}

Expr gelu(const Expr& input, std::string_view approximate) {
  if (approximate != "none" && approximate != "tanh") {
    base::fail(ErrorCode::invalid_expression, R"('approximate' of 'gelu' is "none" or "tanh", found "{}")",
               approximate.substr(0, ir::kMaxNameLength));
  }
  return make(approximate == "tanh" ? Op::gelu_tanh : Op::gelu, input);
}

Expr operator+(const Expr& a, const Expr& b) { return make(Op::add, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return make(Op::sub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return make(Op::mul, a, b); }
Expr operator/(const Expr& a, const Expr& b) { return make(Op::div, a, b); }
Expr operator-(const Expr& a) { return make(Op::neg, a); }
Expr operator==(const Expr& a, const Expr& b) { return make(Op::eq, a, b); }
Expr operator!=(const Expr& a, const Expr& b) { return make(Op::ne, a, b); }
Expr operator<(const Expr& a, const Expr& b) { return make(Op::lt, a, b); }
Expr operator<=(const Expr& a, const Expr& b) { return make(Op::le, a, b); }
Expr operator>(const Expr& a, const Expr& b) { return make(Op::gt, a, b); }
Expr operator>=(const Expr& a, const Expr& b) { return make(Op::ge, a, b); }
Expr operator&&(const Expr& a, const Expr& b) { return make(Op::logical_and, a, b); }
Expr operator||(const Expr& a, const Expr& b) { return make(Op::logical_or, a, b); }
Expr operator!(const Expr& a) { return make(Op::logical_not, a); }

Expr pow(const Expr& input, const Expr& exponent) { return make(Op::pow, input, exponent); }
Expr fmod(const Expr& input, const Expr& other) { return make(Op::fmod, input, other); }
Expr remainder(const Expr& input, const Expr& other) { return make(Op::remainder, input, other); }
Expr abs(const Expr& input) { return make(Op::abs, input); }
Expr sign(const Expr& input) { return make(Op::sign, input); }
Expr square(const Expr& input) { return make(Op::square, input); }
Expr sqrt(const Expr& input) { return make(Op::sqrt, input); }
Expr rsqrt(const Expr& input) { return make(Op::rsqrt, input); }
Expr reciprocal(const Expr& input) { return make(Op::reciprocal, input); }
Expr minimum(const Expr& input, const Expr& other) { return make(Op::minimum, input, other); }
Expr maximum(const Expr& input, const Expr& other) { return make(Op::maximum, input, other); }
Expr clamp(const Expr& input, const Expr& min, const Expr& max) { return make(Op::clamp, input, min, max); }
Expr fma(const Expr& input, const Expr& other, const Expr& addend) { return make(Op::fma, input, other, addend); }
Expr floor(const Expr& input) { return make(Op::floor, input); }
Expr ceil(const Expr& input) { return make(Op::ceil, input); }
Expr round(const Expr& input) { return make(Op::round, input); }
Expr trunc(const Expr& input) { return make(Op::trunc, input); }
Expr exp(const Expr& input) { return make(Op::exp, input); }
Expr exp2(const Expr& input) { return make(Op::exp2, input); }
Expr expm1(const Expr& input) { return make(Op::expm1, input); }
Expr log(const Expr& input) { return make(Op::log, input); }
Expr log1p(const Expr& input) { return make(Op::log1p, input); }
Expr log2(const Expr& input) { return make(Op::log2, input); }
Expr sin(const Expr& input) { return make(Op::sin, input); }
Expr cos(const Expr& input) { return make(Op::cos, input); }
Expr tanh(const Expr& input) { return make(Op::tanh, input); }
Expr erf(const Expr& input) { return make(Op::erf, input); }
Expr logical_xor(const Expr& input, const Expr& other) { return make(Op::logical_xor, input, other); }
Expr isnan(const Expr& input) { return make(Op::isnan, input); }
Expr isinf(const Expr& input) { return make(Op::isinf, input); }
Expr where(const Expr& condition, const Expr& input, const Expr& other) {
  return make(Op::where, condition, input, other);
}
Expr relu(const Expr& input) { return make(Op::relu, input); }
Expr relu6(const Expr& input) { return make(Op::relu6, input); }
Expr leaky_relu(const Expr& input, const Expr& negative_slope) { return make(Op::leaky_relu, input, negative_slope); }
Expr elu(const Expr& input, const Expr& alpha) { return make(Op::elu, input, alpha); }
Expr selu(const Expr& input) { return make(Op::selu, input); }
Expr celu(const Expr& input, const Expr& alpha) { return make(Op::celu, input, alpha); }
Expr silu(const Expr& input) { return make(Op::silu, input); }
Expr sigmoid(const Expr& input) { return make(Op::sigmoid, input); }
Expr logsigmoid(const Expr& input) { return make(Op::logsigmoid, input); }
Expr hardsigmoid(const Expr& input) { return make(Op::hardsigmoid, input); }
Expr hardswish(const Expr& input) { return make(Op::hardswish, input); }
Expr hardtanh(const Expr& input, const Expr& min_val, const Expr& max_val) {
  return make(Op::hardtanh, input, min_val, max_val);
}
Expr mish(const Expr& input) { return make(Op::mish, input); }
Expr softplus(const Expr& input, const Expr& beta, const Expr& threshold) {
  return make(Op::softplus, input, beta, threshold);
}
Expr softsign(const Expr& input) { return make(Op::softsign, input); }
Expr tanhshrink(const Expr& input) { return make(Op::tanhshrink, input); }
Expr threshold(const Expr& input, const Expr& threshold, const Expr& value) {
  return make(Op::threshold, input, threshold, value);
}

Expr sum(const Expr& input, const Axes& axis, bool keepdim) { return reduction(Op::sum, input, axis, keepdim); }
Expr mean(const Expr& input, const Axes& axis, bool keepdim) { return reduction(Op::mean, input, axis, keepdim); }
Expr prod(const Expr& input, const Axes& axis, bool keepdim) { return reduction(Op::prod, input, axis, keepdim); }
Expr amax(const Expr& input, const Axes& axis, bool keepdim, Ties ties) {
  return extreme(Op::amax, input, axis, keepdim, ties);
}
Expr amin(const Expr& input, const Axes& axis, bool keepdim, Ties ties) {
  return extreme(Op::amin, input, axis, keepdim, ties);
}
Expr any(const Expr& input, const Axes& axis, bool keepdim) { return reduction(Op::any, input, axis, keepdim); }
Expr all(const Expr& input, const Axes& axis, bool keepdim) { return reduction(Op::all, input, axis, keepdim); }
Expr var(const Expr& input, const Axes& axis, double correction, bool keepdim) {
  return reduction(Op::var, input, axis, keepdim, correction);
}
Expr std(const Expr& input, const Axes& axis, double correction, bool keepdim) {
  return composite("std", {input}, [=](Builder& b, Values args) {
    return ir::std_deviation(b, args[0], axes_of("std", axis), correction, keepdim);
  });
}
Expr norm(const Expr& input, double p, const Axes& axis, bool keepdim) {
  return composite("norm", {input},
                   [=](Builder& b, Values args) { return ir::norm(b, args[0], p, axes_of("norm", axis), keepdim); });
}
Expr logsumexp(const Expr& input, const Axes& axis, bool keepdim) {
  return composite("logsumexp", {input}, [=](Builder& b, Values args) {
    return ir::logsumexp(b, args[0], axes_of("logsumexp", axis), keepdim);
  });
}
Expr softmax(const Expr& input, const Axes& axis) {
  return composite("softmax", {input},
                   [=](Builder& b, Values args) { return ir::softmax(b, args[0], axes_of("softmax", axis)); });
}
Expr log_softmax(const Expr& input, const Axes& axis) {
  return composite("log_softmax", {input},
                   [=](Builder& b, Values args) { return ir::log_softmax(b, args[0], axes_of("log_softmax", axis)); });
}
Expr layer_norm(const Expr& input, const std::optional<Expr>& weight, const std::optional<Expr>& bias, double eps,
                const Axes& axis) {
  return affine("layer_norm", input, weight, bias, [=](Builder& b, Value x, Value w, Value shift) {
    return ir::layer_norm(b, x, w, shift, eps, axes_of("layer_norm", axis));
  });
}
Expr rms_norm(const Expr& input, const std::optional<Expr>& weight, double eps, const Axes& axis) {
  return affine("rms_norm", input, weight, std::nullopt, [=](Builder& b, Value x, Value w, Value) {
    return ir::rms_norm(b, x, w, eps, axes_of("rms_norm", axis));
  });
}
Expr group_norm(const Expr& input, std::int64_t groups, const std::optional<Expr>& weight,
                const std::optional<Expr>& bias, double eps) {
  return affine("group_norm", input, weight, bias,
                [=](Builder& b, Value x, Value w, Value shift) { return ir::group_norm(b, x, groups, w, shift, eps); });
}
Expr instance_norm(const Expr& input, const std::optional<Expr>& weight, const std::optional<Expr>& bias, double eps) {
  return affine("instance_norm", input, weight, bias,
                [=](Builder& b, Value x, Value w, Value shift) { return ir::instance_norm(b, x, w, shift, eps); });
}
Expr rand_like(const Expr& input, const Expr& seed, const Expr& offset) {
  return composite("rand_like", {input, seed, offset},
                   [](Builder& b, Values args) { return b.rand_like(args[0], args[1], args[2]); });
}
Expr matmul(const Expr& input, const Expr& other, bool tf32) {
  return composite("matmul", {input, other}, [=](Builder& b, Values args) { return b.matmul(args[0], args[1], tf32); });
}
Expr linear(const Expr& input, const Expr& weight, const std::optional<Expr>& bias, bool tf32) {
  const Expr product = composite("linear", {input, weight}, [=](Builder& b, Values args) {
    return ir::linear(b, args[0], args[1], ir::kNone, tf32);
  });
  return bias ? product + *bias : product;
}
Expr scaled_mm(const Expr& input, const Expr& mat2, const Expr& scale_a, const Expr& scale_b) {
  return composite("scaled_mm", {input, mat2, scale_a, scale_b},
                   [](Builder& b, Values args) { return ir::scaled_mm(b, args[0], args[1], args[2], args[3]); });
}
Expr block_scaled(const Expr& input, const Expr& scale) {
  return composite("block_scaled", {input, scale},
                   [](Builder& b, Values args) { return b.block_scaled(args[0], args[1]); });
}
Expr conv2d(const Expr& input, const Expr& weight, const std::optional<Expr>& bias, const PerDimension& stride,
            const PerDimension& padding, const PerDimension& dilation) {
  std::vector<Expr> operands = {input, weight};
  if (bias) operands.push_back(*bias);
  return composite("conv2d", operands, [=](Builder& b, Values args) {
    return ir::conv2d(b, args[0], args[1], args.size() > 2 ? args[2] : ir::kNone, {stride, padding, dilation});
  });
}

Expr dropout(const Expr& input, const Expr& p, const Expr& seed, const Expr& offset) {
  return composite("dropout", {input, p, seed, offset},
                   [](Builder& b, Values args) { return ir::dropout(b, args[0], args[1], args[2], args[3]); });
}
std::array<Expr, 2> var_mean(const Expr& input, const Axes& axis, double correction, bool keepdim) {
  return {var(input, axis, correction, keepdim), mean(input, axis, keepdim)};
}
Expr count_nonzero(const Expr& input, const Axes& axis) {
  return composite("count_nonzero", {input}, [=](Builder& b, Values args) {
    return ir::count_nonzero(b, args[0], axes_of("count_nonzero", axis));
  });
}
Expr batch_norm(const Expr& input, const std::optional<Expr>& weight, const std::optional<Expr>& bias, double eps) {
  return affine("batch_norm", input, weight, bias,
                [=](Builder& b, Value x, Value w, Value shift) { return ir::batch_norm(b, x, w, shift, eps); });
}
Expr normalize(const Expr& input, double p, const Axes& axis, double eps) {
  return composite("normalize", {input}, [=](Builder& b, Values args) {
    return ir::normalize(b, args[0], p, axes_of("normalize", axis), eps);
  });
}

namespace {

// What `build` gives, as two expressions.
template <class Build>
Quantized quantized(std::string_view function, const std::vector<Expr>& arguments, Build build) {
  return {composite(function, arguments, [=](Builder& b, Values args) { return build(b, args).values; }),
          composite(function, arguments, [=](Builder& b, Values args) { return build(b, args).scale; })};
}

}  // namespace

Quantized quantize(const Expr& input, DType dtype, const QuantizeOptions& options) {
  const ir::Quantization how{dtype, options.block, options.power_of_two, options.eps};
  return quantized("quantize", {input}, [=](Builder& b, Values args) { return ir::quantize(b, args[0], how); });
}
Quantized mx_quantize(const Expr& input, DType dtype, ScaleRounding rounding) {
  return quantized("mx_quantize", {input}, [=](Builder& b, Values args) {
    return ir::mx_quantize(b, args[0], dtype, rounding == ScaleRounding::up);
  });
}
Quantized nv_quantize(const Expr& input, const Expr& global_scale) {
  return quantized("nv_quantize", {input, global_scale},
                   [](Builder& b, Values args) { return ir::nv_quantize(b, args[0], args[1]); });
}
Expr dequantize(const Expr& values, const Expr& scale, std::int64_t block) {
  return composite("dequantize", {values, scale},
                   [=](Builder& b, Values args) { return ir::dequantize(b, args[0], args[1], block); });
}
Expr scale_tiles(const Expr& scales) {
  return composite("scale_tiles", {scales}, [](Builder& b, Values args) { return b.scale_tiles(args[0]); });
}
Expr unflatten(const Expr& input, int dim, std::array<std::int64_t, 2> sizes) {
  return composite("unflatten", {input}, [=](Builder& b, Values args) {
    return b.unflatten(args[0], ir::dimension_of("unflatten", dim), sizes);
  });
}
Expr flatten(const Expr& input, int start_dim, int end_dim) {
  return composite("flatten", {input}, [=](Builder& b, Values args) {
    return b.flatten(args[0], ir::dimension_of("flatten", start_dim), ir::dimension_of("flatten", end_dim));
  });
}
Expr along(const Expr& vector, const Expr& other, int dim) {
  return composite("along", {vector, other},
                   [=](Builder& b, Values args) { return b.along(args[0], args[1], ir::dimension_of("along", dim)); });
}

namespace {

// `view` runs when the Program is built, as what it refuses is refused then.
template <class MakeView>
Expr viewed(std::string_view function, const Expr& input, MakeView view) {
  return composite(function, {input}, [=](Builder& b, Values args) { return b.view(args[0], view()); });
}

Expr viewed(ir::View::Kind kind, const Expr& input, std::vector<std::int64_t> numbers) {
  return viewed(ir::name_of(kind), input, [=] { return ir::numbered_view(kind, numbers); });
}

ir::Index index_of(const Index& index) {
  using Kind = ir::Index::Kind;
  if (const auto* at = std::get_if<std::int64_t>(&index.what())) return {.kind = Kind::at, .start = *at};
  if (std::holds_alternative<Ellipsis>(index.what())) return {.kind = Kind::rest};
  if (std::holds_alternative<NewAxis>(index.what())) return {.kind = Kind::added};
  const Slice& slice = std::get<Slice>(index.what());
  return {.start = slice.start.value_or(ir::Index::kOpen),
          .stop = slice.stop.value_or(ir::Index::kOpen),
          .step = slice.step};
}

}  // namespace

Expr Expr::operator[](std::initializer_list<Index> items) const {
  std::vector<ir::Index> list;
  for (const Index& item : items) list.push_back(index_of(item));
  return viewed("", *this, [list] { return ir::index_view(list); });
}
Expr Expr::operator[](std::int64_t at) const { return (*this)[{Index(at)}]; }

Expr narrow(const Expr& input, int dim, std::int64_t start, std::int64_t length) {
  return viewed(ir::View::Kind::narrow, input, {dim, start, length});
}
Expr select(const Expr& input, int dim, std::int64_t index) {
  return viewed("select", input, [=] { return ir::select_view(dim, index); });
}
std::vector<Expr> chunk(const Expr& input, int chunks, int dim) {
  std::vector<Expr> pieces;
  for (int i = 0; i < chunks; ++i) pieces.push_back(viewed(ir::View::Kind::chunk, input, {chunks, dim, i}));
  return pieces;
}
Expr split(const Expr& input, std::int64_t split_size, int dim, std::int64_t index) {
  return viewed(ir::View::Kind::split, input, {split_size, dim, index});
}
Expr flip(const Expr& input, std::vector<std::int64_t> dims) {
  return viewed("flip", input, [dims = std::move(dims)] { return ir::flip_view(dims); });
}
Expr permute(const Expr& input, std::vector<std::int64_t> dims) {
  return viewed(ir::View::Kind::permute, input, std::move(dims));
}
Expr transpose(const Expr& input, int dim0, int dim1) { return viewed(ir::View::Kind::transpose, input, {dim0, dim1}); }
Expr unsqueeze(const Expr& input, int dim) {
  return viewed("unsqueeze", input, [=] { return ir::unsqueeze_view(dim); });
}
Expr squeeze(const Expr& input, int dim) { return viewed(ir::View::Kind::squeeze, input, {dim}); }
Expr expand(const Expr& input, std::vector<std::int64_t> sizes) {
  return viewed(ir::View::Kind::expand, input, std::move(sizes));
}
Expr reshape(const Expr& input, std::vector<std::int64_t> sizes) {
  return viewed(ir::View::Kind::reshape, input, std::move(sizes));
}

Expr expand_as(const Expr& input, const Expr& other) {
  return composite("expand_as", {input, other}, [](Builder& b, Values args) { return b.expand_as(args[0], args[1]); });
}
Expr sum_to(const Expr& input, const Expr& other) {
  return composite("sum_to", {input, other}, [](Builder& b, Values args) { return b.sum_to(args[0], args[1]); });
}
Expr reshape_as(const Expr& input, const Expr& other) {
  return composite("reshape_as", {input, other},
                   [](Builder& b, Values args) { return b.reshape_as(args[0], args[1]); });
}
Expr unsqueeze_as(const Expr& input, const Expr& other, const Axes& axis) {
  return composite("unsqueeze_as", {input, other}, [=](Builder& b, Values args) {
    return b.unsqueeze_as(args[0], args[1], axes_of("unsqueeze_as", axis));
  });
}
Expr repeat_as(const Expr& input, const Expr& other, int dim, std::int64_t times, std::int64_t shift) {
  return composite("repeat_as", {input, other}, [=](Builder& b, Values args) {
    return b.repeat_as(args[0], args[1], ir::dimension_of("repeat_as", dim), times, shift);
  });
}
Expr count(const Expr& input, const Axes& axis) {
  return composite("count", {input}, [=](Builder& b, Values args) { return b.count(args[0], axes_of("count", axis)); });
}

namespace ir {
namespace {

Value build(Builder& builder, const ExprNode& node, const std::unordered_map<const ExprNode*, Value>& known) {
  const auto arg = [&](std::size_t i) { return i < node.args.size() ? known.at(node.args[i].get()) : kNone; };
  if (node.expand) {
    const Builder::Written as(builder, node.written);
    std::vector<Value> args;
    for (std::size_t i = 0; i < node.args.size(); ++i) args.push_back(arg(i));
    return node.expand(builder, args);
  }
  switch (node.op) {
    case Op::input:
      return builder.input(node.name);
    case Op::scalar:
      return builder.scalar(node.name);
    case Op::constant:
      return builder.constant(node.constant, ir::category_of(node.dtype));
    case Op::cast:
      return builder.cast(arg(0), node.dtype);
    case Op::gelu_tanh: {
      const Builder::Written as(builder, "gelu");
      return builder.apply(node.op, {arg(0), arg(1), arg(2)});
    }
    default:
      return builder.apply(node.op, {arg(0), arg(1), arg(2)});
  }
}

}  // namespace

Program translate(std::span<const Expr> results) {
  Builder builder;
  std::unordered_map<const ExprNode*, Value> known;
  std::vector<const ExprNode*> stack;
  for (const Expr& result : results) {
    stack.push_back(&result.node());
    while (!stack.empty()) {
      const ExprNode* node = stack.back();
      const std::size_t before = stack.size();
      if (!known.contains(node)) {
        for (std::size_t i = node->args.size(); i-- > 0;) {
          if (!known.contains(node->args[i].get())) stack.push_back(node->args[i].get());
        }
        if (stack.size() > before) continue;  // arguments first
        known.emplace(node, build(builder, *node, known));
      }
      stack.pop_back();
    }
    builder.result("", known.at(&result.node()));
  }
  return std::move(builder).finish();
}

}  // namespace ir
}  // namespace epifuse
