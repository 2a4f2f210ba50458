// Views go down to the operands. A first sweep, from the results to the operands, finds for each value through which views it is read; a second
// one builds each value once for each of these. Pointwise work between a view and its operands is so done for each view.
//
// Below a view that is pushed down there is no reduction, with one exception: what takes elements of a reduction's outer dimensions goes
// on to what is reduced. The rest, which only orders dimensions, stays where it is.
#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "plan/bind/path.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/slices.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using enum ErrorCode;
using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;

// ---- the chain

class Lowering {
 public:
  Lowering(const ir::Program& program, std::span<const TensorView> inputs)
      : program_(program), inputs_(inputs), shapes_(value_shapes(program, inputs)) {
    paths_.emplace_back();
    numbers_.emplace(key_of({}), 0);
    for (const Node& node : program.nodes()) {
      bool reduces = ir::is_reduction(node.op) && !is_nothing(node, shapes_[reduces_.size()]);
      for (int k = 0; k < node.computed_arity(); ++k)
        reduces = reduces || reduces_[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])];
      reduces_.push_back(reduces);
    }
  }

  Lowered run() {
    wanted_.resize(program_.nodes().size());
    find_results();
    for (const PathOfResult& result : results_) want(result.value, result.path);
    for (std::size_t i = program_.nodes().size(); i-- > 0;) {
      for (const int path : wanted_[i]) want_arguments(program_.nodes()[i], static_cast<ir::Value>(i), path);
    }
    for (const std::string& name : program_.scalars()) builder_.scalar(name);
    built_.resize(program_.nodes().size());
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      for (const int path : wanted_[i]) built_[i].emplace(path, build(static_cast<ir::Value>(i), path));
    }
    return finished();
  }

 private:
  static constexpr int kWhole = 0;                 // the path of no views
  static constexpr std::size_t kMostPaths = 4096;  // of one chain: what is more is a chain that nobody writes
  static constexpr std::size_t kMostSlices = 64;   // of one result: each is an output of the kernel

  // A slice of a result, or all of it.
  struct PathOfResult {
    ir::Value value;
    int path;
    Lowered::Result is;
  };

  struct Built {
    ir::Value value;
    Dims shape;  // what it broadcasts from may have fewer elements than the value that it stands for
  };

  // A gradient sums to a shape that its value may have been broadcast from. Here it was not.
  bool is_nothing(const Node& n, const Dims& own) const {
    return ir::is_reduction(n.op) && n.arity() == 2 && shape(n.args[0]) == own;
  }

  const Node& node(ir::Value value) const { return program_.node(value); }
  const Dims& shape(ir::Value value) const { return shapes_[static_cast<std::size_t>(value)]; }
  bool reduces(ir::Value value) const { return reduces_[static_cast<std::size_t>(value)]; }
  std::string name(ir::Value value) const { return plan::text_of(program_, value); }

  int number(Steps steps) {
    const auto [known, is_new] = numbers_.try_emplace(key_of(steps), static_cast<int>(paths_.size()));
    if (is_new) paths_.push_back(std::move(steps));
    if (paths_.size() > kMostPaths)
      fail(unsupported, "the chain's views read its values in more than {} ways: split the chain", kMostPaths);
    return known->second;
  }
  const Steps& steps(int path) const { return paths_[static_cast<std::size_t>(path)]; }
  void want(ir::Value value, int path) { wanted_[static_cast<std::size_t>(value)].insert(path); }

  // The shape of a value through a path.
  Dims shape_through(ir::Value value, int path) const {
    return steps(path).empty() ? shape(value) : shape_of(steps(path).back());
  }

  // Of a path that takes elements of each dimension and leaves these where they are; else null.
  const DimensionMap* only_takes(int path) const {
    if (steps(path).size() != 1) return nullptr;
    const auto* map = std::get_if<DimensionMap>(&steps(path)[0]);
    return map != nullptr && taking(map->taken) == *map ? map : nullptr;
  }

  // ---- results: what 'cat' joins is written in slices

  void find_results() {
    const std::vector<Slices> slices = slices_of(program_, shapes_);
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const ir::Value value = program_.results()[i].value;
      std::vector<std::vector<Taken>> all = {{}};
      for (const std::vector<Taken>& cuts : slices[static_cast<std::size_t>(value)]) {
        std::vector<std::vector<Taken>> next;
        for (const std::vector<Taken>& before : all) {
          for (const Taken& cut : cuts) {
            next.push_back(before);
            next.back().push_back(cut);
          }
        }
        if (next.size() > kMostSlices)
          fail(unsupported, "result '{}' is joined of more than {} slices: split the chain", program_.result_name(i),
               kMostSlices);
        all = std::move(next);
      }
      for (const std::vector<Taken>& taken : all) add_result(i, value, taken, all.size() == 1);
    }
  }

  void add_result(std::size_t i, ir::Value value, const std::vector<Taken>& taken, bool is_whole) {
    if (is_whole) {
      results_.push_back({value, kWhole, {i, shape(value), {}, program_.result_name(i)}});
      return;
    }
    const Steps path = joined(taking(taken), shape(value), {});
    results_.push_back(
        {value, number(path), {i, shape(value), taken, text_of(program_.result_name(i), shape(value), path)}});
  }

  // ---- from results to operands: what is read how

  // What argument k of an element-wise operation is read through where the operation's value is read through `path`.
  int path_of_argument(ir::Value value, std::size_t k, int path) {
    const ir::Value arg = node(value).args[k];
    const Dims& own = shape(arg);
    const Dims& all = shape(value);
    if (own == all) return path;
    if (path == kWhole || own.empty()) return kWhole;
    const DimensionMap* const map = only_takes(path);
    if (map == nullptr) return number(joined(broadcast_map(own, all, true), own, steps(path)));
    std::vector<Taken> taken;
    for (int d = 0; d < own.size(); ++d) {
      const int dimension = d + all.size() - own.size();
      const bool is_broadcast = own[d] != all[dimension];
      taken.push_back(is_broadcast ? Taken{} : map->taken[static_cast<std::size_t>(dimension)]);
    }
    return number(joined(taking(taken), own, {}));
  }

  void want_arguments(const Node& n, ir::Value value, int path) {
    if (n.op == Op::rand_like && path != kWhole) refuse_random();
    if (n.op == Op::view) return want(n.args[0], path_below(value, path));
    if (n.op == Op::iota || is_nothing(n, shape(value))) return want(n.args[0], path);
    if (n.op == Op::cat) {
      const auto [arg, below] = side_of(value, path);
      return want(arg, below);
    }
    if (ir::is_movement(n.op) && path != kWhole && !reduces(n.args[0])) return want(n.args[0], moved(n, value, path));
    for (int k = 0; k < n.arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      int below = kWhole;
      if (ir::is_elementwise(n.op) || n.op == Op::cast) below = path_of_argument(value, at, path);
      if (ir::is_reduction(n.op) && path != kWhole) below = reduced(n, value, at, path);
      if (ir::is_movement(n.op) && path != kWhole) refuse_behind_reduction(value, path);
      want(n.args[at], below);
    }
  }

  // The number of an element follows from its index in the shape that the numbers are drawn for.
  [[noreturn]] static void refuse_random() {
    fail(unsupported,
         "a view of what 'rand_like' or 'dropout' gives is no operand: view first, and draw the numbers for what the "
         "view "
         "gives");
  }

  // A shape operation that no reduction stands below, as one step more.
  int moved(const Node& n, ir::Value value, int path) {
    const Dims& own = shape(n.args[0]);
    if (n.op == Op::expand_as) return number(joined(broadcast_map(own, shape(value), false), own, steps(path)));
    if (const auto first = before_reshape(n, value, path)) return *first;
    return number(joined(shape(value), own, steps(path)));
  }

  // Elements are taken before dimensions are split or merged, where they stand at equal steps there.
  std::optional<int> before_reshape(const Node& n, ir::Value value, int path) {
    if (n.op != Op::flatten && n.op != Op::unflatten) return std::nullopt;
    const auto* const map = std::get_if<DimensionMap>(steps(path).data());
    if (map == nullptr) return std::nullopt;
    const Dims& own = shape(n.args[0]);
    const auto before = taken_before(n, own, shape(value), map->taken);
    if (!before) return std::nullopt;
    DimensionMap rest = *map;
    Dims between;
    for (Taken& taken : rest.taken) {
      between.push_back(taken.count);
      taken = {0, 1, taken.count};
    }
    Steps then = joined(rest, between, {steps(path).begin() + 1, steps(path).end()});
    then = joined(between, shape_of(taking(*before)), then);
    return number(joined(taking(*before), own, then));
  }

  // Of a 'cat' that is read through a path: which argument, and through what.
  std::pair<ir::Value, int> side_of(ir::Value value, int path) {
    const Node& n = node(value);
    const Dims& all = shape(value);
    const DimensionMap whole = DimensionMap::whole(all);
    const auto* const map = path == kWhole ? &whole : std::get_if<DimensionMap>(steps(path).data());
    if (map == nullptr) refuse_joined(value);
    const int axis = n.shaping.axes.at[0];
    const int d = axis < 0 ? axis + all.size() : axis;
    const Taken taken = map->taken[static_cast<std::size_t>(d)];
    const std::int64_t last = taken.start + std::max<std::int64_t>(taken.count - 1, 0) * taken.step;
    const std::int64_t extent = shape(n.args[0])[d];
    const bool is_first = taken.count == 0 || std::max(taken.start, last) < extent;
    if (!is_first && std::min(taken.start, last) < extent) refuse_joined(value);
    DimensionMap of_side = *map;
    if (!is_first) of_side.taken[static_cast<std::size_t>(d)].start -= extent;
    const ir::Value arg = n.args[is_first ? 0 : 1];
    const Steps then = path == kWhole ? Steps() : Steps(steps(path).begin() + 1, steps(path).end());
    return {arg, number(joined(of_side, shape(arg), then))};
  }

  [[noreturn]] void refuse_joined(ir::Value value) const {
    fail(unsupported,
         "what '{}' joins (shapes {} and {}) is needed as one here, by a reduction or a reshape over both. Write it in "
         "a "
         "launch of its own, and pass its result as an operand",
         name(value), to_string(shape(node(value).args[0])), to_string(shape(node(value).args[1])));
  }

  [[noreturn]] void refuse_behind_reduction(ir::Value value, int path) const {
    fail(unsupported,
         "a view of '{}' takes elements of shape {} that no operand has: there is a reduction before it. Compute '{}' "
         "in "
         "a launch of its own, and pass its result as an operand",
         name(value), to_string(shape_through(value, path)), name(value));
  }

  // Argument k of a reduction whose value is read through a path that only takes elements.
  int reduced(const Node& n, ir::Value value, std::size_t k, int path) {
    const DimensionMap* const map = only_takes(path);
    if (map == nullptr) refuse_behind_reduction(value, path);
    if (k == 1) return path;  // sum_to: of the same shape
    const Dims& own = shape(n.args[0]);
    const Dims& result = shape(value);
    std::vector<Taken> taken;
    int next = n.arity() == 2 ? result.size() - own.size() : 0;  // the dimension of the result
    const std::uint32_t mask = n.arity() == 2 ? 0 : reduced_dimensions(n, own.size());
    for (int d = 0; d < own.size(); ++d) {
      const bool is_reduced = n.arity() == 2 ? next < 0 || result[next] != own[d] : (mask >> d & 1U) != 0;
      const bool has_place = !is_reduced || n.arity() == 2 || n.shaping.keepdim;
      if (is_reduced && has_place && next >= 0 && map->taken[static_cast<std::size_t>(next)].count == 0)
        refuse_behind_reduction(value, path);
      taken.push_back(is_reduced ? Taken{0, 1, own[d]} : map->taken[static_cast<std::size_t>(next)]);
      if (has_place) ++next;
    }
    return number(joined(taking(taken), own, {}));
  }

  // What the argument of a view is read through. Behind a reduction only what takes elements goes down; the rest is left to do.
  int path_below(ir::Value value, int path) {
    const Node& n = node(value);
    const Steps all = all_steps(value, path);
    if (!reduces(n.args[0])) return number(all);
    if (all.empty() || !std::holds_alternative<DimensionMap>(all[0])) return kWhole;
    return number(joined(taking(std::get<DimensionMap>(all[0]).taken), shape(n.args[0]), {}));
  }

  Steps all_steps(ir::Value value, int path) const {
    const Node& n = node(value);
    const Dims& own = shape(n.args[0]);
    return joined(resolve(program_.view(n), own, name(n.args[0])), own, steps(path));
  }

  // ---- from operands to results: values

  Built build(ir::Value value, int path) {
    const Node& n = node(value);
    if (n.op == Op::input) return operand(n, value, path);
    if (n.op == Op::view) return viewed(value, path);
    if (n.op == Op::iota) return numbered(value, path);
    if (is_nothing(n, shape(value))) return argument(n.args[0], path);
    if (n.op == Op::cat) {
      const auto [arg, below] = side_of(value, path);
      return argument(arg, below);
    }
    if (ir::is_movement(n.op) && path != kWhole) return argument(n.args[0], moved(n, value, path));
    std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
    Dims all;
    for (int k = 0; k < n.arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      int below = kWhole;
      if (ir::is_elementwise(n.op) || n.op == Op::cast) below = path_of_argument(value, at, path);
      if (ir::is_reduction(n.op) && path != kWhole) below = reduced(n, value, at, path);
      const Built arg = argument(n.args[at], below);
      const bool needs_all = !ir::is_elementwise(n.op) && n.op != Op::cast;
      if (needs_all && arg.shape != shape_through(n.args[at], below)) refuse_repeated(n.args[at], below);
      args[at] = arg.value;
      join(all, arg.shape);
    }
    const std::string_view scalar =
        n.op == Op::scalar ? program_.scalars()[static_cast<std::size_t>(n.ordinal)] : std::string_view();
    const ir::Value made = ir::rebuilt(builder_, n, args, scalar, nullptr);
    if (ir::is_elementwise(n.op) || n.op == Op::cast) return {made, all};
    if (n.op < Op::cast && n.op != Op::rand_like) return {made, {}};  // numbers, through whatever view
    return {made, shape_through(value, path)};
  }

  // Of the positions along a dimension those that the path takes.
  Built numbered(ir::Value value, int path) {
    const Node& n = node(value);
    const Built& arg = argument(n.args[0], path);
    const int axis = n.shaping.axes.at[0];
    const int d = axis < 0 ? axis + shape(value).size() : axis;
    const bool is_one =
        path == kWhole || (steps(path).size() == 1 && std::holds_alternative<DimensionMap>(steps(path)[0]));
    if (!is_one || arg.shape != shape_through(value, path)) refuse_repeated(value, path);
    if (path == kWhole) return {builder_.iota(arg.value, d), arg.shape};
    const auto& map = std::get<DimensionMap>(steps(path)[0]);
    const Taken& taken = map.taken[static_cast<std::size_t>(d)];
    const auto number = [&](std::int64_t one) {
      return builder_.constant(static_cast<double>(one), ir::Category::integer);
    };
    const auto given = std::ranges::find(map.given, d, &Given::from);
    if (given == map.given.end()) return {number(taken.start), {}};
    ir::Value made = builder_.iota(arg.value, static_cast<int>(given - map.given.begin()));
    if (taken.step != 1) made = builder_.apply(Op::mul, {made, number(taken.step), ir::kNone});
    if (taken.start != 0) made = builder_.apply(Op::add, {made, number(taken.start), ir::kNone});
    return {made, arg.shape};
  }

  const Built& argument(ir::Value value, int path) const { return built_[static_cast<std::size_t>(value)].at(path); }

  static void join(Dims& all, const Dims& other) {
    Dims joined;
    const int rank = std::max(all.size(), other.size());
    for (int d = 0; d < rank; ++d) {
      const int a = d - (rank - all.size());
      const int b = d - (rank - other.size());
      const std::int64_t first = a < 0 ? 1 : all[a];
      joined.push_back(first == 1 && b >= 0 ? other[b] : first);
    }
    all = joined;
  }

  [[noreturn]] void refuse_repeated(ir::Value value, int path) const {
    fail(unsupported,
         "'{}' would have the shape {}, of which no operand has all elements: numbers and reduced values are broadcast "
         "where "
         "an operation needs it, and not on their own",
         name(value), to_string(shape_through(value, path)));
  }

  Built operand(const Node& n, ir::Value value, int path) {
    const auto ordinal = static_cast<std::size_t>(n.ordinal);
    const TensorView& input = inputs_[ordinal];
    const std::string& own = program_.inputs()[ordinal];
    Strided strided;
    for (int d = 0; d < input.shape.size(); ++d)
      strided.dimensions.push_back({input.shape[d], input.strides[d], false});
    for (const ViewStep& step : steps(path)) {
      if (const auto* map = std::get_if<DimensionMap>(&step)) {
        strided.apply(*map);
      } else if (!strided.apply(std::get<Dims>(step))) {
        fail(unsupported,
             "'{}' would copy: operand '{}' has the shape {} and the strides {}, which no strides in the new shape "
             "describe. Reshape a contiguous tensor, or pass it reshaped",
             text_of(own, input.shape, steps(path)), own, to_string(input.shape), to_string(input.strides));
      }
    }
    Lowered::Operand read{ordinal, strided.offset * static_cast<std::int64_t>(size_of(input.dtype)), {}, {}, {}};
    for (const Strided::Dimension& d : strided.dimensions) {
      read.shape.push_back(d.broadcast ? 1 : d.extent);
      read.strides.push_back(d.stride);
    }
    read.text = text_of(own, input.shape, steps(path));
    static_cast<void>(value);
    return {builder_.input(name_of(read, input)), read.shape};
  }

  // The name by which the chain reads it: that of an operand that lies so already.
  std::string name_of(const Lowered::Operand& read, const TensorView& input) {
    const auto same_strides = [&](const Dims& strides) {
      for (int d = 0; d < read.shape.size(); ++d) {
        if (read.shape[d] != 1 && read.strides[d] != strides[d]) return false;
      }
      return true;
    };
    for (const auto& [name, known] : operands_) {
      if (known.input == read.input && known.offset == read.offset && known.shape == read.shape &&
          same_strides(known.strides))
        return name;
    }
    const std::string& own = program_.inputs()[read.input];
    std::string name = own;
    if (read.offset == 0 && read.shape == input.shape && same_strides(input.strides)) {
      Lowered::Operand unchanged = read;
      unchanged.strides = input.strides;
      unchanged.text = own;
      operands_.emplace_back(name, unchanged);
      return name;
    }
    int next = 0;
    do name = fmt::format("{}_{}", own.substr(0, ir::kMaxNameLength - 8), next++);
    while (is_taken(name));
    operands_.emplace_back(name, read);
    return name;
  }

  // Whether an operand or a result has that name.
  bool is_taken(const std::string& name) const {
    const auto named = [&](const auto& entry) { return entry.first == name; };
    return std::ranges::find(program_.inputs(), name) != program_.inputs().end() ||
           std::ranges::find(program_.scalars(), name) != program_.scalars().end() ||
           std::ranges::find(program_.results(), name, &ir::Result::name) != program_.results().end() ||
           std::ranges::any_of(operands_, named);
  }

  Built viewed(ir::Value value, int path) {
    const Node& n = node(value);
    const Built& arg = argument(n.args[0], path_below(value, path));
    if (!reduces(n.args[0])) return arg;
    Steps rest = all_steps(value, path);
    ir::Value made = arg.value;
    Dims now = arg.shape;
    if (!rest.empty() && std::holds_alternative<DimensionMap>(rest[0])) {
      // What it takes is taken; where the dimensions go is left to do.
      auto& map = std::get<DimensionMap>(rest[0]);
      for (Taken& taken : map.taken) taken = {0, 1, taken.count};
    }
    for (const ViewStep& step : rest) {
      if (!is_for(step, now)) refuse_repeated(value, path);
      made = arranged(value, path, made, now, step);
    }
    return {made, now};
  }

  // Whether a step is for a value of that shape, and not for one that is broadcast from it.
  static bool is_for(const ViewStep& step, const Dims& now) {
    const auto elements = [](const Dims& shape) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      return count;
    };
    if (const auto* shape = std::get_if<Dims>(&step)) return elements(*shape) == elements(now);
    const auto& taken = std::get<DimensionMap>(step).taken;
    return std::ranges::equal(taken, now, {}, &Taken::count);
  }

  // Dimensions in another order, with others of one element, or in another shape: done with the value itself.
  ir::Value arranged(ir::Value value, int path, ir::Value made, Dims& now, const ViewStep& step) {
    const ir::Builder::Written as(builder_, node(value).written);
    if (const auto* shape = std::get_if<Dims>(&step)) {
      now = *shape;
      return builder_.view(made, ir::numbered_view(ir::View::Kind::reshape, {shape->begin(), shape->end()}));
    }
    const auto& map = std::get<DimensionMap>(step);
    for (std::size_t d = 0; d < map.taken.size(); ++d) {
      if (map.taken[d] != Taken{0, 1, now[static_cast<int>(d)]}) refuse_behind_reduction(value, path);
    }
    std::vector<ir::Index> dropped(map.taken.size(), {.kind = ir::Index::Kind::at, .start = 0});
    std::vector<std::int64_t> order;
    std::vector<ir::Index> added;
    Dims shape;
    for (const Given& given : map.given) {
      added.push_back({.kind = given.from == Given::kRepeated ? ir::Index::Kind::added : ir::Index::Kind::slice});
      shape.push_back(given.from == Given::kRepeated ? 1 : given.extent);
      if (given.from == Given::kRepeated) continue;
      order.push_back(given.from);
      dropped[static_cast<std::size_t>(given.from)] = {};
    }
    std::vector<std::int64_t> ranks = order;
    std::ranges::sort(ranks);
    for (std::int64_t& d : order) d = std::ranges::find(ranks, d) - ranks.begin();
    const auto is_whole = [](const ir::Index& item) { return item == ir::Index{}; };
    if (!std::ranges::all_of(dropped, is_whole)) made = builder_.view(made, ir::index_view(dropped));
    if (!std::ranges::is_sorted(order)) made = builder_.view(made, ir::numbered_view(ir::View::Kind::permute, order));
    if (!std::ranges::all_of(added, is_whole)) made = builder_.view(made, ir::index_view(added));
    now = shape;
    return made;
  }

  // ---- all together

  Lowered finished() {
    std::vector<std::string> names;
    for (const PathOfResult& result : results_) {
      const Built& built = argument(result.value, result.path);
      if (built.shape != shape_through(result.value, result.path)) refuse_repeated(result.value, result.path);
      names.push_back(result_name(result.is, names));
      builder_.result(names.back(), beside_others(result, built));
    }
    Lowered lowered{std::move(builder_).finish().with(program_.math()), {}};
    for (const PathOfResult& result : results_) lowered.results.push_back(result.is);
    for (const std::string& name : lowered.program.inputs()) {
      const auto named = [&](const auto& entry) { return entry.first == name; };
      lowered.operands.push_back(std::ranges::find_if(operands_, named)->second);
    }
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const Node& n = program_.nodes()[i];
      if (wanted_[i].size() > 1 && (ir::is_elementwise(n.op) || ir::is_reduction(n.op)))
        lowered.repeated.push_back(fmt::format("'{}' {} times", ir::written_name(n), wanted_[i].size()));
    }
    check_shapes(lowered.program);
    std::vector<std::string> texts;
    for (const Lowered::Operand& operand : lowered.operands) texts.push_back(operand.text);
    lowered.program = std::move(lowered.program).with_operand_texts(std::move(texts));
    return lowered;
  }

  // A slice of zeros has its shape of another slice, which the kernel iterates over anyway.
  ir::Value beside_others(const PathOfResult& result, const Built& built) {
    const auto repeats_number = [&](ir::Value value) {
      const Node& n = builder_.node(value);
      return n.op == Op::expand_as && builder_.node(n.args[0]).op == Op::constant;
    };
    if (result.is.taken.empty() || !repeats_number(built.value)) return built.value;
    for (const PathOfResult& other : results_) {
      const Built& like = argument(other.value, other.path);
      if (like.shape == built.shape && !repeats_number(like.value))
        return builder_.expand_as(builder_.node(built.value).args[0], like.value);
    }
    return built.value;
  }

  std::string result_name(const Lowered::Result& result, const std::vector<std::string>& names) const {
    if (result.taken.empty()) return program_.results()[result.output].name;
    const std::string own = program_.result_name(result.output);
    std::string name;
    int next = 0;
    do name = fmt::format("{}_{}", own.substr(0, ir::kMaxNameLength - 8), next++);
    while (is_taken(name) || std::ranges::find(names, name) != names.end());
    return name;
  }

  // Without reductions all results have the shape to which all operands broadcast.
  void check_shapes(const ir::Program& lowered) const {
    if (lowered.has_shaping()) return;
    Dims all;
    for (const auto& [name, operand] : operands_) join(all, operand.shape);
    for (const PathOfResult& result : results_) {
      const Dims own = shape_through(result.value, result.path);
      if (!result.is.taken.empty() && own != shape_through(results_[0].value, results_[0].path)) {
        fail(unsupported,
             "the chain cannot be one kernel: result '{}' has the shape {}, and another slice of the results {}. Join "
             "slices of one size, or write each in a chain of its own into a slice of the result",
             result.is.text, to_string(own), to_string(shape_through(results_[0].value, results_[0].path)));
      }
      if (own == all) continue;
      fail(unsupported,
           "the chain cannot be one kernel: its result '{}' has the shape {}, and its operands broadcast to {}. "
           "Compute it in "
           "a chain of its own",
           result.is.text, to_string(own), to_string(all));
    }
  }

  const ir::Program& program_;
  std::span<const TensorView> inputs_;
  std::vector<Dims> shapes_;
  std::vector<bool> reduces_;  // by value: it is computed from a reduction's
  std::vector<Steps> paths_;   // by number
  std::map<std::vector<std::int64_t>, int> numbers_;
  std::vector<std::set<int, std::greater<>>> wanted_;  // by value: paths, those of first arguments first
  std::vector<std::map<int, Built>> built_;
  std::vector<std::pair<std::string, Lowered::Operand>> operands_;
  std::vector<PathOfResult> results_;
  ir::Builder builder_;
};

}  // namespace

Lowered lower(const ir::Program& program, std::span<const TensorView> inputs, Views views) {
  check_inputs(program, inputs, views);
  return Lowering(program, inputs).run();
}

}  // namespace epifuse::plan
