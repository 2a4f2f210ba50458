// Names and numbers of an error's sentence against those of the text that it refuses.
#include "generator/wording.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <vector>

namespace epifuse::test {
namespace {

constexpr std::size_t kMostDigits = 13;  // 2^40 elements are the most that one launch takes

// What an operator stands for, by which errors call it.
constexpr std::pair<std::string_view, std::string_view> kOperators[] = {
    {"+", "add"}, {"-", "sub"}, {"-", "neg"}, {"*", "mul"}, {"/", "div"}, {"%", "remainder"}, {"**", "pow"},
    {"<", "lt"},  {">", "gt"},  {"<=", "le"}, {">=", "ge"}, {"==", "eq"}, {"!=", "ne"}};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

std::string name_at(const std::string& text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && (is_letter(text[end]) || is_digit(text[end]))) ++end;
  return text.substr(at, end - at);
}

std::set<std::string, std::less<>> words_of(const NamedText& named) {
  std::set<std::string, std::less<>> words(named.results.begin(), named.results.end());
  for (std::size_t i = 0; i < named.text.size(); ++i) {
    if (!is_letter(named.text[i])) continue;
    const std::string name = name_at(named.text, i);
    words.insert(name);
    i += name.size();
  }
  for (const auto& [symbol, name] : kOperators) {
    if (named.text.find(symbol) != std::string::npos) words.emplace(name);
  }
  if (words.contains("not")) words.emplace("logical_not");
  if (words.contains("and")) words.emplace("logical_and");
  if (words.contains("or")) words.emplace("logical_or");
  return words;
}

// Names in quotes; the apostrophe of "the chain's" opens none.
std::vector<std::string> quoted(const std::string& sentence) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i + 1 < sentence.size(); ++i) {
    if (sentence[i] != '\'' || (i > 0 && sentence[i - 1] != ' ' && sentence[i - 1] != '(')) continue;
    const std::size_t end = sentence.find('\'', i + 1);
    if (end == std::string::npos) break;
    const std::string name = sentence.substr(i + 1, end - i - 1);
    if (!name.empty() && is_letter(name[0]) && name_at(name, 0) == name) names.push_back(name);
    i = end;
  }
  return names;
}

}  // namespace

std::optional<std::string> misnamed(const std::string& sentence, const NamedText& named) {
  const std::set<std::string, std::less<>> words = words_of(named);
  for (const std::string& name : quoted(sentence)) {
    if (!words.contains(name)) return "names '" + name + "', which nobody wrote:";
  }
  std::size_t digits = 0;
  for (const char c : sentence) {
    digits = is_digit(c) ? digits + 1 : 0;
    if (digits > kMostDigits) return "has a number of more than 13 digits:";
  }
  return std::nullopt;
}

}  // namespace epifuse::test
