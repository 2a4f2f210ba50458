// Takes text apart into tokens, and shows people the place of a mistake.
#include "ir/lexer.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/text.hpp"
#include "ir/program.hpp"

namespace epifuse::ir {
namespace {

// Nothing that people write comes near this; it bounds time on hostile text. The largest Program prints as less.
constexpr std::size_t kMaxText = 16 << 20;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

constexpr std::array<std::string_view, 6> kLongSymbols = {"...", "**", "==", "!=", "<=", ">="};
constexpr std::string_view kSymbols = "+-*/@<>=(),;[]:";

// What users of other languages write, and what it is called here.
struct Hint {
  char character;
  std::string_view text;
};
constexpr std::array kHints = {
    Hint{'!', "write 'not' for '!'"},
    Hint{'&', "write 'and' for '&'"},
    Hint{'|', "write 'or' for '|'"},
    Hint{'^', "write '**' for a power"},
    Hint{'%', "write 'remainder(a, b)' or 'fmod(a, b)' for '%'"},
};

std::string unexpected_character(char c) {
  const auto hint = std::ranges::find(kHints, c, &Hint::character);
  return std::string(hint == kHints.end() ? "this character is not part of the language" : hint->text);
}

}  // namespace

std::string shown(const Token& token) {
  return token.kind == TokenKind::end ? "the end" : fmt::format("'{}'", base::shown(token.text));
}

Lexer::Lexer(std::string_view text) : text_(text) {
  if (text.size() > kMaxText) {
    base::fail(ErrorCode::invalid_expression, "the chain's text has {} bytes; at most {} are read", text.size(),
               kMaxText);
  }
}

void Lexer::advance() {
  at_ = token_.end;
  while (at_ < text_.size() && (is_space(text_[at_]) || text_[at_] == '#')) {
    if (text_[at_] == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else {
      ++at_;
    }
  }
  if (at_ == text_.size()) return take(TokenKind::end, 0);
  const char c = text_[at_];
  if (is_letter(c)) return take_name();
  if (is_digit(c) || (c == '.' && at_ + 1 < text_.size() && is_digit(text_[at_ + 1]))) return take_number();
  if (c == '"' || c == '\'') return take_string();
  take_symbol();
}

void Lexer::take(TokenKind kind, std::size_t size) {
  token_ = Token{kind, text_.substr(at_, size), at_, at_ + size, 0};
}

void Lexer::take_name() {
  const auto rest = text_.substr(at_);
  const auto end = std::ranges::find_if_not(rest, [](char c) { return is_letter(c) || is_digit(c); });
  take(TokenKind::name, static_cast<std::size_t>(end - rest.begin()));
}

void Lexer::take_number() {
  double value = 0;
  const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  take(TokenKind::number, static_cast<std::size_t>(end - (text_.data() + at_)));
  if (status == std::errc::result_out_of_range) error("this number does not fit an f64");
  if (token_.end < text_.size() && is_letter(text_[token_.end]))
    error_at(token_.end, "a number ends here; an operator is missing before this name");
  token_.number = value;
}

void Lexer::take_string() {
  const auto end = text_.find(text_[at_], at_ + 1);
  if (end == text_.npos) error_at(at_, "this text has no closing quote");
  token_ = Token{TokenKind::text, text_.substr(at_ + 1, end - at_ - 1), at_, end + 1, 0};
}

void Lexer::take_symbol() {
  const auto here = text_.substr(at_);
  const auto symbol = std::ranges::find_if(kLongSymbols, [&](std::string_view s) { return here.starts_with(s); });
  if (symbol != kLongSymbols.end()) return take(TokenKind::symbol, symbol->size());
  if (kSymbols.find(here[0]) == kSymbols.npos) error_at(at_, unexpected_character(here[0]));
  take(TokenKind::symbol, 1);
}

bool Lexer::is(std::string_view text) const noexcept {
  return (token_.kind == TokenKind::symbol || token_.kind == TokenKind::name) && token_.text == text;
}

bool Lexer::accept(std::string_view text) {
  if (!is(text)) return false;
  advance();
  return true;
}

void Lexer::expect(std::string_view text, std::string_view after) {
  if (!accept(text)) error(fmt::format("expected '{}' {}, found {}", text, after, shown(token_)));
}

void Lexer::error_at(std::size_t at, const std::string& message) const {
  constexpr std::size_t kBefore = 60;
  constexpr std::size_t kWidth = 100;
  const std::size_t line_start = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  const std::size_t line_end = std::min(text_.find('\n', at), text_.size());
  const std::size_t start = at - line_start > kBefore ? at - kBefore : line_start;
  std::string line;
  for (const char c : text_.substr(start, std::min(line_end - start, kWidth))) line += (c >= ' ' && c <= '~') ? c : '?';
  const auto line_number = std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
  const std::string where = line_number > 1 ? fmt::format("line {}, column {}", line_number, at - line_start + 1)
                                            : fmt::format("column {}", at - line_start + 1);
  base::fail(ErrorCode::invalid_expression, "{} ({})\n  {}\n  {}^", message, where, line, std::string(at - start, ' '));
}

}  // namespace epifuse::ir
