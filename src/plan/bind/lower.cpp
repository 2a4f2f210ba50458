// Views go down to the operands. A first sweep, from the results to the operands, finds for each value through which
// views it is read; a second one builds each value once for each of these. Pointwise work between a view and its
// operands is so done for each view.
//
// Below a view that is pushed down there is no reduction, with one exception: what takes elements of a reduction's
// outer dimensions goes on to what is reduced. The rest, which only orders dimensions, stays where it is.
#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "plan/bind/arrange.hpp"
#include "plan/bind/bounds.hpp"
#include "plan/bind/indices.hpp"
#include "plan/bind/joined_results.hpp"
#include "plan/bind/operands.hpp"
#include "plan/bind/path.hpp"
#include "plan/bind/push_down.hpp"
#include "plan/bind/repeats.hpp"
#include "plan/bind/results.hpp"
#include "plan/bind/rolled.hpp"
#include "plan/bind/shape_rules.hpp"
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

class Lowering {
 public:
  Lowering(const ir::Program& program, std::span<const TensorView> inputs, Slicing slicing)
      : program_(program),
        inputs_(inputs),
        shapes_(value_shapes(program, inputs)),
        rejoined_(rejoined_rows(program, shapes_)),
        reduces_(computed_from_reductions(program, shapes_)),
        slicing_(slicing),
        operands_(program, inputs) {
    paths_.emplace_back();
    numbers_.emplace(key_of({}), 0);
  }

  Lowered run() {
    check_classes(program_, inputs_);
    wanted_.resize(program_.nodes().size());
    for (WrittenValue& one : written_values(program_, inputs_, shapes_, reduces_, rejoined_, slicing_))
      results_.push_back({one.value, number(std::move(one.through)), std::move(one.is)});
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

  bool is_nothing(const Node& n, const Dims& own) const { return sums_nothing(n, shapes_, own); }

  const Node& node(ir::Value value) const { return program_.node(value); }
  const Dims& shape(ir::Value value) const { return shapes_[static_cast<std::size_t>(value)]; }
  bool reduces(ir::Value value) const { return reduces_[static_cast<std::size_t>(value)]; }
  std::string name(ir::Value value) const { return plan::text_of(program_, value); }

  // What the call that a value is a part of was given: of a pool of a softmax, the softmax.
  ir::Value before_call(ir::Value value) const {
    const std::string_view call = node(value).written;
    ir::Value first = value;
    while (ir::is_movement(node(first).op) && node(first).written == call) first = node(first).args[0];
    return call.empty() || node(first).op == Op::input ? value : first;
  }

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

  // ---- from results to operands: what is read how

  // What argument k of an operation is read through where the operation's value is read through `path`.
  int path_of_argument(ir::Value value, std::size_t k, int path) {
    const Node& n = node(value);
    if (ir::is_reduction(n.op)) return reduced(n, value, k, path);
    if (!ir::is_elementwise(n.op) && n.op != Op::cast) return kWhole;
    const ir::Value arg = n.args[k];
    const Dims& own = shape(arg);
    const Dims& all = shape(value);
    if (own == all) return path;
    if (path == kWhole || own.empty()) return kWhole;
    if (const auto beside = beside_index(steps(path), own, all)) return number(*beside);
    const DimensionMap* const map = only_takes(path);
    if (map == nullptr) return number(broadcast_through(own, all, steps(path), reduces(arg)));
    std::vector<Taken> taken;
    for (int d = 0; d < own.size(); ++d) {
      const int dimension = d + all.size() - own.size();
      const bool is_broadcast = own[d] != all[dimension];
      taken.push_back(is_broadcast ? Taken{} : map->taken[static_cast<std::size_t>(dimension)]);
    }
    return number(joined(taking(taken), own, {}));
  }

  void want_arguments(const Node& n, ir::Value value, int path) {
    if (remainder_of_places(program_, shapes_, value, steps(path))) return;
    if (ir::is_placed(n.op)) refuse_written(n.op);
    if (n.op == Op::rand_like && path != kWhole) refuse_random();
    if (n.op == Op::view) {
      check_outside(n, value, path);
      return want(n.args[0], path_below(value, path));
    }
    if (n.op == Op::iota || is_nothing(n, shape(value))) return want(n.args[0], path);
    if (ir::is_indexing(n.op)) return want(n.args[0], path_of_table(value, path));
    if (n.op == Op::repeat_as) return want(n.args[0], path_of_repeated(value, path));
    if (n.op == Op::cat) {
      if (const auto rolled = rolled_argument(value, path)) return want(rolled->first, rolled->second);
      for (const auto& [arg, below] : sides_of(value, path)) want(arg, below);
      if (const ir::Value row = row_of_joined(value, path); row != ir::kNone) want(row, kWhole);
      return;
    }
    if (const auto below = taken_below(n, value, path)) return want(n.args[0], *below);
    if (ir::is_movement(n.op) && path != kWhole) return want(n.args[0], moved(n, value, path));
    for (int k = 0; k < n.arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      want(n.args[at], path_of_argument(value, at, path));
    }
  }

  // A shape operation that no reduction stands below, as one step more.
  int moved(const Node& n, ir::Value value, int path) {
    const Dims& own = shape(n.args[0]);
    if (n.op == Op::expand_as) return number(joined(broadcast_map(own, shape(value), false), own, steps(path)));
    if (auto before = taken_before_reshape(n, own, shape(value), steps(path))) return number(std::move(*before));
    return number(joined(shape(value), own, steps(path)));
  }

  // Of a shape operation behind a reduction: what its argument is read through where the path takes elements that the
  // operation leaves where they are. It is done with what is left of them.
  std::optional<int> taken_below(const Node& n, ir::Value value, int path) {
    if (path == kWhole || !ir::is_movement(n.op) || !reduces(n.args[0])) return std::nullopt;
    const auto taken = taken_behind_reduction(n, shape(n.args[0]), shape(value), steps(path));
    if (!taken) return std::nullopt;
    return number(joined(taking(*taken), shape(n.args[0]), {}));
  }

  // Of a 'cat' that is read through a path: which argument, and through what. Of a path that reads both sides, both
  // arguments, each of which then has elements that do not exist.
  std::vector<std::pair<ir::Value, int>> sides_of(ir::Value value, int path) {
    const Node& n = node(value);
    const auto sides =
        sides_through(shape(value), {shape(n.args[0]), shape(n.args[1])}, n.shaping.axes.at[0], steps(path));
    const bool is_apart = sides.size() == 2 && (reduces(n.args[0]) || reduces(n.args[1]));
    if (sides.empty() || (is_apart && rejoined_[static_cast<std::size_t>(value)] == ir::kNone)) refuse_joined(value);
    std::vector<std::pair<ir::Value, int>> all;
    for (const Side& side : sides) all.emplace_back(n.args[side.argument], number(side.through));
    return all;
  }

  // Of a 'cat' of both pieces of what is rolled: that value, and what it is read through where that wraps around once.
  std::optional<std::pair<ir::Value, int>> rolled_argument(ir::Value value, int path) {
    const auto roll = wrapping_roll(program_, shapes_, reduces_, value);
    auto through = roll ? steps_below(*roll, shape(value), steps(path)) : std::nullopt;
    if (!through) return std::nullopt;
    return std::pair{roll->argument, number(std::move(*through))};
  }

  // What 'cat' joins, read as one: an argument where its elements exist, else the other.
  Built joined_value(ir::Value value, int path) {
    const auto sides = sides_of(value, path);
    const Built& first = argument(sides[0].first, sides[0].second);
    if (sides.size() == 1) return first;
    const Built& second = argument(sides[1].first, sides[1].second);
    const Built none = {builder_.constant(0, kLeast), {}};
    const Built behind = where_inside(value, path, sides[1].first, sides[1].second, second, none);
    Built made = where_inside(value, path, sides[0].first, sides[0].second, first, behind);
    if (const ir::Value row = row_of_joined(value, path); row != ir::kNone)
      made.value = builder_.expand_as(made.value, argument(row, kWhole).value);
    return made;
  }

  // Of a 'cat' of pieces of rows: the value whose rows these are. That the joined dimension is theirs is said by
  // nothing else.
  ir::Value row_of_joined(ir::Value value, int path) const {
    return path == kWhole ? rejoined_[static_cast<std::size_t>(value)] : ir::kNone;
  }

  // ---- where elements do not exist

  static constexpr ir::Category kLeast = ir::Category::truth;  // it makes no float of an integer

  void check_outside(const Node& n, ir::Value value, int path) const {
    if (!ir::value_outside(program_.view(n)) || !reduces(n.args[0])) return;
    const Steps all = all_steps(value, path);
    const auto* const map = all.empty() ? nullptr : std::get_if<DimensionMap>(all.data());
    if (map != nullptr && std::ranges::any_of(map->taken, &Taken::is_bounded))
      refuse_outside(name(value), name(n.args[0]));
  }

  // Through which elements of a value of that shape are read.
  Strided strides_through(ir::Value value, int path) const {
    Strided strided;
    for (const std::int64_t extent : shape(value)) strided.dimensions.push_back({extent, 0, false});
    if (!follow(strided, steps(path))) refuse_split(name(value));
    return strided;
  }

  // `made`, which is `arg` through `below`, where its elements exist, else `outside`. Each dimension that has others
  // has a mask, but for those that `value`, through `path`, has not either: what reads it asks for these.
  Built where_inside(ir::Value value, int path, ir::Value arg, int below, Built made, const Built& outside) {
    const Strided strided = strides_through(arg, below);
    if (strided.is_elsewhere()) return outside;
    if (inputs_.empty()) refuse_repeated(value, path);
    join(made.shape, outside.shape);
    const auto known = masks_of(strides_through(value, path));
    for (const Lowered::Operand& mask : masks_of(strided)) {
      const auto is_same = [&](const Lowered::Operand& one) {
        return one.shape == mask.shape && one.within == mask.within;
      };
      if (std::ranges::any_of(known, is_same)) continue;
      join(made.shape, mask.shape);
      const ir::Value is_inside = builder_.input(operands_.name_of(mask));
      if (is_outside_already(outside, made, mask)) continue;
      made.value = builder_.apply(Op::where, {is_inside, made.value, outside.value});
    }
    return made;
  }

  // An operand is read as 0 where a mask of its own is false, but for one that is read at indices or whose type has no
  // 0.
  bool is_outside_already(const Built& outside, const Built& made, const Lowered::Operand& mask) const {
    const Node& n = builder_.node(outside.value);
    const auto read = bounded_.find(made.value);
    return n.op == Op::constant && n.constant == 0 && !std::signbit(n.constant) && read != bounded_.end() &&
           is_bounded_by(read->second, mask);
  }

  [[noreturn]] void refuse_joined(ir::Value value) const {
    plan::refuse_joined(name(value), shape(node(value).args[0]), shape(node(value).args[1]));
  }

  [[noreturn]] void refuse_behind_reduction(ir::Value value, int path) const {
    plan::refuse_behind_reduction(name(before_call(value)), shape_through(value, path));
  }

  // What a path takes of a reduction's value. Where its dimensions go is left to do.
  int taken_of(ir::Value value, int path) {
    if (path == kWhole) return kWhole;
    const auto* const map = steps(path).size() == 1 ? std::get_if<DimensionMap>(steps(path).data()) : nullptr;
    if (map == nullptr) refuse_behind_reduction(value, path);
    return number(joined(taking(map->taken), shape(value), {}));
  }

  // What argument k of a reduction is read through.
  int reduced(const Node& n, ir::Value value, std::size_t k, int path) {
    const int through = taken_of(value, path);
    if (through == kWhole || k == 1) return through;  // sum_to's second argument has the result's shape
    const Dims& own = shape(n.args[0]);
    const auto taken = taken_before_reduction(n, own, shape(value), only_takes(through)->taken);
    if (!taken) refuse_behind_reduction(value, path);
    return number(joined(taking(*taken), own, {}));
  }

  // ---- at indices

  IndexedShapes shapes_of(const Node& n, ir::Value value) const {
    return {shape(n.args[0]), shape(n.args[1]), n.op == Op::index_copy ? shape(n.args[2]) : shape(value)};
  }

  int path_of_table(ir::Value value, int path) {
    const Node& n = node(value);
    const ir::Value source = source_of_index(program_, n, n.args[1]);
    const auto ordinal = static_cast<std::size_t>(node(source).ordinal);
    check_index_type(n, program_.inputs()[ordinal], inputs_[ordinal].dtype);
    return number(table_steps(program_, value, shapes_of(n, value), name(n.args[1]), steps(path)));
  }

  // The name of the operand that says where the table of `reader` is read through `then`, and its shape.
  std::pair<std::string, Dims> index_operand(ir::Value reader, const Steps& then) {
    const Node& n = node(reader);
    int path = number(index_steps(n, shapes_of(n, reader), then));
    ir::Value value = n.args[1];
    while (node(value).op != Op::input) {
      path = node(value).op == Op::view ? number(all_steps(value, path)) : moved(node(value), value, path);
      value = node(value).args[0];
    }
    Lowered::Operand read =
        read_through(program_, inputs_, static_cast<std::size_t>(node(value).ordinal), steps(path)).operand;
    read.is_index = true;
    return {operands_.name_of(read), read.shape};
  }

  // What the argument of a view is read through. Behind a reduction only what takes elements goes down; the rest is
  // left to do.
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
    return joined(resolve(program_, n, own), own, steps(path));
  }

  // ---- from operands to results: values

  Built build(ir::Value value, int path) {
    const Node& n = node(value);
    if (n.op == Op::input) return operand(n, path);
    if (const auto remainder = remainder_of_places(program_, shapes_, value, steps(path)))
      return {builder_.constant(static_cast<double>(*remainder), ir::Category::integer), {}};
    if (n.op == Op::view) return viewed(value, path);
    if (n.op == Op::iota) return numbered(value, path);
    if (is_nothing(n, shape(value))) return argument(n.args[0], path);
    if (ir::is_indexing(n.op)) return argument(n.args[0], path_of_table(value, path));
    if (n.op == Op::repeat_as) return repeated(value, path);
    if (n.op == Op::cat) {
      if (const auto rolled = rolled_argument(value, path)) return argument(rolled->first, rolled->second);
      return joined_value(value, path);
    }
    if (const auto below = taken_below(n, value, path)) {
      const ir::Value made =
          ir::rebuilt(builder_, n, {argument(n.args[0], *below).value, ir::kNone, ir::kNone}, {}, nullptr);
      return placed({made, shape_of(taking(std::get<DimensionMap>(steps(path)[0]).taken))}, steps(path), value, path);
    }
    if (ir::is_movement(n.op) && path != kWhole) return argument(n.args[0], moved(n, value, path));
    std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
    Dims all;
    for (int k = 0; k < n.arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      const int below = path_of_argument(value, at, path);
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
    if (!ir::is_reduction(n.op)) return {made, shape_through(value, path)};
    return placed({made, shape_through(value, taken_of(value, path))}, steps(path), value, path);
  }

  // Of the positions along a dimension those that the path takes.
  Built numbered(ir::Value value, int path) {
    const Node& n = node(value);
    const int d = from_front(n.shaping.axes.at[0], shape(value).size());
    // Beside its one element there are others that do not exist, which 'cat' asks for of a reduction's value.
    if (shape(value)[d] == 1 && reduces(n.args[0])) return {builder_.constant(0, ir::Category::integer), {}};
    if (!has_only_positions(steps(path))) refuse_repeated(value, path);
    const Built& given = argument(n.args[0], path);
    const Dims all = shape_through(value, path);
    // Where no element exists, any number will do.
    if (given.shape.empty() && all.size() > 1 && path != kWhole && strides_through(value, path).is_all_outside)
      return {builder_.constant(0, ir::Category::integer), {}};
    const bool is_broadcast = given.shape.size() == all.size() && !reduces(n.args[0]) && path != kWhole;
    const Built arg = is_broadcast ? given : shaped(given, value, path);
    const auto iota = [&](int dimension) {
      if (arg.shape[dimension] != all[dimension]) refuse_repeated(value, path);
      return builder_.iota(arg.value, dimension);
    };
    const auto [made, varies] = positions_through(builder_, steps(path), d, iota);
    return {made, varies ? arg.shape : Dims{}};
  }

  // ---- repeated

  int path_of_repeated(ir::Value value, int path) {
    const Node& n = node(value);
    const Dims& own = shape(n.args[0]);
    const DimensionMap* const map = only_takes(path);
    const auto taken = map == nullptr ? std::nullopt : taken_before_repeat(n, own, shape(value), map->taken);
    if (!taken && !reduces(n.args[0])) return number(repeated_steps(n, own, shape(value), steps(path)));
    if (!taken) refuse_behind_reduction(value, path);
    return number(joined(taking(*taken), own, {}));
  }

  Built repeated(ir::Value value, int path) {
    const ir::Value arg = node(value).args[0];
    const int below = path_of_repeated(value, path);
    return where_inside(value, path, arg, below, argument(arg, below), {builder_.constant(0, kLeast), {}});
  }

  // A value of which only the shape counts. That of a number is the one of a mask, which lies nowhere.
  Built shaped(const Built& made, ir::Value value, int path) {
    const Dims all = shape_through(value, path);
    if (made.shape == all) return made;
    if (!made.shape.empty() || all.size() != 1 || inputs_.empty()) refuse_repeated(value, path);
    return {builder_.input(operands_.name_of(positions_mask(all[0]))), all};
  }

  const Built& argument(ir::Value value, int path) const { return built_[static_cast<std::size_t>(value)].at(path); }

  [[noreturn]] void refuse_repeated(ir::Value value, int path) const {
    plan::refuse_repeated(name(value), shape_through(value, path));
  }

  Built operand(const Node& n, int path) {
    auto [read, strided] = read_through(program_, inputs_, static_cast<std::size_t>(n.ordinal), steps(path));
    if (strided.is_elsewhere()) return {builder_.constant(0, kLeast), {}};
    const auto repeated = repeated_dimensions(strided);
    const std::size_t indices = strided.gathers.size();
    if (indices > kMostIndices || indices + repeated.size() > kMostGathers) refuse_gathers(read.text);
    Dims all = read.shape;
    for (const Strided::Gather& gather : strided.gathers) {
      const auto& indexed = std::get<Indexed>(steps(path)[gather.step]);
      const Steps then(steps(path).begin() + static_cast<std::ptrdiff_t>(gather.step) + 1, steps(path).end());
      const auto [index, shape] = index_operand(indexed.operation, then);
      builder_.input(index);
      join(all, shape);
      const Node& reader = node(indexed.operation);
      read.gathers.push_back({index, gather.stride, gather.extent, reader.op == Op::take, ir::written_name(reader)});
    }
    for (const auto& [mask, gather] : repeated) {
      read.gathers.push_back(gather);
      read.gathers.back().index = operands_.name_of(mask);
      builder_.input(read.gathers.back().index);
      join(all, mask.shape);
    }
    const ir::Value made = builder_.input(operands_.name_of(read));
    const bool has_zero = inputs_[read.input].dtype != DType::f8e8m0;
    if (has_zero && !read.within.empty() && read.gathers.empty()) bounded_.emplace(made, read);
    for (const Lowered::Operand& mask : wrap_masks_of(read)) {
      builder_.input(operands_.name_of(mask));
      join(all, mask.shape);
    }
    return {made, all};
  }

  Built viewed(ir::Value value, int path) {
    const Node& n = node(value);
    const int below = path_below(value, path);
    const Built& arg = argument(n.args[0], below);
    if (!reduces(n.args[0])) {
      const auto outside = ir::value_outside(program_.view(n));
      if (!outside) return arg;
      return where_inside(value, path, n.args[0], below, arg, {builder_.constant(*outside, kLeast), {}});
    }
    return placed(arg, all_steps(value, path), value, path);
  }

  // What is left to do of `rest` behind a reduction: what its first map takes is taken, and where the dimensions go is
  // not done.
  Built placed(const Built& taken_already, Steps rest, ir::Value value, int path) {
    auto [made, now] = taken_already;
    if (!rest.empty() && std::holds_alternative<DimensionMap>(rest[0])) {
      for (Taken& taken : std::get<DimensionMap>(rest[0]).taken) taken = {0, 1, taken.count};
    }
    for (const ViewStep& step : rest) {
      if (!is_for(step, now)) refuse_repeated(value, path);
      const ir::Builder::Written as(builder_, node(value).written);
      const auto done = arranged(builder_, made, now, step);
      if (!done) refuse_behind_reduction(value, path);
      made = *done;
    }
    return {made, now};
  }

  // ---- all together

  Lowered finished() {
    std::vector<std::string> names;
    std::vector<ResultValue> values;
    for (const PathOfResult& result : results_) {
      const Built built = filled(argument(result.value, result.path), shape_through(result.value, result.path));
      if (built.shape != shape_through(result.value, result.path)) refuse_repeated(result.value, result.path);
      names.push_back(result_name(result.is, names));
      values.push_back({built.value, built.shape, !result.is.taken.empty()});
    }
    connect(values, builder_);
    for (std::size_t i = 0; i < values.size(); ++i) builder_.result(names[i], values[i].value);
    for (PathOfResult& result : results_) {
      if (!result.is.placed) continue;
      Lowered::Result::Placed& placed = *result.is.placed;
      for (Lowered::Result::Placed::Along& along : placed.along) {
        along.index = along.computed.exists() ? operands_.name_of(positions_along(placed.shape, along.position))
                                              : index_operand(program_.results()[result.is.output].value, {}).first;
        builder_.input(along.index);
      }
    }
    for (const std::string& mask : operands_.masks()) builder_.input(mask);
    Lowered lowered{std::move(builder_).finish().with(program_.math()), {}};
    for (const PathOfResult& result : results_) lowered.results.push_back(result.is);
    for (const std::string& name : lowered.program.inputs()) lowered.operands.push_back(*operands_.find(name));
    if (auto bounds = bounds_of(lowered.operands, lowered.program.inputs()); !bounds.empty())
      lowered.program = std::move(lowered.program).with_bounds(std::move(bounds));
    if (auto scatters = scatters_of(lowered); !scatters.empty())
      lowered.program = std::move(lowered.program).with_scatters(std::move(scatters));
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const Node& n = program_.nodes()[i];
      if (wanted_[i].size() <= 1 || !(ir::is_elementwise(n.op) || ir::is_reduction(n.op))) continue;
      std::string again = fmt::format("'{}' {} times", ir::written_name(n), wanted_[i].size());
      if (std::ranges::find(lowered.repeated, again) == lowered.repeated.end())
        lowered.repeated.push_back(std::move(again));
    }
    check_shapes(lowered.program);
    std::vector<std::string> texts;
    std::vector<ir::Viewed> viewed;
    for (const Lowered::Operand& operand : lowered.operands) {
      texts.push_back(operand.text);
      viewed.push_back(operand.is_mask ? ir::Viewed() : ir::Viewed{static_cast<int>(operand.input), operand.offset});
    }
    lowered.program = std::move(lowered.program).with_operand_texts(std::move(texts)).with_viewed(std::move(viewed));
    if (std::vector<int> of = slices(); !of.empty())
      lowered.program = std::move(lowered.program).with_slices(std::move(of));
    return lowered;
  }

  // By result that of the written chain which it is a slice of; nothing where none is.
  std::vector<int> slices() const {
    std::vector<int> all;
    for (const PathOfResult& result : results_)
      all.push_back(result.is.taken.empty() || result.is.placed ? ir::kNone : static_cast<int>(result.is.output));
    return std::ranges::all_of(all, [](int of) { return of == ir::kNone; }) ? std::vector<int>() : all;
  }

  // A value that has fewer elements than its shape says, as the gradient of a mean: broadcast to an operand of that
  // shape, if there is one.
  Built filled(const Built& built, const Dims& all) {
    if (built.shape == all) return built;
    const auto has_shape = [&](const Node& n) {
      return n.op == Op::input && inputs_[static_cast<std::size_t>(n.ordinal)].shape == all;
    };
    const auto like = std::ranges::find_if(program_.nodes(), has_shape);
    if (like == program_.nodes().end()) return built;
    return {builder_.expand_as(built.value, operand(*like, kWhole).value), all};
  }

  std::string result_name(const Lowered::Result& result, const std::vector<std::string>& names) const {
    if (result.taken.empty()) return program_.results()[result.output].name;
    const std::string own = program_.result_name(result.output);
    std::string name;
    int next = 0;
    do name = fmt::format("{}_{}", own.substr(0, ir::kMaxNameLength - 8), next++);
    while (operands_.is_taken(name) || std::ranges::find(names, name) != names.end());
    return name;
  }

  // Without reductions all results have the shape to which all operands broadcast.
  void check_shapes(const ir::Program& lowered) const {
    if (lowered.has_shaping()) return;
    const Dims all = operands_.broadcast();
    for (const PathOfResult& result : results_) {
      const Dims own = shape_through(result.value, result.path);
      const Dims first = shape_through(results_[0].value, results_[0].path);
      if (!result.is.taken.empty() && own != first) refuse_slice(result.is.text, own, first);
      if (own != all) refuse_shape(result.is.text, own, all);
    }
  }

  const ir::Program& program_;
  std::span<const TensorView> inputs_;
  std::vector<Dims> shapes_;
  std::vector<ir::Value> rejoined_;
  std::vector<bool> reduces_;  // by value: it is computed from a reduction's
  Slicing slicing_;
  std::vector<Steps> paths_;  // by number
  std::map<std::vector<std::int64_t>, int> numbers_;
  std::vector<std::set<int, std::greater<>>> wanted_;  // by value: paths, those of first arguments first
  std::vector<std::map<int, Built>> built_;
  OperandTable operands_;
  std::vector<PathOfResult> results_;
  std::map<ir::Value, Lowered::Operand>
      bounded_;  // operands of which some elements do not exist, and no index says where
  ir::Builder builder_;
};

}  // namespace

Lowered push_down(const ir::Program& program, std::span<const TensorView> inputs, Slicing slicing) {
  return Lowering(program, inputs, slicing).run();
}

}  // namespace epifuse::plan
