// Calls of the text language: their arguments by position and keyword, each read by the type of its parameter, and
// advice where a name is unknown. parser.hpp says how the text is read.
#include <algorithm>
#include <array>
#include <cmath>

#include "ir/parser.hpp"

namespace epifuse::ir {

Value Parser::call(const Token& name) {
  Call call = read_call(name);
  if (!call.function.parameters.empty() && call.function.parameters.back().in_brackets) pick(call);
  return finish(call);
}

Parser::Call Parser::read_call(const Token& name) {
  const Function* function = find_function(name.text);
  if (function == nullptr) unknown_function(name);
  lexer_.advance();
  Call call{*function, name, std::vector<std::optional<Argument>>(function->parameters.size())};
  while (!lexer_.is(")")) {
    if (call.count > 0 && !lexer_.accept(",")) no_comma(call);
    argument(call);
  }
  close("to close the call");
  return call;
}

void Parser::pick(Call& call) {
  const std::string_view name = call.function.name;
  if (!lexer_.accept("["))
    lexer_.error(fmt::format("'{}' gives several values: write which one, as '{}(…)[0]'", name, name));
  const std::size_t at = token().at;
  const std::optional<std::int64_t> index = index_number();
  if (!index)
    lexer_.error_at(at, fmt::format("the number of what '{}' gives is an integer, as '{}(…)[0]'", name, name));
  close("behind the number", "]");
  call.arguments.back() = Argument{.number = static_cast<double>(*index)};
}

void Parser::argument(Call& call) {
  const Token first = token();
  const std::string_view keyword = keyword_here();
  const std::size_t position = keyword.empty() ? call.count : call.function.position(keyword);
  ++call.count;
  check_place(call, first, keyword, position);
  if (keyword.empty() && call.extra != kNowhere) {
    expression();  // one too many: finish() refuses it, with the number of all
  } else {
    call.arguments[position] = typed(call.function, call.function.parameters[position]);
  }
}

void Parser::check_place(Call& call, const Token& first, std::string_view keyword, std::size_t position) const {
  const auto& parameters = call.function.parameters;
  if (keyword.empty() && call.keywords) lexer_.error("a positional argument cannot follow a keyword argument");
  if (keyword.empty() && (position >= parameters.size() || parameters[position].keyword_only)) {
    if (call.extra == kNowhere) call.extra = first.at;
    return;
  }
  call.keywords = !keyword.empty();
  if (position == parameters.size() || parameters[position].in_brackets)
    refuse(first.at, call, fmt::format("has no argument '{}'", keyword));
  if (call.arguments[position]) {
    lexer_.error_at(first.at,
                    fmt::format("'{}' of '{}' is given twice", parameters[position].name, call.function.name));
  }
}

void Parser::no_comma(const Call& call) const {
  lexer_.error(fmt::format("expected ',' or ')' in the call of '{}', found {}", call.function.name, found()));
}

Value Parser::finish(const Call& call) {
  const auto& parameters = call.function.parameters;
  if (call.extra != kNowhere) {
    const auto places = std::ranges::count(parameters, false, &FunctionParameter::keyword_only);
    const bool all = static_cast<std::size_t>(places) == parameters.size();
    refuse(call.extra, call,
           fmt::format("takes {} {}argument{}, found {}", places, all ? "" : "positional ", places == 1 ? "" : "s",
                       call.count));
  }
  std::vector<Argument> arguments;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (!call.arguments[i] && !parameters[i].default_text)
      refuse(call.name.at, call, fmt::format("lacks its argument '{}'", parameters[i].name));
    arguments.push_back(call.arguments[i] ? *call.arguments[i] : parameters[i].default_argument(builder_));
  }
  const Builder::Written as(builder_, call.function.name);
  return located(call.name.at, [&] { return call.function.build(builder_, arguments); });
}

void Parser::refuse(std::size_t at, const Call& call, const std::string& why) const {
  lexer_.error_at(at, fmt::format("'{}' {}: {}", call.function.name, why, call.function.signature));
}

std::string_view Parser::keyword_here() {
  const Token first = token();
  if (first.kind != TokenKind::name) return {};
  lexer_.advance();
  if (lexer_.accept("=")) return first.text;
  lexer_.rewind(first);
  return {};
}

// ---- arguments, by type

Argument Parser::typed(const Function& function, const FunctionParameter& parameter) {
  using Reader = Argument (Parser::*)(const Function&, const FunctionParameter&);
  static constexpr std::array<Reader, 13> kReaders = {
      &Parser::value_argument, &Parser::optional_argument, &Parser::number_argument, &Parser::whole_argument,
      &Parser::axes_argument,  &Parser::flag_argument,     &Parser::sizes_argument,  &Parser::dtype_argument,
      &Parser::word_argument,  &Parser::value_argument,    &Parser::list_argument,   &Parser::values_argument,
      &Parser::list_argument};
  return (this->*kReaders[static_cast<std::size_t>(parameter.type)])(function, parameter);
}

void Parser::mistyped(const Token& at, const Function& function, const FunctionParameter& parameter,
                      std::string_view expected) const {
  lexer_.error_at(at.at,
                  fmt::format("'{}' of '{}' is {}, found {}", parameter.name, function.name, expected, shown(at)));
}

Argument Parser::value_argument(const Function&, const FunctionParameter&) { return {.value = expression()}; }

Argument Parser::optional_argument(const Function&, const FunctionParameter&) {
  return accept_none() ? Argument() : Argument{.value = expression()};
}

bool Parser::accept_none() {
  const Token first = token();
  if (!lexer_.accept("none")) return false;
  if (lexer_.is(",") || lexer_.is(")")) return true;
  lexer_.rewind(first);
  return false;
}

double Parser::number(const Function& function, const FunctionParameter& parameter, std::string_view expected) {
  const Token first = token();
  const Node& node = builder_.node(expression());
  if (node.op != Op::constant) mistyped(first, function, parameter, expected);
  return node.constant;
}

double Parser::whole(const Function& function, const FunctionParameter& parameter, std::string_view expected) {
  const Token first = token();
  const double value = number(function, parameter, expected);
  if (value != std::trunc(value) || std::abs(value) > kLargestWhole)  // of NaN and infinities one is true
    lexer_.error_at(first.at, fmt::format("'{}' of '{}' is {}, found {}", parameter.name, function.name, expected,
                                          print_number(value)));
  return value;
}

Argument Parser::number_argument(const Function& function, const FunctionParameter& parameter) {
  return {.number = number(function, parameter, "a number that the text gives")};
}

Argument Parser::whole_argument(const Function& function, const FunctionParameter& parameter) {
  return {.number = whole(function, parameter, "an integer that the text gives")};
}

Argument Parser::axes_argument(const Function& function, const FunctionParameter& parameter) {
  constexpr std::string_view kExpected = "an integer, a list of them as (1, 2), or (2, ...) for all from there on";
  if (accept_none()) return {};
  refuse_brackets();
  const std::size_t at = token().at;
  std::vector<std::int64_t> axes;
  bool rest = false;
  const auto next = [&] { axes.push_back(static_cast<std::int64_t>(whole(function, parameter, kExpected))); };
  if (!lexer_.accept("(")) {
    next();
  } else {
    do {
      if (!axes.empty() && lexer_.is(")")) break;  // (1,) as Python writes a list of one
      rest = !axes.empty() && lexer_.accept("...");
      if (!rest) next();
    } while (!rest && lexer_.accept(","));
    lexer_.expect(")", "to close the list of axes");
  }
  return {.axes = checked(at, function, axes, rest)};
}

Axes Parser::checked(std::size_t at, const Function& function, std::span<const std::int64_t> axes, bool rest) {
  return located(at, [&] { return axes_of(function.name, axes, rest); });
}

Argument Parser::flag_argument(const Function& function, const FunctionParameter& parameter) {
  const Token first = token();
  const bool known = first.kind == TokenKind::name && (first.text == "true" || first.text == "false");
  if (!known) mistyped(first, function, parameter, "true or false");
  lexer_.advance();
  return {.number = first.text == "true" ? 1.0 : 0.0};
}

Argument Parser::sizes_argument(const Function& function, const FunctionParameter& parameter) {
  constexpr std::string_view kExpected = "two integers as (8, -1)";
  Argument argument;
  refuse_brackets();
  if (!lexer_.accept("(")) mistyped(token(), function, parameter, kExpected);
  argument.sizes[0] = static_cast<std::int64_t>(whole(function, parameter, kExpected));
  lexer_.expect(",", "between the two sizes");
  argument.sizes[1] = static_cast<std::int64_t>(whole(function, parameter, kExpected));
  lexer_.expect(")", "to close the two sizes");
  return argument;
}

Argument Parser::list_argument(const Function& function, const FunctionParameter& parameter) {
  constexpr std::string_view kExpected = "a list of integers as (2, -1)";
  Argument argument;
  if (parameter.default_text == "none" && accept_none()) return argument;
  const auto next = [&] {
    const bool is_kept = parameter.type == ArgumentType::kept_list && accept_none();
    argument.list.push_back(is_kept ? Index::kOpen : static_cast<std::int64_t>(whole(function, parameter, kExpected)));
  };
  refuse_brackets();
  if (!lexer_.accept("(")) {
    next();
    return argument;
  }
  while (!lexer_.is(")")) {
    next();
    if (!lexer_.accept(",")) break;
  }
  lexer_.expect(")", "to close the list");
  return argument;
}

Argument Parser::values_argument(const Function& function, const FunctionParameter& parameter) {
  Argument argument;
  refuse_brackets();
  if (!lexer_.accept("(")) mistyped(token(), function, parameter, "a list of values as (x, y)");
  while (!lexer_.is(")")) {
    argument.values.push_back(expression());
    if (!lexer_.accept(",")) break;
  }
  lexer_.expect(")", "to close the list of values");
  return argument;
}

void Parser::refuse_brackets() const {
  if (lexer_.is("[")) lexer_.error("write '(1, 2)' for a list");
}

Argument Parser::dtype_argument(const Function& function, const FunctionParameter& parameter) {
  const Token first = token();
  const bool word = first.kind == TokenKind::name || first.kind == TokenKind::text;
  const auto type = word ? parse_dtype(first.text) : std::nullopt;
  if (!type) {
    mistyped(first, function, parameter, fmt::format("a type ({})", dtype_names(", ")));
  }
  lexer_.advance();
  return {.dtype = *type};
}

Argument Parser::word_argument(const Function& function, const FunctionParameter& parameter) {
  const Token first = token();
  if (first.kind != TokenKind::text) mistyped(first, function, parameter, "a text in quotes");
  lexer_.advance();
  return {.word = first.text};
}

void Parser::unknown_function(const Token& name) {
  std::vector<std::string_view> names;
  for (const Function& function : function_table()) names.push_back(function.name);
  std::string what_to_do = "`epifuse ops` lists all";
  if (const auto advice = advice_for(name.text, foreign_call())) {
    what_to_do = *advice;
  } else if (const auto suggestion = base::nearest(name.text, names)) {
    what_to_do = fmt::format("did you mean '{}'?", *suggestion);
  }
  lexer_.error_at(name.at, fmt::format("unknown function '{}'; {}", name.text.substr(0, kMaxNameLength), what_to_do));
}

ForeignCall Parser::foreign_call() {
  ForeignCall call;
  int depth = 0;
  std::size_t commas = 0;
  const auto read = [&] {
    const Token before = token();
    if (before.text == "(") ++depth;
    if (before.text == ")") --depth;
    if (depth == 1 && before.text == ",") ++commas;
    lexer_.advance();
    const bool is_keyword = depth == 1 && before.kind == TokenKind::name && lexer_.is("=");
    if (is_keyword && (before.text == "axis" || before.text == "dim" || before.text == "keepdim")) call.has_axis = true;
  };
  try {
    do read();
    while (depth > 0 && token().kind != TokenKind::end);
  } catch (const Error&) {  // what follows is no token; the name before it is the error to tell
  }
  call.arguments = commas + 1;
  return call;
}

}  // namespace epifuse::ir
