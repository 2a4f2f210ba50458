// The tests' own form of a chain: what the oracle evaluates and the random generator builds. It becomes text for the
// library, so that parser, simplifier and emitter are all between the two.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/dtype.hpp>
#include <epifuse/epilogue.hpp>

#include "support/definitions.hpp"

namespace epifuse::test {

enum class Reduction : std::uint8_t { sum, mean, prod, amax, amin, var, any, all };
std::string_view to_string(Reduction reduction) noexcept;

/// Of steps, in the order of Step::Kind; that of an operation of the language where the step is one.
inline constexpr std::array<std::string_view, 14> kStepKinds = {
    "input", "scalar",    "constant",  "cast",    "op",    "reduce",       "sum_to",
    "count", "expand_as", "unflatten", "flatten", "along", "unsqueeze_as", "reshape_as"};

/// Dimensions as a chain writes them: from the front, or negative from the back.
struct AxisList {
  std::vector<int> at = {};  ///< none: all dimensions
  bool rest = false;         ///< and all dimensions behind the last one: `(2, ...)`
};

struct Step {
  enum class Kind {
    input,
    scalar,
    constant,
    cast,
    op,
    // Values have shapes of their own. The last argument of sum_to, expand_as, along, unsqueeze_as and reshape_as gives
    // a shape alone, and so does the argument of count.
    reduce,
    sum_to,
    count,
    expand_as,
    // The same elements in the same order.
    unflatten,
    flatten,
    along,
    unsqueeze_as,
    reshape_as
  };
  Kind kind = Kind::constant;
  int ordinal = 0;                         ///< of input and scalar
  double constant = 0;                     ///< of constant; of a var: the correction
  DType dtype = DType::f32;                ///< of cast
  const Definition* definition = nullptr;  ///< of op
  std::vector<int> args = {};              ///< earlier steps
  Reduction reduction = Reduction::sum;    ///< of reduce; sum for sum_to
  AxisList axes = {};    ///< of reduce, count and unsqueeze_as; of unflatten and along: one; of flatten: first and last
  bool keepdim = false;  ///< of reduce
  std::array<std::int64_t, 2> sizes = {0, 0};  ///< of unflatten: one may be -1

  bool is_shaping() const noexcept { return kind >= Kind::reduce; }
  bool is_reduction() const noexcept { return kind == Kind::reduce || kind == Kind::sum_to; }
  bool is_reshaped() const noexcept { return kind >= Kind::unflatten; }
};

struct Chain {
  std::vector<Step> steps;
  std::vector<int> results;  ///< steps
  int inputs = 0;
  int scalars = 0;

  int input(int ordinal);
  int scalar(int ordinal);
  int constant(double value);
  int cast(int value, DType dtype);
  int op(std::string_view name, std::initializer_list<int> args) { return op(name, std::vector<int>(args)); }
  int op(std::string_view name, std::vector<int> args);
  int reduce(Reduction reduction, int value, AxisList axes, bool keepdim, double correction = 1);
  int unflatten(int value, int dim, std::array<std::int64_t, 2> sizes);
  int flatten(int value, int first, int last);
  int along(int vector, int other, int dim);
  int count(int value, AxisList axes);
  int unsqueeze_as(int value, int other, AxisList axes);
  /// sum_to, expand_as or reshape_as: `value` in the shape of `other`.
  int like(Step::Kind kind, int value, int other);

  int operations() const noexcept;
  /// Has reductions or shape operations: values have shapes of their own.
  bool has_shaping() const noexcept;
};

/// The names under which a chain's text knows its operands.
std::string input_name(int ordinal);
std::string scalar_name(int ordinal);
/// The operand or scalar of that name: "x3" is input 3.
std::size_t ordinal_of(const std::string& name);

/// In the text language: one statement per operation, infix where there is an infix form for every other of them.
std::string to_text(const Chain& chain);
/// parse(to_text(chain)).
Epilogue to_epilogue(const Chain& chain);
/// The chain of an epilogue that was written as text, read from the library's Program.
Chain from_epilogue(const Epilogue& tail);

/// Without the steps that no result needs, operands renumbered; `kept_inputs` and `kept_scalars` tell the old ordinals.
Chain without_dead_steps(const Chain& chain, std::vector<int>& held_inputs, std::vector<int>& held_scalars);

}  // namespace epifuse::test
