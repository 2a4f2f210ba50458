// Takes a source apart and puts units together again.
#include "codegen/lean/units.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

namespace epifuse::codegen::lean {
namespace {

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

// Behind an attribute and what it has in parentheses.
std::size_t skip_attributes(const Source& source, std::size_t i) {
  for (;;) {
    if (source.is(i, "template") && source.is(i + 1, "<")) {
      i = source[i + 1].match + 1;
    } else if (source.is(i, "[") && source.is(i + 1, "[")) {
      i = source[i].match + 1;
    } else if (source.is_word(i) &&
               is_one_of(source[i].text, {"__device__", "__forceinline__", "__noinline__", "__global__", "static",
                                          "constexpr", "const", "extern", "inline", "explicit"})) {
      i = source.next(i);
    } else if (source.is_word(i) && is_one_of(source[i].text, {"__launch_bounds__", "__attribute__", "alignas"}) &&
               source.is(i + 1, "(")) {
      i = source[i + 1].match + 1;
    } else if (i < source.size() && source[i].kind == Kind::literal) {  // extern "C"
      i = source.next(i);
    } else {
      return i;
    }
  }
}

// The name that a definition declares, behind its type: of a function where '(' follows, of a constant where '=' does.
void name_unit(Unit& unit) {
  const Source& source = unit.source();
  std::size_t i = skip_attributes(source, 0);
  if (is_one_of(source[i].text, {"struct", "enum"})) {
    unit.kind = UnitKind::type;
    i = source.next(i);
    if (source.is(i, "class")) i = source.next(i);
    i = skip_attributes(source, i);
    unit.name = source[i].text;
    if (source.is(i + 1, "<")) unit.specialized = source.between({i + 1, source[i + 1].match + 1});
    return;
  }
  if (source.is(i, "typedef")) {
    unit.kind = UnitKind::type;
    std::size_t last = i;
    for (std::size_t at = i; !source.is(at, ";"); ++at) last = at;
    unit.name = source[last].text;
    return;
  }
  if (source.is(i, "static_assert")) return;
  for (; i < source.size(); ++i) {
    i = skip_attributes(source, i);
    if (!source.is_word(i)) continue;
    std::size_t after = i + 1;
    if (source.is(after, "<")) after = source[after].match + 1;
    if (source.is(after, "(") || source.is(after, "=") || source.is(after, "{")) {
      unit.kind = source.is(after, "(") ? UnitKind::function : UnitKind::constant;
      unit.name = source[i].text;
      if (after != i + 1) unit.specialized = source.between({i + 1, after});
      return;
    }
    i = after - 1;
  }
  throw std::logic_error("a definition of an emitted source has no name: " + std::string(unit.text()));
}

// Functions of a unit.
std::vector<Head> find_heads(const Unit& unit) {
  std::vector<Head> heads;
  const Source& source = unit.source();
  if (unit.kind == UnitKind::constant || source.size() == 0 || source[0].kind == Kind::directive) return heads;
  const bool is_type = unit.kind == UnitKind::type;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (!source.is(i, "__device__") && !source.is(i, "__global__")) continue;
    std::size_t name = skip_attributes(source, i);
    while (name < source.size() && source.call_of(name) == source.size()) {
      const bool has_arguments = source.is(name + 1, "<") && source[name + 1].match > name;
      name = has_arguments ? source[name + 1].match + 1 : name + 1;
    }
    if (name == source.size()) break;
    const std::size_t open = source.call_of(name);
    std::size_t body = source[open].match + 1;
    while (body < source.size() && !source.is(body, "{") && !source.is(body, ";")) ++body;
    const bool is_defined = source.is(body, "{");
    if (source[name].text != "operator") heads.push_back({name, open, is_defined ? body : source.size()});
    if (!is_type) break;
    i = is_defined ? source[body].match : body;
  }
  return heads;
}

// Lines `#if … #else … #endif`, of which one begins at `first`; whether there is an #else.
std::pair<std::size_t, bool> end_of_conditional(const Source& source, std::size_t first) {
  int depth = 0;
  bool has_else = false;
  for (std::size_t i = first; i < source.size(); ++i) {
    if (source[i].kind != Kind::directive) continue;
    if (source[i].text.starts_with("#if")) ++depth;
    if (source[i].text.starts_with("#endif") && --depth == 0) return {i, has_else};
    has_else = has_else || (depth == 1 && source[i].text.starts_with("#el"));
  }
  throw std::logic_error("an #if of an emitted source has no #endif");
}

class Parser {
 public:
  explicit Parser(std::string_view text) : source_(text) {}

  Units parse() {
    while (at_ < source_.size()) {
      const Token& token = source_[at_];
      if (token.kind == Kind::comment) {
        take_comment();
      } else if (token.kind == Kind::directive) {
        take_directive();
      } else if (token.text == "namespace") {
        scope_ = source_[at_ + 1].text;
        at_ += 3;
      } else if (token.text == "}") {
        if (scope_.empty()) throw std::logic_error("an emitted source has a closing brace too many");
        scope_.clear();
        ++at_;
        if (at_ < source_.size() && source_[at_].kind == Kind::comment) ++at_;  // namespace …
      } else {
        take_unit(definition_end());
      }
    }
    if (!scope_.empty()) throw std::logic_error("a namespace of an emitted source is not closed");
    return std::move(result_);
  }

 private:
  // Lines of comment side by side.
  void take_comment() {
    const std::size_t begin = source_[at_].begin;
    std::size_t last = at_;
    while (last + 1 < source_.size() && source_[last + 1].kind == Kind::comment && is_next_line(last)) ++last;
    const std::string text(source_.text().substr(begin, source_[last].end - begin));
    if (result_.units.empty() && result_.header.empty()) {
      result_.header = text + "\n";
    } else {
      if (comment_.empty()) below_ = is_below(at_);
      const bool apart = last + 1 < source_.size() && !is_next_line(last);
      comment_ += text + (apart ? "\n\n" : "\n");
      known_below_ = true;
    }
    at_ = last + 1;
  }

  bool is_next_line(std::size_t i) const {
    const auto lines = source_.text().substr(source_[i].end, source_[i + 1].begin - source_[i].end);
    return std::ranges::count(lines, '\n') == 1;
  }
  bool is_below(std::size_t i) const { return i > 0 && is_next_line(i - 1); }

  void take_directive() {
    const std::string_view text = source_[at_].text;
    if (text.starts_with("#if")) {
      const auto [end, has_else] = end_of_conditional(source_, at_);
      if (has_else) return take_unit(end + 1);
      guard_ = text;
    } else if (text.starts_with("#endif")) {
      guard_.clear();
    }
    ++at_;
  }

  // One past the definition that begins here, and the comment on its last line.
  std::size_t definition_end() const {
    for (std::size_t i = at_; i < source_.size(); ++i) {
      if (source_.is(i, ";")) return with_comment(i + 1);
      if (source_[i].match <= i) continue;
      const bool is_body = source_.is(i, "{");
      i = source_[i].match;
      if (is_body && !source_.is(i + 1, ";")) return with_comment(i + 1);
    }
    throw std::logic_error("a definition of an emitted source has no end");
  }
  std::size_t with_comment(std::size_t end) const {
    const bool follows =
        end < source_.size() && source_[end].kind == Kind::comment &&
        source_.text().substr(source_[end - 1].end, source_[end].begin - source_[end - 1].end).find('\n') ==
            std::string_view::npos;
    return follows ? end + 1 : end;
  }

  void take_unit(std::size_t end) {
    Unit unit;
    unit.is_below = known_below_ ? below_ : is_below(at_);
    unit.comment = std::exchange(comment_, {});
    known_below_ = false;
    unit.scope = scope_;
    unit.guard = guard_;
    unit.set_text(std::string(source_.text().substr(source_[at_].begin, source_[end - 1].end - source_[at_].begin)));
    if (source_[at_].kind == Kind::directive) {  // the names of both branches: those of the first
      Unit first;
      first.set_text(std::string(unit.text().substr(source_[at_].text.size())));
      name_unit(first);
      unit.kind = first.kind;
      unit.name = first.name;
    } else {
      name_unit(unit);
    }
    result_.units.push_back(std::move(unit));
    at_ = end;
  }

  Source source_;
  std::size_t at_ = 0;
  std::string scope_, guard_, comment_;
  bool below_ = false, known_below_ = false;
  Units result_;
};

// ---- conditions of the preprocessor

enum class Answer : unsigned char { yes, no, depends };

// "defined(__CUDACC__) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800": the last part is left.
std::pair<Answer, std::string> answer(std::string_view line) {
  const std::size_t at = line.find("__CUDA_ARCH__ ");
  if (at == std::string_view::npos) return {line.find('!') == std::string_view::npos ? Answer::yes : Answer::no, {}};
  return {Answer::depends, "#if " + std::string(line.substr(at))};
}

// Below an #if that is answered, lines of its branch that is left stand as they are.
struct Level {
  Answer answer;
  bool outer;  // whether lines around it are left
  bool in_else = false;
  bool lines() const { return outer && (answer == Answer::depends || (answer == Answer::yes) != in_else); }
};

}  // namespace

void Unit::set_text(std::string text) {
  text_ = std::make_unique<std::string>(std::move(text));
  source_ = std::make_unique<Source>(*text_);
  heads_.reset();
  folded_with = seen_with = 0;
}

const std::vector<Head>& Unit::heads() const {
  if (!heads_) heads_ = find_heads(*this);
  return *heads_;
}

std::string without_host_branches(std::string_view text) {
  std::string out;
  std::vector<Level> levels;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n') + 1, text.size());
    const std::string_view line = text.substr(0, length == 0 ? text.size() : length);
    text.remove_prefix(line.size());
    const bool left = levels.empty() || levels.back().lines();
    if (line.starts_with("#if")) {
      auto [found, rest] = answer(line);
      levels.push_back({found, left});
      if (left && found == Answer::depends) out += rest;
    } else if (line.starts_with("#else") || line.starts_with("#endif")) {
      Level& level = levels.back();
      if (level.outer && level.answer == Answer::depends) out += line;
      level.in_else = true;
      if (line.starts_with("#endif")) levels.pop_back();
    } else if (left) {
      out += line;
    }
  }
  return out;
}

Units parse(std::string_view text) { return Parser(text).parse(); }

std::string print(const std::string& header, const std::vector<const Unit*>& units) {
  std::string out = header;
  const Unit* before = nullptr;
  for (const Unit* unit : units) {
    const bool leaves_guard =
        before != nullptr && !before->guard.empty() && (before->guard != unit->guard || before->scope != unit->scope);
    const bool leaves_scope = before != nullptr && !before->scope.empty() && before->scope != unit->scope;
    if (leaves_guard) out += "#endif\n";
    if (leaves_scope) out += "\n}  // namespace " + before->scope + "\n";
    const bool close = before != nullptr && before->kind == unit->kind && unit->kind == UnitKind::constant &&
                       unit->comment.empty() && unit->is_below;
    const bool pair = before != nullptr && before->kind == UnitKind::type && unit->is_below &&
                      before->name != "Params" && unit->comment.empty() &&
                      std::ranges::count(before->text(), '\n') == 0;
    if (!(close || pair)) out += '\n';
    if (!unit->scope.empty() && (before == nullptr || before->scope != unit->scope))
      out += "namespace " + unit->scope + " {\n\n";
    if (!unit->guard.empty() && (before == nullptr || before->guard != unit->guard || leaves_scope))
      out += unit->guard + "\n";
    out += unit->comment;
    out += unit->text();
    out += '\n';
    before = unit;
  }
  return out;
}

}  // namespace epifuse::codegen::lean
