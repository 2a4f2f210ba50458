// A value of such a type tells nothing, so a function computes the same without it. All places are looked at before any
// is changed.
#include "codegen/lean/stateless.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace epifuse::codegen::lean {
namespace {

// "struct Uniforms {};": its name.
std::optional<std::string> stateless_type(const Unit& unit) {
  const Source& source = unit.source();
  std::size_t i = source.size() > 0 && is_code(source[0]) ? 0 : source.next(0);
  if (!source.is(i, "struct") || !source.is_word(i + 1) || !source.is(i + 2, "{")) return std::nullopt;
  if (source.next(i + 2) != source[i + 2].match) return std::nullopt;
  return std::string(source[i + 1].text);
}

// Values of one type, in one unit.
class Places {
 public:
  Places(const Unit& unit, std::string_view type) : unit_(unit), source_(unit.source()), type_(type) {
    for (const Head& head : unit.heads()) {
      for (const Source::Range item : source_.items(head.open)) parameters_.push_back(item);
    }
  }

  // Whether each mention of the type declares a parameter, a variable or a member, whose names are added.
  bool declares(std::set<std::string, std::less<>>& names) const {
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (!source_.is(i, type_) || is_own_definition(i)) continue;
      const auto declared = declaration_at(i);
      if (!declared) return false;
      if (!declared->empty()) names.insert(std::string(*declared));
    }
    return true;
  }

  // Whether each mention of a name is a declaration of the type, an argument alone, or another value's member.
  bool means_only(std::string_view name) const {
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (!source_.is(i, name) || (i > 0 && (source_.is(i - 1, ".") || source_.is(i - 1, "->")))) continue;
      if (!is_item(i) && !is_declared_at(i)) return false;
    }
    return true;
  }

  // Without all of that.
  std::vector<Edit> edits(const std::set<std::string, std::less<>>& names) const {
    std::vector<Edit> edits;
    for (std::size_t i = 0; i < source_.size(); ++i) {
      if (source_.is(i, type_) && !is_own_definition(i) && is_statement(i)) edits.push_back(lines_of(i));
      if (source_.is(i, "(") || source_.is(i, "{")) drop_items(i, names, edits);
    }
    return edits;
  }

 private:
  bool is_own_definition(std::size_t i) const { return i > 0 && source_.is(i - 1, "struct"); }

  // Of the declaration that token i, the type, is part of: the name, which a parameter may lack.
  std::optional<std::string_view> declaration_at(std::size_t i) const {
    std::size_t after = i + 1;
    if (source_.is(after, "&")) ++after;
    const std::string_view name = source_.is_word(after) ? source_[after].text : std::string_view();
    if (!name.empty()) ++after;
    const bool is_parameter = std::ranges::any_of(
        parameters_, [&](const Source::Range& one) { return one.first == first_of(i) && one.last == after; });
    if (is_parameter) return name;
    return is_statement(i) ? std::optional(name) : std::nullopt;
  }

  std::size_t first_of(std::size_t i) const { return i > 0 && source_.is(i - 1, "const") ? i - 1 : i; }

  // "GridStage grid;", "const Uniforms uniforms{};" or "GridStage& grid;"
  bool is_statement(std::size_t i) const {
    const std::size_t before = source_.previous(first_of(i));
    if (!source_.is(before, "{") && !source_.is(before, "}") && !source_.is(before, ";")) return false;
    std::size_t after = source_.is(i + 1, "&") ? i + 2 : i + 1;
    if (!source_.is_word(after)) return false;
    ++after;
    if (source_.is(after, "{") && source_[after].match == after + 1) after += 2;
    return source_.is(after, ";");
  }

  bool is_declared_at(std::size_t name) const {
    const std::size_t type = name > 0 && source_.is(name - 1, "&") ? name - 2 : name - 1;
    return name > 0 && type < source_.size() && source_.is(type, type_);
  }

  // Between brackets or commas.
  bool is_item(std::size_t i) const {
    const bool begins = i > 0 && (source_.is(i - 1, "(") || source_.is(i - 1, ",") || source_.is(i - 1, "{"));
    return begins && (source_.is(i + 1, ")") || source_.is(i + 1, ",") || source_.is(i + 1, "}"));
  }

  bool goes(Source::Range item, const std::set<std::string, std::less<>>& names) const {
    if (item.last == item.first + 1 && names.contains(source_[item.first].text)) return true;
    for (std::size_t i = item.first; i < item.last; ++i) {
      if (source_.is(i, type_)) return declaration_at(i).has_value() && !is_statement(i) && first_of(i) == item.first;
    }
    return false;
  }

  // Each with the comma behind it, or, behind the last that stays, before it.
  void drop_items(std::size_t open, const std::set<std::string, std::less<>>& names, std::vector<Edit>& edits) const {
    const std::vector<Source::Range> items = source_.items(open);
    std::size_t stay = items.size();  // one past the last that stays
    while (stay > 0 && goes(items[stay - 1], names)) --stay;
    for (std::size_t i = 0; i < stay; ++i) {
      if (goes(items[i], names))
        edits.push_back({source_[items[i].first].begin, source_[items[i + 1].first].begin, ""});
    }
    if (stay == items.size()) return;
    const std::size_t begin = stay == 0 ? source_[items[0].first].begin : source_[items[stay - 1].last - 1].end;
    edits.push_back({begin, source_[items.back().last - 1].end, ""});
  }

  Edit lines_of(std::size_t i) const {
    const std::size_t last = source_[source_.statement_end(i) - 1].end;
    const std::size_t line = unit_.text().find('\n', last);
    return {source_.line_begin(source_[first_of(i)].begin), std::min(line, unit_.text().size() - 1) + 1, ""};
  }

  const Unit& unit_;
  const Source& source_;
  std::string_view type_;
  std::vector<Source::Range> parameters_;  // of all functions
};

bool drop_type(std::vector<Unit>& units, const std::string& type) {
  std::set<std::string, std::less<>> names;
  for (const Unit& unit : units) {
    if (!Places(unit, type).declares(names)) return false;
  }
  for (const Unit& unit : units) {
    for (const std::string& name : names) {
      if (!Places(unit, type).means_only(name)) return false;
    }
  }
  for (Unit& unit : units) {
    for (bool again = true; again;) {  // one in the arguments of another is left for the next turn
      std::vector<Edit> edits = Places(unit, type).edits(names);
      std::ranges::sort(edits, {}, &Edit::begin);
      again = !edits.empty();
      if (again) unit.set_text(edited(unit.text(), edits));
    }
  }
  return true;
}

}  // namespace

bool drop_stateless_types(std::vector<Unit>& units) {
  std::vector<std::string> types;
  for (const Unit& unit : units) {
    if (auto type = stateless_type(unit)) types.push_back(*std::move(type));
  }
  std::set<std::string, std::less<>> gone;
  for (const std::string& type : types) {
    if (drop_type(units, type)) gone.insert(type);
  }
  std::erase_if(units, [&](const Unit& unit) {
    const auto type = stateless_type(unit);
    return type && gone.contains(*type);
  });
  return !gone.empty();
}

}  // namespace epifuse::codegen::lean
