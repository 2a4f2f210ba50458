// Program: what both front ends build and all later components read. A flat list of values in SSA form, without shapes
// or types.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <epifuse/dtype.hpp>
#include <epifuse/math.hpp>
#include <epifuse/ties.hpp>

#include "ir/ops.hpp"
#include "ir/views.hpp"

namespace epifuse::ir {

/// Index of a value in Program::nodes.
using Value = std::int32_t;
inline constexpr Value kNone = -1;

/// Bounds of a chain: of its values, of its operands and of its results. A chain of 500 operations is in the promise;
/// the rest protects from hostile text.
inline constexpr std::size_t kMaxNodes = 16'384;
inline constexpr std::size_t kMaxNameLength = 64;
/// The largest size of unflatten: up to here (2^53) a number of the text language holds every integer.
inline constexpr std::int64_t kMaxSize = std::int64_t{1} << 53;

/// The most dimensions that a value of a chain has.
inline constexpr int kMaxDimensions = 8;

/// Dimensions of a value, from the front or (negative) from the back. Resolved when shapes are known.
struct Axes {
  std::array<std::int8_t, kMaxDimensions> at{};  ///< as written
  std::uint8_t count = 0;                        ///< 0: all dimensions
  bool rest = false;                             ///< also every dimension behind the last one: `axis=(2, ...)`

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in what is defaulted
  friend auto operator<=>(const Axes&, const Axes&) = default;
};

/// Kinds of types, in the order in which one raises the other, as in PyTorch.
enum class Category : std::uint8_t { truth, integer, floating };

/// How windows lie in images: numbers for the height and for the width.
struct Windows2d {
  std::array<std::int32_t, 2> stride = {1, 1};
  std::array<std::int32_t, 2> padding = {0, 0};
  std::array<std::int32_t, 2> dilation = {1, 1};

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in what is defaulted
  friend auto operator<=>(const Windows2d&, const Windows2d&) = default;
};

/// What reductions, shape operations and convolutions have beside their arguments.
struct Shaping {
  Axes axes;             ///< of reductions; of unflatten and along: the one dimension
  bool keepdim = false;  ///< of reductions: the reduced dimensions stay, with one element
  std::array<std::int64_t, 2>
      sizes{};             ///< unflatten: the two extents, one may be -1; flatten: first and last dimension
  Windows2d windows = {};  ///< of conv2d

  // NOLINTNEXTLINE(modernize-use-nullptr): likewise
  friend auto operator<=>(const Shaping&, const Shaping&) = default;
};

constexpr std::string_view name_of(Ties ties) noexcept {
  constexpr std::array<std::string_view, 3> kNames = {"share", "first", "pool"};
  return kNames[static_cast<std::size_t>(ties)];
}

struct Node {
  Op op = Op::constant;
  std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
  /// Of input, scalar and view: the position in Program::inputs, scalars or views; of what is generated: among all
  /// operands.
  int ordinal = 0;
  /// Of constant; of var: the correction; of amax and amin: the Ties; of matmul: 1 where f32 is multiplied as TF32.
  double constant = 0;
  DType dtype = DType::f32;  ///< of cast; of constant: bool, i64 or f32, as a number that was written as true, 1 or 1.0
  Shaping shaping;           ///< of count, reductions, shape operations, cat, iota, conv2d and what reads at indices
  /// The function that the user called, of which this node is a part, for errors: "softmax". It is static text and no
  /// part of what the node is: equal nodes may differ here. Of a node that several calls give, the first counts.
  std::string_view written = {};

  int arity() const noexcept;
  /// The first so many arguments are computed with; of those behind them only the shape counts.
  int computed_arity() const noexcept;
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

/// How an operand of a chain without views is read, where a view steps outside the tensor or an index says where:
/// plan/bind/lower.cpp makes these.
struct Bounds {
  enum class Kind : std::uint8_t {
    none,  ///< every element exists
    bounded,  ///< it is read where all operands of `by` are true, and is 0 elsewhere; its tensor is what is read, and may be rolled
    inside,  ///< nothing lies in memory: true from position `first` on, for `count` positions along its one dimension, or two of windows
    gathered,  ///< as bounded, and indices say where it is read; where one is out of range it is NaN, or 0 if it is no float
    index,  ///< says where others are read, and is no value of the chain; it is read where all operands of `by` are true
  };
  /// An index that follows from a position: (factor * position + shift) / times, rounded down, and where there is a
  /// modulus what that leaves of it.
  struct Repeat {
    std::int64_t times = 0;  ///< 0: there is none
    std::int64_t factor = 1;
    std::int64_t shift = 0;
    std::int64_t modulus = 0;  ///< 0: none
    friend bool operator==(const Repeat&, const Repeat&) = default;
    bool exists() const noexcept { return times != 0; }
    std::int64_t at(std::int64_t position) const noexcept;
  };
  /// One dimension of a tensor whose positions an operand holds.
  struct Gather {
    int index = 0;  ///< the operand that is the index; of a computed one that which is `inside` at its positions
    std::int64_t stride = 0;   ///< of the dimension, in elements
    std::int64_t extent = 0;   ///< indices from 0 up to here are in range
    bool wraps = false;        ///< negative indices count from the end
    std::string_view written;  ///< what the user called, for errors: static text
    Repeat computed = {};      ///< the index, where none is read
  };
  /// A dimension that is rolled: behind its last element comes its first.
  struct Wrap {
    int behind = 0;           ///< the operand that is `inside` for the positions behind the last element
    std::int64_t extent = 0;  ///< elements of the dimension
    std::int64_t before = 0;  ///< elements that stand before the one at the first position that exists
  };
  Kind kind = Kind::none;
  std::vector<int> by = {};          ///< of bounded, gathered and index: operands that are `inside`
  std::int64_t first = 0;            ///< of inside
  std::int64_t count = 0;            ///< of inside
  bool is_of_windows = false;        ///< of inside: two dimensions have positions, and these step by any number
  std::vector<Gather> gathers = {};  ///< of gathered
  std::vector<Wrap> wraps = {};      ///< of bounded
  /// The operands that are `inside` and that this one asks, each once for each question.
  std::vector<int> masks() const;
};

/// A result of a chain without views that lies among the elements of a larger tensor: along some dimensions of that an
/// index says where, or the position along a dimension of the result. plan/bind/lower.cpp makes these.
struct Scatter {
  struct Along {
    int dimension = 0;  ///< of the output
    int index = kNone;  ///< the operand that is the index; of a computed one that which is `inside` at its positions
    Bounds::Repeat computed = {};  ///< the index, where none is read
  };
  std::vector<Along> along;         ///< empty: all of the output is the result
  std::vector<std::int64_t> shape;  ///< of the result, where `own` has none
  std::vector<int> own;  ///< by dimension of the result that of the output which it is, or kNone for what `along` says
  std::string_view written;  ///< what the user called: static text
  bool exists() const noexcept { return !along.empty(); }
  bool is_computed() const noexcept { return exists() && along[0].computed.exists(); }
};

/// What an input of a chain without views is a view of. plan/bind/lower.cpp makes these.
struct Viewed {
  int tensor = kNone;       ///< inputs of one number are views of one tensor; kNone: nothing lies in memory
  std::int64_t offset = 0;  ///< of the first element that lies in memory, in bytes from the tensor's
};

/// Immutable once built. Nodes are in the order of a depth-first search from the results, so that equal chains are
/// equal lists; every node is used by a result. `inputs` may hold names that no node uses: they still count for
/// broadcasting.
class Program {
 public:
  const std::vector<Node>& nodes() const noexcept { return nodes_; }
  const Node& node(Value value) const noexcept { return nodes_[static_cast<std::size_t>(value)]; }
  const std::vector<std::string>& inputs() const noexcept { return inputs_; }
  const std::vector<std::string>& scalars() const noexcept { return scalars_; }
  const std::vector<Result>& results() const noexcept { return results_; }
  /// The values that are random numbers or positions, in their order. A plan has them as operands behind `inputs`.
  const std::vector<Value>& generated() const noexcept { return generated_; }
  /// Both kinds of operands together, and what people and kernels call one of them: "x", "rand_like0".
  std::size_t operand_count() const noexcept { return inputs_.size() + generated_.size(); }
  std::string operand_name(std::size_t operand) const;
  /// What nodes of Op::view read, each once.
  const std::vector<View>& views() const noexcept { return views_; }
  const View& view(const Node& node) const noexcept { return views_[static_cast<std::size_t>(node.ordinal)]; }
  const View* view_of(const Node& node) const noexcept { return node.op == Op::view ? &view(node) : nullptr; }
  const Fingerprint& fingerprint() const noexcept { return fingerprint_; }
  /// The same without the numbers of bounds, which kernels get as parameters: programs whose kernels are the same text
  /// share it.
  const Fingerprint& code_fingerprint() const noexcept { return code_fingerprint_; }
  /// One for each input, or none at all.
  const std::vector<Bounds>& bounds() const noexcept { return bounds_; }
  Program with_bounds(std::vector<Bounds> bounds) &&;
  /// One for each result, or none at all.
  const std::vector<Scatter>& scatters() const noexcept { return scatters_; }
  /// Null where all of an output is the result.
  const Scatter* scatter_of(std::size_t result) const noexcept {
    return scatters_.empty() || !scatters_[result].exists() ? nullptr : &scatters_[result];
  }
  Program with_scatters(std::vector<Scatter> scatters) &&;
  /// How exact it is computed; part of the fingerprint.
  Math math() const noexcept { return math_; }
  Program with(Math math) const;
  /// The same chain whose operand i is the one that was at order[i]: a permutation of all inputs.
  Program with_inputs(std::span<const std::size_t> order) const;
  /// What people are shown for an operand of either kind: its name, or the text of what it stands for.
  std::string operand_text(std::size_t operand) const {
    return operand < operand_texts_.size() ? operand_texts_[operand] : operand_name(operand);
  }
  /// One for each input. No part of the fingerprint.
  Program with_operand_texts(std::vector<std::string> texts) && {
    operand_texts_ = std::move(texts);
    return std::move(*this);
  }
  /// One for each input where views went down to the operands, else none at all.
  const std::vector<Viewed>& viewed() const noexcept { return viewed_; }
  /// Of an operand of either kind: generated values follow the inputs, and lie in no memory.
  Viewed viewed(std::size_t operand) const noexcept { return operand < viewed_.size() ? viewed_[operand] : Viewed(); }
  /// They are no part of the code's fingerprint: what a kernel makes of them is part of its class.
  Program with_viewed(std::vector<Viewed> viewed) &&;
  /// Which of the written chain's results this one is a slice of; kNone where it is all of one. Likewise.
  int slice_of(std::size_t result) const noexcept { return result < slices_of_.size() ? slices_of_[result] : kNone; }
  Program with_slices(std::vector<int> of) &&;

  /// Has reductions, products, shape operations, random numbers or positions: results have shapes of their own.
  bool has_shaping() const noexcept;
  /// What has them is planned and run as what plan::lower() makes of it.
  bool has_views() const noexcept { return !views_.empty() || reads_elsewhere_; }
  /// Has views, or a reduction of what another one over other axes gives: plan::lower() takes some of these apart.
  bool is_lowered_first() const noexcept { return has_views() || nests_reductions_; }
  /// What has them is planned and run as what plan::split_products() makes of it.
  bool has_products() const noexcept { return has_products_; }
  /// real or truth; an input is what its tensor's type makes it: truth for bool.
  Kind kind(Value value, const std::vector<Kind>& input_kinds) const noexcept;
  /// Result names for people: the given one, or "out" (one result), "out0", "out1", … (several).
  std::string result_name(std::size_t index) const;
  /// Number of operations: nodes that are neither operands nor constants.
  int operation_count() const noexcept;

 private:
  friend class Builder;
  void set_fingerprints();
  void add_bounds_to_fingerprints();

  std::vector<Node> nodes_;
  std::vector<std::string> inputs_;
  std::vector<std::string> scalars_;
  std::vector<Value> generated_;
  std::vector<Result> results_;
  std::vector<View> views_;
  std::vector<std::string> operand_texts_;
  std::vector<Viewed> viewed_;
  std::vector<int> slices_of_;
  std::vector<Bounds> bounds_;
  std::vector<Scatter> scatters_;
  bool reads_elsewhere_ = false;  // joins values, or reads or writes at indices
  bool has_products_ = false;
  bool nests_reductions_ = false;
  Math math_ = Math::standard;
  Fingerprint fingerprint_;
  Fingerprint code_fingerprint_;
};

/// Builds a Program value by value. Simplifies as it goes (simplify.cpp): folds constants, merges common
/// subexpressions, removes what does nothing; it never changes a bit of a result. Throws Error(invalid_expression).
class Builder {
 public:
  /// Names are identifiers and unique across inputs and scalars; the first mention fixes the position.
  Value input(std::string_view name);
  /// An operand that never holds integers or truth values: what only turns these into numbers goes.
  Value float_input(std::string_view name);
  Value scalar(std::string_view name);
  /// Of that category, or of the next one that has the value: 2 is no truth value, 0.5 no integer.
  Value constant(double value, Category category = Category::floating);
  Value cast(Value value, DType dtype);
  /// Exactly row(op).arity() arguments.
  Value apply(Op op, std::array<Value, kMaxArity> args);
  /// A reduction of `value`. `correction` is var's, and nothing to the others.
  Value reduce(Op op, Value value, const Axes& axes, bool keepdim, double correction = 0);
  /// amax or amin.
  Value extreme(Op op, Value value, const Axes& axes, bool keepdim, Ties ties);
  /// Dimension `dim` of `value` as two, of these extents; one of them may be -1 (what the other leaves).
  Value unflatten(Value value, int dim, std::array<std::int64_t, 2> sizes);
  /// Dimensions first … last of `value` as one.
  Value flatten(Value value, int first, int last);
  /// `vector` (one dimension, or none) laid along dimension `dim` of a value shaped like `other`: its own extent there,
  /// one elsewhere.
  Value along(Value vector, Value other, int dim);
  /// How many elements of `value` a reduction over `axes` makes one of.
  Value count(Value value, const Axes& axes);
  /// The sum of `value` over the dimensions that `other` lacks or has one element in: it has the shape of `other`.
  Value sum_to(Value value, Value other);
  /// `value` broadcast to the shape of `other`.
  Value expand_as(Value value, Value other);
  /// `value` in the shape of `other`, which has as many elements, in row-major order.
  Value reshape_as(Value value, Value other);
  /// `value`, which has the dimensions of `other` but for `axes`, with these in their places, with one element.
  Value unsqueeze_as(Value value, Value other, const Axes& axes);
  /// Along dimension `dim` of `other` element (i + shift) / times of `value`, rounded down, at i, and 0 where there is
  /// none. In the other dimensions both have one shape.
  Value repeat_as(Value value, Value other, int dim, std::int64_t times, std::int64_t shift);
  /// `first` and behind it, along dimension `dim`, `second`.
  Value cat(Value first, Value second, int dim);
  /// For each element of `other` where it stands along dimension `dim`: 0, 1, ….
  Value iota(Value other, int dim);
  /// [..., rows, depth] times [..., depth, columns]; the dimensions in front broadcast.
  Value matmul(Value left, Value right, bool tf32 = false);
  /// A factor of matmul, times `scale`: f32 for each 128 numbers of the depth, and for each line of it or each 128
  /// lines. Lines are rows of a left factor, and columns of a right one.
  Value block_scaled(Value values, Value scale);
  /// Images [N, C, H, W] with filters [K, C, R, S]: [N, K, OH, OW], as torch.nn.functional.conv2d without a bias.
  Value conv2d(Value images, Value filters, const Windows2d& windows);
  /// Of take, index_select and gather: `value` along dimension `dim` at the positions that `index` holds.
  Value indexed(Op op, Value value, Value index, int dim);
  /// `destination` with `source` in the place of its elements along dimension `dim` at the positions that `index`
  /// holds.
  Value index_copy(Value destination, int dim, Value index, Value source);
  Value scale_tiles(Value scales);
  /// The elements of `value` that `view` names.
  Value view(Value value, const View& view);
  /// Names are identifiers, and no operand has them; a name that an earlier result has is dropped.
  void result(std::string_view name, Value value);

  /// While it lives, nodes are part of a call of `function` (Node::written), which is static text. Of nested ones the
  /// outermost counts.
  class Written {
   public:
    Written(Builder& builder, std::string_view function) : builder_(builder), is_outermost_(builder.written_.empty()) {
      if (is_outermost_) builder.written_ = function;
    }
    ~Written() {
      if (is_outermost_) builder_.written_ = {};
    }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;

   private:
    Builder& builder_;
    bool is_outermost_;
  };

  const Node& node(Value value) const noexcept { return program_.nodes_[static_cast<std::size_t>(value)]; }
  /// A random number for each element of values shaped like `other`. `seed` and `offset` are scalars or whole numbers
  /// below 2^53.
  Value rand_like(Value other, Value seed, Value offset);
  /// Of a node of Op::view, else null.
  const View* view_of(const Node& node) const noexcept { return program_.view_of(node); }
  /// Drops dead values and fixes the order. The builder is spent.
  Program finish() &&;

 private:
  using NodeKey = std::tuple<Op, std::array<Value, kMaxArity>, int, std::uint64_t, DType, Shaping>;
  Value reduction(Op op, Value value, const Axes& axes, bool keepdim, double constant);
  Value intern(const Node& node);
  Value simplified(const Node& node);
  /// The same numbers; of integers and truth values floats.
  Value as_floats(Value value);
  Value folded(const Node& node);
  /// The least category of types that the node may have, whatever its operands hold.
  Category least_category(const Node& node) const;
  Value declare(std::string_view name, Op op);
  void order_views(std::vector<Node>& nodes);

  Program program_;
  std::map<NodeKey, Value> known_;
  std::map<std::string, Value, std::less<>> operands_;  // inputs and scalars by name
  std::map<View, int> views_;                           // positions in Program::views, until finish() orders them
  std::vector<Category> categories_;                    // by value: the least that it may have
  std::string_view written_;                            // what new nodes are part of
};

/// Called with every Program that a Builder finishes. Null but in tests, which check each of them
/// (tests/support/round_trip.cpp).
using ProgramCheck = void (*)(const Program&);
extern ProgramCheck on_finished_program;

/// Axes as people give them. Error(invalid_expression), naming the function, if one is out of range or given twice.
Axes axes_of(std::string_view function, std::span<const std::int64_t> at, bool rest);
/// The same for the one dimension of unflatten, flatten and along.
int dimension_of(std::string_view function, std::int64_t dimension);
/// Error(invalid_expression) unless `name` can name an operand.
void check_name(std::string_view name);
/// What a node is called in chains: that of its operation, and "sum_to" for a sum to the shape of another value.
std::string_view name_of(const Node& node);
/// What the user called to get this node: the name of a composite or of the operation itself. Errors use this.
std::string_view written_name(const Node& node);
/// Whether a view is a part of a function that the user called by another name: of a pool, of 'flip'.
bool is_within_call(const Node& node, const View& view);
/// "the gradient of softmax": what a gradient is made of is part of that (Node::written).
std::string_view name_of_gradient(const Node& node);
/// True for comparisons, logic, casts to bool, any and all. An input is what its tensor's type makes it, which only a
/// plan knows.
bool gives_truth(const Node& node);
/// A seed or an offset of random numbers, of a launch with these scalars. Error(invalid_argument), naming the scalar,
/// if it is not whole or not from 0 to below 2^53.
std::uint64_t random_word(const Program& program, Value value, std::span<const double> scalars);
/// The Error for a truth value where an operation takes numbers only.
[[noreturn]] void refuse_truth(Op op, std::string_view what);
/// Words of the text language that cannot name anything.
bool is_reserved(std::string_view word);

/// The text language: parse(print(p)) equals p, but for its math and for Node::written.
Program parse(std::string_view text, std::span<const std::string> scalars);
std::string print(const Program& program);
/// One value per line, for people; and the same as a Graphviz graph.
std::string print_ssa(const Program& program);
std::string print_dot(const Program& program);
/// Axes as a call spells them: "1", "(1, 2)", "(2, ...)", "none" for all.
std::string print_axes(const Axes& axes);
/// The shortest text that reads back as that number. Of an integer it has neither point nor exponent, else one of them.
std::string print_number(double value, Category category = Category::floating);

}  // namespace epifuse::ir
