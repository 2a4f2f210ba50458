// By name, as the other passes: a name of two meanings stays as it is.
#include "codegen/lean/concrete.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/lean/deduce.hpp"
#include "codegen/lean/functions.hpp"

namespace epifuse::codegen::lean {
namespace {

using Names = std::set<std::string, std::less<>>;
using Range = Source::Range;

std::size_t named(const std::vector<Unit>& units, std::string_view name) {
  return static_cast<std::size_t>(std::ranges::count(units, name, &Unit::name));
}

// The names that all "template <…>" of a unit declare.
Names template_parameters(const Source& source) {
  Names names;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is(i, "template") || !source.is(i + 1, "<")) continue;
    for (const Range item : source.items(i + 1)) names.emplace(name_of_parameter(source, item));
  }
  return names;
}

// ---- templates of types

// One template of a type, and the places that name it.
class TypeTemplate {
 public:
  TypeTemplate(const std::vector<Unit>& units, std::size_t unit) : units_(units), unit_(unit) {}

  // What writes its arguments out, if all places give the same.
  std::optional<Edits> edits() const {
    const Unit& unit = units_[unit_];
    const Source& source = unit.source();
    const bool is_template =
        unit.kind == UnitKind::type && source.is(0, "template") && source.is(1, "<") && unit.specialized.empty();
    if (!is_template || !unit.scope.empty() || !unit.guard.empty() || named(units_, unit.name) != 1)
      return std::nullopt;
    Edits edits;
    const auto arguments = arguments_of_all(edits);
    const auto parameters = source.items(1);
    if (!arguments || arguments->size() != parameters.size()) return std::nullopt;
    auto own = written_out(parameters, *arguments);
    if (!own) return std::nullopt;
    edits[unit_] = *std::move(own);
    return edits;
  }

 private:
  // Edits take the arguments away where they stand.
  std::optional<std::vector<std::string>> arguments_of_all(Edits& edits) const {
    std::optional<std::vector<std::string>> all;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      const Source& source = units_[u].source();
      const Names parameters = template_parameters(source);
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (!source.is(i, units_[unit_].name) || (u == unit_ && !source.is(i + 1, "<"))) continue;
        const bool has_arguments = source.is(i + 1, "<") && source[i + 1].match > i && !source.is_member(i);
        if (!has_arguments || u == unit_) return std::nullopt;
        std::vector<std::string> arguments;
        for (const Range item : source.items(i + 1)) {
          if (!is_concrete(source, item, parameters)) return std::nullopt;
          arguments.emplace_back(source.between(item));
        }
        if (all && *all != arguments) return std::nullopt;
        all = std::move(arguments);
        edits[u].push_back({source[i + 1].begin, source[source[i + 1].match].end, ""});
      }
    }
    return all;
  }

  // Numbers, and names that mean the same at the top level.
  bool is_concrete(const Source& source, Range item, const Names& parameters) const {
    for (std::size_t i = item.first; i < item.last; ++i) {
      if (source[i].kind == Kind::number) continue;
      const bool is_type = source.is(i, "float") || source.is(i, "double") || source.is(i, "unsigned");
      const bool is_known = is_type || (named(units_, source[i].text) > 0 && !parameters.contains(source[i].text));
      if (!source.is_word(i) || !is_known) return false;
    }
    return true;
  }

  // The type itself. Outside templates both branches of an `if constexpr` must be valid.
  std::optional<std::vector<Edit>> written_out(const std::vector<Range>& parameters,
                                               const std::vector<std::string>& arguments) const {
    const Source& source = units_[unit_].source();
    std::vector<Edit> edits = {{0, source[source.next(source[1].match)].begin, ""}};
    for (std::size_t i = source[1].match + 1; i < source.size(); ++i) {
      if (source.is(i, "template") && source.is(i + 1, "<")) i = source[i + 1].match;
      if (source.is(i, "if") && source.is(i + 1, "constexpr")) return std::nullopt;
      if (!source.is_word(i) || source.is_member(i)) continue;
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        if (source[i].text == name_of_parameter(source, parameters[k]))
          edits.push_back({source[i].begin, source[i].end, arguments[k]});
      }
    }
    return edits;
  }

  const std::vector<Unit>& units_;
  std::size_t unit_;
};

bool write_out_types(std::vector<Unit>& units) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (auto edits = TypeTemplate(units, u).edits()) {
      apply(*std::move(edits), units);
      return true;
    }
  }
  return false;
}

// ---- functions

// "template <class T> T of(float v);" with "template <> f16 of<f16>(float v) {…}": the numbers of both units.
std::optional<std::pair<std::size_t, std::size_t>> lone_specialisation(const std::vector<Unit>& units,
                                                                       std::size_t primary) {
  const Unit& first = units[primary];
  const bool is_declared = first.kind == UnitKind::function && first.source().is(0, "template") &&
                           first.specialized.empty() && first.guard.empty() && !first.heads().empty() &&
                           first.heads()[0].body == first.source().size();
  if (!is_declared || named(units, first.name) != 2) return std::nullopt;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Unit& other = units[u];
    const bool is_special = u != primary && other.name == first.name && !other.specialized.empty() &&
                            other.source().is(0, "template") && other.source().is(2, ">");
    if (is_special && other.scope == first.scope && other.guard.empty()) return std::pair(primary, u);
  }
  return std::nullopt;
}

// The specialisation as a function, if nobody wants another.
std::optional<Edits> edits_of_specialisation(const std::vector<Unit>& units, std::size_t primary, std::size_t special) {
  Edits edits;
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Source& source = units[u].source();
    if (u == special) edits[u].push_back({0, source[3].begin, ""});
    for (std::size_t i = 0; i < source.size() && u != primary; ++i) {
      if (!source.is(i, units[primary].name)) continue;
      const std::size_t open = source.call_of(i);
      if (open == source.size() || source.between({i + 1, open}) != units[special].specialized) return std::nullopt;
      edits[u].push_back({source[i + 1].begin, source[open - 1].end, ""});
    }
  }
  return edits;
}

// The others of its name take the place of a unit: whoever calls them stands below it.
void replace_by_others(std::vector<Unit>& units, std::size_t unit) {
  const std::string name = units[unit].name;
  const auto first = units.begin() + static_cast<std::ptrdiff_t>(unit);
  std::stable_partition(units.erase(first), units.end(), [&](const Unit& other) { return other.name == name; });
}

bool write_out_specialisations(std::vector<Unit>& units) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto found = lone_specialisation(units, u);
    auto edits = found ? edits_of_specialisation(units, found->first, found->second) : std::nullopt;
    if (!edits) continue;
    apply(*std::move(edits), units);
    units[found->second].specialized.clear();
    replace_by_others(units, found->first);
    return true;
  }
  return false;
}

// "X f(T v)": the type of the only parameter, which is passed by value.
std::optional<std::string_view> only_type(const Unit& unit) {
  const Source& source = unit.source();
  if (unit.kind != UnitKind::function || unit.heads().empty() || !unit.specialized.empty()) return std::nullopt;
  const auto items = source.items(unit.heads()[0].open);
  const bool is_one = items.size() == 1 && items[0].last == items[0].first + 2 && source.is_word(items[0].first);
  return is_one ? std::optional(source[items[0].first].text) : std::nullopt;
}

// Whether each call of a function of one argument gives it one of the types.
bool all_calls_give(const std::vector<Unit>& units, std::string_view name, const Names& types) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Source& source = units[u].source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (!source.is(i, name) || (!units[u].heads().empty() && units[u].name == name)) continue;
      const std::size_t open = source.call_of(i);
      const auto items = open < source.size() ? source.items(open) : std::vector<Range>();
      if (items.size() != 1) return false;
      const auto type = deduced(units, u, items[0], Pattern{{}, 0, true});
      if (!type || !types.contains(*type)) return false;
    }
  }
  return true;
}

bool drop_general_overloads(std::vector<Unit>& units) {
  for (std::size_t u = 0; u < units.size(); ++u) {
    const auto general = only_type(units[u]);
    if (!general || !template_parameters(units[u].source()).contains(*general)) continue;
    Names types;
    const bool are_simple = std::ranges::all_of(units, [&](const Unit& other) {
      if (&other == &units[u] || other.name != units[u].name) return true;
      const auto type = only_type(other);
      if (type) types.emplace(*type);
      return type && other.scope == units[u].scope && !template_parameters(other.source()).contains(*type);
    });
    if (!are_simple || types.empty() || !all_calls_give(units, units[u].name, types)) continue;
    replace_by_others(units, u);
    return true;
  }
  return false;
}

}  // namespace

bool make_concrete(std::vector<Unit>& units) {
  bool any = false;
  while (write_out_types(units) || write_out_specialisations(units) || drop_general_overloads(units)) any = true;
  return any;
}

namespace {

// Functions that CUDA declares for every source, as far as helpers have such names.
bool is_of_cuda(std::string_view name) {
  constexpr auto kNames = std::to_array<std::string_view>(
      {"abs",  "acos",   "acosh", "asin",  "asinh", "atan",   "atanh", "cbrt",      "ceil", "copysign", "cos",
       "cosh", "div",    "erf",   "erfc",  "exp",   "exp10",  "exp2",  "expm1",     "fabs", "floor",    "fma",
       "fmax", "fmin",   "fmod",  "frexp", "hypot", "isinf",  "isnan", "ldexp",     "log",  "log10",    "log1p",
       "log2", "lgamma", "max",   "min",   "modf",  "norm",   "pow",   "remainder", "rint", "round",    "rsqrt",
       "sin",  "sinh",   "sqrt",  "tan",   "tanh",  "tgamma", "trunc"});
  return std::ranges::find(kNames, name) != kNames.end();
}

// The functions and types of one namespace, and what they are called outside of it.
class Namespace {
 public:
  Namespace(const std::vector<Unit>& units, std::string_view scope) : units_(units), scope_(scope) {
    for (const Unit& unit : units) {
      if (unit.scope == scope) names_.emplace(unit.name, unit.name);
    }
    for (auto& [name, outside] : names_) {
      if (is_taken(name)) outside = std::string(scope) + "_" + name;
    }
  }

  const std::string& outside(const std::string& name) const { return names_.find(name)->second; }
  // Of a unit: the names without the namespace.
  std::vector<Edit> edits(const Unit& unit) const {
    std::vector<Edit> edits;
    const Source& source = unit.source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      const auto it = source.is_word(i) ? names_.find(source[i].text) : names_.end();
      if (it == names_.end()) continue;
      if (is_qualified(source, i)) {
        edits.push_back({source[i - 2].begin, source[i].end, it->second});
      } else if (unit.scope == scope_ && !source.is_member(i) && it->second != it->first && is_use(source, i)) {
        edits.push_back({source[i].begin, source[i].end, it->second});
      }
    }
    return edits;
  }

 private:
  bool is_qualified(const Source& source, std::size_t i) const {
    return source.is(i - 1, "::") && source.is(i - 2, scope_);
  }
  // A call, or the head of a function: no variable.
  static bool is_use(const Source& source, std::size_t i) { return source.call_of(i) < source.size(); }

  // Whether a name means something else outside, or where it is called.
  bool is_taken(std::string_view name) const {
    if (is_of_cuda(name)) return true;
    return std::ranges::any_of(units_, [&](const Unit& unit) {
      if (unit.scope == scope_) return false;
      if (unit.name == name) return true;
      const Source& source = unit.source();
      bool qualified = false, other = false;
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (!source.is(i, name) || !source.is_word(i)) continue;
        (is_qualified(source, i) ? qualified : other) = true;
      }
      return qualified && other;
    });
  }

  const std::vector<Unit>& units_;
  std::string_view scope_;
  std::map<std::string, std::string, std::less<>> names_;
};

}  // namespace

bool drop_namespaces(std::vector<Unit>& units) {
  bool any = false;
  for (const std::string_view scope : {"detail", "ops", "fast"}) {
    if (std::ranges::none_of(units, [&](const Unit& unit) { return unit.scope == scope; })) continue;
    any = true;
    const Namespace space(units, scope);
    std::vector<std::vector<Edit>> edits;
    for (const Unit& unit : units) edits.push_back(space.edits(unit));
    for (std::size_t u = 0; u < units.size(); ++u) {
      Unit& unit = units[u];
      if (!edits[u].empty()) unit.set_text(edited(unit.text(), edits[u]));
      if (unit.scope != scope) continue;
      // One that CUDA has by that name, too, is no more than that in another spelling.
      unit.is_operation = scope != "detail" && space.outside(unit.name) == unit.name;
      unit.name = space.outside(unit.name);
      unit.scope.clear();
    }
  }
  return any;
}

}  // namespace epifuse::codegen::lean
