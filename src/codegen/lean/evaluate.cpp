// Precedence climbing over tokens; whatever is not known makes unknown what depends on it.
#include "codegen/lean/evaluate.hpp"

#include <array>
#include <charconv>

namespace epifuse::codegen::lean {
namespace {

using Value = std::optional<std::int64_t>;

struct Operator {
  std::string_view sign;
  int precedence;
};
constexpr std::array<Operator, 18> kOperators = {{{"||", 1},
                                                  {"&&", 2},
                                                  {"|", 3},
                                                  {"^", 4},
                                                  {"&", 5},
                                                  {"==", 6},
                                                  {"!=", 6},
                                                  {"<", 7},
                                                  {">", 7},
                                                  {"<=", 7},
                                                  {">=", 7},
                                                  {"<<", 8},
                                                  {"+", 9},
                                                  {"-", 9},
                                                  {"*", 10},
                                                  {"/", 10},
                                                  {"%", 10},
                                                  {">>", 8}}};

Value logical(std::string_view sign, Value a, Value b) {
  const bool decides = sign == "||";  // what either side alone decides
  for (const Value side : {a, b}) {
    if (side && (*side != 0) == decides) return decides ? 1 : 0;
  }
  return a && b ? Value(decides ? 0 : 1) : std::nullopt;
}

Value applied(std::string_view sign, Value a, Value b) {
  if (sign == "||" || sign == "&&") return logical(sign, a, b);
  if (!a || !b) return std::nullopt;
  if (sign == "==") return *a == *b;
  if (sign == "!=") return *a != *b;
  if (sign == "<") return *a < *b;
  if (sign == ">") return *a > *b;
  if (sign == "<=") return *a <= *b;
  if (sign == ">=") return *a >= *b;
  if (sign == "+") return *a + *b;
  if (sign == "-") return *a - *b;
  if (sign == "*") return *a * *b;
  if (sign == "/" && *b != 0) return *a / *b;
  if (sign == "%" && *b != 0) return *a % *b;
  return std::nullopt;
}

class Reader {
 public:
  Reader(const Source& source, Source::Range range, const Known& known)
      : source_(source), at_(range.first), last_(range.last), known_(known) {}

  Value whole() {
    const Value value = conditional();
    return at_ == last_ ? value : std::nullopt;
  }

 private:
  bool is(std::string_view text) const { return at_ < last_ && source_.is(at_, text); }

  Value conditional() {
    const Value condition = binary(1);
    if (!is("?")) return condition;
    ++at_;
    const Value yes = conditional();
    if (!is(":")) return fail();
    ++at_;
    const Value no = conditional();
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  Value fail() {
    at_ = last_ + 1;
    return std::nullopt;
  }

  const Operator* operator_here() const {
    if (at_ >= last_) return nullptr;
    const bool shifts = source_.is(at_, ">") && at_ + 1 < last_ && source_.is(at_ + 1, ">");
    const std::string_view sign = shifts ? ">>" : source_[at_].text;
    for (const Operator& one : kOperators) {
      if (one.sign == sign) return &one;
    }
    return nullptr;
  }

  Value binary(int least) {
    Value left = unary();
    for (const Operator* sign = operator_here(); sign != nullptr && sign->precedence >= least; sign = operator_here()) {
      at_ += sign->sign == ">>" ? 2 : 1;
      left = applied(sign->sign, left, binary(sign->precedence + 1));
    }
    return left;
  }

  Value unary() {
    for (const std::string_view sign : {"!", "-", "+", "~", "&", "*"}) {
      if (!is(sign)) continue;
      ++at_;
      const Value inner = unary();
      if (!inner || sign == "~" || sign == "&" || sign == "*") return std::nullopt;
      return sign == "!" ? static_cast<std::int64_t>(*inner == 0) : sign == "-" ? -*inner : *inner;
    }
    return postfix(primary());
  }

  Value postfix(Value value) {
    while (at_ < last_) {
      const bool opens = (is("(") || is("[") || is("{") || is("<")) && source_[at_].match > at_;
      const bool selects = is(".") || is("->");
      if (!opens && !selects) break;
      at_ = opens ? source_[at_].match + 1 : at_ + 2;
      value.reset();
    }
    return value;
  }

  Value primary() {
    if (at_ >= last_) return fail();
    const Token& token = source_[at_];
    if (token.text == "(") {
      Reader inner(source_, {at_ + 1, token.match}, known_);
      at_ = token.match + 1;
      return inner.whole();
    }
    if (token.text == "static_cast" && source_.is(at_ + 1, "<")) {
      const bool is_integer = source_.is(at_ + 2, "int") || source_.is(at_ + 2, "Index");
      at_ = source_[at_ + 1].match + 1;
      const Value inner = primary();
      return is_integer ? inner : std::nullopt;
    }
    ++at_;
    if (token.kind == Kind::number) return number(token.text);
    if (token.kind != Kind::word) return std::nullopt;
    if (token.text == "true" || token.text == "false") return token.text == "true";
    std::string name(token.text);
    while (is("::")) {
      name += "::" + std::string(source_[at_ + 1].text);
      at_ += 2;
    }
    return known_.find(name);
  }

  static Value number(std::string_view text) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? Value(value) : std::nullopt;
  }

  const Source& source_;
  std::size_t at_, last_;
  const Known& known_;
};

}  // namespace

std::optional<std::int64_t> Known::find(std::string_view name) const {
  const auto found = values_.find(name);
  if (found != values_.end()) return found->second;
  return outer_ != nullptr ? outer_->find(name) : std::nullopt;
}

void Known::set(std::string_view name, std::optional<std::int64_t> value) {
  values_.insert_or_assign(std::string(name), value);
}

std::optional<std::int64_t> value_of(const Source& source, Source::Range range, const Known& known) {
  return Reader(source, range, known).whole();
}

}  // namespace epifuse::codegen::lean
