// The text language (docs/language.md): one token of look-ahead, precedence climbing, straight into the Builder. Every error
// carries the line and a caret under the column.
#include <algorithm>
#include <charconv>
#include <map>
#include <vector>

#include "base/text.hpp"
#include "ir/program.hpp"
#include "ir/syntax.hpp"

namespace epifuse::ir {
namespace {

// Nothing that people write comes near these; they bound time and stack on hostile text.
constexpr std::size_t kMaxText = 1 << 20;
constexpr int kMaxDepth = 1000;

enum class TokenKind { end, number, name, text, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;
  std::size_t at = 0;
  double number = 0;
};

class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> scalars) : text_(text) {
    if (text.size() > kMaxText) {
      base::fail(ErrorCode::invalid_expression, "the chain's text has {} bytes; at most {} are read", text.size(),
                 kMaxText);
    }
    for (const std::string& name : scalars) define_scalar(name);
    advance();
  }

  Program parse() {
    while (!returned_ && token_.kind != TokenKind::end) statement();
    if (token_.kind != TokenKind::end) error("nothing may follow 'return'");
    if (!returned_) error("the chain has no result: end it with an expression or 'return'");
    return std::move(builder_).finish();
  }

 private:
  // ---- tokens

  void advance() {
    while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#')) {
      if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        ++at_;
      }
    }
    token_ = Token{TokenKind::end, text_.substr(at_, 0), at_, 0};
    if (at_ == text_.size()) return;
    const char c = text_[at_];
    if (is_letter(c)) {
      take_while(TokenKind::name, [](char d) { return is_letter(d) || is_digit(d); });
    } else if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) {
      take_number();
    } else if (c == '"' || c == '\'') {
      take_string(c);
    } else {
      take_symbol();
    }
  }

  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

  void take(TokenKind kind, std::size_t size) {
    token_ = Token{kind, text_.substr(at_, size), at_, 0};
    at_ += size;
  }
  template <class Predicate>
  void take_while(TokenKind kind, Predicate predicate) {
    std::size_t end = at_;
    while (end < text_.size() && predicate(text_[end])) ++end;
    take(kind, end - at_);
  }
  void take_number() {
    double value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    const auto size = static_cast<std::size_t>(end - (text_.data() + at_));
    take(TokenKind::number, size);
    if (status == std::errc::result_out_of_range) error_at(token_.at, "this number does not fit an f64");
    if (at_ < text_.size() && is_letter(text_[at_]))
      error_at(at_, "a number ends here; an operator is missing before this name");
    token_.number = value;
  }
  void take_string(char quote) {
    const auto end = text_.find(quote, at_ + 1);
    if (end == text_.npos) error_at(at_, "this text has no closing quote");
    token_ = Token{TokenKind::text, text_.substr(at_ + 1, end - at_ - 1), at_, 0};
    at_ = end + 1;
  }
  void take_symbol() {
    for (const std::string_view two : {"**", "==", "!=", "<=", ">="}) {
      if (text_.substr(at_, 2) == two) return take(TokenKind::symbol, 2);
    }
    static constexpr std::string_view kSymbols = "+-*/<>=(),;";
    if (kSymbols.find(text_[at_]) == kSymbols.npos) error_at(at_, unexpected_character(text_[at_]));
    take(TokenKind::symbol, 1);
  }
  static std::string unexpected_character(char c) {
    switch (c) {
      case '!':
        return "write 'not' for '!'";
      case '&':
        return "write 'and' for '&'";
      case '|':
        return "write 'or' for '|'";
      case '^':
        return "write '**' for a power";
      case '%':
        return "write 'remainder(a, b)' or 'fmod(a, b)' for '%'";
      default:
        return "this character is not part of the language";
    }
  }

  bool is(std::string_view text) const {
    return (token_.kind == TokenKind::symbol || token_.kind == TokenKind::name) && token_.text == text;
  }
  bool accept(std::string_view text) {
    if (!is(text)) return false;
    advance();
    return true;
  }
  void expect(std::string_view text, std::string_view after) {
    if (!accept(text)) error(fmt::format("expected '{}' {}, found {}", text, after, found()));
  }
  std::string found() const { return shown(token_); }
  static std::string shown(const Token& token) {
    return token.kind == TokenKind::end ? "the end" : fmt::format("'{}'", token.text.substr(0, kMaxNameLength));
  }

  // ---- errors

  [[noreturn]] void error(const std::string& message) const { error_at(token_.at, message); }

  [[noreturn]] void error_at(std::size_t at, const std::string& message) const {
    constexpr std::size_t kBefore = 60;
    constexpr std::size_t kWidth = 100;
    const std::size_t line_start = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;  // npos + 1 is 0
    const std::size_t line_end = std::min(text_.find('\n', at), text_.size());
    const std::size_t start = at - line_start > kBefore ? at - kBefore : line_start;
    std::string line;
    for (const char c : text_.substr(start, std::min(line_end - start, kWidth)))
      line += (c >= ' ' && c <= '~') ? c : '?';
    const auto line_number = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    const std::string where = line_number > 1 ? fmt::format("line {}, column {}", line_number, at - line_start + 1)
                                              : fmt::format("column {}", at - line_start + 1);
    base::fail(ErrorCode::invalid_expression, "{} ({})\n  {}\n  {}^", message, where, line,
               std::string(at - start, ' '));
  }

  // Runs what may throw without a place, and adds the place.
  template <class Action>
  auto located(std::size_t at, Action action) -> decltype(action()) {
    try {
      return action();
    } catch (const Error& problem) {
      error_at(at, problem.what());
    }
  }

  // ---- statements

  void statement() {
    if (accept(";")) return;
    if (is("input") || is("scalar")) return declaration();
    if (accept("return")) return results();
    const Token first = token_;
    const std::size_t restart = at_;
    if (first.kind == TokenKind::name && !is_reserved(first.text)) {
      advance();
      if (is("=")) return assignment(first);
      token_ = first;
      at_ = restart;
    }
    results();
  }

  void declaration() {
    const bool scalar = is("scalar");
    advance();
    do {
      const Token name = token_;
      if (name.kind != TokenKind::name) error(fmt::format("expected the name of an operand, found {}", found()));
      located(name.at, [&] {
        if (scalar) {
          define_scalar(name.text);
        } else {
          builder_.input(name.text);
          operands_.emplace_back(name.text);
        }
      });
      advance();
    } while (accept(","));
    end_of_statement();
  }

  void define_scalar(std::string_view name) { scalars_.insert_or_assign(std::string(name), builder_.scalar(name)); }

  void assignment(const Token& name) {
    advance();
    located(name.at, [&] { check_name(name.text); });
    const Value value = expression();
    if (std::ranges::find(operands_, name.text) != operands_.end() || scalars_.contains(name.text)) {
      error_at(name.at, fmt::format("'{}' already names an operand; choose another name for this value", name.text));
    }
    variables_.insert_or_assign(std::string(name.text), value);
    end_of_statement();
  }

  // `return a, b` or the final expression. A result that is a bare variable carries its name.
  void results() {
    do {
      const Token first = token_;
      const Value value = expression();
      const bool bare =
          first.kind == TokenKind::name && first.at + first.text.size() == last_end_ && variables_.contains(first.text);
      builder_.result(bare ? first.text : std::string_view(), value);
    } while (accept(","));
    returned_ = true;
    end_of_statement();
    while (accept(";")) {
    }
  }

  void end_of_statement() {
    if (token_.kind != TokenKind::end) expect(";", "between statements");
  }

  // ---- expressions

  Value expression(int minimum = 0) {
    if (++depth_ > kMaxDepth) error(fmt::format("the expression is nested more than {} deep", kMaxDepth));
    Value left = prefix(minimum);
    while (true) {
      const InfixRow* infix =
          find_infix(token_.kind == TokenKind::symbol || token_.kind == TokenKind::name ? token_.text : "");
      if (infix == nullptr || infix->precedence < minimum) break;
      const std::size_t at = token_.at;
      advance();
      const Value right = expression(infix->right_minimum);
      left = located(at, [&] { return builder_.apply(infix->op, {left, right, kNone}); });
      if (infix->precedence == kComparison) {
        const InfixRow* next = find_infix(token_.text);
        if (next != nullptr && next->precedence == kComparison)
          error("comparisons do not chain: write 'a < b and b < c'");
      }
    }
    --depth_;
    return left;
  }

  Value prefix(int minimum) {
    const std::size_t at = token_.at;
    if (accept("-")) {
      const Value value = expression(kUnary);
      return located(at, [&] { return builder_.apply(Op::neg, {value, kNone, kNone}); });
    }
    if (accept("+")) return expression(kUnary);
    if (is("not") && minimum > kNot) error("put 'not …' in parentheses here");
    if (accept("not")) return builder_.apply(Op::logical_not, {expression(kNot), kNone, kNone});
    return primary();
  }

  Value primary() {
    const Token token = token_;
    if (accept("(")) {
      const Value value = expression();
      last_end_ = at_of_closing();
      expect(")", "to close the parenthesis");
      return value;
    }
    if (token.kind == TokenKind::number) {
      consume();
      return builder_.constant(token.number);
    }
    if (token.kind != TokenKind::name) error(fmt::format("expected a value, found {}", found()));
    consume();
    if (const auto constant = named_constant(token.text)) return builder_.constant(*constant);
    if (is("(")) return call(token);
    return named_value(token);
  }

  void consume() {
    last_end_ = at_;
    advance();
  }
  std::size_t at_of_closing() const { return token_.at + 1; }

  static std::optional<double> named_constant(std::string_view name) {
    if (name == "inf") return std::numeric_limits<double>::infinity();
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (name == "true") return 1;
    if (name == "false") return 0;
    return std::nullopt;
  }

  Value named_value(const Token& token) {
    if (const auto it = variables_.find(token.text); it != variables_.end()) return it->second;
    if (const auto it = scalars_.find(token.text); it != scalars_.end()) return it->second;
    const Value value = located(token.at, [&] { return builder_.input(token.text); });
    operands_.emplace_back(token.text);
    return value;
  }

  // ---- calls

  struct Argument {
    std::string_view keyword;  // empty: positional
    Token first;               // where it starts
    Value value = kNone;       // kNone: a bare type name or a text
  };

  Value call(const Token& name) {
    advance();
    if (name.text == "cast") return cast(name);
    if (name.text == "gelu") return gelu(name);
    const OpRow* op = find_op(name.text);
    if (op == nullptr) unknown_function(name);
    const std::vector<Argument> arguments = argument_list(name);
    std::array<Value, kMaxArity> values = {kNone, kNone, kNone};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const Argument& argument = arguments[i];
      const std::size_t position = argument.keyword.empty() ? i : keyword_position(*op, argument);
      if (position >= op->parameters.size()) {
        error_at(argument.first.at, fmt::format("'{}' takes {} argument{}, found {}: {}", op->name, op->arity(),
                                                op->arity() == 1 ? "" : "s", arguments.size(), op->signature));
      }
      if (values[position] != kNone) {
        error_at(argument.first.at,
                 fmt::format("'{}' of '{}' is given twice", op->parameters[position].name, op->name));
      }
      values[position] = argument.value;
    }
    fill_defaults(*op, name, values);
    return located(name.at, [&] { return builder_.apply(op->op, values); });
  }

  void fill_defaults(const OpRow& op, const Token& name, std::array<Value, kMaxArity>& values) {
    for (std::size_t i = 0; i < op.parameters.size(); ++i) {
      if (values[i] != kNone) continue;
      const Parameter& parameter = op.parameters[i];
      if (!parameter.default_value) {
        error_at(name.at, fmt::format("'{}' lacks its argument '{}': {}", op.name, parameter.name, op.signature));
      }
      values[i] = builder_.constant(*parameter.default_value);
    }
  }

  std::size_t keyword_position(const OpRow& op, const Argument& argument) {
    const auto it = std::ranges::find(op.parameters, argument.keyword, &Parameter::name);
    if (it == op.parameters.end()) {
      error_at(argument.first.at,
               fmt::format("'{}' has no argument '{}': {}", op.name, argument.keyword, op.signature));
    }
    return static_cast<std::size_t>(it - op.parameters.begin());
  }

  std::vector<Argument> argument_list(const Token& name) {
    std::vector<Argument> arguments;
    while (!is(")")) {
      if (!arguments.empty() && !accept(","))
        error(fmt::format("expected ',' or ')' in the call of '{}', found {}", name.text, found()));
      const Token first = token_;
      std::string_view keyword;
      if (first.kind == TokenKind::name && text_.substr(at_).find_first_not_of(" \t\n\r") != text_.npos)
        keyword = keyword_here();
      if (keyword.empty() && !arguments.empty() && !arguments.back().keyword.empty()) {
        error("a positional argument cannot follow a keyword argument");
      }
      arguments.push_back({keyword, first, expression()});
    }
    expect_close();
    return arguments;
  }

  // Consumes `name =` if that stands here.
  std::string_view keyword_here() {
    const Token first = token_;
    const std::size_t restart = at_;
    advance();
    if (is("=")) {
      advance();
      return first.text;
    }
    token_ = first;
    at_ = restart;
    return {};
  }

  void expect_close() {
    last_end_ = at_of_closing();
    expect(")", "to close the call");
  }

  // Two functions take something that is no value. cast(input, dtype): the type is a bare word or a text.
  Value cast(const Token& name) {
    const auto [value, option] = value_and_option(name, "dtype");
    const auto type = parse_dtype(option.text);
    if (!type || (option.kind != TokenKind::name && option.kind != TokenKind::text)) {
      std::vector<std::string_view> names;
      names.reserve(kAllDTypes.size());
      for (const DType known : kAllDTypes) names.push_back(to_string(known));
      error_at(option.at, fmt::format("'cast' expects a type as its second argument ({}), found {}",
                                      fmt::join(names, ", "), shown(option)));
    }
    return located(name.at, [this, v = value, t = *type] { return builder_.cast(v, t); });
  }

  // gelu(input, approximate="none"): two rows of the table behind one name, as in PyTorch.
  Value gelu(const Token& name) {
    const auto [value, option] = value_and_option(name, "approximate");
    const bool given = option.kind != TokenKind::end;
    if (given && (option.kind != TokenKind::text || (option.text != "tanh" && option.text != "none"))) {
      error_at(option.at, fmt::format(R"('approximate' of 'gelu' is "none" or "tanh", found {})", shown(option)));
    }
    const Op op = given && option.text == "tanh" ? Op::gelu_tanh : Op::gelu;
    return located(name.at, [this, op, v = value] { return builder_.apply(op, {v, kNone, kNone}); });
  }

  // The arguments of f(input, <option>=word), in either order by keyword; an option that is not given is the end token.
  std::pair<Value, Token> value_and_option(const Token& name, std::string_view option_name) {
    Value value = kNone;
    Token option;
    for (int position = 0; !is(")"); ++position) {
      if (position > 0 && !accept(","))
        error(fmt::format("expected ',' or ')' in the call of '{}', found {}", name.text, found()));
      const Token first = token_;
      const std::string_view keyword = first.kind == TokenKind::name ? keyword_here() : std::string_view();
      if (keyword.empty() ? position == 0 : keyword == "input") {
        value = expression();
      } else if (keyword.empty() ? position == 1 : keyword == option_name) {
        option = token_;
        if (option.kind != TokenKind::name && option.kind != TokenKind::text)
          error(fmt::format("expected the {} of '{}', found {}", option_name, name.text, found()));
        advance();
      } else {
        error_at(first.at, fmt::format("'{}' takes its arguments as {}(input, {})", name.text, name.text, option_name));
      }
    }
    if (value == kNone) error_at(name.at, fmt::format("'{}' lacks its argument 'input'", name.text));
    expect_close();
    return {value, option};
  }

  [[noreturn]] void unknown_function(const Token& name) {
    std::vector<std::string_view> names = {"cast"};
    for (const OpRow& op : op_table()) names.push_back(op.name);
    const auto suggestion = base::nearest(name.text, names);
    error_at(name.at,
             fmt::format("unknown function '{}'{}", name.text.substr(0, kMaxNameLength),
                         suggestion ? fmt::format("; did you mean '{}'?", *suggestion) : "; `epifuse ops` lists all"));
  }

  std::string_view text_;
  std::size_t at_ = 0;  // behind token_
  Token token_;
  std::size_t last_end_ = 0;  // behind the last primary
  int depth_ = 0;
  bool returned_ = false;
  Builder builder_;
  std::map<std::string, Value, std::less<>> variables_;
  std::map<std::string, Value, std::less<>> scalars_;
  std::vector<std::string> operands_;  // inputs that the text has used
};

}  // namespace

Program parse(std::string_view text, std::span<const std::string> scalars) { return Parser(text, scalars).parse(); }

}  // namespace epifuse::ir
