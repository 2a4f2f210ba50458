// Builds the table from ops.def once: the signatures are text there, since that is what people read, and are taken
// apart here.
#include "ir/ops.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

#include "base/text.hpp"
#include "host_prelude.hpp"

namespace epifuse::ir {
namespace {

double parse_default(std::string_view text) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (text == "inf") return kInfinity;
  if (text == "-inf") return -kInfinity;
  double value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// "clamp(input, min=-inf, max=inf)" and "rrr"
std::vector<Parameter> parse_parameters(std::string_view signature, std::string_view kinds) {
  const auto open = signature.find('(');
  std::string_view list = signature.substr(open + 1, signature.size() - open - 2);
  std::vector<Parameter> parameters;
  for (const char kind : kinds) {
    const auto comma = std::min(list.find(','), list.size());
    const std::string_view item = base::trim(list.substr(0, comma));
    const auto equals = item.find('=');
    Parameter parameter{item.substr(0, equals), kind == 'b' ? Kind::truth : Kind::real, std::nullopt, kind == 'n'};
    if (equals != item.npos) parameter.default_value = parse_default(item.substr(equals + 1));
    parameters.push_back(parameter);
    list.remove_prefix(std::min(comma + 1, list.size()));
  }
  return parameters;
}

// Parameters of the folding functions: a real as it is, a truth value as != 0.
template <char kind>
auto folded(double value) {
  if constexpr (kind == 'b') {
    return value != 0;
  } else {
    return value;
  }
}
constexpr char kind_at(std::string_view kinds, std::size_t i) { return i < kinds.size() ? kinds[i] : 'r'; }

constexpr Kind kind_of(std::string_view letter) { return letter == "b" ? Kind::truth : Kind::real; }
constexpr TypeRule rule_of(std::string_view letter) { return static_cast<TypeRule>(letter[0]); }

std::vector<OpRow> make_op_table() {
  namespace ops = prelude::ops;
  std::vector<OpRow> table;
#define EPIFUSE_OP(id, signature_, kinds, type_, expression_, cost_, group_, formula_)                          \
  {                                                                                                             \
    constexpr std::string_view kSignature = signature_;                                                         \
    table.push_back(OpRow{Op::id, kSignature.substr(0, kSignature.find('(')), kSignature, #expression_, group_, \
                          formula_, rule_of(#type_), cost_, parse_parameters(signature_, kinds),                \
                          [](double x, double y, double z) -> double {                                          \
                            [[maybe_unused]] const auto a = folded<kind_at(kinds, 0)>(x);                       \
                            [[maybe_unused]] const auto b = folded<kind_at(kinds, 1)>(y);                       \
                            [[maybe_unused]] const auto c = folded<kind_at(kinds, 2)>(z);                       \
                            return static_cast<double>(expression_);                                            \
                          }});                                                                                  \
  }
#include "ir/ops.def"
#undef EPIFUSE_OP
  return table;
}

const std::vector<OpRow>& table() {
  static const auto& rows = *new std::vector<OpRow>(make_op_table());  // leaked: used during static destruction
  return rows;
}

constexpr int kFirst = static_cast<int>(Op::cast) + 1;

}  // namespace

std::span<const OpRow> op_table() { return table(); }

const OpRow& row(Op op) { return table()[static_cast<std::size_t>(static_cast<int>(op) - kFirst)]; }

const OpRow* find_op(std::string_view name) {
  const auto it = std::ranges::find(table(), name, &OpRow::name);
  return it == table().end() ? nullptr : &*it;
}

std::span<const ReductionRow> reduction_table() {
  static constexpr std::array kRows = {
#define EPIFUSE_REDUCTION(id, argument, type, cost, formula) \
  ReductionRow{Op::id, #id, kind_of(#argument), rule_of(#type), cost, formula},
#include "ir/reductions.def"
#undef EPIFUSE_REDUCTION
  };
  return kRows;
}

const ReductionRow& reduction_row(Op op) {
  return reduction_table()[static_cast<std::size_t>(op) - static_cast<std::size_t>(Op::sum)];
}

const ReductionRow* find_reduction(std::string_view name) {
  const auto it = std::ranges::find(reduction_table(), name, &ReductionRow::name);
  return it == reduction_table().end() ? nullptr : &*it;
}

std::string_view name_of(Op op) {
  switch (op) {
    case Op::input:
      return "input";
    case Op::scalar:
      return "scalar";
    case Op::constant:
      return "constant";
    case Op::count:
      return "count";
    case Op::rand_like:
      return "rand_like";
    case Op::cat:
      return "cat";
    case Op::iota:
      return "iota";
    case Op::matmul:
      return "matmul";
    case Op::conv2d:
      return "conv2d";
    case Op::take:
      return "take";
    case Op::index_select:
      return "index_select";
    case Op::gather:
      return "gather";
    case Op::cast:
      return "cast";
    case Op::unflatten:
      return "unflatten";
    case Op::view:
      return "view";
    case Op::flatten:
      return "flatten";
    case Op::along:
      return "along";
    case Op::expand_as:
      return "expand_as";
    case Op::unsqueeze_as:
      return "unsqueeze_as";
    case Op::reshape_as:
      return "reshape_as";
    case Op::repeat_as:
      return "repeat_as";
    case Op::index_copy:
      return "index_copy";
    case Op::scale_tiles:
      return "scale_tiles";
    case Op::block_scaled:
      return "block_scaled";
    default:
      return is_reduction(op) ? reduction_row(op).name : row(op).name;
  }
}

bool is_commutative(Op op) noexcept {
  // minimum and maximum are not: which zero they return may depend on the order.
  return op == Op::add || op == Op::mul || op == Op::eq || op == Op::ne || op == Op::logical_and ||
         op == Op::logical_or || op == Op::logical_xor;
}

}  // namespace epifuse::ir
