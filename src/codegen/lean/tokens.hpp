// CUDA text as tokens with matching brackets: what the passes of this folder read. It knows the style of our templates
// and of what the emitters write, not all of C++: a '<' opens template arguments where no space stands before it, or
// behind `template`.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::codegen::lean {

enum class Kind : unsigned char { word, number, literal, sign, comment, directive };

struct Token {
  Kind kind;
  std::size_t begin, end;  // in the text
  std::size_t match = 0;   // of a bracket: its partner's number
  std::string_view text;
};

/// Tokens of `text`, which must outlive them.
std::vector<Token> tokenize(std::string_view text);

inline bool is_code(const Token& token) { return token.kind != Kind::comment && token.kind != Kind::directive; }

/// A part of a text and what takes its place.
struct Edit {
  std::size_t begin, end;
  std::string text;
};
/// The text with edits, which stand in order; one inside an earlier one is left for later.
std::string edited(std::string_view text, const std::vector<Edit>& edits);

/// Tokens of one text and questions about places between them. Numbers of tokens; `size()` is none.
class Source {
 public:
  explicit Source(std::string_view text) : text_(text), tokens_(tokenize(text)) {}

  std::string_view text() const noexcept { return text_; }
  std::size_t size() const noexcept { return tokens_.size(); }
  const Token& operator[](std::size_t i) const { return tokens_[i]; }
  /// Most tokens are told apart by their first character.
  bool is(std::size_t i, std::string_view text) const {
    return i < size() && !text.empty() && tokens_[i].text.front() == text.front() && tokens_[i].text == text;
  }
  bool is_word(std::size_t i) const { return i < size() && tokens_[i].kind == Kind::word; }
  /// Whether token i is a member's name or a qualified one.
  bool is_member(std::size_t i) const { return i > 0 && (is(i - 1, ".") || is(i - 1, "->") || is(i - 1, "::")); }
  /// Whether a name at token i gets a value there, or gives its address away.
  bool is_changed(std::size_t i) const;
  /// The next and the previous token of code.
  std::size_t next(std::size_t i) const;
  std::size_t previous(std::size_t i) const;
  /// Behind a '(' or '<' its items, as ranges [first, last) of tokens: parameters or arguments.
  struct Range {
    std::size_t first, last;
  };
  std::vector<Range> items(std::size_t open) const;
  std::string_view between(Range range) const;
  /// Behind a word: its '(' with template arguments between, or size().
  std::size_t call_of(std::size_t word) const;
  /// One past the statement that begins with token i.
  std::size_t statement_end(std::size_t i) const;
  /// Where the line of a place begins.
  std::size_t line_begin(std::size_t place) const;

 private:
  std::string_view text_;
  std::vector<Token> tokens_;
};

}  // namespace epifuse::codegen::lean
