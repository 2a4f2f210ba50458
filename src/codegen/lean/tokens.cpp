// Tokens, brackets, statements.
#include "codegen/lean/tokens.hpp"

#include <algorithm>
#include <array>

namespace epifuse::codegen::lean {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t end_of_line(std::string_view text, std::size_t at) { return std::min(text.find('\n', at), text.size()); }

std::size_t end_of_literal(std::string_view text, std::size_t at) {
  const char quote = text[at];
  for (++at; at < text.size() && text[at] != quote; ++at) at += text[at] == '\\' ? 1 : 0;
  return at + 1;
}

// 0x1.8p+23f, 1.0e-5f, 0xffu, 1ull.
std::size_t end_of_number(std::string_view text, std::size_t at) {
  const bool hexadecimal = text.substr(at, 2) == "0x";
  while (at < text.size() && (is_letter(text[at]) || is_digit(text[at]) || text[at] == '.')) {
    const char c = text[at++];
    const bool exponent = hexadecimal ? c == 'p' : c == 'e';
    if (exponent && at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
  }
  return at;
}

std::size_t end_of_sign(std::string_view text, std::size_t at) {
  static constexpr std::array<std::string_view, 18> kLong = {
      "...", "::", "->", "++", "--", "&&", "||", "==", "!=", "<=", ">=", "<<", "+=", "-=", "*=", "/=", "|=", "&="};
  const std::string_view rest = text.substr(at, 3);
  if (rest.size() < 2 || std::string_view(".:>+-&|=<").find(rest[1]) == std::string_view::npos) return at + 1;
  for (const std::string_view sign : kLong) {
    if (rest.starts_with(sign)) return at + sign.size();
  }
  return at + 1;
}

Token token_at(std::string_view text, std::size_t at) {
  const char c = text[at];
  if (c == '#') return {Kind::directive, at, end_of_line(text, at), 0, {}};
  if (text.substr(at, 2) == "//") return {Kind::comment, at, end_of_line(text, at), 0, {}};
  if (c == '"' || c == '\'') return {Kind::literal, at, end_of_literal(text, at), 0, {}};
  if (is_digit(c) || (c == '.' && at + 1 < text.size() && is_digit(text[at + 1])))
    return {Kind::number, at, end_of_number(text, at), 0, {}};
  if (is_letter(c)) {
    std::size_t end = at;
    while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
    return {Kind::word, at, end, 0, {}};
  }
  return {Kind::sign, at, end_of_sign(text, at), 0, {}};
}

// Whether a '<' opens template arguments.
bool opens_arguments(const std::vector<Token>& tokens, const Token& token) {
  if (tokens.empty() || tokens.back().kind != Kind::word) return false;
  return tokens.back().text == "template" || tokens.back().end == token.begin;
}

void match_brackets(std::vector<Token>& tokens, std::vector<std::size_t>& open, bool opens_angle) {
  const std::size_t i = tokens.size() - 1;
  const std::string_view text = tokens[i].text;
  if (tokens[i].kind != Kind::sign || text.size() != 1) return;
  const char c = text[0];
  if (c == '(' || c == '{' || c == '[' || opens_angle) {
    open.push_back(i);
    return;
  }
  const bool closes_angle = c == '>' && !open.empty() && tokens[open.back()].text == "<";
  if (open.empty() || !(c == ')' || c == '}' || c == ']' || closes_angle)) return;
  tokens[i].match = open.back();
  tokens[open.back()].match = i;
  open.pop_back();
}

}  // namespace

std::vector<Token> tokenize(std::string_view text) {
  std::vector<Token> tokens;
  tokens.reserve(text.size() / 4);
  std::vector<std::size_t> open;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == ' ' || text[at] == '\n') {
      ++at;
      continue;
    }
    Token token = token_at(text, at);
    token.text = text.substr(at, token.end - at);
    const bool opens_angle = token.text == "<" && opens_arguments(tokens, token);
    tokens.push_back(token);
    match_brackets(tokens, open, opens_angle);
    at = token.end;
  }
  return tokens;
}

std::string edited(std::string_view text, const std::vector<Edit>& edits) {
  std::string out;
  std::size_t at = 0;
  for (const Edit& edit : edits) {
    if (edit.begin < at) continue;
    out += text.substr(at, edit.begin - at);
    out += edit.text;
    at = edit.end;
  }
  return out += text.substr(at);
}

std::size_t Source::next(std::size_t i) const {
  do ++i;
  while (i < size() && !is_code(tokens_[i]));
  return std::min(i, size());
}

std::size_t Source::previous(std::size_t i) const {
  while (i > 0) {
    if (is_code(tokens_[--i])) return i;
  }
  return size();
}

std::vector<Source::Range> Source::items(std::size_t open) const {
  std::vector<Range> found;
  const std::size_t close = tokens_[open].match;
  std::size_t first = open + 1;
  for (std::size_t i = first; i < close; ++i) {
    if (tokens_[i].match > i) i = tokens_[i].match;
    if (tokens_[i].text != ",") continue;
    found.push_back({first, i});
    first = i + 1;
  }
  if (first < close) found.push_back({first, close});
  return found;
}

std::string_view Source::between(Range range) const {
  if (range.first >= range.last) return {};
  return text_.substr(tokens_[range.first].begin, tokens_[range.last - 1].end - tokens_[range.first].begin);
}

bool Source::is_changed(std::size_t i) const {
  constexpr auto kBehind = std::to_array<std::string_view>({"=", "+=", "-=", "*=", "/=", "|=", "&=", "++", "--"});
  return (i + 1 < size() && std::ranges::find(kBehind, tokens_[i + 1].text) != kBehind.end()) ||
         (i > 0 && (is(i - 1, "++") || is(i - 1, "--") || is(i - 1, "&")));
}

std::size_t Source::call_of(std::size_t word) const {
  std::size_t i = word + 1;
  if (is(i, "<") && tokens_[i].match > i) i = tokens_[i].match + 1;
  return is(i, "(") ? i : size();
}

std::size_t Source::statement_end(std::size_t i) const {
  while (i < size() && !is_code(tokens_[i])) ++i;
  if (is(i, "{")) return tokens_[i].match + 1;
  if (is(i, "if") || is(i, "for") || is(i, "while")) {
    std::size_t open = next(i);
    if (is(open, "constexpr")) open = next(open);
    const std::size_t end = statement_end(next(tokens_[open].match));
    const std::size_t after = next(end - 1);
    return is(i, "if") && is(after, "else") ? statement_end(next(after)) : end;
  }
  for (; i < size(); ++i) {
    if (tokens_[i].match > i) i = tokens_[i].match;
    if (tokens_[i].text == ";") return i + 1;
  }
  return size();
}

std::size_t Source::line_begin(std::size_t place) const {
  const std::size_t line = place == 0 ? std::string_view::npos : text_.rfind('\n', place - 1);
  return line == std::string_view::npos ? 0 : line + 1;
}

}  // namespace epifuse::codegen::lean
