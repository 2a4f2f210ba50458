// Text by text, one change at a time, until there is none: each reads the tokens that the one before left.
#include "codegen/lean/fold.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/lean/expressions.hpp"

namespace epifuse::codegen::lean {
namespace {

// What a definition "constexpr int kName = …;" says.
struct ConstantText {
  std::size_t name = 0, begin = 0, end = 0;  // tokens: of the name and of the value
  bool is_truth = false;
};
std::optional<ConstantText> constant_at(const Source& source, std::size_t i) {
  if (!source.is(i, "constexpr") || !source.is_word(i + 1) || !source.is_word(i + 2) || !source.is(i + 3, "="))
    return std::nullopt;
  const bool is_truth = source.is(i + 1, "bool");
  if (!is_truth && !source.is(i + 1, "int")) return std::nullopt;
  return ConstantText{i + 2, i + 4, source.statement_end(i) - 1, is_truth};
}

// What stands in the place of a constant, or nothing if its name says more.
std::optional<std::string> literal_of(std::int64_t value, bool is_truth) {
  if (is_truth) return value != 0 ? "true" : "false";
  if (value == 0 || value == 1) return std::to_string(value);
  return std::nullopt;
}

struct Known {
  Constants values;                                             // all that can be evaluated
  std::map<std::string, std::string, std::less<>> substituted;  // by name: a literal
  std::map<std::string, std::string, std::less<>> of_types;     // by type and name: the same
};

Known constants_of(const std::vector<Unit>& units) {
  Known known;
  for (const Unit& unit : units) {
    if (unit.kind != UnitKind::constant || !unit.scope.empty() || !unit.guard.empty()) continue;
    const auto definition = constant_at(unit.source(), 0);
    if (!definition) continue;
    const auto value = value_of(unit.source().between({definition->begin, definition->end}), known.values);
    if (!value) continue;
    known.values.insert_or_assign(unit.name, *value);
    if (auto literal = literal_of(*value, definition->is_truth))
      known.substituted.insert_or_assign(unit.name, *literal);
  }
  // "static constexpr bool kName = true;" of a type, as Type::kName.
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (std::size_t i = 0; unit.kind == UnitKind::type && i < source.size(); ++i) {
      if (!source.is(i, "static") || !source.is(i + 2, "bool") || !is_known_literal(source, i + 5) ||
          !source.is(i + 6, ";"))
        continue;
      if (auto text = constant_at(source, i + 1))
        known.of_types.insert_or_assign(unit.name + "::" + std::string(source[text->name].text), source[i + 5].text);
    }
  }
  return known;
}

class Fold {
 public:
  Fold(const Unit& unit, const Known& known) : source_(unit.source()), known_(known) {
    // A name that means something else here: a member, a parameter of a template.
    for (std::size_t i = 1; i < source_.size(); ++i) {
      const bool declares = source_.is_word(i) && source_.is_word(i - 1) && !source_.is(i - 1, "return") &&
                            !source_.is(i - 1, "else") && known_.values.contains(source_[i].text);
      if (declares) hidden_.insert(source_[i].text);
    }
  }

  // The text after one change.
  std::optional<std::string> changed() const {
    if (auto edits = substitutions(); !edits.empty()) return edited(source_.text(), edits);
    for (std::size_t i = 0; i < source_.size(); ++i) {
      auto edit = statement_at(i);
      if (edit) return edited(source_.text(), {*std::move(edit)});
    }
    auto edit = simplification(source_, 0, source_.size(), visible());
    return edit ? std::optional(edited(source_.text(), {*std::move(edit)})) : std::nullopt;
  }

 private:
  Constants visible() const {
    Constants values = known_.values;
    for (const std::string_view name : hidden_) values.erase(std::string(name));
    return values;
  }

  std::vector<Edit> substitutions() const {
    std::vector<Edit> edits;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (!source_.is_word(i)) continue;
      if (i > 1 && source_.is(i - 1, "::") && source_.is_word(i - 2)) {
        const auto of_type = known_.of_types.find(source_.between({i - 2, i + 1}));
        if (of_type != known_.of_types.end()) edits.push_back({source_[i - 2].begin, source_[i].end, of_type->second});
      }
      const auto it = known_.substituted.find(source_[i].text);
      if (it == known_.substituted.end() || hidden_.contains(source_[i].text)) continue;
      if (i > 0 && (source_.is(i - 1, ".") || source_.is(i - 1, "->") || source_.is(i - 1, "::"))) continue;
      edits.push_back({source_[i].begin, source_[i].end, it->second});
    }
    return edits;
  }

  std::optional<Edit> statement_at(std::size_t i) const {
    if (source_.is(i, "if")) return branch(i);
    if (source_.is(i, "for")) return loop_of_one_turn(i);
    if (source_.is(i, "return")) return behind_return(i);
    if (source_.is(i, "static_assert") && i > 0) return assertion(i);
    if (source_.is(i, "constexpr") && i > 0) return local_constant(i);
    return std::nullopt;
  }

  bool has_directive(std::size_t first, std::size_t last) const {
    for (std::size_t i = first; i < last; ++i) {
      if (source_[i].kind == Kind::directive && !source_[i].text.starts_with("#pragma")) return true;
    }
    return false;
  }

  // The block around a token: its '{', or size().
  std::size_t block_of(std::size_t i) const {
    while (i > 0) {
      --i;
      if ((source_.is(i, "}") || source_.is(i, ")") || source_.is(i, "]")) && source_[i].match < i) {
        i = source_[i].match;
      } else if (source_.is(i, "{")) {
        return i;
      } else if (source_.is(i, "(") || source_.is(i, "[")) {
        return source_.size();
      }
    }
    return source_.size();
  }

  bool stands_in_its_lines(std::size_t first, std::size_t last) const {
    const std::string_view text = source_.text();
    const std::size_t line = source_.line_begin(source_[first].begin);
    const std::size_t end = source_[last - 1].end;
    return text.substr(line, source_[first].begin - line).find_first_not_of(' ') == text.npos &&
           (end == text.size() || text[end] == '\n');
  }

  // Lines of statements, two columns to the left.
  static std::string dedented(std::string_view lines) {
    std::string out;
    while (!lines.empty()) {
      const std::size_t length = std::min(lines.find('\n'), lines.size() - 1) + 1;
      std::string_view line = lines.substr(0, length);
      lines.remove_prefix(length);
      if (line.starts_with("  ")) line.remove_prefix(2);
      out += line;
    }
    return out;
  }

  // Names that statements in [first, last) declare, not those within [without, behind) nor in blocks of their own.
  std::set<std::string_view> declared_in(std::size_t first, std::size_t last, std::size_t without,
                                         std::size_t behind) const {
    std::set<std::string_view> names;
    for (std::size_t i = first; i < last; ++i) {
      if (i == without && behind > without) i = behind;
      if (i >= last) break;
      if (source_[i].match > i && !source_.is(i, "<")) {
        if (source_.is(i, "(") && source_.is(i + 1, "&") && source_.is_word(i + 2)) names.insert(source_[i + 2].text);
        i = source_[i].match;
        continue;
      }
      if (!source_.is_word(i) || i == 0 || source_.is(i - 1, "return")) continue;
      // "float* p", not "= *p".
      const bool refers = (source_.is(i - 1, "&") || source_.is(i - 1, "*")) && i > 1 &&
                          (source_.is_word(i - 2) || source_.is(i - 2, ">")) && !source_.is(i - 2, "return");
      const bool typed = source_.is_word(i - 1) || refers || source_.is(i - 1, ">") || source_.is(i - 1, ",");
      if (typed) names.insert(source_[i].text);
    }
    return names;
  }

  // Whether what a block declares may stand in the block around a statement.
  bool can_be_unwrapped(std::size_t open, std::size_t first, std::size_t last) const {
    const std::size_t around = block_of(first);
    if (around == source_.size()) return false;
    const std::set<std::string_view> inside = declared_in(open + 1, source_[open].match, first, first);
    // The parameters stand before the block of a function.
    std::size_t begin = around;
    while (begin > 0 && !source_.is(begin - 1, ";") && !source_.is(begin - 1, "}") && !source_.is(begin - 1, "{"))
      --begin;
    for (std::size_t i = begin; i < around; ++i) {
      if (inside.contains(source_[i].text)) return false;
    }
    for (const std::string_view name : declared_in(around + 1, source_[around].match, first, last)) {
      if (inside.contains(name)) return false;
    }
    return true;
  }

  // The statement in [body, end), in the place of that in [first, last), of which it is a part.
  std::optional<Edit> in_place(std::size_t first, std::size_t last, std::size_t body, std::size_t end) const {
    if (has_directive(first, last)) return std::nullopt;
    const std::string_view text = source_.text();
    if (source_.is(body, "{") && stands_in_its_lines(first, last) && can_be_unwrapped(body, first, last)) {
      if (source_[body].match == body + 1) return lines(first, last, "");
      const std::size_t from = source_[body].end + 1;  // the line behind '{'
      const std::size_t to = source_.line_begin(source_[source_[body].match].begin);
      if (from > to || text[source_[body].end] != '\n') return std::nullopt;
      return lines(first, last, dedented(text.substr(from, to - from)));
    }
    return Edit{source_[first].begin, source_[last - 1].end, std::string(source_.between({body, end}))};
  }
  Edit lines(std::size_t first, std::size_t last, std::string text) const {
    const std::size_t end = source_[last - 1].end;
    return {source_.line_begin(source_[first].begin), std::min(end + 1, source_.text().size()), std::move(text)};
  }

  // if (known) a else b
  std::optional<Edit> branch(std::size_t i) const {
    const std::size_t open = source_.is(i + 1, "constexpr") ? i + 2 : i + 1;
    if (!source_.is(open, "(")) return std::nullopt;
    const std::size_t close = source_[open].match;
    const auto condition = value_of(source_.between({open + 1, close}), visible());
    if (!condition) return std::nullopt;
    const std::size_t yes = source_.next(close);
    const std::size_t last = source_.statement_end(i);
    std::size_t end = source_.statement_end(yes);
    const std::size_t other = source_.next(end - 1);
    const bool has_other = source_.is(other, "else") && other < last;
    if (*condition != 0) return in_place(i, last, yes, end);
    if (has_other) return in_place(i, last, source_.next(other), last);
    if (has_directive(i, last)) return std::nullopt;
    const std::size_t before = source_.previous(i);
    if (source_.is(before, "else")) return Edit{source_[source_.previous(before)].end, source_[last - 1].end, ""};
    if (source_.is(before, ")") || !stands_in_its_lines(i, last))
      return Edit{source_[i].begin, source_[last - 1].end, "{}"};
    return lines(i, last, "");
  }

  // for (int i = 0; i < 1; ++i) …
  std::optional<Edit> loop_of_one_turn(std::size_t i) const {
    const std::size_t open = i + 1, close = source_[open].match;
    if (!source_.is_word(open + 1) || !source_.is_word(open + 2) || !source_.is(open + 3, "=")) return std::nullopt;
    const std::string_view name = source_[open + 2].text;
    const std::size_t first = source_.statement_end(open + 1);  // of the condition
    const std::size_t step = source_.statement_end(first);
    if (!source_.is(first - 1, ";") || !source_.is(step - 1, ";") || step != first + 4) return std::nullopt;
    const auto from = value_of(source_.between({open + 4, first - 1}), {});
    if (!from || !source_.is(first, name) || !source_.is(first + 1, "<")) return std::nullopt;
    const auto to = value_of(source_[first + 2].text, visible());
    std::optional<std::int64_t> by;
    if (source_.is(step, "++") && source_.is(step + 1, name) && step + 2 == close) by = 1;
    if (source_.is(step, name) && source_.is(step + 1, "+=") && step + 3 == close)
      by = value_of(source_[step + 2].text, visible());
    if (!to || !by || *from >= *to || *from + *by < *to) return std::nullopt;
    const std::size_t body = source_.next(close), last = source_.statement_end(i);
    for (std::size_t at = body; at < last; ++at) {
      if (source_.is(at, "continue") || source_.is(at, "break")) return std::nullopt;
      // Its own variable stays what it is.
      const bool assigns =
          source_.is(at, name) && (source_.is(at + 1, "=") || source_.is(at + 1, "+=") || source_.is(at - 1, "++") ||
                                   source_.is(at - 1, "&") || source_.is_word(at - 1));
      if (assigns && !source_.is(at - 1, "return")) return std::nullopt;
    }
    const bool has_pragma = i > 0 && source_[i - 1].kind == Kind::directive;
    const std::size_t begin = has_pragma ? i - 1 : i;
    auto edit = in_place(i, last, body, last);
    if (!edit || has_directive(begin, i)) return std::nullopt;
    edit->text = with_value(edit->text, name, std::to_string(*from));
    if (has_pragma) {
      // The line of the pragma goes, and what stands before the loop in its line stays.
      const std::string indent(source_.text().substr(source_[i - 1].end + 1, edit->begin - source_[i - 1].end - 1));
      edit->text = indent + edit->text;
      edit->begin = source_[i - 1].begin;
    }
    return edit;
  }

  // A name's value in its place, but where it is a member's.
  static std::string with_value(const std::string& text, std::string_view name, const std::string& value) {
    const Source source(text);
    std::vector<Edit> edits;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const bool is_member = i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "->") || source.is(i - 1, "::"));
      if (source.is(i, name) && !is_member) edits.push_back({source[i].begin, source[i].end, value});
    }
    return edited(text, edits);
  }

  // What no thread comes to.
  std::optional<Edit> behind_return(std::size_t i) const {
    const std::size_t before = source_.previous(i);
    if (!source_.is(before, ";") && !source_.is(before, "}") && !source_.is(before, "{")) return std::nullopt;
    const std::size_t end = source_.statement_end(i);
    const std::size_t block = block_of(i);
    if (block == source_.size() || end >= source_[block].match || has_directive(end, source_[block].match))
      return std::nullopt;
    // A branch of the preprocessor may hold the return alone.
    for (std::size_t at = block; at < i; ++at) {
      if (source_[at].kind == Kind::directive && !source_[at].text.starts_with("#pragma")) return std::nullopt;
    }
    return Edit{source_[end - 1].end, source_[source_[block].match - 1].end, ""};
  }

  std::optional<Edit> assertion(std::size_t i) const {
    const std::vector<Source::Range> items = source_.items(i + 1);
    const std::size_t last = source_.statement_end(i);
    const auto holds = value_of(source_.between(items[0]), visible());
    if (!holds || *holds == 0 || !stands_in_its_lines(i, last)) return std::nullopt;
    return lines(i, last, "");
  }

  // constexpr int kName = 1; within a function
  std::optional<Edit> local_constant(std::size_t i) const {
    const auto definition = constant_at(source_, i);
    if (!definition || source_.is(i - 1, "static")) return std::nullopt;
    const std::size_t end = source_.statement_end(i), block = block_of(i);
    if (block == source_.size()) return std::nullopt;
    const auto value = value_of(source_.between({definition->begin, definition->end}), visible());
    if (!value) return std::nullopt;
    const auto literal = literal_of(*value, definition->is_truth);
    if (!literal) return std::nullopt;
    const std::size_t last = source_[source_[block].match].begin;
    const std::size_t line = source_.text().find('\n', source_[end - 1].end) + 1;
    const std::string rest(source_.text().substr(line, last - line));
    return Edit{source_.line_begin(source_[i].begin), last, with_value(rest, source_[definition->name].text, *literal)};
  }

  const Source& source_;
  const Known& known_;
  std::set<std::string_view> hidden_;
};

bool is_true_assertion(const Unit& unit, const Constants& values) {
  if (!unit.source().is(0, "static_assert")) return false;
  const auto holds = value_of(unit.source().between(unit.source().items(1)[0]), values);
  return holds && *holds != 0;
}

}  // namespace

bool fold_constants(std::vector<Unit>& units) {
  const Known known = constants_of(units);
  bool any = std::erase_if(units, [&](const Unit& unit) { return is_true_assertion(unit, known.values); }) > 0;
  for (Unit& unit : units) {
    if (unit.source().size() == 0 || known.substituted.contains(unit.name)) continue;
    for (auto text = Fold(unit, known).changed(); text; text = Fold(unit, known).changed()) {
      unit.set_text(*std::move(text));
      any = true;
    }
  }
  return any;
}

}  // namespace epifuse::codegen::lean
