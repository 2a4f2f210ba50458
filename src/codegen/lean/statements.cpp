// One statement at a time, and the text is read anew: an edit changes what stands around the next.
#include "codegen/lean/statements.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>

#include "codegen/lean/declared.hpp"

namespace epifuse::codegen::lean {
namespace {

std::optional<long> number_of(const Source& source, std::size_t i) {
  long number = 0;
  const std::string_view text = source[i].text;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// The text moved to the left by `columns`, but for lines of the preprocessor.
std::string moved(std::string_view text, std::size_t columns) {
  std::string out;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    line.remove_prefix(std::min(std::min(line.find_first_not_of(' '), line.size()), columns));
    out += line;
  }
  return out;
}

class Statements {
 public:
  Statements(const Unit& unit, bool unrolls) : unit_(unit), source_(unit.source()), unrolls_(unrolls) {}

  std::optional<Edit> next() const {
    for (std::size_t i = source_.size(); i-- > 0;) {
      if (source_.is(i, "if")) {
        if (auto edit = branch(i)) return edit;
      }
      if (source_.is(i, "for")) {
        if (auto edit = loop(i)) return edit;
        if (auto edit = counted_by_one(i)) return edit;
      }
      if (source_.is(i, "{")) {
        if (auto edit = block(i)) return edit;
      }
    }
    return std::nullopt;
  }

 private:
  using Range = Source::Range;

  std::optional<Edit> branch(std::size_t i) const {
    const std::size_t open = source_.is(i + 1, "constexpr") ? i + 2 : i + 1;
    const bool holds = source_.is(open + 1, "true");
    if (!(holds || source_.is(open + 1, "false")) || source_[open].match != open + 2) return std::nullopt;
    const std::size_t yes = source_.next(source_[open].match);
    const std::size_t after_yes = source_.statement_end(yes);
    const std::size_t behind = source_.next(after_yes - 1);
    const bool has_else = source_.is(behind, "else");
    const std::size_t end = source_.statement_end(i);
    if (holds) return replaced(i, end, Range{yes, after_yes}, {});
    if (has_else) {
      const std::size_t no = source_.next(behind);
      return replaced(i, end, Range{no, source_.statement_end(no)}, {});
    }
    return removed(i, end);
  }

  // for (int k = 0; k < 1; ++k). Behind "#pragma unroll" the compiler may make something else of it: it unrolls nests
  // in an order of its own.
  std::optional<Edit> loop(std::size_t i) const {
    const bool is_unrolled = i > 0 && source_[i - 1].text == "#pragma unroll";
    if (i > 0 && source_[i - 1].kind == Kind::directive && !(is_unrolled && unrolls_)) return std::nullopt;
    const std::size_t open = i + 1;
    const std::size_t close = source_[open].match;
    const bool is_counted = source_.is(open + 1, "int") || source_.is(open + 1, "Index");
    if (!is_counted || !source_.is(open + 3, "=") || !source_.is(open + 5, ";") || !source_.is(open + 7, "<") ||
        !source_.is(open + 9, ";"))
      return std::nullopt;
    const std::string name(source_[open + 2].text);
    const auto first = number_of(source_, open + 4);
    const auto last = number_of(source_, open + 8);
    std::optional<long> step;
    if (source_.is(open + 10, "++") && close == open + 12) step = 1;
    if (source_.is(open + 11, "+=") && close == open + 13) step = number_of(source_, open + 12);
    if (!source_.is(open + 6, name) || !first || !last || !step) return std::nullopt;
    const std::size_t end = source_.statement_end(i);
    if (*first >= *last) {
      auto edit = removed(i, end);
      // What the loop is told would be told to the statement behind it.
      if (edit && is_unrolled && begins_line(i)) edit->begin = source_.line_begin(source_[i - 1].begin);
      return edit;
    }
    if (*first + *step < *last) return std::nullopt;
    const Range body{source_.next(close), end};
    for (std::size_t at = body.first; at < body.last; ++at) {
      const bool leaves = source_.is(at, "break") || source_.is(at, "continue");
      const bool assigns = source_.is(at, name) && source_.is_changed(at);
      const bool declares = source_.is(at, name) && source_.is_word(at - 1) && !source_.is(at - 1, "return");
      if (leaves || assigns || declares || (source_.is(at, name) && is_captured(at))) return std::nullopt;
    }
    auto edit = replaced(i, end, body, {name, std::string(source_[open + 4].text)});
    // What the loop inside is told stays with it.
    const bool is_told = source_[close + 1].kind == Kind::directive;
    if (!edit || !(is_unrolled || is_told)) return edit;
    if (edit->begin == source_[i].begin) {
      if (!begins_line(i)) return std::nullopt;
      edit->text = std::string(column_of(i), ' ') + edit->text;
    }
    if (is_told) edit->text = std::string(source_[close + 1].text) + "\n" + edit->text;
    edit->begin = source_.line_begin(source_[is_unrolled ? i - 1 : i].begin);
    return edit;
  }

  // "[k](float a) {…}": a lambda is given a name, no number.
  bool is_captured(std::size_t i) const {
    std::size_t open = i;
    while (open > 0 && (source_.is(open - 1, ",") || source_.is(open - 1, "&") || source_.is_word(open - 1))) --open;
    if (open == 0 || !source_.is(open - 1, "[")) return false;
    const std::size_t before = source_.previous(open - 1);
    return (!source_.is_word(before) || source_.is(before, "return")) && !source_.is(before, ")") &&
           !source_.is(before, "]");
  }

  // What a branch that is known has left between braces, because a branch before it declared the same names.
  std::optional<Edit> block(std::size_t i) const {
    const std::size_t end = source_[i].match + 1;
    if (i == 0 || !is_among_others(i) || !begins_line(i) || clashes(i, end, {i, end})) return std::nullopt;
    return replaced(i, end, Range{i, end}, {});
  }

  // for (int k = 0; k < n; k += 1)
  std::optional<Edit> counted_by_one(std::size_t i) const {
    const std::size_t close = source_[i + 1].match;
    if (!source_.is(close - 1, "1") || !source_.is(close - 2, "+=") || !source_.is(close - 4, ";")) return std::nullopt;
    return Edit{source_[close - 3].begin, source_[close - 1].end, "++" + std::string(source_[close - 3].text)};
  }

  struct Replacement {
    std::string name, by;
  };

  bool begins_line(std::size_t i) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    return unit_.text().substr(begin, source_[i].begin - begin).find_first_not_of(' ') == std::string_view::npos;
  }
  std::size_t column_of(std::size_t i) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    return unit_.text().find_first_not_of(' ', begin) - begin;
  }
  // Past the line's end, and a comment on it.
  std::size_t end_of_line(std::size_t last) const {
    return std::min(unit_.text().find('\n', source_[last - 1].end), unit_.text().size() - 1) + 1;
  }

  // A statement among others, not the one of a loop or a branch.
  bool is_among_others(std::size_t i) const {
    const std::size_t before = source_.previous(i);
    return source_.is(before, "{") || source_.is(before, "}") || source_.is(before, ";");
  }

  std::optional<Edit> removed(std::size_t i, std::size_t end) const {
    if (is_among_others(i) && begins_line(i)) return Edit{source_.line_begin(source_[i].begin), end_of_line(end), ""};
    const std::size_t before = source_.previous(i);
    if (source_.is(before, "else")) return Edit{source_[source_.previous(before)].end, source_[end - 1].end, ""};
    return std::nullopt;
  }

  std::string text_of(Range range, const Replacement& replacement) const {
    std::string out;
    std::size_t at = source_[range.first].begin;
    for (std::size_t i = range.first; i < range.last && !replacement.name.empty(); ++i) {
      if (!source_.is(i, replacement.name) || source_.is_member(i)) continue;
      out += unit_.text().substr(at, source_[i].begin - at);
      out += replacement.by;
      at = source_[i].end;
    }
    return out += unit_.text().substr(at, source_[range.last - 1].end - at);
  }

  // The statement that is left takes the place of all. Braces go where they hold apart nothing.
  std::optional<Edit> replaced(std::size_t i, std::size_t end, Range left, const Replacement& replacement) const {
    if (!begins_line(i) && !source_.is(source_.previous(i), "else") && !source_.is(source_.previous(i), ")"))
      return std::nullopt;
    const bool is_block = source_.is(left.first, "{");
    const bool unwraps = is_block && is_among_others(i) && !clashes(i, end, left);
    const bool alone = is_among_others(i) && begins_line(i);
    const std::size_t column = column_of(i);
    if (!unwraps) {
      const std::size_t from = column_of(left.first);
      std::string text =
          moved(text_of(left, replacement), from > column && begins_line(left.first) ? from - column : 0);
      if (!alone) return Edit{source_[i].begin, source_[end - 1].end, std::move(text)};
      const std::size_t begin = source_.line_begin(source_[i].begin);
      const bool leaves = source_.is(left.first, "return");
      return Edit{begin, leaves ? end_of_block(i, end) : source_[end - 1].end, std::string(column, ' ') + text};
    }
    const Range inside{left.first + 1, left.last - 1};
    if (inside.first == inside.last) return removed(i, end);
    const bool on_one_line =
        unit_.text()
            .substr(source_[left.first].begin, source_[left.last - 1].end - source_[left.first].begin)
            .find('\n') == std::string_view::npos;
    std::string text = text_of(inside, replacement);
    text = on_one_line ? std::string(column, ' ') + text
                       : moved((text.starts_with("#") ? "" : std::string(column + 2, ' ')) + text, 2);
    return Edit{source_.line_begin(source_[i].begin), returns(inside) ? end_of_block(i, end) : source_[end - 1].end,
                std::move(text)};
  }

  // Whether the last statement of a block leaves the function.
  bool returns(Range inside) const {
    std::size_t last = inside.first;
    for (std::size_t i = inside.first; i < inside.last;) {
      while (i < inside.last && !is_code(source_[i])) ++i;
      if (i >= inside.last) break;
      last = i;
      i = source_.statement_end(i);
    }
    return source_.is(last, "return");
  }

  // What stands behind it in its block is never reached. Where an #if ends on the way, another compiler reaches it.
  std::size_t end_of_block(std::size_t i, std::size_t end) const {
    std::size_t close = source_.size();
    for (std::size_t at = 0; at < i; ++at) {
      if (source_.is(at, "{") && source_[at].match > i) close = source_[at].match;
    }
    if (close == source_.size()) return source_[end - 1].end;
    for (std::size_t at = end; at < close; ++at) {
      const std::string_view text = source_[at].text;
      if (text.starts_with("#if") || text.starts_with("#el") || text.starts_with("#endif")) return source_[end - 1].end;
    }
    return source_[source_.previous(close)].end;
  }

  // Whether a name that the block declares stands outside it in the function, too.
  bool clashes(std::size_t i, std::size_t end, Range block) const {
    const std::set<std::string_view> declared = declared_in_block(source_, {block.first + 1, block.last - 1});
    for (std::size_t at = 0; at < source_.size(); ++at) {
      if (at >= i && at < end) continue;
      if (source_.is_word(at) && declared.contains(source_[at].text)) return true;
    }
    return false;
  }

  const Unit& unit_;
  const Source& source_;
  bool unrolls_;
};

}  // namespace

bool resolve_statements(Unit& unit, bool unrolls) {
  bool any = false;
  for (auto edit = Statements(unit, unrolls).next(); edit; edit = Statements(unit, unrolls).next()) {
    unit.set_text(edited(unit.text(), {*edit}));
    any = true;
  }
  return any;
}

}  // namespace epifuse::codegen::lean
