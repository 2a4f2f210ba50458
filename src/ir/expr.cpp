// Operators and functions of the C++ front end: each makes a node; translate() walks the graph into the Builder that the parser
// uses too, so that both front ends give the same Program.
#include "ir/expr.hpp"

#include <unordered_map>

#include "base/text.hpp"

namespace epifuse {
namespace {

using ir::Op;

template <class... Args>
Expr make(Op op, const Args&... args) {
  auto node = std::make_shared<ExprNode>();
  node->op = op;
  node->args = {args.shared()...};
  return Expr(std::move(node));
}

Expr operand(Op op, std::string_view name) {
  ir::check_name(name);
  auto node = std::make_shared<ExprNode>();
  node->op = op;
  node->name = name;
  return Expr(std::move(node));
}

}  // namespace

ExprNode::~ExprNode() {
  // A chain of n nodes would otherwise nest n destructors. Children that only this node holds are collected and freed one by one.
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

Expr::Expr(double constant) {
  auto node = std::make_shared<ExprNode>();
  node->constant = constant;
  node_ = std::move(node);
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

namespace ir {
namespace {

Value build(Builder& builder, const ExprNode& node, const std::unordered_map<const ExprNode*, Value>& known) {
  const auto arg = [&](std::size_t i) { return i < node.args.size() ? known.at(node.args[i].get()) : kNone; };
  switch (node.op) {
    case Op::input:
      return builder.input(node.name);
    case Op::scalar:
      return builder.scalar(node.name);
    case Op::constant:
      return builder.constant(node.constant);
    case Op::cast:
      return builder.cast(arg(0), node.dtype);
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
