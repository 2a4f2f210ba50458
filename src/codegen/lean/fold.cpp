// A parser of C++'s expressions that rewrites as it goes. What it does not know to be an expression it leaves, and
// looks into brackets there.
#include "codegen/lean/fold.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "codegen/operators.hpp"

namespace epifuse::codegen::lean {
namespace {

constexpr int kOperand = kUnary + 1;  // the level of what has no operator outside brackets
constexpr int kComparison = 6;        // and below it: what is true or false

constexpr auto kSeparators = std::to_array<std::string_view>(
    {",",      ";",  "=",    "+=",  "-=",    "*=",        "/=",    "|=", "&=",       ":",
     "return", "if", "else", "for", "while", "constexpr", "const", "do", "template", "case"});
// Operators that are not evaluated, so that a number in them stays.
struct Opaque {
  std::string_view sign;
  int level;
};
constexpr auto kOpaque = std::to_array<Opaque>({{"|", 2}, {"^", 3}, {"&", 4}, {"<<", 7}});
constexpr auto kUnarySigns = std::to_array<std::string_view>({"-", "!", "~", "*", "&", "+", "++", "--"});
constexpr std::int64_t kMostInt = INT32_MAX;

bool is_number(const Token& token) {
  return token.kind == Kind::number && token.text.size() < 10 &&
         token.text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Nothing happens when it is computed.
bool is_pure(std::string_view text) {
  return text.find('(') == text.npos && text.find("++") == text.npos && text.find("--") == text.npos;
}

bool is_digits(std::string_view text) { return text.find_first_not_of("0123456789 +-*/%") == text.npos; }

}  // namespace

// Most of a source holds nothing that may be known: it is copied without being parsed.
Fold::Fold(const Source& source, const KnownNames& names) : source_(source), names_(names) {
  known_before_.reserve(source.size() + 1);
  std::uint32_t before = 0;
  for (std::size_t i = 0; i < source.size(); ++i) {
    known_before_.push_back(before);
    const Token& token = source[i];
    if (token.kind == Kind::number) before += is_number(token) ? 1 : 0;
    const bool compares_enumerators = i > 1 && (source.is(i, "==") || source.is(i, "!=")) && source.is(i - 2, "::");
    before += compares_enumerators ? 1 : 0;
    if (token.kind != Kind::word) continue;
    const bool is_member = i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "::"));
    const bool may_be = token.text == "true" || token.text == "false" || token.text == "sizeof" ||
                        (!names.empty() && (is_member || names.contains(token.text)));
    before += may_be ? 1 : 0;
  }
  known_before_.push_back(before);
}

// What stands before token i.
std::string Fold::gap(std::size_t i) const {
  return std::string(source_.text().substr(source_[i - 1].end, source_[i].begin - source_[i - 1].end));
}

bool Fold::separates(std::size_t first, std::size_t i) const {
  if (!is_code(source_[i]) || std::ranges::find(kSeparators, source_[i].text) != kSeparators.end()) {
    return source_[i].text != ":" ||
           std::none_of(&source_[first], &source_[i], [](const Token& token) { return token.text == "?"; });
  }
  // A body, and what follows it. Behind a name or a type braces make a value.
  const auto opens_body = [&](std::size_t at) {
    return source_.is(at, "{") && (at == 0 || !(source_.is_word(at - 1) || source_.is(at - 1, ">")) ||
                                   source_.is(at - 1, "else") || source_.is(at - 1, "do"));
  };
  return opens_body(i);
}

std::string Fold::text(std::size_t first, std::size_t last) const {
  std::string out;
  for (std::size_t i = first; i < last;) {
    if (i > first) out += gap(i);
    std::size_t end = i;
    while (end < last && !separates(i, end)) end = source_[end].match > end ? source_[end].match + 1 : end + 1;
    if (end == i) {  // what separates, which may be a body
      if (source_[i].match > i) {
        out += group(i);
        i = source_[i].match + 1;
      } else {
        out += source_.text().substr(source_[i].begin, source_[i].end - source_[i].begin);
        const bool is_head =
            source_.is(i, "if") || source_.is(i, "for") || source_.is(i, "while") || source_.is(i, "constexpr");
        if (++i < last && is_head && source_.is(i, "(")) {  // a condition, and then a statement
          out += gap(i) + group(i);
          i = source_[i].match + 1;
        }
      }
      continue;
    }
    if (is_plain(i, end)) {
      out += source_.between({i, end});
    } else {
      std::size_t at = i;
      const auto expression = choice(at, end);
      out += expression && at == end ? expression->text : tokens(i, end);
    }
    i = end;
  }
  return out;
}

std::optional<Known> Fold::value(std::size_t first, std::size_t last) const {
  std::size_t at = first;
  const auto expression = choice(at, last);
  return expression && at == last ? expression->known : std::nullopt;
}

// As they are, but for what stands in brackets.
std::string Fold::tokens(std::size_t first, std::size_t last) const {
  if (is_plain(first, last)) return std::string(source_.between({first, last}));
  std::string out;
  for (std::size_t i = first; i < last; ++i) {
    if (i > first) out += gap(i);
    if (source_[i].match > i) {
      out += group(i);
      i = source_[i].match;
    } else {
      out += source_[i].text;
    }
  }
  return out;
}

std::string Fold::group(std::size_t open) const {
  const std::size_t close = source_[open].match;
  if (is_plain(open, close)) return std::string(source_.between({open, close + 1}));
  std::string out(source_[open].text);
  if (close > open + 1) out += gap(open + 1) + text(open + 1, close);
  return out + gap(close) + std::string(source_[close].text);
}

std::optional<Fold::Sign> Fold::sign_at(std::size_t i, std::size_t last) const {
  if (i >= last || source_[i].kind != Kind::sign || source_[i].match > i) return std::nullopt;
  if (source_.is(i, ">") && source_.is(i + 1, ">") && source_[i].end == source_[i + 1].begin)
    return Sign{7, 2, nullptr};
  for (const Operator& one : kOperators) {
    if (source_.is(i, one.sign)) return Sign{one.level, 1, one.apply};
  }
  for (const auto& [sign, level] : kOpaque) {
    if (source_.is(i, sign)) return Sign{level, 1, nullptr};
  }
  return std::nullopt;
}

std::optional<Fold::Expression> Fold::choice(std::size_t& i, std::size_t last) const {
  auto condition = of_level(i, last, 0);
  if (!condition || i >= last || !source_.is(i, "?")) return condition;
  const std::size_t question = i++;
  auto yes = choice(i, last);
  if (!yes || i >= last || !source_.is(i, ":")) return std::nullopt;
  const std::size_t colon = i++;
  auto no = choice(i, last);
  if (!no) return std::nullopt;
  if (condition->known) {
    Expression& chosen = condition->known->number != 0 ? *yes : *no;
    return Expression{condition->first, no->last, std::move(chosen.text), chosen.level, chosen.known};
  }
  return Expression{condition->first, no->last,
                    condition->text + gap(question) + "?" + gap(question + 1) + yes->text + gap(colon) + ":" +
                        gap(colon + 1) + no->text,
                    -1};
}

// Operators that bind at least as `level` does, the closer ones first.
std::optional<Fold::Expression> Fold::of_level(std::size_t& i, std::size_t last, int level) const {
  auto left = operand(i, last);
  while (left) {
    const auto sign = sign_at(i, last);
    if (!sign || sign->level < level) break;
    const std::size_t at = i;
    i += sign->tokens;
    auto right = of_level(i, last, sign->level + 1);
    if (!right) return std::nullopt;
    left = combined(*std::move(left), at, *sign, *std::move(right));
  }
  return left;
}

Fold::Expression Fold::literal(const Expression& left, const Expression& right, Known known) const {
  return {left.first, right.last, known.text(), kOperand, known};
}

// "CacheHint::none": enumerators begin with a small letter, constants do not.
bool Fold::is_enumerator(const Expression& one) const {
  return one.last == one.first + 3 && source_.is_word(one.first) && source_.is(one.first + 1, "::") &&
         std::islower(static_cast<unsigned char>(source_[one.first + 2].text.front())) != 0;
}

Fold::Expression Fold::combined(Expression left, std::size_t at, const Sign& sign, Expression right) const {
  const std::string_view text = source_[at].text;
  const bool compares = text == "==" || text == "!=";
  if (compares && is_enumerator(left) && is_enumerator(right))
    return literal(left, right, {(left.text == right.text) == (text == "=="), true});
  std::string joined = left.text + gap(at) + std::string(text) +
                       (sign.tokens == 2 ? std::string(source_[at + 1].text) : "") + gap(at + sign.tokens) + right.text;
  if (sign.apply != nullptr && left.known && right.known) {
    const Known known{sign.apply(left.known->number, right.known->number), sign.level <= kComparison};
    const bool fits = known.number >= 0 && known.number <= kMostInt;
    if (fits && (known.is_truth || known.number <= 1 || is_digits(joined))) return literal(left, right, known);
    if (fits) {
      if (auto one = neutral(text, left, right)) return *std::move(one);
      return {left.first, right.last, std::move(joined), sign.level, known};
    }
  }
  if (auto one = neutral(text, left, right)) return *std::move(one);
  return {left.first, right.last, std::move(joined), sign.level};
}

// One operand decides, or does nothing.
std::optional<Fold::Expression> Fold::neutral(std::string_view sign, const Expression& left,
                                              const Expression& right) const {
  const auto is = [](const Expression& one, std::int64_t number) { return one.known && one.known->number == number; };
  const auto alone = [&](const Expression& one) {
    return Expression{left.first, right.last, one.text, one.level, one.known};
  };
  const bool pure = is_pure(left.text) && is_pure(right.text);
  if (sign == "*") {
    if (is(right, 1)) return alone(left);
    if (is(left, 1)) return alone(right);
    if ((is(left, 0) || is(right, 0)) && pure) return literal(left, right, {0, false});
  }
  if (sign == "/" && is(right, 1)) return alone(left);
  if (sign == "%" && is(right, 1) && pure) return literal(left, right, {0, false});
  if (sign == "+" && is(left, 0)) return alone(right);
  if ((sign == "+" || sign == "-" || sign == "<<") && is(right, 0)) return alone(left);
  if (sign == "&&" || sign == "||") {
    const bool decides = sign == "||";  // what the left operand must be to decide
    if (left.known) return (left.known->number != 0) == decides ? literal(left, right, {decides, true}) : alone(right);
    if (right.known && (right.known->number != 0) != decides) return alone(left);
    if (right.known && pure) return literal(left, right, {decides, true});
  }
  return std::nullopt;
}

// A number or a name alone.
std::optional<Fold::Expression> Fold::leaf(std::size_t i, std::size_t last) const {
  const Token& token = source_[i];
  const auto alone = [&](Known known, std::string text) {
    return Expression{i, i + 1, std::move(text), kOperand, known};
  };
  if (is_number(token)) return alone({std::stoll(std::string(token.text)), false}, std::string(token.text));
  if (token.kind != Kind::word) return std::nullopt;
  if (token.text == "true" || token.text == "false")
    return alone({token.text == "true", true}, std::string(token.text));
  const bool is_longer = i + 1 < last && (source_.is(i + 1, "::") || source_.is(i + 1, "(") || source_.is(i + 1, "[") ||
                                          source_.is(i + 1, ".") || source_.is(i + 1, "->") || source_.is(i + 1, "{") ||
                                          (source_.is(i + 1, "<") && source_[i + 1].match > i));
  if (is_longer) return std::nullopt;
  const auto it = names_.find(token.text);
  if (it == names_.end()) return std::nullopt;
  const bool is_written = it->second.is_truth || it->second.number <= 1;
  return alone(it->second, is_written ? it->second.text() : std::string(token.text));
}

std::optional<Fold::Expression> Fold::in_parentheses(std::size_t open) const {
  const std::size_t close = source_[open].match;
  std::size_t at = open + 1;
  auto inside = choice(at, close);
  if (!inside || at != close) return std::nullopt;
  const bool is_changed = inside->text != source_.between({open + 1, close});
  if (is_changed && inside->level == kOperand)
    return Expression{open, close + 1, inside->text, kOperand, inside->known};
  return Expression{open, close + 1, "(" + inside->text + ")", kOperand, inside->known};
}

std::optional<Fold::Expression> Fold::operand(std::size_t& i, std::size_t last) const {
  if (i >= last) return std::nullopt;
  const std::size_t first = i;
  if (source_[i].kind == Kind::sign && std::ranges::find(kUnarySigns, source_[i].text) != kUnarySigns.end()) {
    const std::string sign(source_[i].text);
    auto of = operand(++i, last);
    if (!of) return std::nullopt;
    if (sign == "!" && of->known) {
      const Known known{of->known->number == 0, true};
      return Expression{first, of->last, known.text(), kOperand, known};
    }
    return Expression{first, of->last, sign + gap(first + 1) + of->text, kUnary};
  }
  if (auto alone = leaf(i, last)) {
    ++i;
    return alone;
  }
  const auto is_postfix = [&](std::size_t at) {
    return at < last && (source_.is(at, "(") || source_.is(at, "[") || source_.is(at, ".") || source_.is(at, "->") ||
                         source_.is(at, "++") || source_.is(at, "--"));
  };
  if (source_.is(i, "(") && !is_postfix(source_[i].match + 1)) {
    auto inside = in_parentheses(i);
    if (inside) i = inside->last;
    return inside;
  }
  const bool is_name = source_[i].kind == Kind::word;
  const bool is_value = source_[i].kind == Kind::number || source_[i].kind == Kind::literal;
  if (!is_name && !is_value && !source_.is(i, "(")) return std::nullopt;
  i = source_[i].match > i ? source_[i].match + 1 : i + 1;
  while (i < last) {
    if ((source_.is(i, "::") || source_.is(i, ".") || source_.is(i, "->")) && source_.is_word(i + 1)) {
      i += source_.is(i + 1, "template") ? 3 : 2;
    } else if (is_postfix(i) || (source_.is(i, "<") && source_[i].match > i) ||
               (source_.is(i, "{") && is_name && (source_.is_word(i - 1) || source_.is(i - 1, ">")))) {
      i = source_[i].match > i ? source_[i].match + 1 : i + 1;
    } else {
      break;
    }
  }
  if (i == first + 4 && source_.is(first, "sizeof")) {
    const auto it = names_.find("sizeof " + std::string(source_[first + 2].text));
    if (it != names_.end()) return Expression{first, i, it->second.text(), kOperand, it->second};
  }
  if (source_.is(first, "static_cast") && source_.is(first + 2, "int") && i == source_[first + 4].match + 1) {
    std::size_t at = first + 5;
    auto of = choice(at, i - 1);
    if (of && at == i - 1 && of->known && !of->known->is_truth)
      return Expression{first, i, of->known->text(), kOperand, of->known};
  }
  if (i == first + 3 && (source_.is(first + 1, ".") || source_.is(first + 1, "::"))) {  // a static member
    const auto it = names_.find("." + std::string(source_[first + 2].text));
    if (it != names_.end()) {
      const bool is_written = it->second.is_truth || it->second.number <= 1 || !it->second.name.empty();
      return Expression{first, i, is_written ? it->second.text() : tokens(first, i), kOperand,
                        Known{it->second.number, it->second.is_truth}};
    }
  }
  return Expression{first, i, tokens(first, i), kOperand};
}

}  // namespace epifuse::codegen::lean
