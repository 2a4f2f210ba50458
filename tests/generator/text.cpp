// Text with clashing names. What the library makes of it must be what it makes of to_text(), whose names cannot clash.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "generator/program.hpp"
#include "support/random.hpp"

namespace epifuse::test {
namespace {

// What printers call values, what functions are called, and the rest of the alphabet.
constexpr std::string_view kNames[] = {"t0",   "t1",   "t2", "t3", "t4",  "out",      "out0", "out1",
                                       "out2", "x",    "y",  "e",  "sum", "relu",     "eps",  "dim",
                                       "t10",  "none", "_",  "a",  "b",   "long_name"};

constexpr std::pair<std::string_view, std::string_view> kInfix[] = {
    {"add", "+"}, {"sub", "-"}, {"mul", "*"}, {"div", "/"}, {"pow", "**"},          {"eq", "=="},        {"ne", "!="},
    {"lt", "<"},  {"le", "<="}, {"gt", ">"},  {"ge", ">="}, {"logical_and", "and"}, {"logical_or", "or"}};

std::string number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "(-inf)";
  std::array<char, 64> text;
  const auto end = std::to_chars(text.data(), text.data() + text.size(), std::fabs(value)).ptr;
  const std::string digits(text.data(), end);
  return std::signbit(value) ? "(-" + digits + ")" : digits;
}

class Writer {
 public:
  Writer(const Chain& chain, const std::map<int, CallText>& calls, std::uint64_t names)
      : chain_(chain), calls_(calls), random_(names), expressions_(chain.steps.size()), names_(chain.steps.size()) {}

  NamedText write() {
    name_operands();
    find_uses();
    std::string body;
    if (random_.percent(50)) body += alias_operands();
    for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
      if (needed_[i] != 0 && !is_leaf(i)) body += statement(i);
    }
    const std::string ending = results();
    text_.text = declarations() + body + ending;
    return text_;
  }

 private:
  const Step& step(std::size_t i) const { return chain_.steps[i]; }
  bool is_leaf(std::size_t i) const { return step(i).args.empty(); }

  // What the text of a step mentions.
  const std::vector<int>& mentions(std::size_t i) const {
    const auto call = calls_.find(static_cast<int>(i));
    return call == calls_.end() ? step(i).args : call->second.steps;
  }

  std::string fresh_name(const std::set<std::string, std::less<>>& taken) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const std::string_view name = random_.pick(std::span<const std::string_view>(kNames));
      if (!taken.contains(name)) return std::string(name);
    }
    std::string name = "v";
    while (taken.contains(name)) name += "v";
    return name;
  }

  void name_operands() {
    for (int i = 0; i < chain_.inputs; ++i) {
      text_.inputs.push_back(fresh_name(operands_));
      operands_.insert(text_.inputs.back());
    }
    for (int i = 0; i < chain_.scalars; ++i) {
      text_.scalars.push_back(fresh_name(operands_));
      operands_.insert(text_.scalars.back());
    }
  }

  // Which steps the text writes, how often it mentions them, and where last.
  void find_uses() {
    needed_.assign(chain_.steps.size(), 0);
    uses_.assign(chain_.steps.size(), 0);
    last_use_.assign(chain_.steps.size(), 0);
    is_result_.assign(chain_.steps.size(), 0);
    for (const int result : chain_.results)
      needed_[static_cast<std::size_t>(result)] = is_result_[static_cast<std::size_t>(result)] = 1;
    for (std::size_t i = chain_.steps.size(); i-- > 0;) {
      if (needed_[i] == 0) continue;
      for (const int argument : mentions(i)) {
        needed_[static_cast<std::size_t>(argument)] = 1;
        ++uses_[static_cast<std::size_t>(argument)];
      }
    }
    inline_some();
  }

  // What is written inside another statement is mentioned where that stands. Only what would stand right before it: of
  // two equal sums of exchanged arguments the first is kept, so the order of operations matters.
  void inline_some() {
    inlined_.assign(chain_.steps.size(), 0);
    std::size_t next = chain_.steps.size();  // the step that is written after this one
    std::size_t statement = next;            // and the one that it is written in
    for (std::size_t i = chain_.steps.size(); i-- > 0;) {
      if (needed_[i] == 0) continue;
      if (is_result_[i] != 0) last_use_[i] = chain_.steps.size();
      if (is_leaf(i)) continue;
      const bool alone = uses_[i] == 1 && is_result_[i] == 0 && next < chain_.steps.size() &&
                         std::ranges::find(mentions(next), static_cast<int>(i)) != mentions(next).end();
      inlined_[i] = alone && random_.percent(60) ? 1 : 0;
      if (inlined_[i] == 0) statement = i;
      next = i;
      for (const int argument : mentions(i)) {
        auto& last = last_use_[static_cast<std::size_t>(argument)];
        last = std::max(last, statement);
      }
    }
  }

  // Names that still mean something after statement `now`.
  std::set<std::string, std::less<>> taken(std::size_t now) const {
    std::set<std::string, std::less<>> names = operands_;
    names.insert(aliases_.begin(), aliases_.end());
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!names_[i].empty() && (last_use_[i] > now || is_result_[i] != 0)) names.insert(names_[i]);
    }
    return names;
  }

  std::string statement(std::size_t i) {
    expressions_[i] = expression(i);
    if (inlined_[i] != 0) return {};
    names_[i] = fresh_name(taken(i));
    return names_[i] + " = " + expressions_[i] + "; ";
  }

  // `t0 = x;` before all else: the name of a result that is an operand.
  std::string alias_operands() {
    std::string text;
    for (const int result : chain_.results) {
      const auto i = static_cast<std::size_t>(result);
      if (!is_leaf(i) || operand_alias_.contains(result) || !random_.percent(60)) continue;
      operand_alias_[result] = fresh_name(taken(0));
      aliases_.insert(operand_alias_[result]);
      text += operand_alias_[result] + " = " + leaf(i) + "; ";
    }
    return text;
  }

  std::string leaf(std::size_t i) const {
    if (step(i).kind == Step::Kind::input) return text_.inputs[static_cast<std::size_t>(step(i).ordinal)];
    if (step(i).kind == Step::Kind::scalar) return text_.scalars[static_cast<std::size_t>(step(i).ordinal)];
    return number(step(i).constant);
  }

  std::string mention(int argument) const {
    const auto i = static_cast<std::size_t>(argument);
    if (is_leaf(i)) {
      const std::string text = leaf(i);
      return text == "none" ? "(none)" : text;
    }
    if (inlined_[i] != 0) return "(" + expressions_[i] + ")";
    return names_[i] == "none" ? "(none)" : names_[i];
  }

  std::string expression(std::size_t i) {
    if (const auto call = calls_.find(static_cast<int>(i)); call != calls_.end()) {
      std::string text = call->second.pieces[0];
      for (std::size_t k = 0; k < call->second.steps.size(); ++k)
        text += mention(call->second.steps[k]) + call->second.pieces[k + 1];
      return text;
    }
    const std::string value = mention(step(i).args[0]);
    switch (step(i).kind) {
      case Step::Kind::cast:
        return "cast(" + value + ", " + std::string(to_string(step(i).dtype)) + ")";
      case Step::Kind::reduce:
        return reduction(step(i), value);
      case Step::Kind::unflatten:
        return "unflatten(" + value + ", " + std::to_string(step(i).axes.at[0]) + ", (" +
               std::to_string(step(i).sizes[0]) + ", " + std::to_string(step(i).sizes[1]) + "))";
      case Step::Kind::flatten:
        return "flatten(" + value + ", start_dim=" + std::to_string(step(i).axes.at[0]) +
               ", end_dim=" + std::to_string(step(i).axes.at[1]) + ")";
      case Step::Kind::along:
        return "along(" + value + ", " + mention(step(i).args[1]) + ", dim=" + std::to_string(step(i).axes.at[0]) + ")";
      default:
        return operation(step(i));
    }
  }

  std::string reduction(const Step& step, const std::string& value) {
    std::string list;
    for (const int axis : step.axes.at) list += (list.empty() ? "" : ", ") + std::to_string(axis);
    if (step.axes.rest) list += ", ...";
    std::string out = std::string(to_string(step.reduction)) + "(" + value;
    if (!list.empty()) out += std::string(random_.percent(50) ? ", dim=" : ", axis=") + "(" + list + ")";
    if (step.reduction == Reduction::var) out += ", correction=" + number(step.constant);
    if (step.keepdim || random_.percent(20)) out += step.keepdim ? ", keepdim=true" : ", keepdim=false";
    return out + ")";
  }

  std::string operation(const Step& step) {
    const std::string_view name = step.definition->name;
    const auto infix = std::ranges::find(kInfix, name, &std::pair<std::string_view, std::string_view>::first);
    if (infix != std::end(kInfix) && random_.percent(60))
      return mention(step.args[0]) + " " + std::string(infix->second) + " " + mention(step.args[1]);
    if (name == "neg" && random_.percent(60)) return "-" + mention(step.args[0]);
    if (name == "logical_not" && random_.percent(60)) return "not " + mention(step.args[0]);
    std::string out = std::string(name) + "(";
    for (std::size_t i = 0; i < step.args.size(); ++i) out += (i == 0 ? "" : ", ") + mention(step.args[i]);
    return out + ")";
  }

  // The results' names, and what stands behind `return`.
  std::string results() {
    std::string before, list;
    for (std::size_t i = 0; i < chain_.results.size(); ++i) {
      const int result = chain_.results[i];
      const auto at = static_cast<std::size_t>(result);
      std::string name = is_leaf(at) ? std::string() : names_[at];
      if (const auto alias = operand_alias_.find(result); alias != operand_alias_.end()) name = alias->second;
      if (random_.percent(is_leaf(at) ? 20 : 10)) {
        const std::string again = fresh_name(taken(chain_.steps.size()));
        before += again + " = " + mention(result) + "; ";
        aliases_.insert(again);
        name = again;
      }
      const bool bare = !name.empty() && random_.percent(75);
      const std::string shown = name.empty() ? mention(result) : name == "none" && !bare ? "none" : name;
      list += (i == 0 ? "" : ", ") + (bare ? shown : "(" + shown + ")");
      // A name is the first result's that has it.
      const bool named = bare && std::ranges::find(text_.results, name) == text_.results.end();
      text_.results.push_back(named ? name : std::string());
    }
    name_the_nameless();
    return before + "return " + list;
  }

  // By position, with a `_` more where a value is called so.
  void name_the_nameless() {
    const std::vector<std::string> given = text_.results;
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (!given[i].empty()) continue;
      std::string& name = text_.results[i];
      name = given.size() == 1 ? "out" : "out" + std::to_string(i);
      while (std::ranges::find(given, name) != given.end()) name += "_";
    }
  }

  std::string declarations() const {
    std::string out;
    for (std::size_t i = 0; i < text_.scalars.size(); ++i) out += (i == 0 ? "scalar " : ", ") + text_.scalars[i];
    return out.empty() ? out : out + "; ";
  }

  const Chain& chain_;
  const std::map<int, CallText>& calls_;
  Random random_;
  NamedText text_;
  std::vector<std::string> expressions_, names_;
  std::set<std::string, std::less<>> operands_, aliases_;
  std::map<int, std::string> operand_alias_;
  std::vector<char> needed_, is_result_, inlined_;
  std::vector<int> uses_;
  std::vector<std::size_t> last_use_;
};

}  // namespace

NamedText named_text(const Chain& chain, const std::map<int, CallText>& calls, std::uint64_t names) {
  return Writer(chain, calls, names).write();
}

}  // namespace epifuse::test
