// Program and its builder: interning (common subexpressions), names and the final order.
#include "ir/program.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <mutex>
#include <set>

#include "base/text.hpp"
#include "ir/result_types.hpp"

namespace epifuse::ir {
namespace {

using base::fail;

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !name.empty() && letter(name[0]) && std::ranges::all_of(name, [&](char c) { return letter(c) || digit(c); });
}

// Values that a Builder may make for a Program of kMaxNodes: constants that are folded into others, and what no result
// needs, go in the end.
constexpr std::size_t kMaxBuilt = 4 * kMaxNodes;

[[noreturn]] void refuse_size() {
  fail(ErrorCode::unsupported, "the chain has more than {} values: split it into several", kMaxNodes);
}

// A seed or an offset: a double holds every integer up to there, and 2^53 + 1, which it does not hold, is no word
// either.
bool is_random_word(double value) {
  return value >= 0 && value < static_cast<double>(kMaxSize) && value == std::trunc(value);
}

constexpr std::array<std::string_view, 9> kReserved = {"input", "scalar", "return", "and", "or",
                                                       "not",   "inf",    "nan",    "true"};

// There is one NaN, whatever its sign and payload: the one that text writes.
double with_one_nan(double value) { return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value; }

// Depth-first order from the results, arguments first, without recursion: chains may be deep.
std::vector<Value> depth_first(const std::vector<Node>& nodes, const std::vector<Result>& results) {
  std::vector<Value> order;
  std::vector<char> state(nodes.size(), 0);  // 0 new, 1 open, 2 done
  std::vector<Value> stack;
  for (const Result& result : results) {
    stack.push_back(result.value);
    while (!stack.empty()) {
      const Value value = stack.back();
      const auto index = static_cast<std::size_t>(value);
      if (state[index] == 0) {
        state[index] = 1;
        const Node& node = nodes[index];
        for (int i = node.arity(); i-- > 0;) {
          const Value arg = node.args[static_cast<std::size_t>(i)];
          if (state[static_cast<std::size_t>(arg)] == 0) stack.push_back(arg);
        }
        continue;
      }
      stack.pop_back();
      if (state[index] == 1) order.push_back(value);
      state[index] = 2;
    }
  }
  return order;
}

}  // namespace

constinit ProgramCheck on_finished_program = nullptr;

bool gives_truth(const Node& node) {
  if (node.op == Op::cast) return node.dtype == DType::boolean;
  if (is_reduction(node.op)) return reduction_row(node.op).type == TypeRule::truth;
  return is_elementwise(node.op) && row(node.op).type == TypeRule::truth;
}

std::string_view name_of(const Node& node) {
  return node.op == Op::sum && node.arity() == 2 ? "sum_to" : name_of(node.op);
}

std::string_view written_name(const Node& node) { return node.written.empty() ? name_of(node) : node.written; }

bool is_within_call(const Node& node, const View& view) {
  return !node.written.empty() && node.written != written_name_of(view.kind);
}

std::string_view name_of_gradient(const Node& node) {
  // Leaked, since nodes point to it. Functions are a table, so these are few.
  static auto& names = *new std::set<std::string, std::less<>>();
  static std::mutex mutex;
  constexpr std::string_view kPrefix = "the gradient of ";
  const std::string_view name = node.op == Op::view && node.written.empty() ? "a slice" : written_name(node);
  if (name.starts_with(kPrefix)) return name;
  const std::lock_guard lock(mutex);
  return *names.insert(std::string(kPrefix) + std::string(name)).first;
}

void refuse_truth(Op op, std::string_view what) {
  fail(ErrorCode::invalid_argument, "'{}' takes numbers, but {} is a truth value: use 'not', 'where' or 'cast(…, f32)'",
       row(op).name, what);
}

int Node::arity() const noexcept {
  if (is_reduction(op)) return args[1] == kNone ? 1 : 2;  // sum_to has two
  if (is_movement(op)) return op < Op::along || op == Op::view ? 1 : 2;
  if (op == Op::cast || op == Op::count || op == Op::iota || op == Op::scale_tiles) return 1;
  if (op == Op::cat || is_product(op) || is_indexing(op) || op == Op::block_scaled) return 2;
  if (op == Op::rand_like || op == Op::index_copy) return 3;
  return op < Op::cast ? 0 : row(op).arity();
}

int Node::computed_arity() const noexcept {
  if (op == Op::count || is_generated(op)) return 0;
  return is_reduction(op) || is_movement(op) ? 1 : arity();
}

Kind Program::kind(Value value, const std::vector<Kind>& input_kinds) const noexcept {
  const Node& n = node(value);
  switch (n.op) {
    case Op::input:
      return input_kinds[static_cast<std::size_t>(n.ordinal)];
    case Op::scalar:
    case Op::constant:
    case Op::count:
    case Op::rand_like:
    case Op::iota:
      return Kind::real;
    case Op::cat:
      // Of a number and a truth value: numbers.
      return kind(n.args[0], input_kinds) == kind(n.args[1], input_kinds) ? kind(n.args[0], input_kinds) : Kind::real;
    case Op::unflatten:
    case Op::flatten:
    case Op::along:
    case Op::expand_as:
    case Op::unsqueeze_as:
    case Op::reshape_as:
    case Op::repeat_as:
    case Op::view:
    case Op::take:
    case Op::index_select:
    case Op::gather:
    case Op::index_copy:
    case Op::scale_tiles:
      return kind(n.args[0], input_kinds);
    default:
      return gives_truth(n) ? Kind::truth : Kind::real;
  }
}

std::string Program::result_name(std::size_t index) const {
  const std::string& name = results_[index].name;
  if (!name.empty()) return name;
  std::string generated = results_.size() == 1 ? "out" : fmt::format("out{}", index);
  while (std::ranges::find(results_, generated, &Result::name) != results_.end()) generated += '_';
  return generated;
}

std::string Program::operand_name(std::size_t operand) const {
  if (operand < inputs_.size()) return inputs_[operand];
  const std::size_t number = operand - inputs_.size();
  return fmt::format("{}{}", name_of(node(generated_[number]).op), number);
}

bool Program::has_shaping() const noexcept {
  return std::ranges::any_of(nodes_, [](const Node& node) {
    return is_reduction(node.op) || is_movement(node.op) || node.op == Op::count || is_generated(node.op) ||
           node.op == Op::cat || is_product(node.op) || node.op == Op::block_scaled || is_indexing(node.op) ||
           is_placed(node.op);
  });
}

int Program::operation_count() const noexcept {
  return static_cast<int>(std::ranges::count_if(nodes_, [](const Node& node) { return node.op >= Op::cast; }));
}

bool is_reserved(std::string_view word) {
  const auto type = parse_dtype(word);  // also of other names, which are free
  return word == "false" || std::ranges::find(kReserved, word) != kReserved.end() || (type && to_string(*type) == word);
}

void check_name(std::string_view name) {
  if (name.size() > kMaxNameLength) {
    fail(ErrorCode::invalid_expression, "the name '{}' has {} characters; at most {} are allowed", base::shown(name),
         name.size(), kMaxNameLength);
  }
  if (!is_identifier(name)) {
    fail(ErrorCode::invalid_expression, "'{}' is not a name: letters, digits and _ are allowed, and no digit first",
         base::shown(name));
  }
  if (is_reserved(name)) {
    fail(ErrorCode::invalid_expression, "'{}' is a word of the language and cannot name an operand", name);
  }
}

Value Builder::declare(std::string_view name, Op op) {
  if (const auto known = operands_.find(name); known != operands_.end()) {
    if (node(known->second).op == op) return known->second;
    fail(ErrorCode::invalid_expression, "'{}' is used both as a tensor and as a scalar", name);
  }
  check_name(name);
  auto& names = op == Op::input ? program_.inputs_ : program_.scalars_;
  if (names.size() >= kMaxNodes) fail(ErrorCode::unsupported, "a chain has more than {} operands", kMaxNodes);
  Node node;
  node.op = op;
  node.ordinal = static_cast<int>(names.size());
  const Value value = intern(node);
  names.emplace_back(name);
  operands_.emplace(name, value);
  return value;
}

Value Builder::input(std::string_view name) { return declare(name, Op::input); }

Value Builder::float_input(std::string_view name) {
  const Value value = declare(name, Op::input);
  categories_[static_cast<std::size_t>(value)] = Category::floating;
  return value;
}

Value Builder::scalar(std::string_view name) { return declare(name, Op::scalar); }

Value Builder::constant(double value, Category category) {
  constexpr double kInteger = 0x1p63;  // beyond there is no integer type
  const bool is_truth = category == Category::truth && (value == 0 || value == 1);
  const bool is_integer = category < Category::floating && std::abs(value) <= kInteger && value == std::trunc(value);
  category = is_truth ? Category::truth : is_integer ? Category::integer : Category::floating;
  if (is_truth && value == 0) value = 0;  // -false is false, and has no sign
  Node node;
  node.op = Op::constant;
  node.constant = with_one_nan(value);
  node.dtype = default_type(category);
  return intern(node);
}

Value Builder::cast(Value value, DType dtype) {
  // Where a result lies is said last: the elements are converted first.
  if (node(value).op == Op::scale_tiles) return scale_tiles(cast(node(value).args[0], dtype));
  Node node;
  node.op = Op::cast;
  node.args[0] = value;
  node.dtype = dtype;
  return simplified(node);
}

Value Builder::apply(Op op, std::array<Value, kMaxArity> args) {
  const OpRow& table_row = row(op);
  const Written as(*this, table_row.name);
  for (std::size_t i = 0; i < table_row.parameters.size(); ++i) {
    if (table_row.parameters[i].refuses_truth && gives_truth(node(args[i]))) refuse_truth(op, "its argument");
  }
  Node node;
  node.op = op;
  node.args = args;
  return simplified(node);
}

int dimension_of(std::string_view function, std::int64_t dimension) {
  if (dimension < -kMaxDimensions || dimension >= kMaxDimensions) {
    fail(ErrorCode::invalid_expression, "axis {} of '{}' is out of range: values have at most {} dimensions", dimension,
         function, kMaxDimensions);
  }
  return static_cast<int>(dimension);
}

Axes axes_of(std::string_view function, std::span<const std::int64_t> at, bool rest) {
  Axes axes;
  axes.rest = rest && !at.empty();  // all are all
  for (const std::int64_t dimension : at) {
    const auto axis = static_cast<std::int8_t>(dimension_of(function, dimension));
    if (std::find(axes.at.begin(), axes.at.begin() + axes.count, axis) != axes.at.begin() + axes.count)
      fail(ErrorCode::invalid_expression, "axis {} of '{}' is given twice", dimension, function);
    if (axes.count == kMaxDimensions) {
      fail(ErrorCode::invalid_expression, "'{}' has more than {} axes", function, kMaxDimensions);
    }
    axes.at[axes.count++] = axis;
  }
  return axes;
}

namespace {

// A node that gives values another shape: of one value, or of two.
Node shaping(Op op, Value value, Value other = kNone, const Axes& axes = {}) {
  Node node;
  node.op = op;
  node.args = {value, other, kNone};
  node.shaping.axes = axes;
  return node;
}

Axes axis_of(std::string_view function, int dim) { return axes_of(function, std::array{std::int64_t{dim}}, false); }

}  // namespace

Value Builder::reduce(Op op, Value value, const Axes& axes, bool keepdim, double correction) {
  return reduction(op, value, axes, keepdim, op == Op::var ? with_one_nan(correction) : 0);
}

Value Builder::extreme(Op op, Value value, const Axes& axes, bool keepdim, Ties ties) {
  return reduction(op, value, axes, keepdim, static_cast<double>(ties));
}

Value Builder::reduction(Op op, Value value, const Axes& axes, bool keepdim, double constant) {
  axes_of(reduction_row(op).name, std::vector<std::int64_t>(axes.at.begin(), axes.at.begin() + axes.count), axes.rest);
  Node node;
  node.op = op;
  node.args[0] = value;
  node.constant = constant;
  node.shaping = {axes, keepdim, {}};
  return intern(node);
}

Value Builder::unflatten(Value value, int dim, std::array<std::int64_t, 2> sizes) {
  const Written as(*this, "unflatten");
  Node node;
  node.op = Op::unflatten;
  node.args[0] = value;
  node.shaping = {axes_of("unflatten", std::array{std::int64_t{dim}}, false), false, sizes};
  const bool valid =
      std::ranges::all_of(sizes, [](std::int64_t size) { return size == -1 || (size > 0 && size <= kMaxSize); });
  if (!valid || (sizes[0] == -1 && sizes[1] == -1)) {
    fail(ErrorCode::invalid_expression,
         "'{}' splits a dimension in two positive sizes of at most 2^53, one of which may be -1; found ({}, {})",
         written_, sizes[0], sizes[1]);
  }
  return intern(node);
}

Value Builder::flatten(Value value, int first, int last) {
  Node node;
  node.op = Op::flatten;
  node.args[0] = value;
  node.shaping.sizes = {dimension_of("flatten", first), dimension_of("flatten", last)};
  return intern(node);
}

Value Builder::along(Value vector, Value other, int dim) {
  return intern(shaping(Op::along, vector, other, axis_of("along", dim)));
}

Value Builder::count(Value value, const Axes& axes) { return intern(shaping(Op::count, value, kNone, axes)); }

Value Builder::sum_to(Value value, Value other) {
  const Written as(*this, "sum_to");
  return intern(shaping(Op::sum, value, other));
}

Value Builder::expand_as(Value value, Value other) { return intern(shaping(Op::expand_as, value, other)); }

Value Builder::reshape_as(Value value, Value other) { return intern(shaping(Op::reshape_as, value, other)); }

Value Builder::unsqueeze_as(Value value, Value other, const Axes& axes) {
  return intern(shaping(Op::unsqueeze_as, value, other, axes));
}

Value Builder::cat(Value first, Value second, int dim) {
  return intern(shaping(Op::cat, first, second, axis_of("cat", dim)));
}

Value Builder::matmul(Value left, Value right, bool tf32) {
  Node node;
  node.op = Op::matmul;
  node.constant = tf32 ? 1 : 0;
  node.args = {left, right, kNone};
  return intern(node);
}

Value Builder::block_scaled(Value values, Value scale) { return intern(shaping(Op::block_scaled, values, scale)); }

Value Builder::conv2d(Value images, Value filters, const Windows2d& windows) {
  Node node;
  node.op = Op::conv2d;
  node.args = {images, filters, kNone};
  node.shaping.windows = windows;
  return intern(node);
}

Value Builder::indexed(Op op, Value value, Value index, int dim) {
  return intern(shaping(op, value, index, axis_of(ir::name_of(op), dim)));
}

Value Builder::index_copy(Value destination, int dim, Value index, Value source) {
  Node node = shaping(Op::index_copy, destination, index, axis_of("index_copy", dim));
  node.args[2] = source;
  return intern(node);
}

Value Builder::scale_tiles(Value scales) {
  Node node;
  node.op = Op::scale_tiles;
  node.args = {scales, kNone, kNone};
  return intern(node);
}

Value Builder::iota(Value other, int dim) { return intern(shaping(Op::iota, other, kNone, axis_of("iota", dim))); }

Value Builder::rand_like(Value other, Value seed, Value offset) {
  const Written as(*this, "rand_like");
  const auto check = [&](Value word, std::string_view name) {
    const Node& given = this->node(word);
    if (given.op == Op::scalar || (given.op == Op::constant && is_random_word(given.constant))) return;
    fail(ErrorCode::invalid_expression,
         "'{}' of '{}' is a run-time scalar, or a whole number from 0 to below 2^53; found {}", name, written_,
         given.op == Op::constant ? print_number(given.constant, category_of(given.dtype))
         : given.op == Op::input  ? std::string("a tensor")
                                  : fmt::format("the result of '{}'", written_name(given)));
  };
  check(seed, "seed");
  check(offset, "offset");
  Node node;
  node.op = Op::rand_like;
  // However it was written: 1.0 is the same word as 1.
  const auto as_word = [&](Value word) {
    return this->node(word).op == Op::constant ? constant(this->node(word).constant, Category::integer) : word;
  };
  node.args = {other, as_word(seed), as_word(offset)};
  return intern(node);
}

std::uint64_t random_word(const Program& program, Value value, std::span<const double> scalars) {
  const Node& node = program.node(value);
  if (node.op == Op::constant) return static_cast<std::uint64_t>(node.constant);
  const double word = scalars[static_cast<std::size_t>(node.ordinal)];
  if (is_random_word(word)) return static_cast<std::uint64_t>(word);
  fail(ErrorCode::invalid_argument,
       "scalar '{}' is a seed or an offset of random numbers, a whole number from 0 to below 2^53; found {}",
       program.scalars()[static_cast<std::size_t>(node.ordinal)], word);
}

Value Builder::view(Value value, const View& view) {
  const auto [known, is_new] = views_.try_emplace(view, static_cast<int>(program_.views_.size()));
  if (is_new) program_.views_.push_back(view);
  Node node;
  node.op = Op::view;
  node.args[0] = value;
  node.ordinal = known->second;
  return intern(node);
}

void Builder::result(std::string_view name, Value value) {
  if (!name.empty()) check_name(name);
  if (program_.results_.size() >= kMaxNodes)
    fail(ErrorCode::unsupported, "a chain has more than {} results", kMaxNodes);
  const auto same = [&](const Result& other) { return !name.empty() && other.name == name; };
  const bool repeated = std::ranges::any_of(program_.results_, same);
  program_.results_.push_back({repeated ? std::string() : std::string(name), value});
}

Value Builder::intern(const Node& node) {
  auto args = node.args;
  if (is_commutative(node.op)) std::sort(args.begin(), args.begin() + 2);
  const NodeKey key{node.op, args, node.ordinal, std::bit_cast<std::uint64_t>(node.constant), node.dtype, node.shaping};
  const auto [it, is_new] = known_.try_emplace(key, static_cast<Value>(program_.nodes_.size()));
  if (is_new) {
    if (program_.nodes_.size() >= kMaxBuilt) refuse_size();
    program_.nodes_.push_back(node);
    program_.nodes_.back().written = written_;
    categories_.push_back(least_category(node));
  }
  return it->second;
}

Program Program::with_bounds(std::vector<Bounds> bounds) && {
  bounds_ = std::move(bounds);
  set_fingerprints();
  return std::move(*this);
}

Program Program::with_scatters(std::vector<Scatter> scatters) && {
  scatters_ = std::move(scatters);
  set_fingerprints();
  return std::move(*this);
}

Program Program::with_viewed(std::vector<Viewed> viewed) && {
  viewed_ = std::move(viewed);
  set_fingerprints();
  return std::move(*this);
}

Program Program::with_slices(std::vector<int> of) && {
  slices_of_ = std::move(of);
  set_fingerprints();
  return std::move(*this);
}

Program Program::with(Math math) const {
  Program other = *this;
  other.math_ = math;
  other.set_fingerprints();
  return other;
}

Program Program::with_inputs(std::span<const std::size_t> order) const {
  Program other = *this;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[order[i]] = static_cast<int>(i);
    other.inputs_[i] = inputs_[order[i]];
    if (!operand_texts_.empty()) other.operand_texts_[i] = operand_texts_[order[i]];
    if (!viewed_.empty()) other.viewed_[i] = viewed_[order[i]];
    if (!bounds_.empty()) other.bounds_[i] = bounds_[order[i]];
  }
  for (Bounds& bounds : other.bounds_) {
    for (int& by : bounds.by) by = place[static_cast<std::size_t>(by)];
    for (Bounds::Gather& gather : bounds.gathers) gather.index = place[static_cast<std::size_t>(gather.index)];
    for (Bounds::Wrap& wrap : bounds.wraps) wrap.behind = place[static_cast<std::size_t>(wrap.behind)];
  }
  for (Scatter& scatter : other.scatters_) {
    for (Scatter::Along& along : scatter.along) along.index = place[static_cast<std::size_t>(along.index)];
  }
  for (Node& node : other.nodes_) {
    if (node.op == Op::input) node.ordinal = place[static_cast<std::size_t>(node.ordinal)];
  }
  other.set_fingerprints();
  if (on_finished_program != nullptr) on_finished_program(other);
  return other;
}

// In the order of their first use, and no others.
void Builder::order_views(std::vector<Node>& nodes) {
  std::vector<View> views;
  std::vector<int> renamed(program_.views_.size(), -1);
  for (Node& node : nodes) {
    if (node.op != Op::view) continue;
    int& ordinal = renamed[static_cast<std::size_t>(node.ordinal)];
    if (ordinal < 0) {
      ordinal = static_cast<int>(views.size());
      views.push_back(program_.view(node));
    }
    node.ordinal = ordinal;
  }
  program_.views_ = std::move(views);
}

namespace {

// Whether a reduction takes what depends on another one over other axes, as far as axes tell without shapes.
bool reduces_reduced(const std::vector<Node>& nodes) {
  constexpr Value kSeveral = -2;
  std::vector<Value> below(nodes.size(), kNone);  // the reduction that a value depends on
  const auto axes = [&](Value reduction) { return nodes[static_cast<std::size_t>(reduction)].shaping.axes; };
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    for (int k = 0; k < node.computed_arity(); ++k) {
      const Value other = below[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])];
      if (other == kNone) continue;
      const bool is_first = below[i] == kNone || below[i] == other;
      below[i] = (is_first || (below[i] >= 0 && other >= 0 && axes(below[i]) == axes(other))) ? other : kSeveral;
    }
    if (below[i] != kNone && is_shape(node.op)) below[i] = kSeveral;
    if (!is_reduction(node.op)) continue;
    if (below[i] == kSeveral || (below[i] >= 0 && axes(below[i]) != node.shaping.axes)) return true;
    // Without the dimensions that it reduced, axes have other numbers.
    below[i] = node.shaping.keepdim ? static_cast<Value>(i) : kSeveral;
  }
  return false;
}

}  // namespace

Program Builder::finish() && {
  if (program_.results_.empty()) fail(ErrorCode::invalid_expression, "the chain has no result");
  for (const Result& result : program_.results_) {
    if (!operands_.contains(result.name)) continue;
    fail(ErrorCode::invalid_expression, "'{}' names both an operand and a result: give the result another name",
         result.name);
  }
  const std::vector<Value> order = depth_first(program_.nodes_, program_.results_);
  if (order.size() > kMaxNodes) refuse_size();
  std::vector<Value> renamed(program_.nodes_.size(), kNone);
  std::vector<Node> nodes;
  nodes.reserve(order.size());
  for (const Value old : order) {
    Node node = program_.nodes_[static_cast<std::size_t>(old)];
    for (Value& arg : node.args) arg = arg == kNone ? kNone : renamed[static_cast<std::size_t>(arg)];
    renamed[static_cast<std::size_t>(old)] = static_cast<Value>(nodes.size());
    nodes.push_back(node);
  }
  order_views(nodes);
  for (Result& result : program_.results_) result.value = renamed[static_cast<std::size_t>(result.value)];
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    program_.reads_elsewhere_ = program_.reads_elsewhere_ || nodes[i].op == Op::cat || nodes[i].op == Op::repeat_as ||
                                is_indexing(nodes[i].op) || is_placed(nodes[i].op);
    program_.has_products_ = program_.has_products_ || is_product(nodes[i].op);
    if (!is_generated(nodes[i].op)) continue;
    nodes[i].ordinal = static_cast<int>(program_.operand_count());
    program_.generated_.push_back(static_cast<Value>(i));
  }
  program_.nodes_ = std::move(nodes);
  program_.nests_reductions_ = reduces_reduced(program_.nodes_);
  program_.set_fingerprints();
  if (on_finished_program != nullptr) on_finished_program(program_);
  return std::move(program_);
}

}  // namespace epifuse::ir
