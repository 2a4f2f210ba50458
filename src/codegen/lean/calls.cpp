// Function by function, with all calls of it in the source; whatever is not a plain call keeps it as it is.
#include "codegen/lean/calls.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/lean/expressions.hpp"

namespace epifuse::codegen::lean {
namespace {

// Types that a template's parameter of a name may stand for.
struct Models {
  std::string_view parameter;
  std::vector<std::string_view> types;
};
const std::vector<Models>& models() {
  static const std::vector<Models> kModels = {
      {"At", {"Position", "FullVector", "VectorInBounds"}},
      {"Place", {"Place"}},
      {"Stage",
       {"Stage1", "Stage2", "Stage3", "Stage4", "Stage5", "Stage6", "Stage7", "Stage8", "GridStage", "SegmentStage"}},
  };
  return kModels;
}

struct Defined {
  std::size_t unit;
  Head head;
  std::size_t begin;     // token
  std::size_t brackets;  // '<' of its template parameters, or none: the source's size
};
struct Site {
  std::size_t unit, name, open;
  std::size_t brackets;  // '<' of its arguments, or the source's size
};

// Edits of several units.
class Changes {
 public:
  explicit Changes(std::vector<Unit>& units) : units_(units) {}
  void add(std::size_t unit, Edit edit) { edits_[unit].push_back(std::move(edit)); }
  // False, and nothing is changed, where two of them meet.
  bool apply() {
    for (auto& [unit, edits] : edits_) {
      std::ranges::sort(edits, {}, &Edit::begin);
      for (std::size_t i = 1; i < edits.size(); ++i) {
        if (edits[i].begin < edits[i - 1].end) return false;
      }
    }
    for (auto& [unit, edits] : edits_) units_[unit].set_text(edited(units_[unit].text(), edits));
    return !edits_.empty();
  }

 private:
  std::vector<Unit>& units_;
  std::map<std::size_t, std::vector<Edit>> edits_;
};

// One item of a list, with its comma.
Edit without_item(const Source& source, const std::vector<Source::Range>& items, std::size_t k) {
  if (k + 1 < items.size()) return {source[items[k].first].begin, source[items[k + 1].first].begin, ""};
  return {k == 0 ? source[items[k].first].begin : source[items[k - 1].last - 1].end, source[items[k].last - 1].end, ""};
}

// The name of a parameter, or nothing.
std::string_view name_of(const Source& source, Source::Range item) {
  for (std::size_t i = item.first; i < item.last; ++i) {
    if (source.is(i, "(") && source.is(i + 1, "&"))
      return source.is_word(i + 2) ? source[i + 2].text : std::string_view();
  }
  const std::size_t last = item.last - 1;
  const bool is_named =
      last > item.first && source.is_word(last) &&
      (source.is_word(last - 1) || source.is(last - 1, "&") || source.is(last - 1, "*") || source.is(last - 1, ">"));
  return is_named && !source.is(last - 1, "const") ? source[last].text : std::string_view();
}

class Function {
 public:
  Function(std::vector<Unit>& units, std::string name) : units_(units), name_(std::move(name)) {
    for (std::size_t u = 0; u < units_.size() && is_plain_; ++u) collect(u);
  }

  bool drop_any() {
    if (!is_plain_ || definitions_.empty() || sites_.empty()) return false;
    return (definitions_.size() == 1 && drop_parameter()) || drop_template_parameter();
  }

 private:
  const Source& source_of(std::size_t unit) const { return units_[unit].source(); }

  void collect(std::size_t u) {
    const Source& source = source_of(u);
    std::set<std::size_t> own;
    for (const Head& head : units_[u].heads()) {
      if (!source.is(head.name, name_)) continue;
      own.insert(head.name);
      if (head.body == source.size() || source[0].kind == Kind::directive) {
        is_plain_ = false;
        return;
      }
      std::size_t begin = head.name;
      while (begin > 0 && !source.is(begin - 1, ";") && !source.is(begin - 1, "}") && !source.is(begin - 1, "{") &&
             source[begin - 1].kind != Kind::comment)
        --begin;
      const bool is_template = source.is(begin, "template") && source.is(begin + 1, "<");
      // Specialised, or another's partner.
      if (source.is(head.name + 1, "<") || (is_template && source.is(begin + 2, ">"))) is_plain_ = false;
      definitions_.push_back({u, head, begin, is_template ? begin + 1 : source.size()});
    }
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (!source.is(i, name_) || own.contains(i)) continue;
      const std::size_t open = source.call_of(i);
      const bool is_foreign = i > 0 && source.is(i - 1, "::") &&
                              (i < 2 || !source.is_word(i - 2) || source[i - 2].end != source[i - 1].begin);
      const bool is_declared = i > 0 && source.is_word(i - 1) && !source.is(i - 1, "return") &&
                               !source.is(i - 1, "template") && !source.is(i - 1, "else");
      if (open == source.size() || is_foreign || is_declared || source[0].kind == Kind::directive) {
        is_plain_ = false;
        return;
      }
      sites_.push_back({u, i, open, open == i + 1 ? source.size() : i + 1});
    }
  }

  bool mentions(const Source& source, std::size_t first, std::size_t last, std::string_view name) const {
    for (std::size_t i = first; i < last; ++i) {
      const bool is_member = i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "->"));
      if (source.is(i, name) && !is_member) return true;
    }
    return false;
  }

  // ---- parameters

  bool drop_parameter() {
    const Defined& own = definitions_[0];
    const Source& source = source_of(own.unit);
    const auto items = source.items(own.head.open);
    for (const Site& site : sites_) {
      if (source_of(site.unit).items(site.open).size() != items.size()) return false;
    }
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (source.between(items[k]).find(" = ") != std::string_view::npos) return false;
    }
    for (std::size_t k = 0; k < items.size(); ++k) {
      if (drop_parameter(own, items, k)) return true;
    }
    return false;
  }

  bool drop_parameter(const Defined& own, const std::vector<Source::Range>& items, std::size_t k) {
    const Source& source = source_of(own.unit);
    const std::string_view name = name_of(source, items[k]);
    const std::size_t first = own.head.body, last = source[own.head.body].match;
    const bool is_used = !name.empty() && mentions(source, first, last, name);
    const std::string value = is_used ? common_literal(k) : std::string();
    if (is_used && (value.empty() || is_changed(source, first, last, name))) return false;
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      const auto arguments = at.items(site.open);
      if (!is_pure(at, arguments[k].first, arguments[k].last)) return false;
    }
    Changes changes(units_);
    // A type that only this parameter told.
    if (own.brackets < source.size()) {
      const auto types = source.items(own.brackets);
      for (std::size_t t = 0; t < types.size(); ++t) {
        const std::string_view type = source[types[t].last - 1].text;
        if (!mentions(source, items[k].first, items[k].last, type)) continue;
        for (std::size_t other = 0; other < items.size(); ++other) {
          if (other != k && mentions(source, items[other].first, items[other].last, type)) return false;
        }
        if (mentions(source, own.head.open, last, type) && count(source, own.begin, last, type) != 2) return false;
        if (std::ranges::any_of(sites_, [&](const Site& site) { return site.brackets < source_of(site.unit).size(); }))
          return false;
        drop_from_template(changes, own, types, t);
      }
    }
    changes.add(own.unit, without_item(source, items, k));
    for (std::size_t i = first; is_used && i < last; ++i) {
      const bool is_member = source.is(i - 1, ".") || source.is(i - 1, "->");
      if (source.is(i, name) && !is_member) changes.add(own.unit, {source[i].begin, source[i].end, value});
    }
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      changes.add(site.unit, without_item(at, at.items(site.open), k));
    }
    return changes.apply();
  }

  static std::size_t count(const Source& source, std::size_t first, std::size_t last, std::string_view name) {
    std::size_t found = 0;
    for (std::size_t i = first; i < last; ++i) found += source.is(i, name) ? 1 : 0;
    return found;
  }

  // What all calls pass, if it is a number or a truth value.
  std::string common_literal(std::size_t k) const {
    std::string value;
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      const Source::Range argument = at.items(site.open)[k];
      if (argument.last != argument.first + 1 || !is_known_literal(at, argument.first)) return {};
      if (!value.empty() && value != at[argument.first].text) return {};
      value = at[argument.first].text;
    }
    return value;
  }

  static bool is_changed(const Source& source, std::size_t first, std::size_t last, std::string_view name) {
    for (std::size_t i = first + 1; i < last; ++i) {
      if (!source.is(i, name)) continue;
      const std::string_view after = source[i + 1].text, before = source[i - 1].text;
      const bool assigns = after.ends_with("=") && after != "==" && after != "<=" && after != ">=" && after != "!=";
      if (assigns || after == "++" || after == "--" || before == "++" || before == "--" || before == "&" ||
          after == "[")
        return true;
      if (source.is_word(i - 1) && before != "return" && before != "case") return true;  // hidden
    }
    return false;
  }

  // ---- parameters of templates

  void drop_from_template(Changes& changes, const Defined& own, const std::vector<Source::Range>& items,
                          std::size_t k) const {
    const Source& source = source_of(own.unit);
    if (items.size() > 1) {
      changes.add(own.unit, without_item(source, items, k));
    } else {
      changes.add(own.unit, {source[own.begin].begin, source[source[own.brackets].match + 1].begin, ""});
    }
  }

  bool drop_template_parameter() {
    const Defined& own = definitions_[0];
    const Source& source = source_of(own.unit);
    if (own.brackets == source.size()) return false;
    const std::string_view list = source.between({own.brackets, source[own.brackets].match + 1});
    for (const Defined& other : definitions_) {
      const Source& text = source_of(other.unit);
      if (other.brackets == text.size() || text.between({other.brackets, text[other.brackets].match + 1}) != list)
        return false;
    }
    const auto items = source.items(own.brackets);
    for (std::size_t k = 0; k < items.size(); ++k) {
      std::size_t last = items[k].last;
      std::string preset;
      for (std::size_t i = items[k].first; i < items[k].last; ++i) {
        if (!source.is(i, "=")) continue;
        preset = source.between({i + 1, items[k].last});
        last = i;
        break;
      }
      if (last - items[k].first != 2) continue;  // without a name
      const std::string name(source[last - 1].text);
      std::string value = common_argument(k, items.size(), name, preset);
      const bool is_passed = !value.empty();
      if (!is_passed && source.is(items[k].first, "class")) value = only_model(k, name);
      if (!value.empty() && specialize(k, name, value)) return true;
    }
    return false;
  }

  // The argument of all calls but those that hand on a parameter of the same name from another of the functions.
  std::string common_argument(std::size_t k, std::size_t count_of_items, std::string_view name,
                              const std::string& preset) const {
    std::string value;
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      std::string own = preset;
      if (site.brackets < at.size()) {
        const auto items = at.items(site.brackets);
        if (items.size() > count_of_items) return {};
        if (k < items.size()) own = at.between(items[k]);
      }
      if (own == name && is_within_definition(site)) continue;
      if (own.empty() || (!value.empty() && own != value) || !is_concrete(own, site)) return {};
      value = own;
    }
    return value;
  }

  bool is_within_definition(const Site& site) const {
    return std::ranges::any_of(definitions_, [&](const Defined& one) {
      return one.unit == site.unit && one.head.body < site.name && site.name < source_of(one.unit)[one.head.body].match;
    });
  }

  // Numbers, constants and types of the source, where they are not hidden.
  bool is_concrete(const std::string& text, const Site& site) const {
    const Source argument(text);
    for (std::size_t i = 0; i < argument.size(); ++i) {
      if (!argument.is_word(i) || is_known_literal(argument, i) || (i > 0 && argument.is(i - 1, "::"))) continue;
      const bool is_known = std::ranges::any_of(units_, [&](const Unit& unit) {
        return unit.name == argument[i].text && (unit.kind == UnitKind::constant || unit.kind == UnitKind::type);
      });
      if (!is_known || is_hidden(argument[i].text, source_of(site.unit))) return false;
    }
    return true;
  }
  static bool is_hidden(std::string_view name, const Source& source) {
    for (std::size_t i = 1; i < source.size(); ++i) {
      const bool declares = source.is(i, name) && (source.is(i - 1, "class") || source.is(i - 1, "int") ||
                                                   source.is(i - 1, "bool") || source.is(i - 1, "CacheHint"));
      if (declares && i > 1) return true;
    }
    return false;
  }

  // The only type of the source that a deduced parameter of this name may be.
  std::string only_model(std::size_t k, std::string_view name) const {
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      if (site.brackets < at.size() && at.items(site.brackets).size() > k) return {};
    }
    std::string only;
    for (const Models& one : models()) {
      if (one.parameter != name) continue;
      for (const Unit& unit : units_) {
        const bool is_model = unit.kind == UnitKind::type && std::ranges::find(one.types, unit.name) != one.types.end();
        if (!is_model) continue;
        // "typedef FullVector Position;" has one type under two names.
        if (unit.source().is(0, "typedef")) only.clear();
        if (!only.empty() && !unit.source().is(0, "typedef") && !is_alias(only)) return {};
        if (only.empty()) only = unit.name;
      }
    }
    return only;
  }
  bool is_alias(std::string_view name) const {
    return std::ranges::any_of(units_,
                               [&](const Unit& unit) { return unit.name == name && unit.source().is(0, "typedef"); });
  }

  bool specialize(std::size_t k, const std::string& name, const std::string& value) {
    Changes changes(units_);
    for (const Defined& own : definitions_) {
      const Source& source = source_of(own.unit);
      const std::size_t last = source[own.head.body].match;
      const auto items = source.items(own.brackets);
      if (units_[own.unit].kind == UnitKind::type && value != name && is_hidden(value, source)) return false;
      drop_from_template(changes, own, items, k);
      for (std::size_t i = source[own.brackets].match; i < last; ++i) {
        const bool is_member = source.is(i - 1, ".") || source.is(i - 1, "->");
        if (!source.is(i, name) || is_member || is_dropped(own.unit, i, k)) continue;
        changes.add(own.unit, {source[i].begin, source[i].end, value});
      }
    }
    for (const Site& site : sites_) {
      const Source& at = source_of(site.unit);
      if (site.brackets == at.size()) continue;
      const auto items = at.items(site.brackets);
      if (k >= items.size()) continue;
      if (items.size() > 1) {
        changes.add(site.unit, without_item(at, items, k));
        continue;
      }
      changes.add(site.unit, {at[site.brackets].begin, at[at[site.brackets].match].end, ""});
      if (at.is(site.name - 1, "template")) changes.add(site.unit, {at[site.name - 1].begin, at[site.name].begin, ""});
    }
    return changes.apply();
  }
  // Whether a token is the argument of a call that goes.
  bool is_dropped(std::size_t unit, std::size_t token, std::size_t k) const {
    return std::ranges::any_of(sites_, [&](const Site& site) {
      const Source& at = source_of(site.unit);
      if (site.unit != unit || site.brackets == at.size()) return false;
      const auto items = at.items(site.brackets);
      return k < items.size() && items[k].first <= token && token < items[k].last;
    });
  }

  std::vector<Unit>& units_;
  std::string name_;
  bool is_plain_ = true;
  std::vector<Defined> definitions_;
  std::vector<Site> sites_;
};

}  // namespace

bool drop_known_parameters(std::vector<Unit>& units, std::string_view entry) {
  std::set<std::string> names;
  for (const Unit& unit : units) {
    for (const Head& head : unit.heads()) names.insert(std::string(unit.source()[head.name].text));
  }
  names.erase(std::string(entry));
  bool any = false;
  for (const std::string& name : names) {
    while (Function(units, name).drop_any()) any = true;
  }
  return any;
}

}  // namespace epifuse::codegen::lean
