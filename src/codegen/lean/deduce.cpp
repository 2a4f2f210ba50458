// Declarations are found by their form: a type, perhaps '&' or '*', and the name.
#include "codegen/lean/deduce.hpp"

#include <algorithm>
#include <array>

namespace epifuse::codegen::lean {
namespace {

struct Type {
  std::string text;  // without const
  bool is_const = false;
  int depth = 0;  // of a pointer or an array 1
  bool operator==(const Type&) const = default;
};

// Brackets behind a name, as of an array.
int depth_at(const Source& source, std::size_t i) {
  int depth = 0;
  for (; source.is(i, "["); i = source[i].match + 1) ++depth;
  return depth;
}

// Of the name at token i, if it is declared there.
std::optional<Type> declared_at(const Source& source, std::size_t i) {
  constexpr auto kNoTypes = std::to_array<std::string_view>(
      {"return", "else", "case", "template", "const", "auto", "class", "struct", "typename", "constexpr", "static"});
  if (i < 2) return std::nullopt;
  Type type;
  std::size_t last = i - 1;  // of the type
  if (source.is(last, "&")) {
    last -= source.is(last - 1, "(") ? 2 : 1;  // "T (&a)[2]"
  } else if (source.is(last, "*")) {
    type.depth = 1;
    --last;
  }
  std::size_t first = last;
  if (source.is(last, ">") && source[last].match < last) first = source[last].match - 1;
  if (!source.is_word(first) || std::ranges::find(kNoTypes, source[first].text) != kNoTypes.end()) return std::nullopt;
  const std::size_t before = first == 0 ? source.size() : source.previous(first);
  type.is_const = before < first && source.is(before, "const");
  const std::size_t start = type.is_const ? source.previous(before) : before;
  constexpr auto kBefore = std::to_array<std::string_view>({"(", ",", ";", "{", "}", "__shared__"});
  const bool is_aligned = source.is(start, ")") && source.is(source[start].match - 1, "alignas");
  const bool begins = start == source.size() || std::ranges::find(kBefore, source[start].text) != kBefore.end();
  if (!begins && !is_aligned) return std::nullopt;
  type.text = source.between({first, last + 1});
  type.depth += depth_at(source, source.is(i + 1, ")") ? i + 2 : i + 1);
  return type;
}

// All declarations of a name in [first, last), which must agree.
std::optional<Type> type_of_name(const Source& source, Source::Range range, std::string_view name) {
  std::optional<Type> all;
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (!source.is(i, name) || source.is_member(i)) continue;
    if (source.is(i - 1, "auto") || (source.is(i - 1, "&") && source.is(i - 2, "auto"))) return std::nullopt;
    const auto found = declared_at(source, i);
    if (!found) continue;
    if (all && *all != *found) return std::nullopt;
    all = found;
  }
  return all;
}

// The function of a unit that token i stands in.
Source::Range function_around(const Unit& unit, std::size_t i) {
  for (const Head& head : unit.heads()) {
    const Source& source = unit.source();
    if (head.body < source.size() && head.open < i && i < source[head.body].match)
      return {head.open, source[head.body].match};
  }
  return {0, 0};
}

// Not of what member functions declare.
std::optional<Type> type_of_own_member(const Unit& unit, std::string_view name) {
  const Source& source = unit.source();
  for (std::size_t i = 0; i < source.size(); ++i) {
    const bool is_inside = std::ranges::any_of(unit.heads(), [&](const Head& head) {
      return head.open < i && i < source[head.body < source.size() ? head.body : head.open].match;
    });
    if (is_inside || !source.is(i, name)) continue;
    if (const auto found = declared_at(source, i)) return found;
  }
  return std::nullopt;
}

std::optional<Type> type_of_member(const std::vector<Unit>& units, std::string_view name) {
  std::optional<Type> all;
  for (const Unit& unit : units) {
    if (unit.kind != UnitKind::type) continue;
    const auto found = type_of_own_member(unit, name);
    if (!found) continue;
    if (all && *all != *found) return std::nullopt;
    all = found;
  }
  return all;
}

// Of a member of a variable: of all types that have one of the name, unless the variable's is known.
std::optional<Type> type_of_member_of(const std::vector<Unit>& units, std::size_t unit, std::size_t variable,
                                      std::string_view name) {
  const Source& source = units[unit].source();
  const auto owner = type_of_name(source, function_around(units[unit], variable), source[variable].text);
  for (const Unit& one : units) {
    const bool is_owner = owner && owner->depth == 0 && one.kind == UnitKind::type && one.name == owner->text;
    if (!is_owner) continue;
    if (auto found = type_of_own_member(one, name)) return found;
  }
  return type_of_member(units, name);
}

// "__device__ __forceinline__ Position locate(…)": of a function that is the only one of its name.
std::optional<Type> type_of_result(const std::vector<Unit>& units, std::string_view name) {
  std::optional<Type> all;
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (const Head& head : unit.heads()) {
      if (!source.is(head.name, name)) continue;
      const bool is_plain = !all && unit.kind == UnitKind::function && head.name > 0 && source.is_word(head.name - 1) &&
                            source.is(head.name - 2, "__forceinline__") && !source.is(head.name - 1, "auto");
      if (!is_plain) return std::nullopt;
      all = Type{std::string(source[head.name - 1].text)};
    }
  }
  return all;
}

// "reinterpret_cast<const f16*>(words)"
std::optional<Type> type_of_cast(const Source& source, Source::Range path) {
  const std::size_t close = source[path.first + 1].match;
  const bool is_const = source.is(path.first + 2, "const");
  const std::size_t type = path.first + (is_const ? 3 : 2);
  const bool is_pointer = source.is_word(type) && source.is(type + 1, "*") && close == type + 2;
  if (!is_pointer || !source.is(close + 1, "(") || source[close + 1].match + 1 != path.last) return std::nullopt;
  return Type{std::string(source[type].text), is_const, 1};
}

// A variable, a member of one, a call, or a cast.
std::optional<Type> type_of_path(const std::vector<Unit>& units, std::size_t unit, Source::Range path) {
  const Source& source = units[unit].source();
  if (path.last == path.first + 1) {
    const auto found = type_of_name(source, function_around(units[unit], path.first), source[path.first].text);
    const bool is_member = !found && units[unit].kind == UnitKind::type;
    return is_member ? type_of_own_member(units[unit], source[path.first].text) : found;
  }
  if (path.last == path.first + 3 && source.is(path.first + 1, ".") && source.is_word(path.last - 1))
    return type_of_member_of(units, unit, path.first, source[path.last - 1].text);
  if (source.is(path.first, "reinterpret_cast") && source.is(path.first + 1, "<")) return type_of_cast(source, path);
  if (source.is(path.first + 1, "(") && source[path.first + 1].match + 1 == path.last)
    return type_of_result(units, source[path.first].text);
  return std::nullopt;
}

std::optional<Type> type_of(const std::vector<Unit>& units, std::size_t unit, Source::Range argument) {
  const Source& source = units[unit].source();
  std::size_t last = argument.last;
  int indices = 0;
  for (; last > argument.first && source.is(last - 1, "]"); last = source[last - 1].match) ++indices;
  if (!source.is_word(argument.first)) return std::nullopt;
  auto type = type_of_path(units, unit, {argument.first, last});
  if (!type && indices == 0) {  // a pointer and how far on
    const std::size_t plus = source.is(argument.first + 1, ".") ? argument.first + 3 : argument.first + 1;
    if (plus + 1 < argument.last && source.is(plus, "+")) type = type_of_path(units, unit, {argument.first, plus});
    if (type && type->depth != 1) return std::nullopt;
  }
  if (type) type->depth -= indices;
  return type;
}

}  // namespace

std::optional<Pattern> pattern_of(const Source& source, Source::Range parameter, std::string_view name) {
  Pattern pattern;
  std::size_t i = parameter.first;
  if (source.is(i, "const")) {
    pattern.takes_const = true;
    ++i;
  }
  if (source.is_word(i) && source.is(i + 1, "<") && source.is(i + 2, name) && source.is(i + 3, ">")) {
    pattern.around = source[i].text;
    i += 3;
  } else if (!source.is(i, name)) {
    return std::nullopt;
  }
  ++i;
  if (source.is(i, "*")) {
    pattern.depth = 1;
  } else if (source.is(i, "(") && source.is(i + 1, "&")) {
    pattern.depth = depth_at(source, source[i].match + 1);
  } else if (!source.is(i, "&")) {
    return std::nullopt;  // by value a pointer or an array would be another type
  }
  return pattern;
}

std::optional<std::string> deduced(const std::vector<Unit>& units, std::size_t unit, Source::Range argument,
                                   const Pattern& pattern) {
  const auto type = type_of(units, unit, argument);
  if (!type || type->depth != pattern.depth || (type->is_const && !pattern.takes_const)) return std::nullopt;
  if (pattern.around.empty()) return type->text;
  const std::string begin = std::string(pattern.around) + "<";
  if (!type->text.starts_with(begin) || !type->text.ends_with(">")) return std::nullopt;
  return type->text.substr(begin.size(), type->text.size() - begin.size() - 1);
}

}  // namespace epifuse::codegen::lean
