// By name: a name that stands a second time in its function counts as read, unless all it is there is assigned to. One
// variable at a time, since its value may be all that reads another.
#include "codegen/lean/unread.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace epifuse::codegen::lean {
namespace {

using Range = Source::Range;

template <std::size_t kCount>
bool is_one_of(const std::array<std::string_view, kCount>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

// A declaration of one variable or several, and one of these: "float a[2], b = 1;".
struct Declarator {
  std::size_t first, last;  // tokens of the statement
  std::size_t name;
  Range all;    // of this variable: name, extents and value
  Range value;  // empty without one
  bool is_alone;
  bool refers;  // to what stands elsewhere, so that an assignment may change that
};

class UnreadVariables {
 public:
  explicit UnreadVariables(const Unit& unit) : unit_(unit), source_(unit.source()) {}

  /// Edits that take one variable away, or none.
  std::vector<Edit> next() const {
    for (const Head& head : unit_.heads()) {
      if (head.body == source_.size()) continue;
      const Range body{head.body + 1, source_[head.body].match};
      const Places places = places_of_names(body);
      for (std::size_t i = body.first; i < body.last; ++i) {
        if (!begins_statement(i)) continue;
        if (source_.is(i, "struct")) i = source_.statement_end(i);  // whose members are no variables
        for (const Declarator& declarator : declared_by(i)) {
          if (auto edits = removed(declarator, places); !edits.empty()) return edits;
        }
      }
    }
    return {};
  }

 private:
  // Of a function, so that a long one is read once and not for each of its variables.
  using Places = std::unordered_map<std::string_view, std::vector<std::size_t>>;
  Places places_of_names(Range body) const {
    Places places;
    for (std::size_t i = body.first; i < body.last; ++i) {
      if (source_.is_word(i) && !source_.is_member(i)) places[source_[i].text].push_back(i);
    }
    return places;
  }

  bool begins_statement(std::size_t i) const {
    if (!is_code(source_[i])) return false;
    const std::size_t before = source_.previous(i);
    return source_.is(before, "{") || source_.is(before, "}") || source_.is(before, ";");
  }

  // Variables of the statement at token i; none where it is no declaration of the form "[const] type name …;".
  std::vector<Declarator> declared_by(std::size_t i) const {
    static constexpr auto kQualifiers =
        std::to_array<std::string_view>({"const", "constexpr", "volatile", "__shared__"});
    static constexpr auto kOthers = std::to_array<std::string_view>(
        {"return", "else", "case", "typedef", "using", "static", "extern", "struct", "break", "continue", "asm", "goto",
         "do", "delete", "new", "for", "if", "while"});
    std::size_t at = i;
    while (source_.is(at, "alignas") || (source_.is_word(at) && is_one_of(kQualifiers, source_[at].text)))
      at = source_.is(at, "alignas") ? source_[at + 1].match + 1 : at + 1;
    if (!source_.is_word(at) || is_one_of(kOthers, source_[at].text)) return {};
    at = source_.is(at, "decltype") ? source_[at + 1].match + 1 : at + 1;
    while (source_.is(at, "::") && source_.is_word(at + 1)) at += 2;
    if (source_.is(at, "<") && source_[at].match > at) at = source_[at].match + 1;
    const std::size_t type_end = at;
    while (source_.is(at, "*") || source_.is(at, "&") || source_.is(at, "const")) ++at;
    const bool refers = at > type_end || source_.is(type_end - 1, "auto");
    const std::size_t last = source_.statement_end(i);
    std::vector<Declarator> found;
    while (at + 1 < last) {
      if (!source_.is_word(at)) return {};
      Declarator one{i, last, at, {at, at + 1}, {at, at}, true, refers};
      std::size_t end = at + 1;
      while (source_.is(end, "[")) end = source_[end].match + 1;
      one.value = {end, end};
      if (source_.is(end, "=") || source_.is(end, "{")) {
        const std::size_t value = source_.is(end, "=") ? end + 1 : end;
        while (end + 1 < last && !source_.is(end, ","))
          end = source_[end].match > end ? source_[end].match + 1 : end + 1;
        one.value = {value, end};
      }
      if (!source_.is(end, ",") && !source_.is(end, ";")) return {};
      one.all.last = end;
      found.push_back(one);
      at = end + 1;
    }
    for (Declarator& one : found) one.is_alone = found.size() == 1;
    return found;
  }

  // What takes it away, if nothing reads it.
  std::vector<Edit> removed(const Declarator& declarator, const Places& places) const {
    if (!only_computes(declarator.value, false)) return {};
    std::vector<Edit> edits = {without(declarator)};
    for (const std::size_t i : places.at(source_[declarator.name].text)) {
      if (i == declarator.name) continue;
      const auto assignment = declarator.refers ? std::nullopt : assigned_at(i);
      if (!assignment) return {};
      edits.push_back(*assignment);
    }
    std::ranges::sort(edits, {}, &Edit::begin);
    return edits;
  }

  // Whether a value is computed without anything else being done. Variables that begin with a place stay all the same:
  // without them kernels of chunks that many blocks hold had up to 6 instructions more before their loops.
  bool only_computes(Range value, bool may_be_place) const {
    static constexpr auto kComputing = std::to_array<std::string_view>(
        {"static_cast", "reinterpret_cast", "sizeof", "Real", "Index", "float", "int", "unsigned"});
    // Places that the templates of reductions find.
    static constexpr auto kPlaces = std::to_array<std::string_view>({"locate", "known", "existing", "at"});
    const bool is_function = source_.is(value.first, "[");
    for (std::size_t i = value.first; i < value.last && !is_function; ++i) {
      if (source_.is(i, "++") || source_.is(i, "--") || source_.is(i, "=")) return false;
      const bool is_call = source_.is_word(i) && source_.call_of(i) != source_.size();
      if (is_call && !is_one_of(kComputing, source_[i].text) && !(may_be_place && is_one_of(kPlaces, source_[i].text)))
        return false;
    }
    return true;
  }

  Edit without(const Declarator& declarator) const {
    if (declarator.is_alone) return whole_lines(declarator.first, declarator.last);
    const bool is_last = source_.is(declarator.all.last, ";");
    return is_last ? Edit{source_[declarator.all.first - 1].begin, source_[declarator.all.last - 1].end, ""}
                   : Edit{source_[declarator.all.first].begin, source_[declarator.all.last + 1].begin, ""};
  }

  // "name[0] = value;" at token i, a statement among others or all that a loop does.
  std::optional<Edit> assigned_at(std::size_t i) const {
    std::size_t first = i;
    if (source_.is(source_.previous(i), ")")) first = source_.previous(source_[source_.previous(i)].match);
    if (!begins_statement(first) || (first != i && !source_.is(first, "for"))) return std::nullopt;
    std::size_t at = i + 1;
    while (source_.is(at, "[")) at = source_[at].match + 1;
    const std::size_t last = source_.statement_end(i);
    if (!source_.is(at, "=") || !only_computes({at + 1, last - 1}, true)) return std::nullopt;
    if (source_[first - 1].kind == Kind::directive) --first;
    return whole_lines(first, last);
  }

  // With the line's end, and a comment on it.
  Edit whole_lines(std::size_t first, std::size_t last) const {
    const std::size_t line = unit_.text().find('\n', source_[last - 1].end);
    return {source_.line_begin(source_[first].begin), std::min(line, unit_.text().size() - 1) + 1, ""};
  }

  const Unit& unit_;
  const Source& source_;
};

}  // namespace

bool drop_unread_variables(std::vector<Unit>& units) {
  bool any = false;
  for (Unit& unit : units) {
    if (unit.source().size() == 0 || unit.source()[0].kind == Kind::directive) continue;
    for (auto edits = UnreadVariables(unit).next(); !edits.empty(); edits = UnreadVariables(unit).next()) {
      unit.set_text(edited(unit.text(), edits));
      any = true;
    }
  }
  return any;
}

}  // namespace epifuse::codegen::lean
