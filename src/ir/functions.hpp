// What can be called in a chain: every function with its typed parameters, for the parser, for lists of operations and
// their docs. Element-wise operations come from ops.def, reductions from reductions.def, the rest stands in
// functions.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// What an argument is. All but values are known from the text alone: they shape the Program.
enum class ArgumentType : std::uint8_t {
  value,           ///< an expression
  optional_value,  ///< an expression or `none`
  number,          ///< a constant
  integer,         ///< a whole constant
  axes,            ///< 1, (1, 2), (2, ...) or `none` for all
  flag,            ///< true or false
  sizes,           ///< (8, -1)
  dtype,           ///< f16 or "f16"
  word,            ///< a text
  seed,            ///< a run-time scalar or a whole constant
  list,            ///< (2, -1, 4): any number of integers; one stands without parentheses, too
  values,          ///< (x, y): expressions
  kept_list,       ///< a list in which `none` (Index::kOpen) stands for a dimension as it is
};

/// One argument of a call; the fields that its type does not use keep their defaults.
struct Argument {
  Value value = kNone;  ///< of values; kNone: `none`
  double number = 0;    ///< of number, integer and flag
  Axes axes = {};
  std::array<std::int64_t, 2> sizes{};
  DType dtype = DType::f32;
  std::string_view word = {};
  std::vector<std::int64_t> list = {};  ///< empty: `none`
  std::vector<Value> values = {};
};

struct FunctionParameter {
  std::string_view name;
  ArgumentType type;
  std::optional<std::string_view> default_text;
  bool keyword_only = false;
  bool in_brackets = false;  ///< the number behind a call that gives several values: `chunk(x, 2)[0]`

  /// The argument where the call gives none. Only with a default_text.
  Argument default_argument(Builder& builder) const;
};

struct Function {
  std::string_view name;
  std::string signature;  ///< "sum(input, axis=none, keepdim=false)"; a `*` as in Python: by keyword only from there on
  std::vector<FunctionParameter> parameters;
  std::string_view group;  ///< empty: another spelling of listed rows
  std::string_view formula;
  std::function<Value(Builder&, std::span<const Argument>)> build;  ///< takes an argument for each parameter

  /// The parameter of that name, or of PyTorch's other name for it (dim, num_groups); the size of the list if there is
  /// none.
  std::size_t position(std::string_view keyword) const;
  /// Instructions per element in f32, roughly: what runs once per element, not what runs once per reduced row.
  int cost() const;
  bool gives_truth() const;
  /// The type of the result, for people: "promoted, f32 for integers".
  std::string type() const;
};

std::span<const Function> function_table();
/// The function of that name, or null.
const Function* find_function(std::string_view name);

}  // namespace epifuse::ir
