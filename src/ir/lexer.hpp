// The words of the text language, one token of look-ahead, and the errors that point at a column. For the parser only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace epifuse::ir {

enum class TokenKind { end, number, name, text, symbol };

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text;  ///< of a text: what stands between the quotes
  std::size_t at = 0;
  std::size_t end = 0;  ///< behind it
  double number = 0;
};

/// "'name'", or "the end"; cut where it is long.
std::string shown(const Token& token);

class Lexer {
 public:
  /// `text` must outlive the lexer. The first token is read by the first advance().
  explicit Lexer(std::string_view text);

  const Token& token() const noexcept { return token_; }
  void advance();
  /// Back to a token that was read before.
  void rewind(const Token& token) noexcept { token_ = token; }

  /// The token is this symbol or word.
  bool is(std::string_view text) const noexcept;
  bool accept(std::string_view text);
  void expect(std::string_view text, std::string_view after);

  /// Error(invalid_expression) with the line and a caret.
  [[noreturn]] void error(const std::string& message) const { error_at(token_.at, message); }
  [[noreturn]] void error_at(std::size_t at, const std::string& message) const;

 private:
  void take(TokenKind kind, std::size_t size);
  void take_name();
  void take_number();
  void take_string();
  void take_symbol();

  std::string_view text_;
  std::size_t at_ = 0;  // where a token is being read
  Token token_;
};

}  // namespace epifuse::ir
