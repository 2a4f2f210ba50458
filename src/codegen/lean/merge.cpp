// Function by function: arguments take the place of parameters, where that cannot change what is computed.
#include "codegen/lean/merge.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/lean/expressions.hpp"

namespace epifuse::codegen::lean {
namespace {

// A caller stays as long as a screen.
constexpr std::ptrdiff_t kMostLines = 60;

using Replacements = std::map<std::string, std::string, std::less<>>;

// Whether a word stands where a declaration has its name: "float* p", not "= *p".
bool is_declared_at(const Source& source, std::size_t i) {
  if (!source.is_word(i) || i < 2 || source.is(i - 1, "return") || source.is(i - 1, "const") ||
      source.is(i - 1, "constexpr"))
    return false;
  const bool refers = (source.is(i - 1, "&") || source.is(i - 1, "*")) && !source.is(i - 2, "return") &&
                      (source.is_word(i - 2) || source.is(i - 2, ">"));
  return source.is_word(i - 1) || refers || source.is(i - 1, ">");
}

// Names for others, but where they are a member's.
std::string replaced(std::string_view text, const Replacements& by) {
  const Source source(text);
  std::vector<Edit> edits;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool is_member = i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "->") || source.is(i - 1, "::"));
    const auto it = source.is_word(i) && !is_member ? by.find(source[i].text) : by.end();
    if (it != by.end()) edits.push_back({source[i].begin, source[i].end, it->second});
  }
  return edited(text, edits);
}

class MergedFunction {
 public:
  MergedFunction(std::vector<Unit>& units, std::size_t own)
      : units_(units), own_(own), source_(units[own].source()), head_(units[own].heads()[0]) {}

  bool merge() {
    if (!is_plain() || !find_sites()) return false;
    return hand_on() || (sites_.size() == 1 && take_place());
  }

 private:
  struct Place {
    std::size_t unit, name, open;
  };

  bool is_plain() {
    if (head_.body == source_.size() || source_[0].kind == Kind::directive || !units_[own_].guard.empty() ||
        !units_[own_].scope.empty())
      return false;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (source_[i].kind == Kind::directive && !source_[i].text.starts_with("#pragma")) return false;
    }
    if (source_.is(0, "template")) {
      for (const Source::Range item : source_.items(1)) {
        const std::string_view name = source_[item.last - 1].text;
        for (std::size_t i = head_.body; i < source_[head_.body].match; ++i) {
          if (source_.is(i, name)) return false;
        }
      }
    }
    for (const Source::Range item : source_.items(head_.open)) {
      const std::size_t last = item.last - 1;
      std::string name;
      for (std::size_t i = item.first; i < item.last; ++i) {
        if (source_.is(i, "(") && source_.is(i + 1, "&")) name = source_[i + 2].text;
      }
      if (name.empty() && last > item.first && source_.is_word(last)) name = source_[last].text;
      if (name.empty() || source_.between(item).find(" = ") != std::string_view::npos) return false;
      parameters_.push_back(name);
      const bool is_reference = source_.between(item).find('&') != std::string_view::npos;
      by_value_.push_back(!is_reference);
    }
    return true;
  }

  // All mentions are calls of the one definition.
  bool find_sites() {
    const std::string_view name = source_[head_.name].text;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const Source& source = units_[u].source();
      for (const Head& head : units_[u].heads()) {
        if (source.is(head.name, name) && u != own_) return false;
      }
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (!source.is(i, name) || (u == own_ && i == head_.name)) continue;
        const bool qualified = i > 0 && (source.is(i - 1, "::") || source.is(i - 1, ".") || source.is(i - 1, "->"));
        if (qualified || u == own_ || !source.is(i + 1, "(") || source[0].kind == Kind::directive) return false;
        if (i > 0 && source.is_word(i - 1) && !source.is(i - 1, "return") && !source.is(i - 1, "else")) return false;
        if (source.items(i + 1).size() != parameters_.size()) return false;
        sites_.push_back({u, i, i + 1});
      }
    }
    return !sites_.empty();
  }

  std::size_t mentions(std::string_view name) const {
    std::size_t count = 0;
    for (std::size_t i = head_.body; i < source_[head_.body].match; ++i) {
      const bool is_member = source_.is(i - 1, ".") || source_.is(i - 1, "->");
      count += source_.is(i, name) && !is_member ? 1 : 0;
    }
    return count;
  }

  // "{ return f(a, b); }" or "{ f(a, b.c); }" of parameters, paths and numbers.
  bool hand_on() {
    const std::size_t first = source_.next(head_.body), last = source_[head_.body].match;
    if (parameters_.empty() || !units_[own_].comment.empty() || source_.statement_end(first) != last ||
        !source_.is(last - 1, ";"))
      return false;
    const bool returns = source_.is(first, "return");
    const std::size_t begin = returns ? first + 1 : first;
    std::size_t open = begin;
    while (open < last - 1 && (source_.is_word(open) || source_.is(open, ".") || source_.is(open, "::"))) ++open;
    const bool is_identity = open == last - 1 && open == begin + 1;
    if (!is_identity && (!source_.is(open, "(") || source_[open].match != last - 2)) return false;
    if (!is_identity && source_.is(begin, "static_cast")) return false;
    for (std::size_t i = open + 1; !is_identity && i < last - 2; ++i) {
      const bool belongs = source_.is_word(i) || source_.is(i, ".") || source_.is(i, ",") || source_.is(i, "::") ||
                           is_known_literal(source_, i);
      if (!belongs) return false;
    }
    for (const std::string& name : parameters_) {
      if (mentions(name) != 1) return false;
    }
    std::map<std::size_t, std::vector<Edit>> edits;
    for (const Place& site : sites_) {
      const Source& at = units_[site.unit].source();
      const auto items = at.items(site.open);
      Replacements by;
      for (std::size_t k = 0; k < items.size(); ++k) by.emplace(parameters_[k], at.between(items[k]));
      // A member is asked of a path alone.
      for (std::size_t i = begin; i < last - 1; ++i) {
        if (by.contains(source_[i].text) && source_.is(i + 1, ".") && !is_path(at, items, source_[i].text))
          return false;
      }
      auto& of_unit = edits[site.unit];
      if (!of_unit.empty() && of_unit.back().end > at[site.name].begin) return false;
      of_unit.push_back(
          {at[site.name].begin, at[at[site.open].match].end, replaced(source_.between({begin, last - 1}), by)});
    }
    for (auto& [unit, list] : edits) units_[unit].set_text(edited(units_[unit].text(), list));
    units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(own_));
    return true;
  }

  bool is_path(const Source& at, const std::vector<Source::Range>& items, std::string_view name) const {
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (parameters_[k] == name) return is_path(at, items[k]);
    }
    return false;
  }
  static bool is_path(const Source& at, Source::Range item) {
    for (std::size_t i = item.first; i < item.last; ++i) {
      const bool belongs = at.is_word(i) || at.is(i, ".") || at.is(i, "[") || at.is(i, "]") || is_known_literal(at, i);
      if (!belongs) return false;
    }
    return true;
  }

  // The statements in the place of the one call.
  bool take_place() {
    const Place site = sites_[0];
    const Unit& caller = units_[site.unit];
    const Source& at = caller.source();
    const std::size_t end = at[site.open].match + 1;
    const std::size_t before = at.previous(site.name);
    const bool is_statement = at.is(end, ";") && (at.is(before, ";") || at.is(before, "{") || at.is(before, "}"));
    if (!is_statement || !source_.is(head_.name - 1, "void")) return false;
    const std::string_view text = caller.text();
    const std::size_t line = at.line_begin(at[site.name].begin);
    const std::size_t close = at[end].end;
    const bool alone = text.substr(line, at[site.name].begin - line).find_first_not_of(' ') == text.npos &&
                       close < text.size() && text[close] == '\n';
    if (!alone || source_.next(head_.body) == source_[head_.body].match) return false;
    std::set<std::string_view> declared;
    for (std::size_t i = head_.body + 1; i < source_[head_.body].match; ++i) {
      if (source_.is(i, "return")) return false;
      if (is_declared_at(source_, i)) declared.insert(source_[i].text);
      if (source_.is(i, "(") && source_.is(i + 1, "&")) declared.insert(source_[i + 2].text);
    }
    const auto items = at.items(site.open);
    Replacements by;
    for (std::size_t k = 0; k < items.size(); ++k) {
      if ((!is_path(at, items[k]) && !is_handed_on(at, items[k], parameters_[k])) ||
          (by_value_[k] && is_assigned(parameters_[k])))
        return false;
      for (std::size_t i = items[k].first; i < items[k].last; ++i) {
        if (at.is_word(i) && declared.contains(at[i].text) && at[i].text != parameters_[k]) return false;
      }
      if (declared.contains(parameters_[k]) && parameters_[k] != at.between(items[k])) return false;
      if (parameters_[k] != at.between(items[k])) by.emplace(parameters_[k], at.between(items[k]));
    }
    // What is declared must be new to the caller.
    const std::set<std::string_view> known = names_of_caller(at, site);
    for (const std::string_view name : declared_first()) {
      if (known.contains(name)) return false;
    }
    const std::size_t from = source_[head_.body].end, to = source_[source_[head_.body].match].begin;
    std::string_view body = units_[own_].text().substr(from, to - from);
    const std::string indent(at[site.name].begin - line, ' ');
    const std::string statements = indented(replaced(body, by), indent);
    if (std::ranges::count(text, '\n') + std::ranges::count(statements, '\n') > kMostLines) return false;
    const std::string comment = indented(units_[own_].comment, indent, 0);
    units_[site.unit].set_text(edited(text, {{line, close + 1, comment + statements}}));
    units_.erase(units_.begin() + static_cast<std::ptrdiff_t>(own_));
    return true;
  }

  // "&held[step]" for a parameter that is an argument alone, once.
  bool is_handed_on(const Source& at, Source::Range item, const std::string& name) const {
    if (!at.is(item.first, "&") || !is_path(at, {item.first + 1, item.last}) || mentions(name) != 1) return false;
    for (std::size_t i = head_.body; i < source_[head_.body].match; ++i) {
      if (!source_.is(i, name)) continue;
      const bool alone =
          (source_.is(i - 1, "(") || source_.is(i - 1, ",")) && (source_.is(i + 1, ")") || source_.is(i + 1, ","));
      if (!alone) return false;
    }
    return true;
  }

  bool is_assigned(std::string_view name) const {
    for (std::size_t i = head_.body; i < source_[head_.body].match; ++i) {
      if (!source_.is(i, name)) continue;
      const std::string_view after = source_[i + 1].text;
      const bool assigns = after.ends_with("=") && after != "==" && after != "<=" && after != ">=" && after != "!=";
      if (assigns || after == "++" || after == "--" || source_.is(i - 1, "++") || source_.is(i - 1, "--") ||
          source_.is(i - 1, "&"))
        return true;
    }
    return false;
  }

  // Names that the statements of the body itself declare, not those of blocks and loops in it.
  std::set<std::string_view> declared_first() const {
    std::set<std::string_view> names;
    for (std::size_t i = head_.body + 1; i < source_[head_.body].match; ++i) {
      if (source_.is(i, "(") && source_.is(i + 1, "&")) names.insert(source_[i + 2].text);
      if (source_[i].match > i && !source_.is(i, "<")) {
        i = source_[i].match;
        continue;
      }
      if (is_declared_at(source_, i)) names.insert(source_[i].text);
    }
    return names;
  }
  static std::set<std::string_view> names_of_caller(const Source& at, const Place& site) {
    std::set<std::string_view> names;
    for (std::size_t i = 0; i < at.size(); ++i) {
      if (at.is_word(i) && !(i >= site.name && i < at[site.open].match)) names.insert(at[i].text);
    }
    return names;
  }

  // Lines of a body, which stand two columns in, as far in as a statement.
  static std::string indented(std::string_view lines, const std::string& indent, std::size_t own = 2) {
    std::string out;
    if (own > 0 && lines.find('\n') == lines.npos) {
      const std::size_t first = lines.find_first_not_of(' ');
      const std::size_t last = lines.find_last_not_of(' ');
      return indent + std::string(lines.substr(first, last + 1 - first)) + "\n";
    }
    if (lines.starts_with("\n")) lines.remove_prefix(1);
    while (!lines.empty()) {
      const std::size_t length = std::min(lines.find('\n'), lines.size() - 1) + 1;
      std::string_view line = lines.substr(0, length);
      lines.remove_prefix(length);
      const bool has_text = line.find_first_not_of(" \n") != line.npos;
      if (!has_text) continue;
      if (line.starts_with("#")) {
        out += line;
        continue;
      }
      line.remove_prefix(std::min(own, line.find_first_not_of(' ')));
      out += indent;
      out += line;
    }
    return out;
  }

  std::vector<Unit>& units_;
  std::size_t own_;
  const Source& source_;
  Head head_;
  std::vector<std::string> parameters_;
  std::vector<bool> by_value_;
  std::vector<Place> sites_;
};

}  // namespace

bool merge_functions(std::vector<Unit>& units, std::string_view entry) {
  bool any = false;
  for (std::size_t i = 0; i < units.size();) {
    const bool is_function = units[i].kind == UnitKind::function && units[i].name != entry && !units[i].heads().empty();
    if (is_function && MergedFunction(units, i).merge()) {
      any = true;
    } else {
      ++i;
    }
  }
  return any;
}

}  // namespace epifuse::codegen::lean
