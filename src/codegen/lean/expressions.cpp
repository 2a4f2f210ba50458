// By operators and their neighbours: a rule applies where the operators around it bind less, so that it needs no tree.
#include "codegen/lean/expressions.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace epifuse::codegen::lean {
namespace {

// How an operator binds; what is no operator ends every expression (kEnd), or is part of an operand (kOperand).
constexpr int kEnd = -1, kChoice = 0, kOr = 1, kAnd = 2, kShift = 8, kSum = 9, kProduct = 10, kOperand = 20;
struct Binding {
  std::string_view sign;
  int level;
};
constexpr auto kLevels = std::to_array<Binding>({
    {"?", kChoice}, {":", kChoice}, {"||", kOr},     {"&&", kAnd},    {"|", 3},        {"^", 4},  {"&", 5},
    {"==", 6},      {"!=", 6},      {"<", 7},        {">", 7},        {"<=", 7},       {">=", 7}, {"<<", kShift},
    {"+", kSum},    {"-", kSum},    {"*", kProduct}, {"/", kProduct}, {"%", kProduct},
});

class Expressions {
 public:
  Expressions(const Source& source, const Constants& constants) : source_(source), constants_(constants) {}

  std::optional<Edit> at(std::size_t i) const {
    if (source_[i].kind == Kind::comment || source_[i].kind == Kind::directive) return std::nullopt;
    if (source_.is(i, "(")) return parentheses(i);
    if (source_.is(i, "!") && is_known_literal(source_, i + 1)) return edit(i, i + 2, truth(!value(i + 1)));
    if (source_.is(i, "?")) return choice(i);
    const int binds = level(i);
    if (binds <= kChoice || binds == kOperand || i == 0 || i + 1 >= source_.size()) return std::nullopt;
    if (!ends_operand(i - 1)) return std::nullopt;  // a sign, a pointer
    if (binds == kOr || binds == kAnd) return logical(i, binds);
    if (auto both = of_two_values(i, binds)) return both;
    return neutral(i, binds);
  }

 private:
  int level(std::size_t i) const {
    if (i >= source_.size()) return kEnd;
    const Token& token = source_[i];
    if (token.kind == Kind::comment || token.kind == Kind::directive) return kEnd;
    if (token.kind != Kind::sign) return token.text == "return" ? kEnd : kOperand;
    if ((token.text == "<" || token.text == ">") && token.match != 0) return kEnd;  // of template arguments
    // The two signs of a shift.
    if (token.text == ">" && ((source_.is(i + 1, ">") && source_[i + 1].begin == token.end) ||
                              (i > 0 && source_.is(i - 1, ">") && source_[i - 1].end == token.begin)))
      return kShift;
    const auto* found = std::ranges::find(kLevels, token.text, &Binding::sign);
    if (found != kLevels.end()) return found->level;
    if (token.text == "!" || token.text == "." || token.text == "->" || token.text == "::" || token.text == "(" ||
        token.text == "[" || token.text == "++" || token.text == "--" || token.text == "~")
      return kOperand;
    return kEnd;
  }
  // What stands before an operand: a bracket that opens ends it.
  int level_before(std::size_t first) const {
    if (first == 0) return kEnd;
    return source_.is(first - 1, "(") || source_.is(first - 1, "[") ? kEnd : level(first - 1);
  }

  bool ends_operand(std::size_t i) const {
    if (source_.is(i, ")") || source_.is(i, "]")) return true;
    return source_[i].kind == Kind::number || (source_.is_word(i) && !source_.is(i, "return"));
  }

  // Where an operand begins that ends with token i: a path with calls, indices and template arguments.
  std::size_t operand_begin(std::size_t i) const {
    for (;;) {
      while (source_.is(i, ")") || source_.is(i, "]")) {
        i = source_[i].match;
        if (i == 0 || !(ends_operand(i - 1) || is_closing_angle(i - 1))) return i;
        --i;
      }
      if (is_closing_angle(i)) i = source_[i].match - 1;
      if (i == 0 || !(source_.is(i - 1, ".") || source_.is(i - 1, "->") || source_.is(i - 1, "::"))) return i;
      if (i < 2) return i;
      i -= 2;
    }
  }
  bool is_closing_angle(std::size_t i) const {
    return source_.is(i, ">") && source_[i].match != 0 && source_[i].match < i;
  }
  // One past the operand that begins with token i; i where it is none that we know.
  std::size_t operand_end(std::size_t i) const {
    const std::size_t begin = i;
    if (source_.is(i, "(")) {
      i = source_[i].match + 1;
    } else if (source_.is_word(i) || source_[i].kind == Kind::number) {
      ++i;
    } else {
      return begin;
    }
    for (;;) {
      if ((source_.is(i, "(") || source_.is(i, "[") || source_.is(i, "<")) && source_[i].match > i) {
        i = source_[i].match + 1;
      } else if ((source_.is(i, ".") || source_.is(i, "->") || source_.is(i, "::")) && source_.is_word(i + 1)) {
        i += 2;
      } else {
        return i;
      }
    }
  }

  Edit edit(std::size_t first, std::size_t last, std::string text) const {
    return {source_[first].begin, source_[last - 1].end, std::move(text)};
  }
  // Without [first, last) and the space before what follows.
  Edit without(std::size_t first, std::size_t last) const { return {source_[first].begin, source_[last].begin, ""}; }
  // Without [first, last) and the space before it.
  Edit without_behind(std::size_t first, std::size_t last) const {
    return {source_[first - 1].end, source_[last - 1].end, ""};
  }
  static std::string truth(bool value) { return value ? "true" : "false"; }

  std::int64_t value(std::size_t literal) const { return *value_of(source_[literal].text, {}); }
  std::optional<std::int64_t> known(std::size_t i) const {
    if (!source_.is_word(i) && source_[i].kind != Kind::number) return std::nullopt;
    return value_of(source_[i].text, constants_);
  }

  // (1), not f(1); (kSteps) where no cast could be meant.
  std::optional<Edit> parentheses(std::size_t i) const {
    if (source_[i].match != i + 2 || i == 0) return std::nullopt;
    const bool is_call = ends_operand(i - 1) || is_closing_angle(i - 1) || source_[i - 1].kind == Kind::literal ||
                         source_.is(i - 1, "&");
    if (is_call || source_.is(i - 1, "sizeof")) return std::nullopt;
    const bool casts = level(i + 3) == kOperand || source_.is(i + 3, "{");
    if (is_known_literal(source_, i + 1) ||
        (source_.is_word(i + 1) && constants_.contains(source_[i + 1].text) && !casts))
      return edit(i, i + 3, std::string(source_[i + 1].text));
    return std::nullopt;
  }

  // condition ? a : b
  std::optional<Edit> choice(std::size_t question) const {
    std::size_t first = question;
    while (first > 0) {
      const std::size_t before = first - 1;
      if (source_.is(before, ")") || source_.is(before, "]") || is_closing_angle(before)) {
        first = source_[before].match;
        continue;
      }
      if (level_before(first) <= kChoice) break;
      --first;
    }
    if (first == question) return std::nullopt;
    const auto condition = value_of(source_.between({first, question}), constants_);
    if (!condition) return std::nullopt;
    const auto [colon, end] = branches(question);
    if (colon == 0) return std::nullopt;
    return edit(first, end,
                std::string(source_.between(*condition != 0 ? Source::Range{question + 1, colon}
                                                            : Source::Range{colon + 1, end})));
  }
  // The colon of a '?' and one past what follows; zeroes where they cannot be told.
  std::pair<std::size_t, std::size_t> branches(std::size_t question) const {
    std::size_t colon = 0;
    int depth = 0;
    for (std::size_t i = question + 1; i < source_.size(); ++i) {
      if (source_[i].match > i) {
        i = source_[i].match;
        continue;
      }
      if (source_.is(i, "?")) {
        ++depth;
      } else if (source_.is(i, ":") && depth > 0) {
        --depth;
      } else if (source_.is(i, ":") && colon == 0) {
        colon = i;
      } else if (level(i) == kEnd || source_.is(i, ":")) {
        return {colon, i};
      }
    }
    return {0, 0};
  }

  // Tokens from i to the left or right whose operators bind more than `binds`.
  std::size_t chain_begin(std::size_t i, int binds) const {
    for (;;) {
      if (source_.is(i, ")") || source_.is(i, "]") || is_closing_angle(i)) i = source_[i].match;
      if (level_before(i) <= binds) return i;
      --i;
    }
  }
  std::size_t chain_end(std::size_t i, int binds) const {
    while (i < source_.size() && (source_[i].match > i || level(i) > binds))
      i = source_[i].match > i ? source_[i].match + 1 : i + 1;
    return i;
  }

  std::optional<Edit> logical(std::size_t i, int binds) const {
    const std::string_view neutral = binds == kAnd ? "true" : "false";
    const std::string_view decides = binds == kAnd ? "false" : "true";
    if (source_.is(i - 1, neutral) && level_before(i - 1) < binds) return without(i - 1, i + 1);
    if (source_.is(i + 1, neutral) && level(i + 2) <= binds) return without_behind(i, i + 2);
    if (source_.is(i - 1, decides) && level_before(i - 1) < binds)
      return edit(i - 1, chain_end(i + 1, binds), std::string(decides));
    if (source_.is(i + 1, decides) && level(i + 2) <= binds) {
      const std::size_t first = chain_begin(i - 1, binds);
      if (level_before(first) < binds && is_pure(source_, first, i)) return edit(first, i + 2, std::string(decides));
    }
    return std::nullopt;
  }

  // Two known values whose result says nothing of a number: a truth value, 0 or 1.
  std::optional<Edit> of_two_values(std::size_t i, int binds) const {
    if (binds == kShift || !known(i - 1) || !known(i + 1)) return std::nullopt;
    if (level_before(i - 1) >= binds || level(i + 2) > binds) return std::nullopt;
    const auto result = value_of(source_.between({i - 1, i + 2}), constants_);
    if (!result) return std::nullopt;
    if (binds < kShift) return edit(i - 1, i + 2, truth(*result != 0));
    if (*result != 0 && *result != 1) return std::nullopt;
    return edit(i - 1, i + 2, std::to_string(*result));
  }

  // 0 and 1 beside something.
  std::optional<Edit> neutral(std::size_t i, int binds) const {
    const bool product = binds == kProduct, times = source_.is(i, "*");
    const std::string_view nothing = product ? "1" : "0";
    const bool keeps = product ? !source_.is(i, "%") : binds == kSum || source_.is(i, "<<");
    if (keeps && source_.is(i + 1, nothing) && level(i + 2) <= binds) return without_behind(i, i + 2);
    if ((times || source_.is(i, "+")) && source_.is(i - 1, nothing) && level_before(i - 1) < binds)
      return without(i - 1, i + 1);
    if (!product) return std::nullopt;
    if (source_.is(i - 1, "0") && level_before(i - 1) < binds) {
      const std::size_t end = operand_end(i + 1);
      if (end > i + 1 && level(end) <= binds && is_pure(source_, i + 1, end)) return edit(i - 1, end, "0");
    }
    const bool vanishes = (times && source_.is(i + 1, "0")) || (source_.is(i, "%") && source_.is(i + 1, "1"));
    if (vanishes && level(i + 2) <= binds) {
      const std::size_t begin = operand_begin(i - 1);
      if (level_before(begin) < binds && is_pure(source_, begin, i)) return edit(begin, i + 2, "0");
    }
    return std::nullopt;
  }

  const Source& source_;
  const Constants& constants_;
};

}  // namespace

bool is_known_literal(const Source& source, std::size_t i) {
  if (i >= source.size()) return false;
  const std::string_view text = source[i].text;
  if (source[i].kind == Kind::word) return text == "true" || text == "false";
  return source[i].kind == Kind::number && text.find_first_not_of("0123456789") == text.npos;
}

bool is_pure(const Source& source, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i < last; ++i) {
    const std::string_view text = source[i].text;
    if (text == "++" || text == "--" || text == "{" || text == "&") return false;
    if (text.ends_with("=") && text != "==" && text != "<=" && text != ">=" && text != "!=") return false;
    const bool calls = text == "(" && i > first && (source.is_word(i - 1) || source.is(i - 1, ">"));
    if (!calls) continue;
    const std::size_t name = source.is(i - 1, ">") && source[i - 1].match != 0 ? source[i - 1].match - 1 : i - 1;
    if (!source.is(name, "static_cast") && !source.is(name, "Index")) return false;
  }
  return true;
}

std::optional<Edit> simplification(const Source& source, std::size_t first, std::size_t last,
                                   const Constants& constants) {
  const Expressions expressions(source, constants);
  for (std::size_t i = first; i < last; ++i) {
    if (auto edit = expressions.at(i)) return edit;
  }
  return std::nullopt;
}

}  // namespace epifuse::codegen::lean
