// By recursive descent: a function for each level of operators.
#include "codegen/lean/constants.hpp"

#include <algorithm>
#include <array>
#include <charconv>

namespace epifuse::codegen {
namespace {

// Operators of two operands, those that bind least first.
struct Operator {
  int level;
  std::string_view sign;
  std::int64_t (*apply)(std::int64_t, std::int64_t);
};
constexpr auto kOperators = std::to_array<Operator>({
    {0, "||", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 || b != 0; }},
    {1, "&&", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 && b != 0; }},
    {2, "==", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a == b; }},
    {2, "!=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != b; }},
    {3, "<=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a <= b; }},
    {3, ">=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a >= b; }},
    {3, "<", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a < b; }},
    {3, ">", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a > b; }},
    {4, "+", [](std::int64_t a, std::int64_t b) { return a + b; }},
    {4, "-", [](std::int64_t a, std::int64_t b) { return a - b; }},
    {5, "*", [](std::int64_t a, std::int64_t b) { return a * b; }},
    {5, "/", [](std::int64_t a, std::int64_t b) { return b == 0 ? 0 : a / b; }},
    {5, "%", [](std::int64_t a, std::int64_t b) { return b == 0 ? 0 : a % b; }},
});
constexpr int kUnary = 6;

class Evaluation {
 public:
  Evaluation(std::string_view text, const Constants& constants) : rest_(text), constants_(constants) {}

  std::optional<std::int64_t> value() {
    const auto found = choice();
    skip_spaces();
    return rest_.empty() ? found : std::nullopt;
  }

 private:
  // condition ? a : b
  std::optional<std::int64_t> choice() {
    const auto condition = of_level(0);
    if (!condition || !take("?")) return condition;
    const auto yes = choice();
    if (!yes || !take(":")) return std::nullopt;
    const auto no = choice();
    return !no ? std::nullopt : *condition != 0 ? yes : no;
  }

  std::optional<std::int64_t> of_level(int level) {
    if (level == kUnary) return unary();
    auto left = of_level(level + 1);
    while (left) {
      const Operator* found = nullptr;
      for (const Operator& one : kOperators) {
        if (found == nullptr && one.level == level && take(one.sign)) found = &one;
      }
      if (found == nullptr) break;
      const auto right = of_level(level + 1);
      left = right ? std::optional(found->apply(*left, *right)) : std::nullopt;
    }
    return left;
  }

  std::optional<std::int64_t> unary() {
    if (take("!")) {
      const auto of = unary();
      return of ? std::optional<std::int64_t>(*of == 0) : std::nullopt;
    }
    if (take("-")) {
      const auto of = unary();
      return of ? std::optional(-*of) : std::nullopt;
    }
    if (!take("(")) return word();
    const auto inside = choice();
    return take(")") ? inside : std::nullopt;
  }

  std::optional<std::int64_t> word() {
    skip_spaces();
    const std::size_t end = std::min(rest_.find_first_not_of(kOfWords), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    if (word == "true" || word == "false") return word == "true";
    std::int64_t number = 0;
    const auto [behind, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error == std::errc{} && behind == word.data() + word.size()) return number;
    const auto it = constants_.find(word);
    return it == constants_.end() ? std::nullopt : std::optional(it->second);
  }

  void skip_spaces() { rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size())); }
  bool take(std::string_view sign) {
    skip_spaces();
    if (!rest_.starts_with(sign)) return false;
    // "!" of "!=", "<" of "<<"
    if (sign.size() == 1 && rest_.size() > 1 && std::string_view("<>=!|&").find(sign[0]) != std::string_view::npos &&
        std::string_view("<>=|&").find(rest_[1]) != std::string_view::npos)
      return false;
    rest_.remove_prefix(sign.size());
    return true;
  }

  static constexpr std::string_view kOfWords = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
  std::string_view rest_;
  const Constants& constants_;
};

}  // namespace

std::optional<std::int64_t> value_of(std::string_view expression, const Constants& constants) {
  return Evaluation(expression, constants).value();
}

}  // namespace epifuse::codegen
