// Which products and sums become one, and how they are written.
#include "codegen/contraction.hpp"

#include <cmath>
#include <limits>

#include "base/text.hpp"

namespace epifuse::codegen {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Value;
using plan::Access;
using plan::Scope;

Contraction::Contraction(const ir::Program& program, const plan::KernelClass& kernel, const ReductionChain& chain,
                         const plan::Marks& computed, const plan::Marks& terms)
    : program_(program),
      kernel_(kernel),
      chain_(chain),
      computed_(computed),
      terms_(terms),
      uses_(computed.size(), 0),
      inlined_(computed.size(), false) {
  if (!chain_.arithmetic().cheap_rows) return;
  intervals_.emplace(program, kernel);
  const auto is_used = [&](Value value) { ++uses_[static_cast<std::size_t>(chain_.unshaped(value))]; };
  for (const Node& node : program_.nodes()) {
    for (int k = 0; k < node.computed_arity() && !ir::is_shape(node.op); ++k)
      is_used(node.args[static_cast<std::size_t>(k)]);
  }
  for (const ir::Result& result : program_.results()) is_used(result.value);
  for (const Value value : kernel.reduction()->residency.saved) is_used(value);
  // From the results on: what is inlined is written by whoever takes it in, and takes nothing in itself.
  for (std::size_t i = computed_.size(); i-- > 0;) {
    const auto value = static_cast<Value>(i);
    if (!computed_[i] || inlined_[i]) continue;
    const bool sums = is_sum_of_product(value);
    if (sums || is_of_product(value) || scaled(value)) inline_argument(value);
    if (sums && scaled(node_of(value).args[0])) inline_argument(node_of(value).args[0]);
  }
}

void Contraction::inline_argument(Value value) {
  inlined_[static_cast<std::size_t>(chain_.unshaped(node_of(value).args[0]))] = true;
}

// Computed by this pass for one other node.
bool Contraction::is_inner(Value value) const {
  const auto i = static_cast<std::size_t>(chain_.unshaped(value));
  const Scope scope = chain_.role(value).scope;
  return computed_[i] && uses_[i] == 1 && (scope == Scope::element || scope == Scope::written);
}

// The same for a vector, so that what is computed of such numbers alone is computed once for it.
bool Contraction::is_hoisted(Value value) const {
  const Node& node = node_of(value);
  if (chain_.role(value).scope == Scope::row) return true;
  return node.op == Op::input && kernel_.inputs[static_cast<std::size_t>(node.ordinal)].access == Access::row;
}

// A row's number times another may overflow where that of an element does not: an element of 0 would become NaN.
bool Contraction::may_overflow(Value factor, Value other) const {
  const auto size = [&](Value value) { return intervals_->of(chain_.unshaped(value)).size(); };
  return plan::times(size(factor), size(other)) > double{std::numeric_limits<float>::max()};
}

std::optional<Contraction::Scaled> Contraction::scaled(Value value) const {
  const Node& outer = node_of(value);
  if (outer.op != Op::mul || !is_inner(outer.args[0]) || !is_hoisted(outer.args[1])) return {};
  const Node& inner = node_of(outer.args[0]);
  if (inner.op != Op::mul || !chain_.is_per_row(inner.args[1]) || may_overflow(inner.args[1], outer.args[1])) return {};
  return Scaled{inner.args[0], inner.args[1], outer.args[1]};
}

// A quotient by a number of the row is a product with its reciprocal.
bool Contraction::is_product(Value value) const {
  const Node& node = node_of(value);
  return node.op == Op::mul || (node.op == Op::div && chain_.is_per_row(node.args[1]));
}

bool Contraction::is_sum_of_product(Value value) const {
  const Node& node = node_of(value);
  return node.op == Op::add && is_product(node.args[0]) && is_inner(node.args[0]);
}

// A formula that takes its argument's last factor apart.
bool Contraction::is_of_product(Value value) const {
  const Node& node = node_of(value);
  const bool takes_product = node.op == Op::sigmoid && node_of(node.args[0]).op == Op::mul && is_inner(node.args[0]);
  if (!takes_product || scaled(node.args[0])) return false;
  const Value factor = node_of(node.args[0]).args[1];
  const std::string_view formula = chain_.cheaper(value, terms_[static_cast<std::size_t>(value)]);
  return !formula.empty() && (is_small(factor) || (is_hoisted(factor) && formula == "sigmoid_term"));
}

// The same for a vector, and finite times log2(e).
bool Contraction::is_small(Value value) const {
  const Node& node = node_of(value);
  if (node.op == Op::constant) return std::fabs(node.constant) < 0x1p100;
  const bool is_half =
      node.op == Op::input && kernel_.inputs[static_cast<std::size_t>(node.ordinal)].dtype == DType::f16;
  return is_half && is_hoisted(value);
}

std::string Contraction::arguments(std::size_t node) const {
  const auto value = static_cast<Value>(node);
  if (!chain_.arithmetic().cheap_rows || !is_of_product(value)) return {};
  const Node& product = node_of(node_of(value).args[0]);
  return fmt::format("{}, {}", real(product.args[0]), real(product.args[1]));
}

std::string Contraction::text(std::size_t node) const {
  const auto value = static_cast<Value>(node);
  if (!chain_.arithmetic().cheap_rows) return {};
  const bool sums = is_sum_of_product(value);
  const Value product = sums ? node_of(value).args[0] : value;
  std::string first;
  std::string second;
  if (const std::optional<Scaled> found = scaled(product)) {
    first = real(found->element);
    second = fmt::format("({} * {})", real(found->factor), real(found->other));
  } else if (sums) {
    const Node& factors = node_of(product);
    first = real(factors.args[0]);
    second = real(factors.args[1]);
    if (factors.op == Op::div) second = fmt::format("(Real(1) / {})", second);
  } else {
    return {};
  }
  return sums ? fmt::format("::fmaf({}, {}, {})", first, second, real(node_of(value).args[1]))
              : fmt::format("{} * {}", first, second);
}

}  // namespace epifuse::codegen
