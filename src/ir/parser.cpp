// The text language (docs/guide/language.md): one token of look-ahead, precedence climbing, straight into the Builder. Every
// error carries the line and a caret under the column.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/text.hpp"
#include "ir/composites.hpp"
#include "ir/foreign.hpp"
#include "ir/functions.hpp"
#include "ir/lexer.hpp"
#include "ir/program.hpp"
#include "ir/syntax.hpp"

namespace epifuse::ir {
namespace {

// Nothing that people write comes near this; it bounds the stack on hostile text. What the recursion does not need, the sentences of
// errors above all, stands in functions that are not inlined: under the sanitizers every temporary of a frame takes space of its own.
constexpr int kMaxDepth = 1000;
constexpr std::size_t kNowhere = std::string_view::npos;
constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: up to here an f64 holds every integer

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
constexpr std::array<std::string_view, 3> kPairs = {"quantize", "mx_quantize", "var_mean"};

Category category_of_number(const Token& number) {
  return number.text.find_first_of(".eE") == number.text.npos ? Category::integer : Category::floating;
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> scalars) : lexer_(text) {
    for (const std::string& name : scalars) define_scalar(name);
    lexer_.advance();
  }

  Program parse() {
    while (!returned_ && token().kind != TokenKind::end) statement();
    if (token().kind != TokenKind::end) lexer_.error("nothing may follow 'return'");
    if (!returned_) lexer_.error("the chain has no result: end it with an expression or 'return'");
    return std::move(builder_).finish();
  }

 private:
  const Token& token() const noexcept { return lexer_.token(); }
  std::string found() const { return shown(token()); }

  // Runs what may throw without a place, and adds the place.
  template <class Action>
  auto located(std::size_t at, Action action) -> decltype(action()) {
    try {
      return action();
    } catch (const Error& problem) {
      lexer_.error_at(at, problem.what());
    }
  }

  // ---- statements

  void statement() {
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

  void declaration() {
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
        }
      });
      lexer_.advance();
    } while (lexer_.accept(","));
    end_of_statement();
  }

  void define_scalar(std::string_view name) { scalars_.insert_or_assign(std::string(name), builder_.scalar(name)); }

  void assignment(const Token& name) {
    lexer_.advance();
    located(name.at, [&] { check_name(name.text); });
    define(name, expression());
    end_of_statement();
  }

  void define(const Token& name, Value value) {
    located(name.at, [&] { check_name(name.text); });
    if (operands_.contains(name.text) || scalars_.contains(name.text)) {
      lexer_.error_at(name.at,
                      fmt::format("'{}' already names an operand; choose another name for this value", name.text));
    }
    variables_.insert_or_assign(std::string(name.text), value);
  }

  // `a, b = chunk(x, 2)` or `q, s = quantize(x, f8e4m3)`: false, and nowhere else than before, where this is no such statement.
  [[gnu::noinline]] bool several(const Token& first) {
    std::vector<Token> names = {first};
    while (lexer_.accept(",")) {
      if (token().kind != TokenKind::name || is_reserved(token().text)) return false;
      names.push_back(token());
      lexer_.advance();
    }
    if (!lexer_.accept("=")) return false;
    const Token function = token();
    const bool is_chunk = function.text == "chunk";
    const bool gives_several = is_chunk || std::ranges::find(kPairs, function.text) != kPairs.end();
    if (gives_several) lexer_.advance();
    if (!gives_several || !lexer_.is("("))
      lexer_.error_at(function.at,
                      "several names stand for what 'chunk' gives, as in 'a, b = chunk(x, 2)', or 'quantize'");
    Call call = read_call(function);
    const double pieces = !is_chunk           ? 2.0
                          : call.arguments[1] ? call.arguments[1]->number
                                              : static_cast<double>(names.size());
    if (pieces != static_cast<double>(names.size()))
      lexer_.error_at(first.at, fmt::format("{} names stand for the {} {} that '{}' gives", names.size(), pieces,
                                            is_chunk ? "pieces" : "values", function.text));
    for (std::size_t i = 0; i < names.size(); ++i) {
      call.arguments.back() = Argument{.number = static_cast<double>(i)};
      define(names[i], finish(call));
    }
    end_of_statement();
    return true;
  }

  // `return a, b` or the final expression. A result that is a bare variable carries its name.
  void results() {
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

  void end_of_statement() {
    if (token().kind != TokenKind::end) lexer_.expect(";", "between statements");
  }

  // ---- expressions

  Value expression(int minimum = 0) {
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

  [[gnu::noinline]] Value apply(std::size_t at, Op op, Value left, Value right = kNone) {
    return located(at, [&] {
      return op == Op::matmul ? builder_.matmul(left, right) : builder_.apply(op, {left, right, kNone});
    });
  }

  [[noreturn, gnu::noinline]] void too_deep() const {
    lexer_.error(fmt::format("the expression is nested more than {} deep", kMaxDepth));
  }

  const InfixRow* infix_here() const {
    const bool may_be = token().kind == TokenKind::symbol || token().kind == TokenKind::name;
    return may_be ? find_infix(token().text) : nullptr;
  }

  [[gnu::noinline]] void refuse_second_comparison() const {
    const InfixRow* next = infix_here();
    if (next != nullptr && next->precedence == kComparison)
      lexer_.error("comparisons do not chain: write 'a < b and b < c'");
  }

  Value prefix(int minimum) {
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

  [[noreturn, gnu::noinline]] void misplaced_not() const { lexer_.error("put 'not …' in parentheses here"); }

  Value primary() {
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
    if (const auto it = std::ranges::find(kNamedConstants, first.text, &NamedConstant::name);
        it != kNamedConstants.end())
      return builder_.constant(it->value, it->category);
    if (lexer_.is("(")) return call(first);
    return named_value(first);
  }

  [[noreturn, gnu::noinline]] void no_value() const {
    lexer_.error(fmt::format("expected a value, found {}", found()));
  }

  void consume() {
    last_end_ = token().end;
    lexer_.advance();
  }

  void close(std::string_view why, std::string_view symbol = ")") {
    last_end_ = token().end;
    lexer_.expect(symbol, why);
  }

  [[gnu::noinline]] Value named_value(const Token& name) {
    if (const auto it = variables_.find(name.text); it != variables_.end()) return it->second;
    if (const auto it = scalars_.find(name.text); it != scalars_.end()) return it->second;
    const Value value = located(name.at, [&] { return builder_.input(name.text); });
    operands_.emplace(name.text);
    return value;
  }

  // ---- brackets

  [[gnu::noinline]] Value indexed(Value value) {
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

  Index index_item() {
    if (lexer_.accept("...")) return {.kind = Index::Kind::rest};
    if (lexer_.accept("None") || lexer_.accept("none")) return {.kind = Index::Kind::added};
    const std::optional<std::int64_t> start = index_number();
    if (!lexer_.is(":") && start) return {.kind = Index::Kind::at, .start = *start};
    Index item{.start = start.value_or(Index::kOpen)};
    if (!lexer_.accept(":"))
      lexer_.error(fmt::format("an index is an integer that the text gives, a slice as 2:8:2, '...' or None; found {}",
                               found()));
    item.stop = index_number().value_or(Index::kOpen);
    if (lexer_.accept(":")) item.step = index_number().value_or(1);
    return item;
  }

  std::optional<std::int64_t> index_number() {
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

  // ---- calls

  // A call that is being read.
  struct Call {
    const Function& function;
    const Token& name;
    std::vector<std::optional<Argument>> arguments;  // by parameter
    std::size_t count = 0;                           // as written
    bool keywords = false;                           // there was one
    std::size_t extra = kNowhere;                    // where the first argument too many starts
  };

  Value call(const Token& name) {
    Call call = read_call(name);
    if (!call.function.parameters.empty() && call.function.parameters.back().in_brackets) pick(call);
    return finish(call);
  }

  Call read_call(const Token& name) {
    const Function* function = find_function(name.text);
    if (function == nullptr) unknown_function(name);
    lexer_.advance();
    Call call{*function, name, std::vector<std::optional<Argument>>(function->parameters.size())};
    while (!lexer_.is(")")) {
      if (call.count > 0 && !lexer_.accept(",")) no_comma(call);
      argument(call);
    }
    close("to close the call");
    return call;
  }

  // Of a call that gives several values, which one: `chunk(x, 2)[0]`.
  [[gnu::noinline]] void pick(Call& call) {
    const std::string_view name = call.function.name;
    if (!lexer_.accept("["))
      lexer_.error(fmt::format("'{}' gives several values: write which one, as '{}(…)[0]'", name, name));
    const std::size_t at = token().at;
    const std::optional<std::int64_t> index = index_number();
    if (!index)
      lexer_.error_at(at, fmt::format("the number of what '{}' gives is an integer, as '{}(…)[0]'", name, name));
    close("behind the number", "]");
    call.arguments.back() = Argument{.number = static_cast<double>(*index)};
  }

  void argument(Call& call) {
    const Token first = token();
    const std::string_view keyword = keyword_here();
    const std::size_t position = keyword.empty() ? call.count : call.function.position(keyword);
    ++call.count;
    check_place(call, first, keyword, position);
    if (keyword.empty() && call.extra != kNowhere) {
      expression();  // one too many: finish() refuses it, with the number of all
    } else {
      call.arguments[position] = typed(call.function, call.function.parameters[position]);
    }
  }

  [[gnu::noinline]] void check_place(Call& call, const Token& first, std::string_view keyword,
                                     std::size_t position) const {
    const auto& parameters = call.function.parameters;
    if (keyword.empty() && call.keywords) lexer_.error("a positional argument cannot follow a keyword argument");
    if (keyword.empty() && (position >= parameters.size() || parameters[position].keyword_only)) {
      if (call.extra == kNowhere) call.extra = first.at;
      return;
    }
    call.keywords = !keyword.empty();
    if (position == parameters.size() || parameters[position].in_brackets)
      refuse(first.at, call, fmt::format("has no argument '{}'", keyword));
    if (call.arguments[position]) {
      lexer_.error_at(first.at,
                      fmt::format("'{}' of '{}' is given twice", parameters[position].name, call.function.name));
    }
  }

  [[noreturn, gnu::noinline]] void no_comma(const Call& call) const {
    lexer_.error(fmt::format("expected ',' or ')' in the call of '{}', found {}", call.function.name, found()));
  }

  [[gnu::noinline]] Value finish(const Call& call) {
    const auto& parameters = call.function.parameters;
    if (call.extra != kNowhere) {
      const auto places = std::ranges::count(parameters, false, &FunctionParameter::keyword_only);
      const bool all = static_cast<std::size_t>(places) == parameters.size();
      refuse(call.extra, call,
             fmt::format("takes {} {}argument{}, found {}", places, all ? "" : "positional ", places == 1 ? "" : "s",
                         call.count));
    }
    std::vector<Argument> arguments;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (!call.arguments[i] && !parameters[i].default_text)
        refuse(call.name.at, call, fmt::format("lacks its argument '{}'", parameters[i].name));
      arguments.push_back(call.arguments[i] ? *call.arguments[i] : parameters[i].default_argument(builder_));
    }
    const Builder::Written as(builder_, call.function.name);
    return located(call.name.at, [&] { return call.function.build(builder_, arguments); });
  }

  [[noreturn]] void refuse(std::size_t at, const Call& call, const std::string& why) const {
    lexer_.error_at(at, fmt::format("'{}' {}: {}", call.function.name, why, call.function.signature));
  }

  // Consumes `name =` if that stands here.
  std::string_view keyword_here() {
    const Token first = token();
    if (first.kind != TokenKind::name) return {};
    lexer_.advance();
    if (lexer_.accept("=")) return first.text;
    lexer_.rewind(first);
    return {};
  }

  // ---- arguments, by type

  Argument typed(const Function& function, const FunctionParameter& parameter) {
    using Reader = Argument (Parser::*)(const Function&, const FunctionParameter&);
    static constexpr std::array<Reader, 12> kReaders = {
        &Parser::value_argument, &Parser::optional_argument, &Parser::number_argument, &Parser::whole_argument,
        &Parser::axes_argument,  &Parser::flag_argument,     &Parser::sizes_argument,  &Parser::dtype_argument,
        &Parser::word_argument,  &Parser::value_argument,    &Parser::list_argument,   &Parser::values_argument};
    return (this->*kReaders[static_cast<std::size_t>(parameter.type)])(function, parameter);
  }

  [[noreturn]] void mistyped(const Token& at, const Function& function, const FunctionParameter& parameter,
                             std::string_view expected) const {
    lexer_.error_at(at.at,
                    fmt::format("'{}' of '{}' is {}, found {}", parameter.name, function.name, expected, shown(at)));
  }

  Argument value_argument(const Function&, const FunctionParameter&) { return {.value = expression()}; }

  Argument optional_argument(const Function&, const FunctionParameter&) {
    return accept_none() ? Argument() : Argument{.value = expression()};
  }

  // `none` is no word of the language: an operand may be called so, and is then written `(none)` here.
  bool accept_none() {
    const Token first = token();
    if (!lexer_.accept("none")) return false;
    if (lexer_.is(",") || lexer_.is(")")) return true;
    lexer_.rewind(first);
    return false;
  }

  // What the text alone gives: the result of constants is a constant.
  double number(const Function& function, const FunctionParameter& parameter, std::string_view expected) {
    const Token first = token();
    const Node& node = builder_.node(expression());
    if (node.op != Op::constant) mistyped(first, function, parameter, expected);
    return node.constant;
  }

  double whole(const Function& function, const FunctionParameter& parameter, std::string_view expected) {
    const Token first = token();
    const double value = number(function, parameter, expected);
    if (value != std::trunc(value) || std::abs(value) > kLargestWhole)  // of NaN and infinities one is true
      lexer_.error_at(first.at, fmt::format("'{}' of '{}' is {}, found {}", parameter.name, function.name, expected,
                                            print_number(value)));
    return value;
  }

  Argument number_argument(const Function& function, const FunctionParameter& parameter) {
    return {.number = number(function, parameter, "a number that the text gives")};
  }

  Argument whole_argument(const Function& function, const FunctionParameter& parameter) {
    return {.number = whole(function, parameter, "an integer that the text gives")};
  }

  Argument axes_argument(const Function& function, const FunctionParameter& parameter) {
    constexpr std::string_view kExpected = "an integer, a list of them as (1, 2), or (2, ...) for all from there on";
    if (accept_none()) return {};
    refuse_brackets();
    const std::size_t at = token().at;
    std::vector<std::int64_t> axes;
    bool rest = false;
    const auto next = [&] { axes.push_back(static_cast<std::int64_t>(whole(function, parameter, kExpected))); };
    if (!lexer_.accept("(")) {
      next();
    } else {
      do {
        if (!axes.empty() && lexer_.is(")")) break;  // (1,) as Python writes a list of one
        rest = !axes.empty() && lexer_.accept("...");
        if (!rest) next();
      } while (!rest && lexer_.accept(","));
      lexer_.expect(")", "to close the list of axes");
    }
    return {.axes = checked(at, function, axes, rest)};
  }

  [[gnu::noinline]] Axes checked(std::size_t at, const Function& function, std::span<const std::int64_t> axes,
                                 bool rest) {
    return located(at, [&] { return axes_of(function.name, axes, rest); });
  }

  Argument flag_argument(const Function& function, const FunctionParameter& parameter) {
    const Token first = token();
    const bool known = first.kind == TokenKind::name && (first.text == "true" || first.text == "false");
    if (!known) mistyped(first, function, parameter, "true or false");
    lexer_.advance();
    return {.number = first.text == "true" ? 1.0 : 0.0};
  }

  Argument sizes_argument(const Function& function, const FunctionParameter& parameter) {
    constexpr std::string_view kExpected = "two integers as (8, -1)";
    Argument argument;
    refuse_brackets();
    if (!lexer_.accept("(")) mistyped(token(), function, parameter, kExpected);
    argument.sizes[0] = static_cast<std::int64_t>(whole(function, parameter, kExpected));
    lexer_.expect(",", "between the two sizes");
    argument.sizes[1] = static_cast<std::int64_t>(whole(function, parameter, kExpected));
    lexer_.expect(")", "to close the two sizes");
    return argument;
  }

  Argument list_argument(const Function& function, const FunctionParameter& parameter) {
    constexpr std::string_view kExpected = "a list of integers as (2, -1)";
    Argument argument;
    if (parameter.default_text == "none" && accept_none()) return argument;
    const auto next = [&] {
      argument.list.push_back(static_cast<std::int64_t>(whole(function, parameter, kExpected)));
    };
    refuse_brackets();
    if (!lexer_.accept("(")) {
      next();
      return argument;
    }
    while (!lexer_.is(")")) {
      next();
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect(")", "to close the list");
    return argument;
  }

  Argument values_argument(const Function& function, const FunctionParameter& parameter) {
    Argument argument;
    refuse_brackets();
    if (!lexer_.accept("(")) mistyped(token(), function, parameter, "a list of values as (x, y)");
    while (!lexer_.is(")")) {
      argument.values.push_back(expression());
      if (!lexer_.accept(",")) break;
    }
    lexer_.expect(")", "to close the list of values");
    return argument;
  }

  void refuse_brackets() const {
    if (lexer_.is("[")) lexer_.error("write '(1, 2)' for a list");
  }

  Argument dtype_argument(const Function& function, const FunctionParameter& parameter) {
    const Token first = token();
    const bool word = first.kind == TokenKind::name || first.kind == TokenKind::text;
    const auto type = word ? parse_dtype(first.text) : std::nullopt;
    if (!type) {
      std::vector<std::string_view> names;
      names.reserve(kAllDTypes.size());
      for (const DType known : kAllDTypes) names.push_back(to_string(known));
      mistyped(first, function, parameter, fmt::format("a type ({})", fmt::join(names, ", ")));
    }
    lexer_.advance();
    return {.dtype = *type};
  }

  // Which words there are, the function knows.
  Argument word_argument(const Function& function, const FunctionParameter& parameter) {
    const Token first = token();
    if (first.kind != TokenKind::text) mistyped(first, function, parameter, "a text in quotes");
    lexer_.advance();
    return {.word = first.text};
  }

  [[noreturn, gnu::noinline]] void unknown_function(const Token& name) {
    std::vector<std::string_view> names;
    for (const Function& function : function_table()) names.push_back(function.name);
    std::string what_to_do = "`epifuse ops` lists all";
    if (const auto advice = advice_for(name.text, foreign_call())) {
      what_to_do = *advice;
    } else if (const auto suggestion = base::nearest(name.text, names)) {
      what_to_do = fmt::format("did you mean '{}'?", *suggestion);
    }
    lexer_.error_at(name.at, fmt::format("unknown function '{}'; {}", name.text.substr(0, kMaxNameLength), what_to_do));
  }

  // Counts the arguments of the call that begins here, which need not be right. Ends somewhere: an error follows.
  ForeignCall foreign_call() {
    ForeignCall call;
    int depth = 0;
    std::size_t commas = 0;
    const auto read = [&] {
      const Token before = token();
      if (before.text == "(") ++depth;
      if (before.text == ")") --depth;
      if (depth == 1 && before.text == ",") ++commas;
      lexer_.advance();
      const bool is_keyword = depth == 1 && before.kind == TokenKind::name && lexer_.is("=");
      if (is_keyword && (before.text == "axis" || before.text == "dim" || before.text == "keepdim"))
        call.has_axis = true;
    };
    try {
      do read();
      while (depth > 0 && token().kind != TokenKind::end);
    } catch (const Error&) {  // what follows is no token; the name before it is the error to tell
    }
    call.arguments = commas + 1;
    return call;
  }

  Lexer lexer_;
  std::size_t last_end_ = 0;  // behind the last primary
  int depth_ = 0;
  bool returned_ = false;
  Builder builder_;
  std::map<std::string, Value, std::less<>> variables_;
  std::map<std::string, Value, std::less<>> scalars_;
  std::set<std::string, std::less<>> operands_;  // inputs that the text has used
};

}  // namespace

Program parse(std::string_view text, std::span<const std::string> scalars) { return Parser(text, scalars).parse(); }

}  // namespace epifuse::ir
