// The reader of the text language (docs/guide/language.md): one token of look-ahead, precedence climbing, straight into
// the Builder. Every error carries the line and a caret under the column. parser.cpp reads statements and expressions,
// parser_calls.cpp calls and their arguments. For these two sources and Epilogue::parse, which asks whether the text
// states an order; all others call parse() of program.hpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "ir/composites.hpp"
#include "ir/foreign.hpp"
#include "ir/functions.hpp"
#include "ir/lexer.hpp"
#include "ir/program.hpp"
#include "ir/syntax.hpp"

namespace epifuse::ir {

/// The recursion is bounded (kMaxDepth in parser.cpp), and so is the stack. What it does not need, the sentences of
/// errors above all, stands in functions that are not inlined: under the sanitizers every temporary of a frame takes
/// space of its own.
class Parser {
 public:
  Parser(std::string_view text, std::span<const std::string> scalars);
  Program parse();
  /// Of the parsed text: whether it states that the operands stand in this order, which is the program's. `input` says
  /// so of all operands, or of all but the last one.
  bool states(const std::vector<std::string>& order) const;

 private:
  static constexpr std::size_t kNowhere = std::string_view::npos;
  static constexpr double kLargestWhole = 9007199254740992.0;  // 2^53: up to here an f64 holds every integer

  const Token& token() const noexcept { return lexer_.token(); }
  std::string found() const { return shown(token()); }

  // Runs what may throw without a place, and adds the place.
  template <class Action>
  auto located(std::size_t at, Action action) -> decltype(action()) {
    try {
      return action();
    } catch (const Error& problem) {
      lexer_.error_at(at, problem.what());
    }
  }

  // ---- statements
  void statement();
  void declaration();
  void define_scalar(std::string_view name);
  void assignment(const Token& name);
  void define(const Token& name, Value value);
  // `a, b = chunk(x, 2)` or `q, s = quantize(x, f8e4m3)`: false, and nowhere else than before, where this is no such
  // statement.
  [[gnu::noinline]] bool several(const Token& first);
  // `return a, b` or the final expression. A result that is a bare variable carries its name.
  void results();
  void end_of_statement();

  // ---- expressions
  Value expression(int minimum = 0);
  [[gnu::noinline]] Value apply(std::size_t at, Op op, Value left, Value right = kNone);
  [[noreturn, gnu::noinline]] void too_deep() const;
  const InfixRow* infix_here() const;
  [[gnu::noinline]] void refuse_second_comparison() const;
  Value prefix(int minimum);
  [[noreturn, gnu::noinline]] void misplaced_not() const;
  Value primary();
  [[noreturn, gnu::noinline]] void no_value() const;
  void consume();
  void close(std::string_view why, std::string_view symbol = ")");
  [[gnu::noinline]] Value named_value(const Token& name);

  // ---- brackets
  [[gnu::noinline]] Value indexed(Value value);
  Index index_item();
  std::optional<std::int64_t> index_number();

  // ---- calls
  // A call that is being read.
  struct Call {
    const Function& function;
    const Token& name;
    std::vector<std::optional<Argument>> arguments;  // by parameter
    std::size_t count = 0;                           // as written
    bool keywords = false;                           // there was one
    std::size_t extra = kNowhere;                    // where the first argument too many starts
  };

  Value call(const Token& name);
  Call read_call(const Token& name);
  static double pieces_of(const Call& call, std::size_t names);
  // Of a call that gives several values, which one: `chunk(x, 2)[0]`.
  [[gnu::noinline]] void pick(Call& call);
  void argument(Call& call);
  [[gnu::noinline]] void check_place(Call& call, const Token& first, std::string_view keyword,
                                     std::size_t position) const;
  [[noreturn, gnu::noinline]] void no_comma(const Call& call) const;
  [[gnu::noinline]] Value finish(const Call& call);
  [[noreturn]] void refuse(std::size_t at, const Call& call, const std::string& why) const;
  // Consumes `name =` if that stands here.
  std::string_view keyword_here();

  // ---- arguments, by type
  Argument typed(const Function& function, const FunctionParameter& parameter);
  [[noreturn]] void mistyped(const Token& at, const Function& function, const FunctionParameter& parameter,
                             std::string_view expected) const;
  Argument value_argument(const Function&, const FunctionParameter&);
  Argument optional_argument(const Function&, const FunctionParameter&);
  // `none` is no word of the language: an operand may be called so, and is then written `(none)` here.
  bool accept_none();
  // What the text alone gives: the result of constants is a constant.
  double number(const Function& function, const FunctionParameter& parameter, std::string_view expected);
  double whole(const Function& function, const FunctionParameter& parameter, std::string_view expected);
  Argument number_argument(const Function& function, const FunctionParameter& parameter);
  Argument whole_argument(const Function& function, const FunctionParameter& parameter);
  Argument axes_argument(const Function& function, const FunctionParameter& parameter);
  [[gnu::noinline]] Axes checked(std::size_t at, const Function& function, std::span<const std::int64_t> axes,
                                 bool rest);
  Argument flag_argument(const Function& function, const FunctionParameter& parameter);
  Argument sizes_argument(const Function& function, const FunctionParameter& parameter);
  Argument list_argument(const Function& function, const FunctionParameter& parameter);
  Argument values_argument(const Function& function, const FunctionParameter& parameter);
  void refuse_brackets() const;
  Argument dtype_argument(const Function& function, const FunctionParameter& parameter);
  // Which words there are, the function knows.
  Argument word_argument(const Function& function, const FunctionParameter& parameter);
  [[noreturn, gnu::noinline]] void unknown_function(const Token& name);
  // Counts the arguments of the call that begins here, which need not be right. Ends somewhere: an error follows.
  ForeignCall foreign_call();

  Lexer lexer_;
  std::size_t last_end_ = 0;  // behind the last primary
  int depth_ = 0;
  bool returned_ = false;
  Builder builder_;
  std::map<std::string, Value, std::less<>> variables_;
  std::map<std::string, Value, std::less<>> scalars_;
  std::set<std::string, std::less<>> operands_;  // inputs that the text has used
  std::vector<std::string> declared_;            // names after `input`, each once, in their order
};

}  // namespace epifuse::ir
