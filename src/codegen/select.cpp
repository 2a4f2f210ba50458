// Line by line: constants are learnt from lines that stay, so that a part may define what a later condition asks.
#include "codegen/select.hpp"

#include <charconv>
#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <vector>

#include "base/text.hpp"
#include "codegen/operators.hpp"

namespace epifuse::codegen {
namespace {

// Before a constant of conditions alone.
constexpr std::string_view kLet = "//@let ";

using Constants = std::map<std::string_view, std::int64_t>;

// The value of a constant expression, or nothing where it has anything else in it.
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

// "constexpr int kName = …;" that can be evaluated.
void learn(std::string_view line, Constants& constants) {
  for (const std::string_view type : {std::string_view("constexpr int "), std::string_view("constexpr bool "), kLet}) {
    if (!line.starts_with(type)) continue;
    const auto equals = line.find(" = ");
    const auto end = std::min(line.find(';'), line.find('\n'));
    if (equals > end || end == line.npos) return;
    const auto value = Evaluation(line.substr(equals + 3, end - equals - 3), constants).value();
    if (value) constants.insert_or_assign(line.substr(type.size(), equals - type.size()), *value);
  }
}

[[noreturn]] void refuse(std::string_view mark) {
  throw std::logic_error("a template's mark cannot be resolved: " + std::string(mark));
}

bool holds(std::string_view condition, const Constants& constants) {
  const auto value = Evaluation(condition, constants).value();
  if (!value) refuse(condition);
  return *value != 0;
}

// A line with marks within it.
void add_marked(std::string_view line, const Constants& constants, std::string& out) {
  constexpr std::string_view kIf = "/*@if ", kClose = "*/", kEndif = "/*@endif*/";
  for (auto at = line.find(kIf); at != line.npos; at = line.find(kIf)) {
    const auto close = line.find(kClose, at);
    const auto end = line.find(kEndif, at);
    if (end == line.npos) refuse(line);
    out += line.substr(0, at);
    const auto begin = close + kClose.size();
    if (holds(line.substr(at + kIf.size(), close - at - kIf.size()), constants)) out += line.substr(begin, end - begin);
    line.remove_prefix(end + kEndif.size());
  }
  out += line;
}

}  // namespace

std::string selected(std::string_view text) {
  struct Branch {
    bool around;  // what is around it stays
    bool stays;
  };
  std::vector<Branch> branches;
  Constants constants;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const std::string_view mark = base::trim(line.substr(0, line.find('\n')));
    const bool stays = branches.empty() || branches.back().stays;
    if (mark.starts_with("//@if ")) {
      branches.push_back({stays, stays && holds(mark.substr(6), constants)});
    } else if (mark == "//@else") {
      if (branches.empty()) refuse(mark);
      branches.back().stays = branches.back().around && !branches.back().stays;
    } else if (mark == "//@endif") {
      if (branches.empty()) refuse(mark);
      branches.pop_back();
    } else if (stays) {
      learn(line, constants);
      if (!line.starts_with(kLet)) add_marked(line, constants, out);
    }
  }
  if (!branches.empty()) refuse("an //@if without its //@endif");
  return out;
}

}  // namespace epifuse::codegen
