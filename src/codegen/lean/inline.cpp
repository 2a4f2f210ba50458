// All functions are inlined by the compiler anyway (__forceinline__): this is for who reads.
#include "codegen/lean/inline.hpp"

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/lean/declared.hpp"
#include "codegen/lean/functions.hpp"

namespace epifuse::codegen::lean {
namespace {

// What fits a screen. Lines of a function.
constexpr std::ptrdiff_t kMostLines = 50;

using Range = Source::Range;

std::ptrdiff_t lines_of(std::string_view text) { return std::ranges::count(text, '\n') + 1; }

// One function and the place where it may stand.
class InPlace {
 public:
  InPlace(const std::vector<Unit>& units, const Function& function, bool branches)
      : units_(units), function_(function), unit_(units[function.unit]), source_(unit_.source()), branches_(branches) {
    body_ = {function.head.body + 1, source_[function.head.body].match};
    for (const Range item : source_.items(function.head.open)) {
      const std::string_view name = name_of_parameter(source_, item);
      names_.push_back(name);
      by_value_.push_back(source_.is(item.last - 1, name) && source_.is_word(item.last - 2));
      changes_.push_back(!name.empty() && by_value_.back() && is_changed(name));
    }
  }

  // Edits of the unit of each call; all units but one when there are several calls.
  std::optional<std::vector<std::pair<std::size_t, Edit>>> edits() const {
    if (!is_plain()) return std::nullopt;
    std::vector<std::pair<std::size_t, Edit>> edits;
    const bool changes = std::ranges::find(changes_, true) != changes_.end();
    if (changes && !branches_) return std::nullopt;
    const auto expression = changes ? std::nullopt : only_expression();
    if (!expression && function_.calls.size() != 1) return std::nullopt;
    for (const Call& call : function_.calls) {
      auto edit = expression ? expression_at(call, *expression) : std::nullopt;
      if (!edit && function_.calls.size() == 1 && (branches_ || !expression)) edit = statements_at(call);
      if (!edit) return std::nullopt;
      // One in the arguments of another would be left.
      if (!edits.empty() && edits.back().first == call.unit && edits.back().second.end > edit->begin)
        return std::nullopt;
      edits.emplace_back(call.unit, *std::move(edit));
    }
    return edits;
  }

 private:
  // A free function without a template.
  bool is_plain() const {
    if (unit_.kind != UnitKind::function || !unit_.scope.empty() || unit_.is_operation || !unit_.guard.empty() ||
        source_.is(0, "template") || body_.first >= body_.last)
      return false;
    // Values that it gives back: the chain itself, or an element of a pass.
    return std::ranges::none_of(source_.items(function_.head.open), [&](Range item) {
      return source_.is(item.first + 1, "&") && (source_.is(item.first, "Real") || source_.is(item.first, "bool"));
    });
  }

  bool is_changed(std::string_view name) const {
    for (std::size_t i = body_.first; i < body_.last; ++i) {
      if (source_.is(i, name) && !source_.is_member(i) && source_.is_changed(i)) return true;
    }
    return false;
  }

  enum class Form : unsigned char { plain, call, computes, assigns };
  struct Expression {
    Range range;
    Form form = Form::plain;
  };

  // "return f(…);", "f(…);" or "return name;": a call or a name. "return a * b;" where one place wants it.
  std::optional<Expression> only_expression() const {
    const bool returns = source_.is(body_.first, "return");
    const Range range{returns ? body_.first + 1 : body_.first, body_.last - 1};
    if (branches_ && is_assignment()) return Expression{{body_.first, body_.last - 1}, Form::assigns};
    if (!is_code(source_[body_.first]) || range.first >= range.last || !source_.is(range.last, ";") ||
        source_.statement_end(body_.first) != body_.last)
      return std::nullopt;
    const bool is_one = returns && range.last == range.first + 1;
    if (is_one && (branches_ || source_.is_word(range.first))) return Expression{range};
    if (branches_ && returns && source_.is(range.first, "::") && source_.call_of(range.first + 1) == range.first + 2 &&
        source_[range.first + 2].match + 1 == range.last && is_plain_text({range.first + 3, range.last - 1}, false))
      return Expression{range};
    if (!source_.is_word(range.first) && !(branches_ && source_.is(range.first, "("))) return std::nullopt;
    if (source_.is(range.first, "if") || source_.is(range.first, "asm")) return std::nullopt;
    const std::size_t open = source_.call_of(range.first);
    if (branches_ && open == source_.size() && is_call_of_member(range)) return Expression{range, Form::call};
    const bool is_call = open < source_.size() && source_[open].match + 1 == range.last;
    if (is_call && is_plain_text({open + 1, range.last - 1}, false)) return Expression{range};
    // With other calls among its arguments, or what is computed of names.
    const bool is_cast = source_[range.first].text.ends_with("_cast");
    if (is_call && !is_cast && is_pure({open + 1, range.last - 1})) return Expression{range, Form::call};
    // Whatever computes something has its name for a reason, if it is wanted twice.
    const bool computes = returns && function_.calls.size() == 1 && is_plain_text(range, true);
    return computes ? std::optional(Expression{range, Form::computes}) : std::nullopt;
  }

  // "*reinterpret_cast<Wide*>(target) = *reinterpret_cast<const Wide*>(source);"
  bool is_assignment() const {
    int assigned = 0;
    for (std::size_t i = body_.first; i + 1 < body_.last; ++i) {
      const bool is_sign = source_.is(i, "*") || source_.is(i, "(") || source_.is(i, ")") || source_.is(i, "<") ||
                           source_.is(i, ">") || source_.is(i, "[") || source_.is(i, "]");
      assigned += source_.is(i, "=") ? 1 : 0;
      const bool is_cast = source_.is_word(i) && source_[i].text.ends_with("_cast");
      const bool is_call = source_.is_word(i) && source_.call_of(i) < source_.size() && !is_cast;
      if (is_call || !(source_.is_word(i) || source_[i].kind == Kind::number || source_.is(i, "=") || is_sign))
        return false;
    }
    return assigned == 1 && source_.is(body_.first, "*") && source_.is(body_.last - 1, ";") &&
           source_.statement_end(body_.first) == body_.last;
  }

  // "stage.template merge_lanes<1, 32>()" of what the function is given, and "Stage1::accumulate(stage)".
  bool is_call_of_member(Range range) const {
    const std::size_t close = range.last - 1;
    const bool is_given = std::ranges::find(names_, source_[range.first].text) != names_.end();
    if (!(is_given && source_.is(range.first + 1, ".")) && !(!is_given && source_.is(range.first + 1, "::")))
      return false;
    if (!source_.is(close, ")")) return false;
    const std::size_t name = range.first + (source_.is(range.first + 2, "template") ? 3 : 2);
    const std::size_t open = source_.is_word(name) ? source_.call_of(name) : source_.size();
    return open < source_.size() && source_[open].match == close && is_pure({open + 1, close});
  }

  bool is_lambda(std::size_t i) const {
    return source_.is(i, "[") && !source_.is_word(i - 1) && !source_.is(i - 1, ")") && !source_.is(i - 1, "]");
  }

  // Whatever is called, nothing is assigned, and no block stands there.
  bool is_pure(Range range) const {
    for (std::size_t i = range.first; i < range.last; ++i) {
      const bool is_subscript = branches_ && source_.is(i, "[") && !is_lambda(i);
      if (!is_code(source_[i]) || source_.is(i, "{") || (source_.is(i, "[") && !is_subscript) || source_.is(i, "=") ||
          (source_.is_word(i) && source_.is_changed(i)))
        return false;
    }
    return true;
  }

  // Without calls, and where it does not compute without operators.
  bool is_plain_text(Range range, bool computes) const {
    for (std::size_t i = range.first; i < range.last; ++i) {
      const bool is_sign = source_.is(i, ",") || source_.is(i, ".") || source_.is(i, "::");
      const bool is_operator = source_.is(i, "+") || source_.is(i, "-") || source_.is(i, "*") || source_.is(i, "/") ||
                               source_.is(i, "%") || (branches_ && (source_.is(i, "(") || source_.is(i, ")")));
      if (source_.is_word(i) && computes && source_.call_of(i) < source_.size()) return false;
      if (!source_.is_word(i) && source_[i].kind != Kind::number && !is_sign && !(computes && is_operator))
        return false;
    }
    return true;
  }

  struct Arguments {
    std::vector<std::string> texts;
    std::vector<bool> simple;
  };

  std::optional<Arguments> arguments_of(const Call& call) const {
    const Source& source = units_[call.unit].source();
    if (!source.is(call.name + 1, "(")) return std::nullopt;
    const auto items = source.items(call.name + 1);
    if (items.size() != names_.size()) return std::nullopt;
    Arguments arguments;
    for (const Range item : items) {
      bool simple = true;
      for (std::size_t i = item.first; i < item.last; ++i) {
        simple = simple && (source.is_word(i) || source[i].kind == Kind::number || source.is(i, ".") ||
                            source.is(i, "[") || source.is(i, "]") || (source.is(i, "&") && i == item.first));
      }
      arguments.texts.emplace_back(source.between(item));
      arguments.simple.push_back(simple);
    }
    return arguments;
  }

  int mentions(std::string_view name, Range range) const {
    int found = 0;
    for (std::size_t i = range.first; i < range.last; ++i)
      found += source_.is(i, name) && !source_.is_member(i) ? 1 : 0;
    return found;
  }

  // Text of the function with arguments for its parameters.
  std::string text_with(Range range, const Arguments& arguments) const {
    std::vector<Edit> edits;
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (!source_.is_word(i) || source_.is_member(i)) continue;
      const auto at = std::ranges::find(names_, source_[i].text);
      if (at == names_.end()) continue;
      std::string text = arguments.texts[static_cast<std::size_t>(at - names_.begin())];
      const bool is_path =
          text.starts_with("&") && (source_.is(i + 1, "[") || source_.is(i + 1, "->") || source_.is(i + 1, "."));
      if (is_path) text = "(" + text + ")";
      edits.push_back({source_[i].begin, source_[i].end, std::move(text)});
    }
    const std::size_t begin = source_[range.first].begin, end = source_[range.last - 1].end;
    for (Edit& edit : edits) {
      edit.begin -= begin;
      edit.end -= begin;
    }
    return edited(unit_.text().substr(begin, end - begin), edits);
  }

  std::optional<Edit> expression_at(const Call& call, const Expression& found) const {
    const auto arguments = arguments_of(call);
    if (!arguments) return std::nullopt;
    const Range expression = found.range;
    const bool is_plain = found.form != Form::computes && (branches_ || found.form != Form::call);
    if (found.form == Form::assigns && !is_statement(call)) return std::nullopt;
    if (!is_plain && std::ranges::find(arguments->simple, false) != arguments->simple.end()) return std::nullopt;
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const int mentioned = names_[k].empty() ? 0 : mentions(names_[k], expression);
      if (mentioned > 1 && !arguments->simple[k]) return std::nullopt;
      if (mentioned == 0 && !arguments->simple[k]) return std::nullopt;
      if (mentioned > 0 && !arguments->simple[k] && found.form == Form::call && function_.calls.size() > 1)
        return std::nullopt;
      if (mentioned > 0 && names_[k] == source_[expression.first].text && source_.is(expression.first + 1, "("))
        return std::nullopt;  // calls what it is given
      if (mentioned > 0 && !arguments->simple[k] && expression.last > expression.first + 1 &&
          !is_item(names_[k], expression))
        return std::nullopt;
    }
    const Source& source = units_[call.unit].source();
    return Edit{source[call.name].begin, source[source[call.name + 1].match].end,
                found.form == Form::computes ? "(" + text_with(expression, *arguments) + ")"
                                             : text_with(expression, *arguments)};
  }

  // An argument alone, where any expression may stand.
  bool is_item(std::string_view name, Range range) const {
    for (std::size_t i = range.first; i < range.last; ++i) {
      if (!source_.is(i, name) || source_.is_member(i)) continue;
      const bool begins = source_.is(i - 1, "(") || source_.is(i - 1, ",");
      const bool ends = source_.is(i + 1, ")") || source_.is(i + 1, ",");
      if (!begins || !ends) return false;
    }
    return true;
  }

  static bool are_names(const Arguments& arguments) {
    return std::ranges::all_of(
        arguments.texts, [](const std::string& text) { return text.find_first_of(".[(&-") == std::string::npos; });
  }
  // In the caller the compiler meets them later, and may assign registers otherwise.
  bool has_branches() const {
    return mentions("for", body_) > 0 || mentions("while", body_) > 0 || mentions("if", body_) > 0 ||
           mentions("?", body_) > 0 || has_lambda();
  }

  // What a lambda sees of a parameter is a value; of a member of the caller's it would be a reference.
  bool has_lambda() const {
    for (std::size_t i = body_.first; i < body_.last; ++i) {
      if (is_lambda(i)) return true;
    }
    return false;
  }

  // "f(a, b);" among other statements.
  bool is_statement(const Call& call) const {
    const Source& source = units_[call.unit].source();
    const std::size_t before = source.previous(call.name);
    return source.is(source[call.name + 1].match + 1, ";") &&
           (source.is(before, "{") || source.is(before, "}") || source.is(before, ";"));
  }

  // The same as a statement of a function's block.
  std::optional<Edit> statements_at(const Call& call) const {
    const Unit& around = units_[call.unit];
    const Source& source = around.source();
    auto arguments = arguments_of(call);
    if (!arguments) return std::nullopt;
    const std::size_t close = source[call.name + 1].match;
    if (!is_statement(call) || around.kind != UnitKind::function || call.unit == function_.unit ||
        !source_.is(function_.head.name - 1, "void"))
      return std::nullopt;
    if (!branches_ && (has_branches() || std::ranges::find(arguments->simple, false) != arguments->simple.end()))
      return std::nullopt;
    if (mentions("return", body_) > 0 || (has_lambda() && !are_names(*arguments)) || clashes(call)) return std::nullopt;
    if (lines_of(around.text()) + lines_of(unit_.text()) > kMostLines) return std::nullopt;
    const std::size_t begin = source.line_begin(source[call.name].begin);
    const std::string indent(source[call.name].begin - begin, ' ');
    if (around.text().substr(begin, indent.size()) != indent) return std::nullopt;
    std::string text =
        unit_.comment.empty() || unit_.comment.find("\n\n") != std::string::npos ? "" : indented(unit_.comment, indent);
    std::string variables;
    for (std::size_t k = 0; k < names_.size(); ++k) {
      if (arguments->simple[k] && !changes_[k]) continue;
      const auto variable = variable_of(call, k, arguments->texts[k]);
      if (!variable) return std::nullopt;
      variables += indent + *variable;
      arguments->texts[k] = names_[k];
    }
    std::string statements = text_with(body_, *arguments);
    const bool begins_with_directive = source_[body_.first].kind == Kind::directive;
    statements = (begins_with_directive ? "" : "  ") + statements + "\n";
    text += variables + indented(statements, indent.substr(std::min<std::size_t>(2, indent.size())));
    text.pop_back();
    return Edit{begin, source[close + 1].end, std::move(text)};
  }

  // "const Index first = block * kRows;" for a parameter whose argument is no plain name.
  std::optional<std::string> variable_of(const Call& call, std::size_t k, const std::string& argument) const {
    const Source& source = units_[call.unit].source();
    if (names_[k].empty() || !by_value_[k] || is_global(names_[k])) return std::nullopt;
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (source.is(i, names_[k]) && !source.is_member(i)) return std::nullopt;
    }
    const Range item = source_.items(function_.head.open)[k];
    const std::string type(source_.between({item.first, item.last - 1}));
    return (changes_[k] || type.starts_with("const ") ? "" : "const ") + type + " " + std::string(names_[k]) + " = " +
           argument + ";\n";
  }

  static std::string indented(std::string_view text, const std::string& indent) {
    std::string out;
    while (!text.empty()) {
      const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
      if (text[0] != '#' && text[0] != '\n') out += indent;
      out += text.substr(0, end);
      text.remove_prefix(end);
    }
    return out;
  }

  // Whether a name would mean something else: one that the body declares and the caller or an argument has, or one of
  // all that the caller declares.
  bool clashes(const Call& call) const {
    const Source& source = units_[call.unit].source();
    std::set<std::string_view> of_arguments, of_caller, declared_by_caller;
    const std::size_t close = source[call.name + 1].match;
    for (std::size_t i = 0; i < source.size(); ++i) {
      if (!source.is_word(i) || source.is_member(i)) continue;
      (i > call.name && i < close ? of_arguments : of_caller).insert(source[i].text);
      if (may_be_declared(source, i) && !(i > call.name && i < close)) declared_by_caller.insert(source[i].text);
    }
    for (const std::string_view name : declared_in_block(source_, body_)) {
      if (of_caller.contains(name) && !is_global(name)) return true;
    }
    for (std::size_t i = body_.first; i < body_.last; ++i) {
      if (!source_.is_word(i) || source_.is_member(i) || std::ranges::find(names_, source_[i].text) != names_.end())
        continue;
      if (may_be_declared(source_, i) && of_arguments.contains(source_[i].text) && !is_global(source_[i].text))
        return true;
      if (is_global(source_[i].text) && !may_be_declared(source_, i) && declared_by_caller.contains(source_[i].text))
        return true;
    }
    return false;
  }
  bool is_global(std::string_view name) const {
    return std::ranges::any_of(units_, [&](const Unit& unit) { return unit.name == name; });
  }

  const std::vector<Unit>& units_;
  const Function& function_;
  const Unit& unit_;
  const Source& source_;
  bool branches_;  // whether functions that branch may stand in place
  Range body_ = {};
  std::vector<std::string_view> names_;
  std::vector<bool> by_value_, changes_;  // of each parameter
};

}  // namespace

bool write_in_place(std::vector<Unit>& units, std::string_view entry, bool branches) {
  Edits changes;
  std::set<std::size_t> gone;
  for (const Function& function : functions_of(units)) {
    if (!function.is_one || function.calls.empty() || function.name == entry || changes.contains(function.unit))
      continue;
    auto edits = InPlace(units, function, branches).edits();
    const auto meets = [&](const auto& one) { return changes.contains(one.first) || gone.contains(one.first); };
    if (!edits || std::ranges::any_of(*edits, meets)) continue;
    for (auto& [unit, edit] : *edits) changes[unit].push_back(std::move(edit));
    gone.insert(function.unit);
  }
  apply(std::move(changes), units);
  for (auto unit = gone.rbegin(); unit != gone.rend(); ++unit)
    units.erase(units.begin() + static_cast<std::ptrdiff_t>(*unit));
  return !gone.empty();
}

}  // namespace epifuse::codegen::lean
