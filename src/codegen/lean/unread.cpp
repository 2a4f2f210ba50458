// By name, one variable of a function at a time: a name that is declared twice stays.
#include "codegen/lean/unread.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace epifuse::codegen::lean {
namespace {

using Names = std::set<std::string, std::less<>>;
using Range = Source::Range;

bool is_one_of(const Source& source, std::size_t i, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words, [&](std::string_view word) { return source.is(i, word); });
}

// A word that is called but is no function of ours, and changes nothing.
bool is_value(const Source& source, std::size_t i) {
  return source[i].text.ends_with("_cast") ||
         is_one_of(source, i,
                   {"sizeof", "decltype", "if", "for", "while", "return", "constexpr", "__umulhi", "__umul64hi"});
}

// ---- functions that only compute

// Whether a body changes nothing but its variables and what its parameters refer to, if the functions do that it calls.
bool is_quiet(const Source& source, const Head& head, const Names& types, const Names& quiet) {
  for (std::size_t i = head.open; i < source[head.open].match; ++i) {
    if (source.is(i, "*")) return false;
  }
  for (std::size_t i = head.body; i < source[head.body].match; ++i) {
    if (source[i].kind == Kind::directive ? source[i].text != "#pragma unroll"
                                          : is_one_of(source, i, {"asm", "volatile", "reinterpret_cast", "__shared__"}))
      return false;
    if (!source.is_word(i) || source.call_of(i) == source.size() || is_value(source, i)) continue;
    if (!quiet.contains(source[i].text) && !types.contains(source[i].text)) return false;
  }
  return true;
}

// Names of functions all of which are quiet.
Names quiet_functions(const std::vector<Unit>& units, const Names& types) {
  Names quiet;
  for (const Unit& unit : units) {
    for (const Head& head : unit.heads()) quiet.emplace(unit.source()[head.name].text);
  }
  for (bool again = true; again;) {
    again = false;
    for (const Unit& unit : units) {
      for (const Head& head : unit.heads()) {
        const std::string_view name = unit.source()[head.name].text;
        if (!quiet.contains(name)) continue;
        const bool is_defined = head.body < unit.source().size();
        if (is_defined && unit.guard.empty() && is_quiet(unit.source(), head, types, quiet)) continue;
        quiet.erase(quiet.find(name));
        again = true;
      }
    }
  }
  return quiet;
}

// Of them those that change none of their arguments, nor their object.
Names pure_functions(const std::vector<Unit>& units, const Names& types) {
  Names pure = quiet_functions(units, types);
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (const Head& head : unit.heads()) {
      const auto items = source.items(head.open);
      const bool refers = std::ranges::any_of(items, [&](Range item) {
        return source.between(item).find('&') != std::string_view::npos && !source.is(item.first, "const");
      });
      const bool changes_object = unit.kind == UnitKind::type && !source.is(source[head.open].match + 1, "const");
      if (refers || changes_object) pure.erase(std::string(source[head.name].text));
    }
  }
  return pure;
}

// ---- variables

class Unread {
 public:
  Unread(const Unit& unit, const Names& types, const Names& pure)
      : unit_(unit), source_(unit.source()), types_(types), pure_(pure) {}

  std::optional<std::vector<Edit>> edits() const {
    for (std::size_t i = unit_.heads()[0].body + 1; i < source_.size(); ++i) {
      const auto name = declared_at(i);
      if (!name) continue;
      if (auto found = without(i, *name)) return found;
    }
    return std::nullopt;
  }

 private:
  // The name that "Position positions[1];" declares, which begins with token i. One with an initial value stays:
  // without it kernels had a few instructions more (docs/internals/lean.md).
  std::optional<std::size_t> declared_at(std::size_t i) const {
    const std::size_t before = source_.previous(i);
    if (!source_.is_word(i) || !is_one_of(source_, before, {"{", "}", ";"}) || !begins_line(i) ||
        is_one_of(source_, i,
                  {"return", "if", "for", "while", "else", "typedef", "using", "do", "asm", "extern", "__shared__",
                   "static", "constexpr", "break", "continue", "template", "alignas"}))
      return std::nullopt;
    for (std::size_t at = i; at < source_.size(); ++at) {
      const bool ends = source_.is(at, ";") || source_.is(at, "[");
      if (ends)
        return at >= i + 2 && source_.is_word(at - 1) && !source_.is_member(at - 1) ? std::optional(at - 1)
                                                                                    : std::nullopt;
      if (is_one_of(source_, at, {"=", "&", "*", "{", ".", "->"})) return std::nullopt;
      if (source_.is(at, "(") && !source_.is(at - 1, "decltype")) return std::nullopt;
      if (source_[at].match > at) at = source_[at].match;
    }
    return std::nullopt;
  }

  // The declaration of a name and all statements that give it a value go, if it stands nowhere else.
  std::optional<std::vector<Edit>> without(std::size_t declaration, std::size_t name) const {
    std::vector<Edit> edits;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (!source_.is(i, source_[name].text)) continue;
      if (source_.is_member(i)) return std::nullopt;  // of a type of the function
      const std::size_t first = i == name ? declaration : i;
      const std::size_t end = source_.statement_end(first);
      std::size_t value = i + 1;
      if (source_.is(value, "[")) value = source_[value].match + 1;
      if (!source_.is(value, ";") && !source_.is(value, "=")) return std::nullopt;
      if (!is_pure({value + 1, end - 1})) return std::nullopt;
      const auto begin = begin_of(first);
      if (!begin) return std::nullopt;
      if ((i == name) != source_.is(value, ";")) return std::nullopt;
      edits.push_back({source_.line_begin(source_[*begin].begin), end_of_line(end), ""});
      for (std::size_t at = i + 1; at < end; ++at) {
        if (source_.is(at, source_[name].text) && !source_.is_member(at)) return std::nullopt;
      }
    }
    return edits;
  }

  // Where a statement among others begins, or the loop which only repeats it, with what stands above that.
  std::optional<std::size_t> begin_of(std::size_t i) const {
    const std::size_t before = source_.previous(i);
    if (is_one_of(source_, before, {"{", "}", ";"})) {
      const bool is_unrolled = i > 0 && source_[i - 1].kind == Kind::directive;
      return begins_line(i) ? std::optional(is_unrolled ? i - 1 : i) : std::nullopt;
    }
    if (!source_.is(before, ")")) return std::nullopt;
    const std::size_t loop = source_.previous(source_[before].match);
    const bool counts = source_.is(loop, "for") && is_one_of(source_, loop + 2, {"int", "Index"});
    return counts ? begin_of(loop) : std::nullopt;
  }

  bool is_pure(Range range) const {
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (source_[i].kind == Kind::directive || is_one_of(source_, i, {"=", "asm"}) ||
          (source_.is_word(i) && source_.is_changed(i)))
        return false;
      const bool is_lambda = source_.is(i, "[") && !source_.is_word(i - 1) && !is_one_of(source_, i - 1, {")", "]"});
      if (is_lambda) return false;
      if (!source_.is_word(i) || source_.call_of(i) == source_.size() || is_value(source_, i)) continue;
      if (!pure_.contains(source_[i].text) && !types_.contains(source_[i].text)) return false;
    }
    return true;
  }

  bool begins_line(std::size_t i) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    return unit_.text().substr(begin, source_[i].begin - begin).find_first_not_of(' ') == std::string_view::npos;
  }
  std::size_t end_of_line(std::size_t last) const {
    return std::min(unit_.text().find('\n', source_[last - 1].end), unit_.text().size() - 1) + 1;
  }

  const Unit& unit_;
  const Source& source_;
  const Names& types_;
  const Names& pure_;
};

// "typedef Words<16> Access;" in a function: the type's name takes the place of the other.
std::vector<Edit> edits_of_alias(const Unit& unit) {
  const Source& source = unit.source();
  for (std::size_t i = unit.heads()[0].body; i + 3 < source.size(); ++i) {
    if (!source.is(i, "typedef") || !source.is_word(i + 1)) continue;
    std::size_t name = i + 2;
    if (source.is(name, "<") && source.is(name + 2, ">") && source[name + 1].kind == Kind::number) name += 3;
    if (!source.is_word(name) || !source.is(name + 1, ";")) continue;
    const std::string type(source.between({i + 1, name}));
    const std::size_t line = source.line_begin(source[i].begin);
    std::vector<Edit> edits = {{line, unit.text().find('\n', source[name + 1].end) + 1, ""}};
    for (std::size_t at = name + 2; at < source.size(); ++at) {
      if (source.is(at, source[name].text)) edits.push_back({source[at].begin, source[at].end, type});
    }
    return edits;
  }
  return {};
}

}  // namespace

bool drop_unread_variables(std::vector<Unit>& units) {
  Names types;
  for (const Unit& unit : units) {
    if (unit.kind == UnitKind::type) types.insert(unit.name);
  }
  const Names pure = pure_functions(units, types);
  bool any = false;
  for (Unit& unit : units) {
    if (unit.kind != UnitKind::function || unit.heads().empty() || unit.heads()[0].body == unit.source().size() ||
        unit.source()[0].kind == Kind::directive)
      continue;
    while (auto edits = Unread(unit, types, pure).edits()) {
      unit.set_text(edited(unit.text(), *edits));
      any = true;
    }
    if (const auto edits = edits_of_alias(unit); !edits.empty()) {
      unit.set_text(edited(unit.text(), edits));
      any = true;
    }
  }
  return any;
}

}  // namespace epifuse::codegen::lean
