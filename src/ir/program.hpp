// Program: what both front ends build and all later rooms read. A flat list of values in SSA form, without shapes or types.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <epifuse/dtype.hpp>

#include "ir/ops.hpp"

namespace epifuse::ir {

/// Index of a value in Program::nodes.
using Value = std::int32_t;
inline constexpr Value kNone = -1;

/// Bounds of a chain. A chain of 500 operations is in the promise; the rest protects from hostile text.
inline constexpr std::size_t kMaxNodes = 16'384;
inline constexpr std::size_t kMaxNameLength = 64;

struct Node {
  Op op = Op::constant;
  std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
  int ordinal = 0;           ///< of input and scalar: the position in Program::inputs or scalars
  double constant = 0;       ///< of constant
  DType dtype = DType::f32;  ///< of cast

  int arity() const noexcept;
};

struct Result {
  std::string name;  ///< empty where the text gives none
  Value value = kNone;
};

/// 128 bits that tell programs apart: names, operations and constants all count.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  auto operator<=>(const Fingerprint&) const = default;
};

/// Immutable once built. Nodes are in the order of a depth-first walk from the results, so that equal chains are equal lists;
/// every node is used by a result. `inputs` may hold names that no node uses: they still count for broadcasting.
class Program {
 public:
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const Node& node(Value value) const noexcept { return nodes_[static_cast<std::size_t>(value)]; }
  const std::vector<std::string>& inputs() const noexcept { return inputs_; }
  const std::vector<std::string>& scalars() const noexcept { return scalars_; }
  const std::vector<Result>& results() const noexcept { return results_; }
  const Fingerprint& fingerprint() const noexcept { return fingerprint_; }

  /// real or truth; an input is what its tensor's type makes it: truth for bool.
  Kind kind(Value value, const std::vector<Kind>& input_kinds) const noexcept;
  /// Result names for people: the given one, or "out" (one result), "out0", "out1", … (several).
  std::string result_name(std::size_t index) const;
  /// Number of operations: nodes that are neither operands nor constants.
  int operation_count() const noexcept;

 private:
  friend class Builder;
  std::vector<Node> nodes_;
  std::vector<std::string> inputs_;
  std::vector<std::string> scalars_;
  std::vector<Result> results_;
  Fingerprint fingerprint_;
};

/// Builds a Program value by value. Simplifies as it goes (simplify.cpp): folds constants, merges common subexpressions, removes
/// what does nothing; it never changes a bit of a result. Throws Error(invalid_expression).
class Builder {
 public:
  /// Names are identifiers and unique across inputs and scalars; the first mention fixes the position.
  Value input(std::string_view name);
  Value scalar(std::string_view name);
  Value constant(double value);
  Value cast(Value value, DType dtype);
  /// Exactly row(op).arity() arguments.
  Value apply(Op op, std::array<Value, kMaxArity> args);
  void result(std::string_view name, Value value);

  const Node& node(Value value) const noexcept { return program_.nodes_[static_cast<std::size_t>(value)]; }
  /// Drops dead values and fixes the order. The builder is spent.
  Program finish() &&;

 private:
  using NodeKey = std::tuple<Op, std::array<Value, kMaxArity>, int, std::uint64_t, DType>;
  Value intern(const Node& node);
  Value simplified(const Node& node);
  Value declare(std::string_view name, Op op, std::vector<std::string>& names);

  Program program_;
  std::map<NodeKey, Value> known_;
};

/// Error(invalid_expression) unless `name` can name an operand.
void check_name(std::string_view name);
/// True for comparisons, logic and casts to bool. An input is what its tensor's type makes it, which only a plan knows.
bool gives_truth(const Node& node);
/// The Error for a truth value where an operation takes numbers only.
[[noreturn]] void refuse_truth(Op op, std::string_view what);
/// Words of the text language that cannot name anything.
bool is_reserved(std::string_view word);

/// The text language: parse(print(p)) equals p.
Program parse(std::string_view text, std::span<const std::string> scalars);
std::string print(const Program& program);
/// One value per line, for people; and the same as a Graphviz graph.
std::string print_ssa(const Program& program);
std::string print_dot(const Program& program);
/// The shortest text that reads back as that number.
std::string print_number(double value);

}  // namespace epifuse::ir
