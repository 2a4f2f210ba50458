// By name: a function counts as empty if all of its name are, and as called if its name stands anywhere else.
#include "codegen/lean/idle.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace epifuse::codegen::lean {
namespace {

using Names = std::set<std::string, std::less<>>;

// Names of functions of which none has a statement.
Names idle_functions(const std::vector<Unit>& units) {
  Names idle, busy;
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

// The idle calls of one unit.
class IdleCalls {
 public:
  IdleCalls(const Unit& unit, const Names& idle) : unit_(unit), source_(unit.source()), idle_(idle) {}

  std::vector<Edit> edits() const {
    std::vector<Edit> edits;
    for (const Head& head : unit_.heads()) {
      if (head.body == source_.size()) continue;
      for (std::size_t i = head.body + 1; i < source_[head.body].match; ++i) {
        if (source_.is(i, "(")) i = source_[i].match;  // a loop's head is no statement
        if (begins_statement(i) && is_idle(i)) edits.push_back(line_of(i));
      }
    }
    return edits;
  }

 private:
  bool begins_statement(std::size_t i) const {
    if (!source_.is_word(i)) return false;
    const std::size_t before = source_.previous(i);
    return before < i && (source_.is(before, "{") || source_.is(before, "}") || source_.is(before, ";"));
  }

  bool is_idle(std::size_t i) const {
    const std::size_t end = source_.statement_end(i);
    if (!source_.is(i, "if")) return is_idle_call(i, end) && stands_in_its_lines(i, end);
    if (!source_.is(i + 1, "constexpr") || !source_.is(i + 2, "(")) return false;
    const std::size_t call = source_.next(source_[i + 2].match);
    // An `else` would end the statement behind the call.
    return source_.statement_end(call) == end && is_idle_call(call, end) && stands_in_its_lines(i, end);
  }

  // "f(…);" and "stage[0].f();"
  bool is_idle_call(std::size_t i, std::size_t end) const {
    if (end < i + 4 || !source_.is(end - 1, ";") || !source_.is(end - 2, ")")) return false;
    const std::size_t open = source_[end - 2].match;
    if (open <= i || !idle_.contains(source_[open - 1].text)) return false;
    for (std::size_t at = i; at + 1 < open; ++at) {
      const bool is_path = source_.is_word(at) || source_.is(at, ".") || source_.is(at, "[") || source_.is(at, "]") ||
                           source_[at].kind == Kind::number;
      if (!is_path || source_.is(at, "return")) return false;
    }
    for (std::size_t at = open + 1; at < end - 2; ++at) {
      if (source_.is(at, "(") || source_.is(at, "{") || source_.is(at, "=") || source_.is(at, "++")) return false;
    }
    return true;
  }

  bool stands_in_its_lines(std::size_t i, std::size_t end) const {
    const std::size_t begin = source_.line_begin(source_[i].begin);
    const std::string_view before = unit_.text().substr(begin, source_[i].begin - begin);
    const std::size_t last = source_[end - 1].end;
    return before.find_first_not_of(' ') == before.npos && (last == unit_.text().size() || unit_.text()[last] == '\n');
  }

  Edit line_of(std::size_t i) const {
    const std::size_t last = source_[source_.statement_end(i) - 1].end;
    return {source_.line_begin(source_[i].begin), std::min(last + 1, unit_.text().size()), ""};
  }

  const Unit& unit_;
  const Source& source_;
  const Names& idle_;
};

}  // namespace

bool drop_idle_calls(std::vector<Unit>& units) {
  const Names idle = idle_functions(units);
  bool any = false;
  for (Unit& unit : units) {
    if (unit.source().size() == 0 || unit.source()[0].kind == Kind::directive) continue;
    const std::vector<Edit> edits = IdleCalls(unit, idle).edits();
    if (edits.empty()) continue;
    unit.set_text(edited(unit.text(), edits));
    any = true;
  }
  return any;
}

namespace {

// "struct HeldSumExp : MaxSumExp {": the type it is made from.
std::string_view base_of(const Source& source) {
  for (std::size_t i = 0; i + 1 < source.size() && !source.is(i, "{"); ++i) {
    if (source.is(i, ":")) return source[i + 1].text;
  }
  return {};
}

// Types of which there is no value but as a part of another: "MaxSumExp a0;" stands nowhere.
Names bases(const std::vector<Unit>& units) {
  Names names;
  for (const Unit& unit : units) {
    if (unit.kind == UnitKind::type) names.insert(std::string(base_of(unit.source())));
  }
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      const bool is_reference = source.is(i + 1, "&") || source.is(i - 1, ":") || source.is(i - 1, "struct");
      if (source.is_word(i) && !is_reference) names.erase(std::string(source[i].text));
    }
  }
  return names;
}

// Members of such types that each type made from it has, too, as "MaxSumExp::add".
Names hidden_members(const std::vector<Unit>& units) {
  Names hidden;
  const Names all = bases(units);
  for (const Unit& base : units) {
    if (base.kind != UnitKind::type || !all.contains(base.name)) continue;
    for (const Head& head : base.heads()) {
      const std::string_view name = base.source()[head.name].text;
      const bool is_hidden = std::ranges::all_of(units, [&](const Unit& unit) {
        return unit.kind != UnitKind::type || base_of(unit.source()) != base.name ||
               std::ranges::any_of(unit.heads(), [&](const Head& one) { return unit.source()[one.name].text == name; });
      });
      if (is_hidden) hidden.insert(base.name + "::" + std::string(name));
    }
  }
  return hidden;
}

}  // namespace

bool drop_unused_members(std::vector<Unit>& units) {
  const Names hidden = hidden_members(units);
  // But in heads, and in what has the same name: "void merge(const Stage1& other) { a0.merge(other.a0); }".
  std::unordered_map<std::string_view, int> mentioned;
  for (const Unit& unit : units) {
    const Source& source = unit.source();
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source.is_word(i)) ++mentioned[source[i].text];
    }
    for (const Head& head : unit.heads()) {
      const std::string_view name = source[head.name].text;
      --mentioned[name];
      if (unit.kind != UnitKind::type || head.body == source.size()) continue;
      for (std::size_t i = head.body; i < source[head.body].match; ++i) mentioned[name] -= source.is(i, name) ? 1 : 0;
    }
  }
  std::vector<std::pair<Unit*, std::string>> left;
  for (Unit& unit : units) {
    if (unit.kind != UnitKind::type) continue;
    const Source& source = unit.source();
    std::vector<Edit> edits;
    for (const Head& head : unit.heads()) {
      // Operators are called by their signs.
      const bool is_hidden = hidden.contains(unit.name + "::" + std::string(source[head.name].text));
      if ((mentioned[source[head.name].text] > 0 && !is_hidden) || !source.is_word(head.name) ||
          head.body == source.size())
        continue;
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

}  // namespace epifuse::codegen::lean
