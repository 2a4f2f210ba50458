// The operation table of the language, read by every later component. ops.def is its text; this is its shape.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace epifuse::ir {

inline constexpr int kMaxArity = 3;
/// Instructions per random number, roughly, as the costs of ops.def: a quarter of what four neighbours take.
inline constexpr int kRandomCost = 25;

enum class Op : std::uint8_t {
  input,      ///< a tensor operand
  scalar,     ///< a run-time scalar
  constant,   ///< a number of the chain
  count,      ///< how many elements become one where a value is reduced: a number that shapes give
  rand_like,  ///< random numbers, one for each element of a shape; the chain reads them as it does an operand
  cast,       ///< rounds to a storage type and back; the type is the node's
#define EPIFUSE_OP(id, ...) id,
#include "ir/ops.def"
#undef EPIFUSE_OP
#define EPIFUSE_REDUCTION(id, ...) id,
#include "ir/reductions.def"
#undef EPIFUSE_REDUCTION
  unflatten,     ///< splits one dimension in two
  flatten,       ///< merges neighbouring dimensions
  along,         ///< a vector laid along one dimension of another value's shape
  unsqueeze_as,  ///< the dimensions that a reduction of another value dropped, with one element each
  reshape_as,    ///< as another value of as many elements is shaped, in row-major order
  expand_as,     ///< broadcast to another value's shape
  view,          ///< elements of a value at other places: a slice, a permutation, … (ir/views.hpp)
  cat,           ///< two values one behind the other along a dimension
  iota,          ///< where each element of a shape stands along a dimension; the chain reads it as it does an operand
  matmul,        ///< a product of matrices, or of batches of them: plan/bind/products.cpp takes it out of a chain
  conv2d,        ///< a convolution of images, which is a product, too: of windows of the images with a matrix
  take,          ///< elements of a value along a dimension, at indices; negative ones count from the end
  index_select,  ///< the same, but negative indices are out of range
  gather,        ///< for each index the element of a value along a dimension, at the index's place in the others
  repeat_as,  ///< a shape operation: each element several times along a dimension, as far as another value goes; 0 where there is none
  index_copy,  ///< an operand, of which elements along a dimension, at indices, are those of a value: only results are that, in the operand's memory
  scale_tiles,  ///< scales of quantised blocks, [rows, blocks], in the tiles that matrix products take: only results are that
  block_scaled,  ///< a matrix times scales of blocks of 128 of its numbers: only factors of products are that
};

/// What a value is while the chain is computed: a number of the compute type, or a truth value.
enum class Kind : std::uint8_t { real, truth };

/// Which type an operation's result has by default (result_types.hpp); the letters are those of the tables' text.
enum class TypeRule : char {
  truth = 'b',     ///< bool
  promoted = 'p',  ///< the promotion of the arguments
  number = 'n',    ///< the same; i64 for truth values
  integer = 'i',   ///< the same; i64 for integers and truth values
  floating = 'f',  ///< the same; f32 for integers and truth values
  first = 's',     ///< as number, of the first argument alone
};

struct Parameter {
  std::string_view name;
  Kind kind;
  std::optional<double> default_value;
  bool refuses_truth = false;  ///< rounding or negating a mask is a mistake: PyTorch refuses it too
};

struct OpRow {
  Op op;
  std::string_view name;
  std::string_view signature;   ///< as people write it
  std::string_view expression;  ///< C++ over a, b, c
  std::string_view group;
  std::string_view formula;
  TypeRule type;
  int cost;
  std::vector<Parameter> parameters;
  /// The expression itself, in f64: constants are folded with it.
  double (*fold)(double a, double b, double c);

  int arity() const noexcept { return static_cast<int>(parameters.size()); }
};

/// Combines elements along axes into one. All take (input, axis, keepdim).
struct ReductionRow {
  Op op;
  std::string_view name;
  Kind argument;
  TypeRule type;
  int cost;
  std::string_view formula;
};

/// Of values that follow from an element's place alone: nothing lies in memory.
constexpr bool is_generated(Op op) noexcept { return op == Op::rand_like || op == Op::iota; }
/// Read, not computed: a tensor, or what is generated. Node::ordinal tells which.
constexpr bool is_operand(Op op) noexcept { return op == Op::input || is_generated(op); }
constexpr bool is_reduction(Op op) noexcept { return op >= Op::sum && op <= Op::all; }
constexpr bool is_extreme(Op op) noexcept { return op == Op::amax || op == Op::amin; }
/// Changes how elements are indexed, and no element.
constexpr bool is_shape(Op op) noexcept {
  return (op >= Op::unflatten && op <= Op::view && op != Op::expand_as) || op == Op::repeat_as;
}
/// The same, and what repeats elements.
constexpr bool is_movement(Op op) noexcept { return (op >= Op::unflatten && op <= Op::view) || op == Op::repeat_as; }
/// plan/bind/products.cpp takes it out of a chain.
constexpr bool is_product(Op op) noexcept { return op == Op::matmul || op == Op::conv2d; }
/// Reads a value at places that the elements of another one name.
constexpr bool is_indexing(Op op) noexcept { return op >= Op::take && op <= Op::gather; }
/// The same, and what writes so.
constexpr bool has_index(Op op) noexcept { return is_indexing(op) || op == Op::index_copy; }
/// Says where in memory a value lies that a kernel writes: only results are that.
constexpr bool is_placed(Op op) noexcept { return op == Op::index_copy || op == Op::scale_tiles; }
/// A kernel computes it: no operand, no number, and no mere shape.
constexpr bool is_computed(Op op) noexcept { return op >= Op::cast && !is_operand(op) && !is_shape(op); }
/// Of the table of ops.def.
constexpr bool is_elementwise(Op op) noexcept { return op > Op::cast && op < Op::sum; }

std::span<const ReductionRow> reduction_table();
const ReductionRow& reduction_row(Op op);
/// The reduction of that name, or null.
const ReductionRow* find_reduction(std::string_view name);

/// Rows in the order of ops.def.
std::span<const OpRow> op_table();
/// The row of an element-wise operation (not of input, scalar, constant, cast, reductions or shape operations).
const OpRow& row(Op op);
/// The row of that name, or null.
const OpRow* find_op(std::string_view name);
/// What an operation is called: in chains, or "input", "scalar", "constant".
std::string_view name_of(Op op);
/// True for operations that give the same bits with their arguments exchanged.
bool is_commutative(Op op) noexcept;

}  // namespace epifuse::ir
