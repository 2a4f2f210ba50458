// By name: what could be meant by a word counts as meant.
#include "codegen/lean/unused.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace epifuse::codegen::lean {
namespace {

constexpr std::size_t kWidth = 120;  // columns

bool is_conditional(const Unit& unit) { return unit.source().size() == 0 || unit.source()[0].kind == Kind::directive; }

// The name of a parameter, or size() if it has none.
std::size_t name_of(const Source& source, Source::Range item) {
  std::size_t end = item.first;
  while (end < item.last && !source.is(end, "=")) ++end;
  for (std::size_t i = item.first; i < end; ++i) {  // const Row (&rows)[kRows]
    if (source.is(i, "(") && source.is(i + 1, "&")) return source.is_word(i + 2) ? i + 2 : source.size();
  }
  while (end > item.first && source.is(end - 1, "]")) end = source[end - 1].match;
  const std::size_t last = end - 1;
  const bool is_named =
      source.is_word(last) && last > item.first && !source.is(last - 1, "const") && !source.is(last - 1, "::");
  return is_named ? last : source.size();
}

bool has_default_or_pack(const Source& source, Source::Range item) {
  for (std::size_t i = item.first; i < item.last; ++i) {
    if (source.is(i, "=") || source.is(i, "...")) return true;
  }
  return false;
}

bool mentions(const Source& source, Source::Range range, std::string_view word) {
  for (std::size_t i = range.first; i < range.last; ++i) {
    if (source.is(i, word) && !(i > 0 && (source.is(i - 1, ".") || source.is(i - 1, "->")))) return true;
  }
  return false;
}

// The '<' of a function's template parameters, or size().
std::size_t template_list(const Source& source, const Head& head) {
  std::size_t i = head.name;
  while (i > 0 && !source.is(i, "__device__") && !source.is(i, "__global__")) --i;
  if (i < 2 || !source.is(i - 1, ">")) return source.size();
  const std::size_t open = source[i - 1].match;
  return open > 0 && source.is(open - 1, "template") ? open : source.size();
}
// "class T", "int kCount", "CacheHint kHint = CacheHint::none": its name.
std::string_view parameter_name(const Source& source, Source::Range item) {
  std::size_t end = item.first;
  while (end < item.last && !source.is(end, "=")) ++end;
  return source[end - 1].text;
}

// Types without any member.
std::set<std::string, std::less<>> empty_types(const std::vector<Unit>& units) {
  std::set<std::string, std::less<>> types;
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    if (unit.kind != UnitKind::type || !source.is(0, "struct")) continue;
    std::size_t open = 0;
    while (open < source.size() && !source.is(open, "{") && !source.is(open, ":")) ++open;
    if (source.is(open, "{") && source[open].match == open + 1) types.insert(unit.name);
  }
  return types;
}

// Members of types that have an empty type go, and what they are initialised with in "Type{a, b}".
class EmptyMembers {
 public:
  explicit EmptyMembers(std::vector<Unit>& units) : units_(units), empty_(empty_types(units)) {}

  bool drop() {
    if (empty_.empty()) return false;
    bool any = false;
    for (Unit& unit : units_) {
      if (unit.kind == UnitKind::type && unit.source().is(0, "struct") && drop_of(unit)) any = true;
    }
    return any;
  }

 private:
  bool drop_of(Unit& unit) {
    const Source& source = unit.source();
    std::size_t open = 0;
    while (!source.is(open, "{")) ++open;
    std::vector<bool> is_empty;
    std::vector<Edit> edits;
    for (std::size_t i = open + 1; i < source[open].match;) {
      if (!is_code(source[i])) {
        ++i;
        continue;
      }
      if (source.is(i, "static") || source.is(i, "template") || source.is(i, "__device__")) {  // no data
        while (!source.is(i, "{") && !source.is(i, ";")) ++i;
        i = source.is(i, "{") ? source[i].match + 1 : i + 1;
        continue;
      }
      const std::size_t end = source.statement_end(i);
      is_empty.push_back(std::ranges::any_of(empty_, [&](const std::string& type) {
        return mentions(source, {i, end}, type);
      }));
      if (is_empty.back()) edits.push_back({source.line_begin(source[i].begin), source[end - 1].end + 1, ""});
      i = end;
    }
    if (edits.empty()) return false;
    const std::string text = edited(unit.text(), edits);
    for (Unit& user : units_) drop_initialisers(user, unit.name, is_empty);
    unit.set_text(text);
    return true;
  }

  static void drop_initialisers(Unit& user, const std::string& type, const std::vector<bool>& is_empty) {
    const Source& source = user.source();
    std::vector<Edit> edits;
    for (std::size_t i = 0; i + 1 < source.size(); ++i) {
      if (!source.is(i, type) || !source.is(i + 1, "{")) continue;
      const auto items = source.items(i + 1);
      if (items.size() != is_empty.size()) continue;
      for (std::size_t n = 1; n < items.size(); ++n) {  // the first one is never empty: it is the parameters
        if (is_empty[n]) edits.push_back({source[items[n - 1].last - 1].end, source[items[n].last - 1].end, ""});
      }
    }
    if (!edits.empty()) user.set_text(edited(user.text(), edits));
  }

  std::vector<Unit>& units_;
  std::set<std::string, std::less<>> empty_;
};

// All functions of a name and a number of parameters.
struct Group {
  struct Place {
    std::size_t unit, open;
  };
  std::vector<Place> lists;  // of parameters and of arguments
  std::vector<bool> is_used;
  bool is_fixed = false;  // something else may be meant
};

class Parameters {
 public:
  explicit Parameters(std::vector<Unit>& units) : units_(units), empty_(empty_types(units)) {}

  bool drop() {
    for (std::size_t u = 0; u < units_.size(); ++u) find_heads(u);
    for (std::size_t u = 0; u < units_.size(); ++u) find_calls(u);
    std::map<std::size_t, std::vector<Edit>> edits;
    for (auto& [key, group] : groups_) {
      const auto& [name, count] = key;
      if (group.is_fixed || variables_.contains(name)) continue;
      const std::size_t left = static_cast<std::size_t>(std::ranges::count(group.is_used, true));
      if (left == count || groups_.contains({name, left})) continue;
      for (const Group::Place place : group.lists)
        shorten(units_[place.unit].source(), place.open, group, edits[place.unit]);
    }
    bool any = false;
    for (auto& [u, list] : edits) {
      if (list.empty()) continue;
      std::ranges::sort(
          list, [](const Edit& a, const Edit& b) { return a.begin != b.begin ? a.begin < b.begin : a.end > b.end; });
      units_[u].set_text(edited(units_[u].text(), list));
      wrap_lists(units_[u]);
      any = true;
    }
    return any;
  }

 private:
  using Key = std::pair<std::string_view, std::size_t>;

  void find_heads(std::size_t u) {
    const Unit& unit = units_[u];
    const Source& source = unit.source();
    for (const Head& head : unit.heads()) {
      heads_.insert({u, head.name});
      const auto items = source.items(head.open);
      Group& group = groups_[{source[head.name].text, items.size()}];
      group.is_used.resize(items.size());
      group.lists.push_back({u, head.open});
      group.is_fixed = group.is_fixed || source.is(0, "extern") || !unit.guard.empty();
      for (std::size_t i = 0; i < items.size(); ++i) {
        group.is_fixed = group.is_fixed || has_default_or_pack(source, items[i]);
        const std::size_t name = name_of(source, items[i]);
        if (name == source.size()) continue;
        variables_.insert(source[name].text);
        if (is_of_empty_type(source, items[i])) continue;
        const std::size_t end = head.body < source.size() ? source[head.body].match : source[head.open].match;
        group.is_used[i] = group.is_used[i] || mentions(source, {name + 1, end}, source[name].text);
      }
      keep_deduced(source, head, items, group);
    }
    if (is_conditional(unit)) fix_all(source);
  }

  // A parameter that alone tells what a template's parameter is, which the function mentions.
  static void keep_deduced(const Source& source, const Head& head, const std::vector<Source::Range>& items,
                           Group& group) {
    const std::size_t list = template_list(source, head);
    if (list == source.size() || head.body == source.size()) return;
    for (const Source::Range parameter : source.items(list)) {
      const std::string_view name = parameter_name(source, parameter);
      if (!mentions(source, {head.body, source[head.body].match}, name) &&
          !mentions(source, {source[list].match, head.name}, name))
        continue;
      const auto tells = [&](std::size_t i) { return mentions(source, items[i], name); };
      bool is_told = false;
      for (std::size_t i = 0; i < items.size(); ++i) is_told = is_told || (group.is_used[i] && tells(i));
      for (std::size_t i = 0; i < items.size() && !is_told; ++i) {
        if (tells(i)) group.is_used[i] = is_told = true;
      }
    }
  }

  // Of a unit with two branches only names are known.
  void fix_all(const Source& source) {
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source.is_word(i)) variables_.insert(source[i].text);
    }
  }

  bool is_of_empty_type(const Source& source, Source::Range item) const {
    for (std::size_t i = item.first; i < item.last; ++i) {
      if (source.is_word(i) && empty_.contains(source[i].text)) return true;
    }
    return false;
  }

  void find_calls(std::size_t u) {
    const Source& source = units_[u].source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (!source.is_word(i) || heads_.contains({u, i})) continue;
      const std::size_t open = source.call_of(i);
      if (open == source.size()) continue;
      const auto it = groups_.find({source[i].text, source.items(open).size()});
      if (it != groups_.end()) it->second.lists.push_back({u, open});
    }
  }

  static void shorten(const Source& source, std::size_t open, const Group& group, std::vector<Edit>& edits) {
    const auto items = source.items(open);
    bool any_left = false;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (group.is_used[i]) {
        any_left = true;
        continue;
      }
      const std::size_t end = source[items[i].last - 1].end;
      if (any_left) {
        edits.push_back({source[items[i - 1].last - 1].end, end, ""});
      } else {
        edits.push_back(
            {source[items[i].first].begin, i + 1 < items.size() ? source[items[i + 1].first].begin : end, ""});
      }
    }
  }

  std::vector<Unit>& units_;
  std::set<std::string, std::less<>> empty_;
  std::map<Key, Group> groups_;
  std::set<std::pair<std::size_t, std::size_t>> heads_;  // unit, token
  std::set<std::string_view> variables_;                 // names of parameters, which may be called
};

// Template parameters that a function has no more use for, and that no call gives.
class TemplateParameters {
 public:
  explicit TemplateParameters(std::vector<Unit>& units) : units_(units) {
    for (const Unit& unit : units) {
      const Source& source = unit.source();
      for (std::size_t i = 0; i < source.size(); ++i) {
        if (!source.is_word(i) || !source.is(i + 1, "<") || source[i + 1].match <= i || source.is(i, "template"))
          continue;
        std::size_t& most = given_[std::string(source[i].text)];
        most = std::max(most, source.items(i + 1).size());
      }
    }
  }

  bool drop() {
    std::vector<std::pair<Unit*, std::string>> changed;
    for (Unit& unit : units_) {
      std::vector<Edit> edits;
      for (const Head& head : unit.heads()) look_at(unit, head, edits);
      if (!edits.empty()) changed.emplace_back(&unit, edited(unit.text(), edits));
    }
    for (auto& [unit, text] : changed) unit->set_text(std::move(text));
    return !changed.empty();
  }

 private:
  void look_at(const Unit& unit, const Head& head, std::vector<Edit>& edits) const {
    const Source& source = unit.source();
    const std::size_t list = template_list(source, head);
    if (list == source.size() || head.body == source.size() || source[list].match == list + 1 ||
        !unit.specialized.empty())
      return;
    const auto items = source.items(list);
    const auto given = given_.find(source[head.name].text);
    const std::size_t first = given == given_.end() ? 0 : given->second;
    std::string left;
    for (std::size_t i = 0; i < items.size(); ++i) {
      const bool is_used =
          i < first ||
          mentions(source, {source[list].match, source[head.body].match}, parameter_name(source, items[i])) ||
          source.between(items[i]).find("...") != std::string_view::npos ||
          (i + 1 < items.size() &&
           mentions(source, {items[i + 1].first, source[list].match}, parameter_name(source, items[i])));
      if (is_used) left += (left.empty() ? "" : ", ") + std::string(source.between(items[i]));
    }
    const std::size_t begin = source[list - 1].begin;
    const std::size_t end = source[source[list].match].end;
    if (left.empty()) {  // and its line
      edits.push_back({begin, source[source[list].match + 1].begin, ""});
    } else if (left.size() != source.between({list + 1, source[list].match}).size()) {
      edits.push_back({begin, end, "template <" + left + ">"});
    }
  }

  std::vector<Unit>& units_;
  std::map<std::string, std::size_t, std::less<>> given_;  // how many arguments
};

// ---- statements

class Statements {
 public:
  Statements(const Unit& unit, const std::set<std::string, std::less<>>& idle,
             const std::set<std::string, std::less<>>& empty)
      : unit_(unit), source_(unit.source()), idle_(idle), empty_(empty) {}

  std::vector<Edit> edits() {
    for (const Head& head : unit_.heads()) {
      if (head.body == source_.size()) continue;
      for (std::size_t i = head.body + 1; i < source_[head.body].match; ++i) {
        if (begins_statement(i)) look_at(i);
        if (source_.is(i, "(")) i = source_[i].match;  // a loop's head is no statement
      }
    }
    return std::move(edits_);
  }

 private:
  bool begins_statement(std::size_t i) const {
    if (!is_code(source_[i]) || source_.is(i, "}")) return false;
    const std::size_t before = source_.previous(i);
    return before < i && (source_.is(before, "{") || source_.is(before, "}") || source_.is(before, ";"));
  }

  void look_at(std::size_t i) {
    const std::size_t end = source_.statement_end(i);
    if (source_.is(i, "for") || source_.is(i, "if")) {
      if (is_idle(i)) drop(i, end);
    } else if (is_idle_call(i, end) || is_unread(i, end)) {
      drop(i, end);
    }
  }

  // A statement that does nothing, loops and branches around it included.
  bool is_idle(std::size_t i) const {
    const std::size_t end = source_.statement_end(i);
    if (source_.is(i, "{")) return source_[i].match == i + 1;
    if (source_.is(i, "for") || source_.is(i, "if")) {
      const std::size_t open = source_.is(i + 1, "constexpr") ? i + 2 : i + 1;
      const std::size_t body = source_.next(source_[open].match);
      return source_.statement_end(body) == end && !has_call(open) && is_idle(body);
    }
    return is_idle_call(i, end);
  }

  bool has_call(std::size_t open) const {
    for (std::size_t i = open; i < source_[open].match; ++i) {
      if (source_.is_word(i) && source_.call_of(i) < source_.size() && !source_.is(i, "static_cast")) return true;
    }
    return false;
  }

  // "f(…);", "stage[0].f();": of functions without statements.
  bool is_idle_call(std::size_t i, std::size_t end) const {
    if (end < 4 || !source_.is(end - 1, ";") || !source_.is(end - 2, ")")) return false;
    std::size_t name = source_[end - 2].match - 1;
    if (source_.is(name, ">")) name = source_[name].match - 1;
    if (!source_.is_word(name) || !idle_.contains(source_[name].text)) return false;
    for (std::size_t at = i; at < name; ++at) {
      const bool is_path = source_.is_word(at) || source_.is(at, ".") || source_.is(at, "::") || source_.is(at, "[") ||
                           source_.is(at, "]") || source_[at].kind == Kind::number;
      if (!is_path || source_.is(at, "return")) return false;
    }
    return true;
  }

  // A variable that nothing reads, whose initial value costs nothing.
  bool is_unread(std::size_t i, std::size_t end) const {
    std::size_t name = i;
    while (name < end && !source_.is(name, "=") && !source_.is(name, ";") && !source_.is(name, "{") &&
           !source_.is(name, "(")) {
      if (source_[name].match > name && !source_.is(name, "<") && !source_.is(name, "[")) return false;
      name = source_[name].match > name ? source_[name].match + 1 : name + 1;
    }
    if (name == end || source_.is(name, "(")) return false;
    const bool has_value = !source_.is(name, ";");
    std::size_t last = name - 1;
    if (source_.is(last, "]")) last = source_[last].match - 1;
    if (!source_.is_word(last) || last == i || !(source_.is_word(i) || source_.is(i, "["))) return false;
    const std::size_t before = last - 1;
    const bool is_declared =
        source_.is_word(before) || source_.is(before, "&") || source_.is(before, "*") || source_.is(before, ">");
    if (!is_declared || source_.is(i, "return") || source_.is(i, "using") || source_.is(i, "extern") ||
        source_.is(i, "typedef"))
      return false;
    const bool is_empty = std::ranges::any_of(empty_, [&](const std::string& type) {
      return mentions(source_, {i, last}, type);
    });
    if (has_value && !is_empty && computes(name, end)) return false;
    std::size_t close = last;
    while (close < source_.size() && !(source_.is(close, "}") && source_[close].match < i)) ++close;
    return !mentions(source_, {last + 1, close}, source_[last].text);
  }

  bool computes(std::size_t first, std::size_t end) const {
    for (std::size_t i = first; i < end; ++i) {
      if (source_.is_word(i) && source_.call_of(i) < source_.size() && !source_.is(i, "static_cast") &&
          !source_.is(i, "reinterpret_cast") && !source_.is(i, "sizeof"))
        return true;
    }
    return false;
  }

  // With the lines above that are its: a comment, how to unroll it.
  void drop(std::size_t i, std::size_t end) {
    std::size_t first = i;
    while (first > 0 && (source_[first - 1].kind == Kind::comment || source_[first - 1].text.starts_with("#pragma")) &&
           stands_alone(first - 1))
      --first;
    const std::size_t begin = source_.line_begin(source_[first].begin);
    const std::size_t last = source_[end - 1].end;
    if (!edits_.empty() && begin < edits_.back().end) return;
    if (stands_alone(i)) {
      edits_.push_back({begin, std::min(unit_.text().find('\n', last) + 1, unit_.text().size()), ""});
    } else {
      edits_.push_back({source_[i - 1].end, last, ""});
    }
  }
  bool stands_alone(std::size_t i) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    return unit_.text().substr(begin, source_[i].begin - begin).find_first_not_of(' ') == std::string_view::npos;
  }

  const Unit& unit_;
  const Source& source_;
  const std::set<std::string, std::less<>>& idle_;
  const std::set<std::string, std::less<>>& empty_;
  std::vector<Edit> edits_;
};

// Names of functions of which none has a statement.
std::set<std::string, std::less<>> idle_functions(const std::vector<Unit>& units) {
  std::set<std::string, std::less<>> idle, busy;
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (const Head& head : unit.heads()) {
      const bool does_nothing =
          head.body < source.size() && source[head.body].match == head.body + 1 && source.is(head.name - 1, "void");
      (does_nothing ? idle : busy).insert(std::string(source[head.name].text));
    }
  }
  for (const std::string& name : busy) idle.erase(name);
  return idle;
}

}  // namespace

bool drop_unused_parameters(std::vector<Unit>& units) {
  const bool members = EmptyMembers(units).drop();
  const bool parameters = Parameters(units).drop();
  return TemplateParameters(units).drop() || parameters || members;
}

bool drop_idle_statements(std::vector<Unit>& units) {
  const auto idle = idle_functions(units);
  const auto empty = empty_types(units);
  bool any = false;
  for (Unit& unit : units) {
    if (is_conditional(unit)) continue;
    for (;;) {
      const std::vector<Edit> edits = Statements(unit, idle, empty).edits();
      if (edits.empty()) break;
      unit.set_text(edited(unit.text(), edits));
      any = true;
    }
  }
  return any;
}

bool drop_unused_members(std::vector<Unit>& units) {
  std::map<std::string_view, int> mentioned;  // but in heads
  for (const Unit& unit : units) {
    for (std::size_t i = 0; i < unit.source().size(); ++i) {
      if (unit.source().is_word(i)) ++mentioned[unit.source()[i].text];
    }
    for (const Head& head : unit.heads()) --mentioned[unit.source()[head.name].text];
  }
  std::vector<std::pair<Unit*, std::string>> left;
  for (Unit& unit : units) {
    if (unit.kind != UnitKind::type) continue;
    const Source& source = unit.source();
    std::vector<Edit> edits;
    for (const Head& head : unit.heads()) {
      if (mentioned[source[head.name].text] > 0 || head.body == source.size()) continue;
      std::size_t first = head.name;
      while (first > 0 && !source.is(first - 1, ";") && !source.is(first - 1, "{") && !source.is(first - 1, "}"))
        --first;
      if (source[first].kind == Kind::comment && first > 0 &&
          source.line_begin(source[first].begin) < source[first - 1].end)
        ++first;
      const std::size_t begin = source.line_begin(source[first].begin);
      const std::size_t end = source[source[head.body].match].end;
      edits.push_back({begin, std::min(unit.text().find('\n', end) + 1, unit.text().size()), ""});
    }
    if (!edits.empty()) left.emplace_back(&unit, edited(unit.text(), edits));
  }
  for (auto& [unit, text] : left) {
    // No two empty lines, and none before the end.
    for (const std::string_view pair : {"\n\n\n", "{\n\n", "\n\n}"}) {
      for (auto at = text.find(pair); at != std::string::npos; at = text.find(pair))
        text.erase(pair == "{\n\n" ? at + 1 : at, 1);
    }
    unit->set_text(std::move(text));
  }
  return !left.empty();
}

void wrap_lists(Unit& unit) {
  for (std::size_t from = 0;;) {
    const Source& source = unit.source();
    std::size_t i = from;
    for (; i < source.size(); ++i) {
      if (!source.is(i, "(") || i == 0 || source.is(i - 1, "asm") || source.is(i - 1, "volatile")) continue;
      const std::string_view list = source.between({i, source[i].match + 1});
      const std::size_t line = source.line_begin(source[i].begin);
      const std::size_t end = std::min(unit.text().find('\n', source[source[i].match].end), unit.text().size());
      const bool is_one = list.find('\n') == std::string_view::npos;
      if (is_one && end - line <= kWidth) continue;
      if (list.find_first_of("{#") != std::string_view::npos || list.find("//") != std::string_view::npos ||
          source.items(i).size() < 2)
        continue;
      break;
    }
    if (i >= source.size()) return;
    const std::size_t column = source[i].end - source.line_begin(source[i].begin);
    const std::size_t behind =
        std::min(unit.text().find('\n', source[source[i].match].end), unit.text().size()) - source[source[i].match].end;
    std::string text;
    std::size_t at = column;
    const auto items = source.items(i);
    for (std::size_t n = 0; n < items.size(); ++n) {
      std::string item;
      for (const char c : source.between(items[n])) {
        if (c == '\n' || (c == ' ' && !item.empty() && item.back() == ' ')) continue;
        item += c;
      }
      const std::size_t more = n + 1 < items.size() ? 1 : 1 + behind;
      if (n > 0) {
        const bool fits = at + 1 + item.size() + more <= kWidth;
        text += fits ? " " : "\n" + std::string(column, ' ');
        at = fits ? at + 1 : column;
      }
      text += item + (n + 1 < items.size() ? "," : "");
      at += item.size() + 1;
    }
    const std::size_t begin = source[i].end;
    const std::size_t end = source[source[i].match].begin;
    from = i + 1;
    if (text == unit.text().substr(begin, end - begin)) continue;
    unit.set_text(edited(unit.text(), {{begin, end, text}}));
  }
}

}  // namespace epifuse::codegen::lean
