// Derivatives are text: each row is parsed once, as a chain over a, b, c, y and g, and copied into the chain that needs
// it.
#include "ir/derivatives.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "ir/result_types.hpp"

namespace epifuse::ir {
namespace {

struct DerivativeRow {
  Op op;
  std::string_view gradients;
};

constexpr std::array kDerivatives = {
#define EPIFUSE_DERIVATIVE(id, gradients) DerivativeRow{Op::id, gradients},
#include "ir/derivatives.def"
#undef EPIFUSE_DERIVATIVE
};
constexpr std::array kOperations = {
#define EPIFUSE_OP(id, ...) Op::id,
#include "ir/ops.def"
#undef EPIFUSE_OP
};

constexpr bool every_operation_has_a_row() {
  if (kDerivatives.size() != kOperations.size()) return false;
  for (std::size_t i = 0; i < kDerivatives.size(); ++i) {
    if (kDerivatives[i].op != kOperations[i]) return false;
  }
  return true;
}
static_assert(every_operation_has_a_row(), "derivatives.def has a row for each of ops.def, in the same order");

// One argument's.
struct Formula {
  Slope slope = Slope::stops;
  std::optional<Program> program;  // of `stated`
};

// "t = tanh(a); g * t; none": statements that begin with `name =` belong to all formulas behind them.
std::vector<Formula> parse_derivatives(std::string_view text) {
  std::vector<Formula> formulas;
  std::string statements;
  while (!text.empty()) {
    const auto end = std::min(text.find(';'), text.size());
    const std::string_view item = base::trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool is_statement = item.size() > 2 && item.substr(1, 3) == " = ";
    if (is_statement) {
      statements += std::string(item) + "; ";
    } else if (item == "none") {
      formulas.push_back({});
    } else if (item == "0") {
      formulas.push_back({Slope::zero, std::nullopt});
    } else {
      formulas.push_back({Slope::stated, parse(statements + std::string(item), {})});
    }
  }
  return formulas;
}

const Formula& formula(Op op, std::size_t argument) {
  // Leaked: used during static destruction.
  static const auto& table = *[] {
    auto* const all = new std::vector<std::vector<Formula>>();
    for (const DerivativeRow& row : kDerivatives) all->push_back(parse_derivatives(row.gradients));
    return all;
  }();
  const auto at = static_cast<std::size_t>(std::ranges::find(kOperations, op) - kOperations.begin());
  return table.at(at).at(argument);
}

}  // namespace

Slope slope_of(Op op, std::size_t argument) { return formula(op, argument).slope; }

Value rebuilt(Builder& builder, const Node& node, const std::array<Value, kMaxArity>& args, std::string_view name,
              const View* view) {
  const Builder::Written as(builder, node.written);
  switch (node.op) {
    case Op::input:
      return builder.input(name);
    case Op::scalar:
      return builder.scalar(name);
    case Op::constant:
      return builder.constant(node.constant, category_of(node.dtype));
    case Op::count:
      return builder.count(args[0], node.shaping.axes);
    case Op::rand_like:
      return builder.rand_like(args[0], args[1], args[2]);
    case Op::cat:
      return builder.cat(args[0], args[1], node.shaping.axes.at[0]);
    case Op::matmul:
      return builder.matmul(args[0], args[1], node.constant != 0);
    case Op::block_scaled:
      return builder.block_scaled(args[0], args[1]);
    case Op::conv2d:
      return builder.conv2d(args[0], args[1], node.shaping.windows);
    case Op::take:
    case Op::index_select:
    case Op::gather:
      return builder.indexed(node.op, args[0], args[1], node.shaping.axes.at[0]);
    case Op::index_copy:
      return builder.index_copy(args[0], node.shaping.axes.at[0], args[1], args[2]);
    case Op::scale_tiles:
      return builder.scale_tiles(args[0]);
    case Op::iota:
      return builder.iota(args[0], node.shaping.axes.at[0]);
    case Op::cast:
      return builder.cast(args[0], node.dtype);
    case Op::unflatten:
      return builder.unflatten(args[0], node.shaping.axes.at[0], node.shaping.sizes);
    case Op::flatten:
      return builder.flatten(args[0], static_cast<int>(node.shaping.sizes[0]), static_cast<int>(node.shaping.sizes[1]));
    case Op::along:
      return builder.along(args[0], args[1], node.shaping.axes.at[0]);
    case Op::unsqueeze_as:
      return builder.unsqueeze_as(args[0], args[1], node.shaping.axes);
    case Op::repeat_as:
      return builder.repeat_as(args[0], args[1], node.shaping.axes.at[0], node.shaping.sizes[0], node.shaping.sizes[1]);
    case Op::reshape_as:
      return builder.reshape_as(args[0], args[1]);
    case Op::expand_as:
      return builder.expand_as(args[0], args[1]);
    case Op::view:
      return builder.view(args[0], *view);
    default:
      if (!is_reduction(node.op)) return builder.apply(node.op, args);
      if (node.arity() == 2) return builder.sum_to(args[0], args[1]);
      if (is_extreme(node.op)) {
        return builder.extreme(node.op, args[0], node.shaping.axes, node.shaping.keepdim,
                               static_cast<Ties>(node.constant));
      }
      return builder.reduce(node.op, args[0], node.shaping.axes, node.shaping.keepdim, node.constant);
  }
}

Value derivative(Builder& builder, Op op, std::size_t argument, const std::array<Value, kMaxArity>& args, Value y,
                 Value g) {
  const Program& program = *formula(op, argument).program;
  std::vector<Value> values;
  for (const Node& node : program.nodes()) {
    if (node.op == Op::input) {
      const char name = program.inputs()[static_cast<std::size_t>(node.ordinal)][0];
      values.push_back(name == 'g' ? g : name == 'y' ? y : args[static_cast<std::size_t>(name - 'a')]);
      continue;
    }
    std::array<Value, kMaxArity> copied = {kNone, kNone, kNone};
    for (int k = 0; k < node.arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      copied[at] = values[static_cast<std::size_t>(node.args[at])];
    }
    values.push_back(rebuilt(builder, node, copied, {}, nullptr));
  }
  return values[static_cast<std::size_t>(program.results()[0].value)];
}

}  // namespace epifuse::ir
