// By name: a function whose name stands for others too, or without a call, stays as it is. One parameter at a time.
#include "codegen/lean/parameters.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "codegen/lean/deduce.hpp"
#include "codegen/lean/functions.hpp"

namespace epifuse::codegen::lean {
namespace {

// One function, its parameters and those of its template.
class Parameters {
 public:
  Parameters(const std::vector<Unit>& units, const Function& function, const std::set<std::string_view>& globals)
      : units_(units), function_(function), source_(units[function.unit].source()), globals_(globals) {
    std::size_t first = function.head.name;
    while (first > 0 && !source_.is(first - 1, ";") && !source_.is(first - 1, "{") && !source_.is(first - 1, "}"))
      --first;
    while (first < function.head.name && !is_code(source_[first])) ++first;
    if (source_.is(first, "template") && source_.is(first + 1, "<")) template_ = first;
  }

  std::optional<Edits> edits() const {
    if (auto found = of_template()) return found;
    return of_function();
  }

 private:
  using Range = Source::Range;

  // ---- of a template

  std::optional<Edits> of_template() const {
    if (template_ == source_.size()) return std::nullopt;
    const auto parameters = source_.items(template_ + 1);
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const std::string name = name_of(parameters[k]);
      const bool is_read = !name.empty() && is_mentioned(name, template_);
      const auto argument = argument_of_template(parameters[k], k);
      if (is_read && !argument) continue;
      Edits edits;
      if (parameters.size() == 1 && has_branches()) {
        if (is_read) substitute(name, *argument, source_[function_.head.body].match, edits);
        if (edits.empty()) continue;
        return edits;
      }
      if (is_read) substitute(name, *argument, template_ + 1, edits);
      drop_item(source_, template_ + 1, k, edits[function_.unit]);
      if (parameters.size() == 1) {  // "template <>", and its line
        edits[function_.unit].pop_back();
        edits[function_.unit].insert(
            edits[function_.unit].begin(),
            {source_[template_].begin, source_[source_.next(source_[template_ + 1].match)].begin, ""});
      }
      for (const Call& call : function_.calls) drop_argument_of_template(call, k, edits[call.unit]);
      return edits;
    }
    return std::nullopt;
  }

  // Outside templates both branches of an `if constexpr` must be valid. Until they are resolved, the template's last
  // parameter stays.
  bool has_branches() const {
    for (std::size_t i = function_.head.body; i < source_[function_.head.body].match; ++i) {
      if (source_.is(i, "if") && source_.is(i + 1, "constexpr")) return true;
    }
    return false;
  }

  // What all calls give, if it means the same in the function.
  std::optional<std::string> argument_of_template(Range parameter, std::size_t k) const {
    const std::string_view text = source_.between(parameter);
    if (text.find("...") != text.npos) return std::nullopt;
    std::optional<std::string> all;
    for (const Call& call : function_.calls) {
      const Source& source = units_[call.unit].source();
      std::string argument;
      if (const auto items = given(call); k < items.size()) {
        argument = source.between(items[k]);
        if (!means_one_thing(source, items[k])) return std::nullopt;
        const bool is_type = source_.is(parameter.first, "class");
        if (!is_type && items[k].last > items[k].first + 1 && !source.is(items[k].first + 1, "::"))
          argument = "(" + argument + ")";
      } else if (const auto equals = text.find(" = "); equals != text.npos) {
        argument = text.substr(equals + 3);
      } else if (source_.is(parameter.first, "class") || source_.is(parameter.first, "int")) {
        const auto type = deduced_type(call, name_of(parameter));
        if (!type) return std::nullopt;
        argument = *type;
      } else {
        return std::nullopt;
      }
      if (all && *all != argument) return std::nullopt;
      all = argument;
    }
    return all;
  }

  // What a call's arguments say of a type.
  std::optional<std::string> deduced_type(const Call& call, std::string_view name) const {
    const auto parameters = source_.items(function_.head.open);
    const Source& source = units_[call.unit].source();
    const auto arguments = source.items(source.call_of(call.name));
    for (std::size_t k = 0; k < parameters.size() && k < arguments.size(); ++k) {
      const auto pattern = pattern_of(source_, parameters[k], name);
      if (!pattern) continue;
      const auto type = deduced(units_, call.unit, arguments[k], *pattern);
      if (type && is_concrete(*type)) return type;
    }
    return std::nullopt;
  }

  bool is_concrete(std::string_view type) const {
    const Source source(type);
    return means_one_thing(source, {0, source.size()});
  }

  // Numbers, truths, hints, and names of the source's own constants and types.
  bool means_one_thing(const Source& source, Range item) const {
    for (std::size_t i = item.first; i < item.last; ++i) {
      const bool is_qualified = i > item.first && source.is(i - 1, "::");
      if (source.is_word(i) && !is_qualified && !source.is(i, "true") && !source.is(i, "false") &&
          !source.is(i, "float") && !source.is(i, "double") && !source.is(i, "int") &&
          !globals_.contains(source[i].text))
        return false;
    }
    return true;
  }

  std::vector<Range> given(const Call& call) const {
    const Source& source = units_[call.unit].source();
    return source.is(call.name + 1, "<") ? source.items(call.name + 1) : std::vector<Range>();
  }

  void drop_argument_of_template(const Call& call, std::size_t k, std::vector<Edit>& edits) const {
    const Source& source = units_[call.unit].source();
    const std::size_t given_ones = given(call).size();
    if (k >= given_ones) return;
    if (given_ones > 1) return drop_item(source, call.name + 1, k, edits);
    if (source.is(call.name - 1, "template"))
      edits.push_back({source[call.name - 1].begin, source[call.name].begin, ""});
    edits.push_back({source[call.name + 1].begin, source[source[call.name + 1].match].end, ""});
  }

  // ---- of the function itself

  std::optional<Edits> of_function() const {
    const auto parameters = source_.items(function_.head.open);
    if (source_.between({function_.head.open, source_[function_.head.open].match}).find('=') != std::string_view::npos)
      return std::nullopt;
    for (const Call& call : function_.calls) {
      const Source& source = units_[call.unit].source();
      if (source.items(source.call_of(call.name)).size() != parameters.size()) return std::nullopt;
    }
    for (std::size_t k = 0; k < parameters.size(); ++k) {
      const std::string name = name_of(parameters[k]);
      const bool is_read = !name.empty() && is_mentioned(name, function_.head.open);
      const auto argument = argument_of_function(parameters[k], k);
      if (is_read ? !argument || is_assigned(name) : !is_pure(k) || tells_types(parameters, k)) continue;
      Edits edits;
      if (is_read) substitute(name, *argument, function_.head.open, edits);
      drop_item(source_, function_.head.open, k, edits[function_.unit]);
      for (const Call& call : function_.calls) {
        const Source& source = units_[call.unit].source();
        drop_item(source, source.call_of(call.name), k, edits[call.unit]);
      }
      return edits;
    }
    return std::nullopt;
  }

  // Whether only this parameter says what a type or a number of the template is.
  bool tells_types(const std::vector<Range>& parameters, std::size_t k) const {
    if (template_ == source_.size()) return false;
    for (const Range item : source_.items(template_ + 1)) {
      const std::string name = name_of(item);
      const auto mentions = [&](Range range) {
        for (std::size_t i = range.first; i < range.last; ++i) {
          if (source_.is(i, name)) return true;
        }
        return false;
      };
      if (name.empty() || !mentions(parameters[k])) continue;
      const bool is_needed = mentions({function_.head.body, source_[function_.head.body].match}) ||
                             mentions({source_[template_ + 1].match, function_.head.name});
      std::size_t others = 0;
      for (const Range& one : parameters) others += mentions(one) ? 1 : 0;
      if (is_needed && others == 1) return true;
    }
    return false;
  }

  // 0, 1, true or false, for a parameter that is a number.
  std::optional<std::string> argument_of_function(Range parameter, std::size_t k) const {
    const std::size_t type = source_.is(parameter.first, "const") ? parameter.first + 1 : parameter.first;
    const bool is_number = source_.is(type, "int") || source_.is(type, "bool") || source_.is(type, "Index");
    if (!is_number || type + 2 != parameter.last) return std::nullopt;
    std::optional<std::string> all;
    for (const Call& call : function_.calls) {
      const Source& source = units_[call.unit].source();
      const std::string argument(source.between(source.items(source.call_of(call.name))[k]));
      if (argument != "0" && argument != "1" && argument != "true" && argument != "false") return std::nullopt;
      if (all && *all != argument) return std::nullopt;
      all = argument;
    }
    return all;
  }

  // Whether no call does anything for its argument k.
  bool is_pure(std::size_t k) const {
    return std::ranges::all_of(function_.calls, [&](const Call& call) {
      const Source& source = units_[call.unit].source();
      const Range item = source.items(source.call_of(call.name))[k];
      for (std::size_t i = item.first; i < item.last; ++i) {
        if (source.is(i, "(") || source.is(i, "{") || source.is(i, "=") || source.is(i, "++") || source.is(i, "--"))
          return false;
      }
      return true;
    });
  }

  std::string name_of(Range item) const { return std::string(name_of_parameter(source_, item)); }

  bool is_mentioned(std::string_view name, std::size_t first) const {
    int found = 0;
    for (std::size_t i = first; i < source_[function_.head.body].match; ++i) {
      if (source_.is(i, name) && !source_.is_member(i)) ++found;
    }
    return found > 1;
  }

  bool is_assigned(std::string_view name) const {
    for (std::size_t i = function_.head.body; i < source_[function_.head.body].match; ++i) {
      if (!source_.is(i, name) || source_.is_member(i)) continue;
      const bool declares = source_.is_word(i - 1) && !source_.is(i - 1, "return") && !source_.is(i - 1, "else");
      if (source_.is_changed(i) || declares) return true;
    }
    return false;
  }

  // Behind the list of parameters that begins with token `first`, or in the body.
  void substitute(const std::string& name, const std::string& by, std::size_t first, Edits& edits) const {
    for (std::size_t i = first > function_.head.body ? function_.head.body : source_[first].match;
         i < source_[function_.head.body].match; ++i) {
      if (source_.is(i, name) && !source_.is_member(i))
        edits[function_.unit].push_back(
            {source_[i].begin, source_[i].end, stands_alone(i) ? without_parentheses(by) : by});
    }
  }

  // Whether no operator stands beside token i.
  bool stands_alone(std::size_t i) const {
    const bool begins = source_.is(i - 1, "=") || source_.is(i - 1, "(") || source_.is(i - 1, ",");
    return begins && (source_.is(i + 1, ";") || source_.is(i + 1, ")") || source_.is(i + 1, ","));
  }
  static std::string without_parentheses(const std::string& text) {
    return text.starts_with("(") && text.ends_with(")") ? text.substr(1, text.size() - 2) : text;
  }

  const std::vector<Unit>& units_;
  const Function& function_;
  const Source& source_;
  const std::set<std::string_view>& globals_;
  std::size_t template_ = source_.size();
};

std::set<std::string_view> names_of_globals(const std::vector<Unit>& units) {
  std::set<std::string_view> names;
  for (const Unit& unit : units) {
    if (unit.kind == UnitKind::constant || unit.kind == UnitKind::type) names.insert(unit.name);
  }
  return names;
}

// Whether two of the changes concern the same text.
bool meet(const Edits& all, const Edits& others) {
  return std::ranges::any_of(others, [&](const auto& one) {
    const auto it = all.find(one.first);
    return it != all.end() && std::ranges::any_of(it->second, [&](const Edit& a) {
             return std::ranges::any_of(one.second,
                                        [&](const Edit& b) { return a.begin <= b.end && b.begin <= a.end; });
           });
  });
}

// One parameter of each function, as far as no two changes meet.
bool drop_some(std::vector<Unit>& units) {
  const std::set<std::string_view> globals = names_of_globals(units);
  Edits all;
  for (const Function& function : functions_of(units)) {
    if (!function.is_one || function.calls.empty()) continue;
    auto edits = Parameters(units, function, globals).edits();
    if (!edits || meet(all, *edits)) continue;
    for (auto& [unit, list] : *edits) std::ranges::move(list, std::back_inserter(all[unit]));
  }
  const bool any = !all.empty();
  apply(std::move(all), units);
  return any;
}

}  // namespace

bool drop_parameters(std::vector<Unit>& units) {
  bool any = false;
  while (drop_some(units)) any = true;
  return any;
}

}  // namespace epifuse::codegen::lean
