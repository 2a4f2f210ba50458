// Statements, expressions and indices in brackets of the text language; parser.hpp says how it is read.
#include "ir/parser.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace epifuse::ir {
namespace {

constexpr int kMaxDepth = 1000;  // nothing that people write comes near this

struct NamedConstant {
  std::string_view name;
  double value;
  Category category;
};
constexpr std::array kNamedConstants = {
    NamedConstant{"inf", std::numeric_limits<double>::infinity(), Category::floating},
    NamedConstant{"nan", std::numeric_limits<double>::quiet_NaN(), Category::floating},
    NamedConstant{"true", 1, Category::truth},
    NamedConstant{"false", 0, Category::truth},
};

// Functions that give two values, which two names may stand for.
constexpr std::array<std::string_view, 4> kPairs = {"quantize", "mx_quantize", "nv_quantize", "var_mean"};

Category category_of_number(const Token& number) {
  return number.text.find_first_of(".eE") == number.text.npos ? Category::integer : Category::floating;
}

}  // namespace

Parser::Parser(std::string_view text, std::span<const std::string> scalars) : lexer_(text) {
  for (const std::string& name : scalars) define_scalar(name);
  lexer_.advance();
}

Program Parser::parse() {
  while (!returned_ && token().kind != TokenKind::end) statement();
  if (token().kind != TokenKind::end) lexer_.error("nothing may follow 'return'");
  if (!returned_) lexer_.error("the chain has no result: end it with an expression or 'return'");
  return std::move(builder_).finish();
}

bool Parser::states(const std::vector<std::string>& order) const {
  return declared_.size() + 1 >= order.size() && declared_.size() <= order.size() &&
         std::ranges::equal(declared_, std::span(order).first(declared_.size()));
}

// ---- statements

void Parser::statement() {
  if (lexer_.accept(";")) return;
  if (lexer_.is("input") || lexer_.is("scalar")) return declaration();
  if (lexer_.accept("return")) return results();
  const Token first = token();
  if (first.kind == TokenKind::name && !is_reserved(first.text)) {
    lexer_.advance();
    if (lexer_.is("=")) return assignment(first);
    if (lexer_.is(",") && several(first)) return;
    lexer_.rewind(first);
  }
  results();
}

void Parser::declaration() {
  const bool scalar = lexer_.is("scalar");
  lexer_.advance();
  do {
    const Token name = token();
    if (name.kind != TokenKind::name) lexer_.error(fmt::format("expected the name of an operand, found {}", found()));
    if (variables_.contains(name.text)) {
      lexer_.error(fmt::format("'{}' already names a value; choose another name for this operand", name.text));
    }
    located(name.at, [&] {
      if (scalar) {
        define_scalar(name.text);
      } else {
        builder_.input(name.text);
        operands_.emplace(name.text);
        if (std::ranges::find(declared_, name.text) == declared_.end()) declared_.emplace_back(name.text);
      }
    });
    lexer_.advance();
  } while (lexer_.accept(","));
  end_of_statement();
}

void Parser::define_scalar(std::string_view name) {
  scalars_.insert_or_assign(std::string(name), builder_.scalar(name));
}

void Parser::assignment(const Token& name) {
  lexer_.advance();
  located(name.at, [&] { check_name(name.text); });
  define(name, expression());
  end_of_statement();
}

void Parser::define(const Token& name, Value value) {
  located(name.at, [&] { check_name(name.text); });
  if (operands_.contains(name.text) || scalars_.contains(name.text)) {
    lexer_.error_at(name.at,
                    fmt::format("'{}' already names an operand; choose another name for this value", name.text));
  }
  variables_.insert_or_assign(std::string(name.text), value);
}

// How many 'chunk' gives, or 'split' into a list of sizes. Pieces of one size are as many as the tensor has, and
// the first are named.
double Parser::pieces_of(const Call& call, std::size_t names) {
  const auto& given = call.arguments[1];
  if (!given) return static_cast<double>(names);
  if (call.function.name == "chunk") return given->number;
  return static_cast<double>(given->list.size() == 1 ? names : given->list.size());
}

bool Parser::several(const Token& first) {
  std::vector<Token> names = {first};
  while (lexer_.accept(",")) {
    if (token().kind != TokenKind::name || is_reserved(token().text)) return false;
    names.push_back(token());
    lexer_.advance();
  }
  if (!lexer_.accept("=")) return false;
  const Token function = token();
  const bool is_chunk = function.text == "chunk";
  const bool is_split = function.text == "split";
  const bool gives_several = is_chunk || is_split || std::ranges::find(kPairs, function.text) != kPairs.end();
  if (gives_several) lexer_.advance();
  if (!gives_several || !lexer_.is("("))
    lexer_.error_at(function.at,
                    "several names stand for what 'chunk' gives, as in 'a, b = chunk(x, 2)', or 'split' or 'quantize'");
  Call call = read_call(function);
  const double pieces = is_chunk || is_split ? pieces_of(call, names.size()) : 2.0;
  if (pieces != static_cast<double>(names.size()))
    lexer_.error_at(first.at, fmt::format("{} names stand for the {} {} that '{}' gives", names.size(), pieces,
                                          is_chunk || is_split ? "pieces" : "values", function.text));
  for (std::size_t i = 0; i < names.size(); ++i) {
    call.arguments.back() = Argument{.number = static_cast<double>(i)};
    define(names[i], finish(call));
  }
  end_of_statement();
  return true;
}

void Parser::results() {
  do {
    const Token first = token();
    const Value value = expression();
    const bool bare = first.kind == TokenKind::name && first.end == last_end_ && variables_.contains(first.text);
    builder_.result(bare ? first.text : std::string_view(), value);
  } while (lexer_.accept(","));
  returned_ = true;
  end_of_statement();
  while (lexer_.accept(";")) {
  }
}

void Parser::end_of_statement() {
  if (token().kind != TokenKind::end) lexer_.expect(";", "between statements");
}

// ---- expressions

Value Parser::expression(int minimum) {
  if (++depth_ > kMaxDepth) too_deep();
  Value left = prefix(minimum);
  while (true) {
    const InfixRow* infix = infix_here();
    if (infix == nullptr || infix->precedence < minimum) break;
    const std::size_t at = token().at;
    lexer_.advance();
    const Value right = expression(infix->right_minimum);
    left = apply(at, infix->op, left, right);
    if (infix->precedence == kComparison) refuse_second_comparison();
  }
  --depth_;
  return left;
}

Value Parser::apply(std::size_t at, Op op, Value left, Value right) {
  return located(at, [&] {
    return op == Op::matmul ? builder_.matmul(left, right) : builder_.apply(op, {left, right, kNone});
  });
}

void Parser::too_deep() const { lexer_.error(fmt::format("the expression is nested more than {} deep", kMaxDepth)); }

const InfixRow* Parser::infix_here() const {
  const bool may_be = token().kind == TokenKind::symbol || token().kind == TokenKind::name;
  return may_be ? find_infix(token().text) : nullptr;
}

void Parser::refuse_second_comparison() const {
  const InfixRow* next = infix_here();
  if (next != nullptr && next->precedence == kComparison)
    lexer_.error("comparisons do not chain: write 'a < b and b < c'");
}

Value Parser::prefix(int minimum) {
  const std::size_t at = token().at;
  if (lexer_.accept("-")) {
    const Value value = expression(kUnary);
    return apply(at, Op::neg, value);
  }
  if (lexer_.accept("+")) return expression(kUnary);
  if (lexer_.is("not") && minimum > kNot) misplaced_not();
  if (lexer_.accept("not")) {
    const Value value = expression(kNot);
    return apply(at, Op::logical_not, value);
  }
  Value value = primary();
  while (lexer_.is("[")) value = indexed(value);
  return value;
}

void Parser::misplaced_not() const { lexer_.error("put 'not …' in parentheses here"); }

Value Parser::primary() {
  if (lexer_.accept("(")) {
    const Value value = expression();
    close("to close the parenthesis");
    return value;
  }
  const Token first = token();
  if (first.kind == TokenKind::number) {
    consume();
    return builder_.constant(first.number, category_of_number(first));
  }
  if (first.kind != TokenKind::name) no_value();
  consume();
  if (const auto it = std::ranges::find(kNamedConstants, first.text, &NamedConstant::name); it != kNamedConstants.end())
    return builder_.constant(it->value, it->category);
  if (lexer_.is("(")) return call(first);
  return named_value(first);
}

void Parser::no_value() const { lexer_.error(fmt::format("expected a value, found {}", found())); }

void Parser::consume() {
  last_end_ = token().end;
  lexer_.advance();
}

void Parser::close(std::string_view why, std::string_view symbol) {
  last_end_ = token().end;
  lexer_.expect(symbol, why);
}

Value Parser::named_value(const Token& name) {
  if (const auto it = variables_.find(name.text); it != variables_.end()) return it->second;
  if (const auto it = scalars_.find(name.text); it != scalars_.end()) return it->second;
  const Value value = located(name.at, [&] { return builder_.input(name.text); });
  operands_.emplace(name.text);
  return value;
}

// ---- brackets

Value Parser::indexed(Value value) {
  const std::size_t at = token().at;
  lexer_.advance();
  std::vector<Index> items;
  while (!lexer_.is("]")) {
    items.push_back(index_item());
    if (!lexer_.accept(",") && !lexer_.is("]"))
      lexer_.error(fmt::format("expected ',' or ']' in the index, found {}", found()));
  }
  close("to close the index", "]");
  return located(at, [&] { return builder_.view(value, index_view(std::move(items))); });
}

Index Parser::index_item() {
  if (lexer_.accept("...")) return {.kind = Index::Kind::rest};
  if (lexer_.accept("None") || lexer_.accept("none")) return {.kind = Index::Kind::added};
  const std::optional<std::int64_t> start = index_number();
  if (!lexer_.is(":") && start) return {.kind = Index::Kind::at, .start = *start};
  Index item{.start = start.value_or(Index::kOpen)};
  if (!lexer_.accept(":"))
    lexer_.error(
        fmt::format("an index is an integer that the text gives, a slice as 2:8:2, '...' or None; found {}", found()));
  item.stop = index_number().value_or(Index::kOpen);
  if (lexer_.accept(":")) item.step = index_number().value_or(1);
  return item;
}

std::optional<std::int64_t> Parser::index_number() {
  const bool negative = lexer_.accept("-");
  if (token().kind != TokenKind::number) {
    if (negative) lexer_.error(fmt::format("expected an integer behind '-', found {}", found()));
    return std::nullopt;
  }
  const double value = token().number;
  if (value != std::trunc(value) || value > kLargestWhole)
    lexer_.error(fmt::format("an index is an integer, found {}", found()));
  lexer_.advance();
  return static_cast<std::int64_t>(negative ? -value : value);
}

Program parse(std::string_view text, std::span<const std::string> scalars) { return Parser(text, scalars).parse(); }

}  // namespace epifuse::ir
