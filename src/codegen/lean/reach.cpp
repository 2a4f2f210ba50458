// Reachability by name, namespace and number of arguments. Overloads of a name are kept: which one a call takes is the
// compiler's to say. Those that take a double are left out where nothing that is reached is one.
#include "codegen/lean/reach.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

namespace epifuse::codegen::lean {
namespace {

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// A name that a unit mentions.
struct Use {
  std::string_view scope;  // as it is written; empty for none
  std::string_view name;
  std::size_t arguments = kNone;  // of a call
  std::string_view specialized;   // "<f16>"
};

template <class IsKnown>
std::vector<Use> uses_of(const Unit& unit, const IsKnown& is_known) {
  std::vector<Use> uses;
  const Source& source = unit.source();
  // What a function declares is no use of its other overloads; a specialisation needs its primary template.
  const bool is_declared = unit.kind == UnitKind::function && unit.specialized.empty() && !unit.heads().empty();
  const std::size_t declared = is_declared ? unit.heads()[0].name : source.size();
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is_word(i) || i == declared || !is_known(source[i].text)) continue;
    Use use{{}, source[i].text, kNone, {}};
    if (i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "->"))) continue;
    if (i > 0 && source.is(i - 1, "::")) {
      if (i < 2 || !source.is_word(i - 2) || source[i - 2].end != source[i - 1].begin) continue;  // of no namespace
      use.scope = source[i - 2].text;
    }
    if (const std::size_t open = source.call_of(i); open < source.size()) {
      use.arguments = source.items(open).size();
      if (open > i + 1) use.specialized = source.between({i + 1, open});
    }
    uses.push_back(use);
  }
  return uses;
}

// How many arguments a function takes: its parameters, fewer where some have defaults, any number behind "...".
struct Arity {
  std::size_t least = 0, most = 0;
};
Arity arity_of(const Unit& unit) {
  const auto& heads = unit.heads();
  if (heads.empty()) return {0, kNone};
  Arity arity;
  for (const Source::Range item : unit.source().items(heads[0].open)) {
    const std::string_view text = unit.source().between(item);
    if (text.find("...") != text.npos) return {0, kNone};
    ++arity.most;
    if (text.find(" = ") == text.npos) ++arity.least;
  }
  return arity;
}

// Whether a unit's text makes a double: it names the type or a function of it (__int2double_rn), or has a number that
// is one.
bool makes_double(const Unit& unit) {
  const Source& source = unit.source();
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source.is_word(i) && source[i].text.find("double") != std::string_view::npos) return true;
    if (source[i].kind != Kind::number) continue;
    const std::string_view number = source[i].text;
    const bool is_hex = number.starts_with("0x");
    const bool is_floating = number.find_first_of(is_hex ? ".pP" : ".eE") != number.npos;
    if (is_floating && number.back() != 'f' && number.back() != 'F') return true;
  }
  return false;
}

bool takes_double(const Unit& unit) {
  const auto& heads = unit.heads();
  if (unit.kind != UnitKind::function || heads.empty()) return false;
  const std::size_t open = heads[0].open;
  for (std::size_t i = open; i < unit.source()[open].match; ++i) {
    if (unit.source().is(i, "double")) return true;
  }
  return false;
}

class Reach {
 public:
  explicit Reach(std::vector<Unit> units) : units_(std::move(units)), facts_(units_.size()), in_(units_.size()) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      by_name_[units_[i].name].push_back(i);
      if (units_[i].kind == UnitKind::function) facts_[i].arity = arity_of(units_[i]);
      facts_[i].takes_double = takes_double(units_[i]);
      facts_[i].makes_double = makes_double(units_[i]);
    }
    const auto is_known = [&](std::string_view name) { return by_name_.contains(name); };
    for (std::size_t i = 0; i < units_.size(); ++i) facts_[i].uses = uses_of(units_[i], is_known);
  }

  std::vector<Unit> from(std::string_view entry) {
    for (const std::size_t i : by_name_[entry]) in_[i] = true;
    for (bool again = true; again;) {
      again = false;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        if (in_[i] && visit(i)) again = true;
        if (in_[i] && facts_[i].makes_double && !has_doubles_) has_doubles_ = again = true;
        if (units_[i].name.empty() && !in_[i] && holds(i)) in_[i] = again = true;
      }
    }
    std::vector<Unit> left;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (in_[i]) left.push_back(std::move(units_[i]));
    }
    return left;
  }

 private:
  struct Facts {
    std::vector<Use> uses;
    Arity arity;
    bool takes_double = false, makes_double = false;
  };

  const std::vector<std::size_t>& named(std::string_view name) const {
    static const std::vector<std::size_t> kNobody;
    const auto it = by_name_.find(name);
    return it == by_name_.end() ? kNobody : it->second;
  }

  bool visit(std::size_t i) {
    bool any = false;
    for (const Use& use : facts_[i].uses) {
      const auto& candidates = named(use.name);
      const bool inner = use.scope.empty() && std::ranges::any_of(candidates, [&](std::size_t c) {
                           return !units_[i].scope.empty() && units_[c].scope == units_[i].scope;
                         });
      for (const std::size_t c : candidates) {
        if (in_[c] || units_[c].scope != (use.scope.empty() && inner ? std::string_view(units_[i].scope) : use.scope))
          continue;
        if (!matches(use, c)) continue;
        in_[c] = any = true;
      }
    }
    return any;
  }

  bool matches(const Use& use, std::size_t c) const {
    const Unit& unit = units_[c];
    if (unit.kind != UnitKind::function) return true;
    if (facts_[c].takes_double && !has_doubles_) return false;
    if (use.arguments == kNone || use.arguments < facts_[c].arity.least || use.arguments > facts_[c].arity.most)
      return false;
    if (unit.specialized.empty()) return true;
    return use.specialized == unit.specialized || (!is_concrete(use.specialized) && has_types(unit.specialized));
  }

  // "<float, f16>", of types that C++ has or the source defines; neither "<Real, T>" nor "<Real, bf16>", since Real is
  // another type's name.
  bool is_concrete(std::string_view arguments) const {
    if (arguments.empty()) return false;
    const Source source(arguments);
    for (std::size_t i = 0; i < source.size(); ++i) {
      const std::string_view word = source[i].text;
      const bool is_type = word == "float" || word == "double" || (word != "Real" && !named(word).empty());
      if (source.is_word(i) && !is_type) return false;
    }
    return true;
  }
  bool has_types(std::string_view arguments) const {
    const Source source(arguments);
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (!source.is_word(i) || named(source[i].text).empty()) continue;
      if (std::ranges::none_of(named(source[i].text), [&](std::size_t c) { return in_[c]; })) return false;
    }
    return true;
  }

  // A static_assert of what is reached.
  bool holds(std::size_t i) const {
    return std::ranges::all_of(facts_[i].uses, [&](const Use& use) {
      return named(use.name).empty() || std::ranges::any_of(named(use.name), [&](std::size_t c) { return in_[c]; });
    });
  }

  std::vector<Unit> units_;
  std::vector<Facts> facts_;
  std::vector<bool> in_;
  bool has_doubles_ = false;
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_name_;
};

// Constants, and types without functions: what stands above the functions.
bool is_data(const Unit& unit) {
  return (unit.kind == UnitKind::constant || unit.kind == UnitKind::type) && unit.scope.empty() && unit.guard.empty() &&
         !unit.source().is(0, "template") && unit.heads().empty();
}

// Whose text mentions whose name: what must stand above, and what had better, since a template may call what stands
// below if its arguments decide which function that is.
struct Needs {
  std::vector<std::vector<std::size_t>> must, better;

  // Whether `from` must stand below `unit`.
  bool is_below(std::size_t from, std::size_t unit, std::vector<bool>& seen) const {
    if (from == unit) return true;
    if (seen[from]) return false;
    seen[from] = true;
    return std::ranges::any_of(must[from], [&](std::size_t n) { return is_below(n, unit, seen); });
  }
};

Needs needs_of(const std::vector<Unit>& units) {
  std::unordered_map<std::string_view, std::vector<std::size_t>> by_name;
  for (std::size_t i = 0; i < units.size(); ++i) by_name[units[i].name].push_back(i);
  Needs needs{std::vector<std::vector<std::size_t>>(units.size()), std::vector<std::vector<std::size_t>>(units.size())};
  for (std::size_t i = 0; i < units.size(); ++i) {
    for (const Use& use : uses_of(units[i], [&](std::string_view name) { return by_name.contains(name); })) {
      for (const std::size_t other : by_name.find(use.name)->second) {
        const bool is_meant = units[other].kind != UnitKind::function || use.arguments != kNone;
        const bool is_elsewhere = units[i].scope != units[other].scope && use.scope != units[other].scope;
        const bool may_be_below =
            units[other].kind == UnitKind::function && (units[i].source().is(0, "template") || is_elsewhere);
        const bool is_other = units[other].name != units[i].name;
        if (!is_meant || other == i || (other > i && !is_other)) continue;
        (other > i && may_be_below ? needs.better : needs.must)[i].push_back(other);
      }
    }
  }
  return needs;
}

}  // namespace

std::vector<Unit> reached(std::vector<Unit> units, std::string_view entry) {
  return Reach(std::move(units)).from(entry);
}

std::vector<const Unit*> in_reading_order(const std::vector<Unit>& units) {
  const Needs needs = needs_of(units);
  std::vector<bool> is_first(units.size());
  for (std::size_t i = 0; i < units.size(); ++i)
    is_first[i] = is_data(units[i]) && std::ranges::all_of(needs.must[i], [&](std::size_t n) { return is_first[n]; });
  std::vector<const Unit*> order;
  std::vector<char> is_visited(units.size());
  const auto visit = [&](const auto& self, std::size_t i) -> void {
    if (std::exchange(is_visited[i], 1) != 0) return;
    for (const std::size_t n : needs.must[i]) self(self, n);
    for (const std::size_t n : needs.better[i]) {
      std::vector<bool> seen(units.size());
      if (!needs.is_below(n, i, seen)) self(self, n);
    }
    order.push_back(&units[i]);
  };
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (is_first[i]) visit(visit, i);
  }
  for (std::size_t i = 0; i < units.size(); ++i) visit(visit, i);
  return order;
}

}  // namespace epifuse::codegen::lean
