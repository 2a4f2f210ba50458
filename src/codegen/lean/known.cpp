// Constants first, then statements, one at a time. A name that a unit declares itself means something else there.
#include "codegen/lean/known.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>

#include "codegen/lean/fold.hpp"
#include "codegen/lean/statements.hpp"

namespace epifuse::codegen::lean {
namespace {

// "constexpr int kName = …;": the tokens of its value.
std::optional<Source::Range> value_of_constant(const Source& source, std::size_t i) {
  const bool is_constant = source.is(i, "constexpr") && (source.is(i + 1, "int") || source.is(i + 1, "bool")) &&
                           source.is_word(i + 2) && source.is(i + 3, "=");
  if (!is_constant) return std::nullopt;
  const std::size_t end = source.statement_end(i);
  const Source::Range range{i + 4, end - 1};
  for (std::size_t at = range.first; at < range.last; ++at) {
    if (source.is(at, ",")) return std::nullopt;  // two names
  }
  return range;
}

bool is_global_constant(const Unit& unit) {
  return unit.kind == UnitKind::constant && unit.scope.empty() && unit.guard.empty();
}

// "typedef float f32;" and "struct f16 { unsigned short bits; };": their bytes, as "sizeof f16".
void add_sizes(const std::vector<Unit>& units, KnownNames& names) {
  for (const auto& [type, bytes] :
       {std::pair{"float", 4}, {"double", 8}, {"int", 4}, {"unsigned", 4}, {"char", 1}, {"short", 2}})
    names.emplace("sizeof " + std::string(type), Known{bytes, false});
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    if (unit.kind != UnitKind::type || !unit.scope.empty()) continue;
    const bool is_struct = source.is(0, "struct") && source.is(2, "{") && source.is(5, ";") && source.is(6, "}");
    const bool of_two_words = source.is(0, "struct") && source.is(2, "{") && source.is(6, ";") && source.is(7, "}");
    const bool is_typedef = source.is(0, "typedef") && source.size() >= 4;
    std::size_t type = source.size();
    if (is_struct) type = 3;
    if (of_two_words) type = 4;
    if (is_typedef) type = source.is(3, ";") ? 1 : source.is(4, ";") ? 2 : source.size();
    if (type == source.size()) continue;
    const auto it = names.find("sizeof " + std::string(source[type].text));
    if (it != names.end()) names.emplace("sizeof " + unit.name, it->second);
  }
}

KnownNames global_constants(const std::vector<Unit>& units) {
  KnownNames names;
  add_sizes(units, names);
  for (bool again = true; again;) {
    again = false;
    for (const Unit& unit : units) {
      if (!is_global_constant(unit) || names.contains(unit.name)) continue;
      const auto range = value_of_constant(unit.source(), 0);
      if (!range) continue;
      auto known = Fold(unit.source(), names).value(range->first, range->last);
      if (!known) continue;
      known->is_truth = unit.source().is(1, "bool");
      names.emplace(unit.name, *known);
      again = true;
    }
  }
  return names;
}

// "static constexpr int begin = 0, end = kElements;" of types: visit(name, tokens of its value).
template <class Visit>
void each_static_member(const Source& source, const Visit& visit) {
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is(i, "static") || !source.is(i + 1, "constexpr")) continue;
    const std::size_t end = source.statement_end(i) - 1;
    std::size_t name = i + 3;
    while (name < end && source.is_word(name) && source.is(name + 1, "=")) {
      std::size_t last = name + 2;
      while (last < end && !source.is(last, ",")) last = source[last].match > last ? source[last].match + 1 : last + 1;
      visit(name, Source::Range{name + 2, last});
      name = last + 1;
    }
    i = end;
  }
}

// Members of types, as ".name": those of which all types that have one know the same number.
void add_static_members(const std::vector<Unit>& units, KnownNames& names) {
  KnownNames found;
  std::set<std::string, std::less<>> differ;
  for (const Unit& unit : units) {
    if (unit.kind != UnitKind::type) continue;
    const Source& source = unit.source();
    std::set<std::size_t> own;
    each_static_member(source, [&](std::size_t name, Source::Range value) {
      own.insert(name);
      const std::string key = "." + std::string(source[name].text);
      auto known = Fold(source, names).value(value.first, value.last);
      if (!known) return void(differ.insert(key));
      known->is_truth = source.is(name - 1, "bool") || known->is_truth;
      if (value.last == value.first + 1 && source.is_word(value.first)) known->name = source[value.first].text;
      const auto [it, is_new] = found.emplace(key, *known);
      if (!is_new && it->second.number != known->number) differ.insert(key);
    });
    // What varies elsewhere, and what members see without a type before it.
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source.is_word(i) && !source.is_member(i) && !own.contains(i))
        differ.insert("." + std::string(source[i].text));
    }
  }
  for (const auto& [key, known] : found) {
    if (!differ.contains(key)) names.emplace(key, known);
  }
}

// Whether a static member went whose name stands nowhere else.
bool drop_unread_static_members(std::vector<Unit>& units) {
  // Of a type, or without it in members of types.
  std::unordered_map<std::string_view, int> mentioned, declared;
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source.is_word(i) && (source.is_member(i) || unit.kind == UnitKind::type)) ++mentioned[source[i].text];
    }
    if (unit.kind != UnitKind::type) continue;
    each_static_member(source, [&](std::size_t name, Source::Range) { ++declared[source[name].text]; });
  }
  std::vector<std::pair<Unit*, std::vector<Edit>>> all;
  for (Unit& unit : units) {
    if (unit.kind != UnitKind::type) continue;
    const Source& source = unit.source();
    std::vector<Edit> edits;
    each_static_member(source, [&](std::size_t name, Source::Range value) {
      if (mentioned[source[name].text] > declared[source[name].text]) return;
      const bool is_first = source.is(name - 2, "constexpr");
      const bool is_last = source.is(value.last, ";");
      if (is_first && is_last) {
        const std::size_t line = unit.text().find('\n', source[value.last].end);
        edits.push_back({source.line_begin(source[name].begin), line + 1, ""});
      } else if (is_last) {
        edits.push_back({source[name - 1].begin, source[value.last - 1].end, ""});
      } else {
        edits.push_back({source[name].begin, source[value.last + 1].begin, ""});
      }
    });
    if (!edits.empty()) all.emplace_back(&unit, std::move(edits));
  }
  for (auto& [unit, edits] : all) unit->set_text(edited(unit->text(), edits));
  return !all.empty();
}

// Whether token i, a name, is declared there: behind a type.
bool is_declared(const Source& source, std::size_t i) {
  constexpr auto kNoTypes = std::to_array<std::string_view>({"return", "else", "case", "template", "const"});
  if (i == 0 || (i > 1 && source.is(i - 1, "&"))) return false;
  return source.is_word(i - 1) && std::ranges::find(kNoTypes, source[i - 1].text) == kNoTypes.end();
}

// What names mean in one unit: constants of its own, and of all units those whose names it does not declare.
KnownNames names_in(const Unit& unit, const KnownNames& constants) {
  const Source& source = unit.source();
  KnownNames names;
  std::set<std::string_view> declared;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is_word(i)) continue;
    if (is_declared(source, i)) declared.insert(source[i].text);
    const bool is_member = i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "::"));
    const auto it = is_member ? constants.find("." + std::string(source[i].text)) : constants.find(source[i].text);
    if (it != constants.end()) names.insert(*it);
    if (!source.is(i, "sizeof") || !source.is_word(i + 2)) continue;
    const auto size = constants.find("sizeof " + std::string(source[i + 2].text));
    if (size != constants.end()) names.insert(*size);
  }
  for (const std::string_view name : declared) {
    if (const auto it = names.find(name); it != names.end()) names.erase(it);
  }
  if (unit.kind != UnitKind::function) return names;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const auto range = value_of_constant(source, i);
    if (!range || (i > 0 && source.is(i - 1, "static"))) continue;
    if (auto known = Fold(source, names).value(range->first, range->last)) {
      known->is_truth = source.is(i + 1, "bool");
      names.emplace(std::string(source[i + 2].text), *known);
    }
  }
  return names;
}

// The name that "constexpr int kName = …;" or "__shared__ Shared shared;" declares in a function.
std::optional<std::size_t> declared_by(const Source& source, std::size_t i) {
  if (value_of_constant(source, i) && !source.is(i - 1, "static")) return i + 2;
  const bool begins = source.is(i - 1, "{") || source.is(i - 1, "}") || source.is(i - 1, ";");
  const std::size_t type = source.is(i, "__shared__") ? i + 1 : i;
  const bool is_plain = begins && source.is_word(type) && source.is_word(type + 1) && source.is(type + 2, ";") &&
                        !source.is(type, "return") && !source.is(type, "typedef");
  return is_plain ? std::optional(type + 1) : std::nullopt;
}

// A constant or a variable of a function that nothing reads.
std::optional<Edit> unread_variable(const Unit& unit) {
  const Source& source = unit.source();
  if (unit.kind != UnitKind::function) return std::nullopt;
  for (std::size_t i = 1; i < source.size(); ++i) {
    const auto name = declared_by(source, i);
    if (!name) continue;
    int mentioned = 0;
    for (std::size_t at = 0; at < source.size(); ++at) mentioned += source.is(at, source[*name].text) ? 1 : 0;
    if (mentioned > 1) continue;
    const std::size_t line = unit.text().find('\n', source[source.statement_end(i) - 1].end);
    return Edit{source.line_begin(source[i].begin), std::min(line, unit.text().size() - 1) + 1, ""};
  }
  return std::nullopt;
}

bool fold_unit(Unit& unit, const KnownNames& constants, const KnownNames& names) {
  const Source& source = unit.source();
  std::string text;
  const auto range = is_global_constant(unit) ? value_of_constant(source, 0) : std::nullopt;
  if (const auto it = constants.find(unit.name); range && it != constants.end()) {
    if (range->last == range->first + 1 && !source.is_word(range->first)) return false;
    text = edited(unit.text(), {{source[range->first].begin, source[range->last - 1].end, it->second.text()}});
  } else {
    text = Fold(source, names).text(0, source.size());
  }
  if (text == unit.text()) return false;
  unit.set_text(std::move(text));
  return true;
}

// In any order.
std::size_t digest_of(const KnownNames& names) {
  std::size_t digest = 1;
  for (const auto& [name, known] : names) digest += NameHash()(name) * static_cast<std::size_t>(2 * known.number + 3);
  return digest;
}

// "static_assert(true, …);"
bool is_asserted(const Unit& unit) { return unit.source().is(0, "static_assert") && unit.source().is(2, "true"); }

}  // namespace

bool write_out_known(std::vector<Unit>& units, bool unrolls) {
  KnownNames constants = global_constants(units);
  add_static_members(units, constants);
  const std::size_t all = digest_of(constants);
  bool any = false;
  for (Unit& unit : units) {
    if (unit.source().size() == 0 || unit.source()[0].kind == Kind::directive || unit.seen_with == all) continue;
    KnownNames names = names_in(unit, constants);
    if (unit.folded_with == digest_of(names)) {
      unit.seen_with = all;
      continue;
    }
    for (bool again = true; again;) {
      again = fold_unit(unit, constants, names);
      again = resolve_statements(unit, unrolls) || again;
      if (const auto edit = unread_variable(unit)) {
        unit.set_text(edited(unit.text(), {*edit}));
        again = true;
      }
      if (again) names = names_in(unit, constants);
      any = any || again;
    }
    unit.folded_with = digest_of(names);
    unit.seen_with = all;
  }
  any = std::erase_if(units, is_asserted) > 0 || any;
  any = drop_unread_static_members(units) || any;
  return any;
}

}  // namespace epifuse::codegen::lean
