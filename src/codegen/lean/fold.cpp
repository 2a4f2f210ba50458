// One pass over a unit collects edits; passes repeat until there are none.
#include "codegen/lean/fold.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>

namespace epifuse::codegen::lean {
namespace {

using Value = std::optional<std::int64_t>;

// `constexpr int kName = value;` among tokens: the name, and the range of the value.
struct Definition {
  std::string_view name;
  Source::Range value;
};
std::optional<Definition> definition_at(const Source& source, std::size_t i) {
  if (!source.is(i, "constexpr") || source.is(i + 1, "(")) return std::nullopt;
  std::size_t equals = i;
  while (equals < source.size() && !source.is(equals, "=") && !source.is(equals, ";") && !source.is(equals, "("))
    ++equals;
  if (!source.is(equals, "=") || !source.is_word(equals - 1)) return std::nullopt;
  const std::size_t end = source.statement_end(equals);
  return Definition{source[equals - 1].text, {equals + 1, end - 1}};
}

// "f<a, b>" in lists: `static constexpr bool kInBounds = true, kIsFull = false;`
std::vector<Definition> definitions_at(const Source& source, std::size_t i) {
  const auto first = definition_at(source, i);
  if (!first) return {};
  std::vector<Definition> all;
  std::size_t begin = first->value.first;
  std::string_view name = first->name;
  for (std::size_t at = begin; at <= first->value.last; ++at) {
    if (source[at].match > at) at = source[at].match;
    if (at < first->value.last && !source.is(at, ",")) continue;
    all.push_back({name, {begin, at}});
    if (at == first->value.last) break;
    name = source[at + 1].text;
    begin = at + 3;  // behind the name and '='
  }
  return all;
}

void add_members(const Unit& unit, Known& known) {
  const Source& source = unit.source();
  if (source.is(0, "enum")) {
    std::size_t open = 0;
    while (!source.is(open, "{")) ++open;
    for (const Source::Range item : source.items(open)) {
      const std::string name = unit.name + "::" + std::string(source[item.first].text);
      known.set(name, static_cast<std::int64_t>(std::hash<std::string>()(name) >> 2));
    }
    return;
  }
  if (source.is(0, "template") || !unit.specialized.empty()) return;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is(i, "static") || !source.is(i + 1, "constexpr")) continue;
    for (const Definition& one : definitions_at(source, i + 1)) {
      if (const Value value = value_of(source, one.value, known))
        known.set(unit.name + "::" + std::string(one.name), value);
    }
  }
}

class Folder {
 public:
  Folder(const Unit& unit, const Known& known) : unit_(unit), source_(unit.source()), known_(with_locals(known)) {}

  std::vector<Edit> edits() {
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (source_[i].begin < edited_until_) continue;
      if (source_.is(i, "if")) {
        fold_if(i);
      } else if (source_.is(i, "?")) {
        fold_conditional(i);
      } else if (source_.is(i, "return")) {
        drop_behind(i);
      } else {
        drop_neutral(i);
      }
    }
    std::ranges::sort(edits_, {}, &Edit::begin);
    return std::move(edits_);
  }

 private:
  // What is known within the unit: constants of its own, but no parameter of a template.
  Known with_locals(const Known& outer) const {
    Known known(&outer);
    std::set<std::string_view> seen;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (source_.is(i, "template") && source_.is(i + 1, "<")) {
        for (const Source::Range item : source_.items(i + 1)) {
          for (std::size_t at = item.first; at < item.last && !source_.is(at, "="); ++at)
            known.set(source_[at].text, std::nullopt);
        }
      }
      if (i == 0) continue;
      for (const Definition& one : definitions_at(source_, i)) {
        const Value value = value_of(source_, one.value, known);
        const bool is_new = seen.insert(one.name).second;
        known.set(one.name, is_new || known.find(one.name) == value ? value : std::nullopt);
      }
    }
    return known;
  }

  Value value(Source::Range range) const { return value_of(source_, range, known_); }

  void add(std::size_t begin, std::size_t end, std::string text) {
    edits_.push_back({begin, end, std::move(text)});
    edited_until_ = std::max(edited_until_, end);
  }

  // ---- if

  void fold_if(std::size_t i) {
    const std::size_t open = source_.is(i + 1, "constexpr") ? i + 2 : i + 1;
    if (!source_.is(open, "(") || contains(open, ";")) return;
    const Source::Range condition{open + 1, source_[open].match};
    if (const Value known = value(condition)) return resolve_if(i, source_.next(condition.last), *known != 0);
    for (const std::string_view sign : {"&&", "||"}) {
      if (simplify(condition, sign)) return;
    }
  }

  bool contains(std::size_t open, std::string_view text) const {
    for (std::size_t i = open; i < source_[open].match; ++i) {
      if (source_.is(i, text)) return true;
    }
    return false;
  }

  // The sides of a chain of && or || that are known and decide nothing go.
  bool simplify(Source::Range condition, std::string_view sign) {
    std::vector<Source::Range> sides;
    std::size_t first = condition.first;
    for (std::size_t i = first; i < condition.last; ++i) {
      if (source_[i].match > i) i = source_[i].match;
      const std::string_view text = source_[i].text;
      if ((text == "&&" || text == "||" || text == "?") && text != sign) return false;
      if (text != sign) continue;
      sides.push_back({first, i});
      first = i + 1;
    }
    if (sides.empty()) return false;
    sides.push_back({first, condition.last});
    std::string left;
    std::size_t count = 0;
    for (const Source::Range side : sides) {
      if (value(side)) continue;
      left += (left.empty() ? "" : " " + std::string(sign) + " ") + std::string(source_.between(side));
      ++count;
    }
    if (count == sides.size()) return false;
    if (count == 1 && left.front() == '(' && sole_parentheses(sides)) left = left.substr(1, left.size() - 2);
    add(source_[condition.first].begin, source_[condition.last - 1].end, left);
    return true;
  }

  bool sole_parentheses(const std::vector<Source::Range>& sides) const {
    return std::ranges::any_of(sides, [&](Source::Range side) {
      return !value(side) && source_.is(side.first, "(") && source_[side.first].match == side.last - 1;
    });
  }

  void resolve_if(std::size_t i, std::size_t then, bool taken) {
    const std::size_t then_end = source_.statement_end(then);
    const std::size_t word = source_.next(then_end - 1);
    const bool has_else = source_.is(word, "else");
    const std::size_t other = has_else ? source_.next(word) : source_.size();
    const std::size_t end = has_else ? source_.statement_end(other) : then_end;
    const std::size_t end_at = source_[end - 1].end;
    const std::size_t before = source_.previous(i);
    const bool follows_else = source_.is(before, "else");
    if (!taken && !has_else) {
      const std::size_t begin = follows_else ? source_[source_.previous(before)].end : line_with_comment(i);
      return add(begin, follows_else ? end_at : end_of_line(end_at), "");
    }
    const std::size_t chosen = taken ? then : other;
    const std::size_t chosen_end = taken ? then_end : end;
    if (follows_else || (taken == false && source_.is(other, "if")))
      return add(source_[i].begin, end_at, std::string(source_.between({chosen, chosen_end})));
    add(source_.line_begin(source_[i].begin), end_at, statements(chosen, chosen_end, indentation(i)));
  }

  std::string indentation(std::size_t i) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    return std::string(unit_.text().substr(begin, source_[i].begin - begin));
  }
  std::size_t end_of_line(std::size_t at) const {
    return std::min(unit_.text().find('\n', at) + 1, unit_.text().size());
  }

  // The comment above a statement that goes says why it stood there.
  std::size_t line_with_comment(std::size_t i) const {
    std::size_t first = i;
    while (first > 0 && source_[first - 1].kind == Kind::comment &&
           indentation(first - 1).find_first_not_of(' ') == std::string::npos)
      --first;
    return source_.line_begin(source_[first].begin);
  }

  // A branch in the place of its `if`: the statements of a block that declares nothing which another declares, too.
  std::string statements(std::size_t first, std::size_t end, const std::string& indent) const {
    if (!source_.is(first, "{")) return indented_less(indent + std::string(source_.between({first, end})), indent);
    if (declares_again(first)) return indent + std::string(source_.between({first, end}));
    if (end - first == 2) return "";
    const std::size_t begin = source_[first].end + 1;  // behind the brace's line
    const std::size_t last = source_.line_begin(source_[end - 1].begin);
    std::string inner(unit_.text().substr(begin, last > begin ? last - begin : 0));
    if (!inner.empty()) inner.pop_back();
    return indented_less(inner, indent);
  }

  // Lines that were indented by two more.
  static std::string indented_less(const std::string& lines, const std::string& indent) {
    std::string out;
    const std::string deeper = indent + "  ";
    for (std::size_t at = 0; at <= lines.size();) {
      const std::size_t end = std::min(lines.find('\n', at), lines.size());
      const std::string line = lines.substr(at, end - at);
      out += (at == 0 ? "" : "\n") + (line.starts_with(deeper) ? line.substr(2) : line);
      at = end + 1;
    }
    return out;
  }

  // Whether a name that the block declares is declared outside of it, too.
  bool declares_again(std::size_t open) const {
    const std::size_t close = source_[open].match;
    for (std::size_t i = open + 1; i < close; ++i) {
      if (source_[i].match > i && !source_.is(i, "(")) i = source_[i].match;
      if (!is_declared(i)) continue;
      for (std::size_t other = 0; other < source_.size(); ++other) {
        if ((other < open || other > close) && source_.is(other, source_[i].text) && is_declared(other)) return true;
      }
    }
    return false;
  }
  bool is_declared(std::size_t i) const {
    if (i == 0 || !source_.is_word(i) ||
        !(source_.is(i + 1, "=") || source_.is(i + 1, ";") || source_.is(i + 1, "{") || source_.is(i + 1, "[")))
      return false;
    const std::size_t before = source_.previous(i);
    return before < i && ((source_.is_word(before) && !source_.is(before, "return")) || source_.is(before, ">") ||
                          source_.is(before, "&") || source_.is(before, "*"));
  }

  // ---- ?:

  void fold_conditional(std::size_t i) {
    std::size_t first = i;
    while (first > 0) {
      const std::size_t before = first - 1;
      if (source_[before].match != 0 && source_[before].match < before) {  // a closing bracket
        first = source_[before].match;
        continue;
      }
      const std::string_view text = source_[before].text;
      if (source_[before].match > before || text == "," || text == ";" || text == "return" || text == ":" ||
          text == "?" || text == "=" || text == "+=" || text == "-=" || !is_code(source_[before]))
        break;
      first = before;
    }
    const Value condition = value({first, i});
    if (!condition) return;
    int depth = 0;
    std::size_t colon = source_.size();
    std::size_t end = i + 1;
    for (; end < source_.size(); ++end) {
      const std::string_view text = source_[end].text;
      if (source_[end].match > end) {
        end = source_[end].match;
        continue;
      }
      if (text == "," || text == ";" || text == ")" || text == "]" || text == "}") break;
      depth += text == "?" ? 1 : 0;
      if (text != ":") continue;
      if (depth == 0 && colon == source_.size()) {
        colon = end;
      } else if (depth-- == 0) {
        break;  // of an outer one
      }
    }
    if (colon == source_.size()) return;
    const Source::Range chosen = *condition != 0 ? Source::Range{i + 1, colon} : Source::Range{colon + 1, end};
    std::size_t begin_at = source_[first].begin;
    std::size_t end_at = source_[end - 1].end;
    std::string text(source_.between(chosen));
    // Parentheses that held the whole of it.
    const bool held = first > 0 && source_.is(first - 1, "(") && source_[first - 1].match == end &&
                      (first < 2 || !(source_.is_word(first - 2) || source_.is(first - 2, ">"))) &&
                      !has_operator(chosen);
    if (held) {
      begin_at = source_[first - 1].begin;
      end_at = source_[end].end;
    }
    add(begin_at, end_at, std::move(text));
  }

  bool has_operator(Source::Range range) const {
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (source_[i].match > i) i = source_[i].match;
      if (source_[i].kind == Kind::sign && !source_.is(i, ".") && !source_.is(i, "->") && !source_.is(i, "::") &&
          source_[i].match == 0)
        return true;
    }
    return false;
  }

  // ---- neutral values

  bool ends_operand(std::size_t i) const {
    return i < source_.size() && ((source_.is_word(i) && !source_.is(i, "return")) || source_[i].kind == Kind::number ||
                                  source_.is(i, ")") || source_.is(i, "]"));
  }
  // A constant by its name alone.
  Value constant(std::size_t i) const {
    if (!source_.is_word(i) || !source_[i].text.starts_with('k')) return std::nullopt;
    for (const std::string_view sign : {"(", "[", ".", "->", "::", "<", "{", "="}) {
      if (source_.is(i + 1, sign) && (sign != "<" || source_[i + 1].match > i)) return std::nullopt;
    }
    if (i > 0 && (source_.is(i - 1, "::") || source_.is(i - 1, "."))) return std::nullopt;
    return value({i, i + 1});
  }

  void drop_neutral(std::size_t i) {
    const std::string_view sign = source_[i].text;
    if (sign != "*" && sign != "/" && sign != "+" && sign != "-") return;
    const std::size_t left = source_.previous(i);
    if (!ends_operand(left)) return;
    const bool is_product = sign == "*" || sign == "/";
    const std::int64_t neutral = is_product ? 1 : 0;
    const bool binds = source_.is(i + 2, "*") || source_.is(i + 2, "/") || source_.is(i + 2, "%");
    if (constant(i + 1) == Value(neutral) && (is_product || !binds)) {
      add(source_[left].end, source_[i + 1].end, "");
    } else if (sign == "*" && constant(left) == Value(1) && !follows_product(left)) {
      add(source_[left].begin, source_[i + 1].begin, "");
    }
  }
  bool follows_product(std::size_t i) const {
    return i > 0 && (source_.is(i - 1, "/") || source_.is(i - 1, "%") || source_.is(i - 1, "*"));
  }

  // ---- behind a return

  void drop_behind(std::size_t i) {
    const std::size_t before = source_.previous(i);
    if (!(source_.is(before, "{") || source_.is(before, "}") || source_.is(before, ";"))) return;
    // `else` and its `if` end with braces: what stands behind such an `if` is reached.
    const std::size_t end = source_.statement_end(i);
    std::size_t close = end;
    for (; close < source_.size() && !source_.is(close, "}"); ++close) {
      if (source_[close].kind == Kind::directive && !source_[close].text.starts_with("#pragma")) return;
      if (source_[close].match > close) close = source_[close].match;
    }
    if (close == end || close == source_.size()) return;
    bool any = false;
    for (std::size_t at = end; at < close; ++at) any = any || is_code(source_[at]);
    if (any) add(source_[end - 1].end, source_.line_begin(source_[close].begin) - 1, "");
  }

  const Unit& unit_;
  const Source& source_;
  Known known_;
  std::vector<Edit> edits_;
  std::size_t edited_until_ = 0;
};

}  // namespace

Known known_constants(const std::vector<Unit>& units) {
  Known known;
  for (const Unit& unit : units) {
    if (unit.source().is(0, "template")) continue;
    if (unit.kind == UnitKind::type) add_members(unit, known);
    if (unit.kind != UnitKind::constant || !unit.scope.empty()) continue;
    if (const auto one = definition_at(unit.source(), 0)) {
      if (const Value value = value_of(unit.source(), one->value, known)) known.set(unit.name, value);
    }
  }
  return known;
}

bool fold(Unit& unit, const Known& known) {
  if (unit.source().size() == 0 || unit.source()[0].kind == Kind::directive) return false;
  bool any = false;
  for (;;) {
    const std::vector<Edit> edits = Folder(unit, known).edits();
    if (edits.empty()) return any;
    unit.set_text(edited(unit.text(), edits));
    any = true;
  }
}

}  // namespace epifuse::codegen::lean
