// Views go down to the operands. A first sweep, from the results to the operands, finds for each value through which views it is read; a second
// one builds each value once for each of these. Pointwise work between a view and its operands is so done for each view.
//
// Below a view that is pushed down there is no reduction, with one exception: what takes elements of a reduction's outer dimensions goes
// on to what is reduced. The rest, which only orders dimensions, stays where it is.
#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using enum ErrorCode;
using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;

// `first` of a value, `second` of what that gives.
DimensionMap composed(const DimensionMap& first, const DimensionMap& second) {
  DimensionMap map{first.taken, {}};
  for (std::size_t i = 0; i < first.given.size(); ++i) {
    const int from = first.given[i].from;
    if (from == Given::kRepeated) continue;
    Taken& taken = map.taken[static_cast<std::size_t>(from)];
    const Taken& then = second.taken[i];
    taken = {then.count == 0 ? 0 : taken.start + taken.step * then.start, then.count > 1 ? taken.step * then.step : 1,
             then.count};
  }
  for (const Given& given : second.given) {
    if (given.from == Given::kRepeated) {
      map.given.push_back(given);
      continue;
    }
    const Given& between = first.given[static_cast<std::size_t>(given.from)];
    map.given.push_back({between.from, given.extent, between.broadcast});
  }
  return map;
}

// A value of shape `from` where an operation broadcasts it to the shape `to`.
DimensionMap broadcast(const Dims& from, const Dims& to, bool by_another) {
  DimensionMap map = DimensionMap::whole(from);
  map.given.clear();
  for (int d = 0; d < to.size(); ++d) {
    const int own = d - (to.size() - from.size());
    const bool has = own >= 0 && from[own] == to[d];
    map.given.push_back(has ? Given{own, to[d]} : Given{Given::kRepeated, to[d], by_another});
  }
  return map;
}

// Of views without permutations: what is taken of each dimension, in dimensions that stay where they are.
DimensionMap taking(const std::vector<Taken>& taken) {
  DimensionMap map{taken, {}};
  for (std::size_t d = 0; d < taken.size(); ++d) map.given.push_back({static_cast<int>(d), taken[d].count});
  return map;
}

// Views of a value, one after the other; neighbouring maps are one.
using Steps = std::vector<ViewStep>;

Steps joined(ViewStep first, const Dims& shape, const Steps& then) {
  Steps steps;
  std::size_t next = 0;
  auto* const map = std::get_if<DimensionMap>(&first);
  if (map != nullptr && !then.empty() && std::holds_alternative<DimensionMap>(then[0])) {
    *map = composed(*map, std::get<DimensionMap>(then[0]));
    next = 1;
  }
  const bool is_nothing = map != nullptr ? *map == DimensionMap::whole(shape) : std::get<Dims>(first) == shape;
  if (!is_nothing) steps.push_back(std::move(first));
  steps.insert(steps.end(), then.begin() + static_cast<std::ptrdiff_t>(next), then.end());
  return steps;
}

std::vector<std::int64_t> key_of(const Steps& steps) {
  std::vector<std::int64_t> key;
  for (const ViewStep& step : steps) {
    if (const auto* shape = std::get_if<Dims>(&step)) {
      key.push_back(-1 - shape->size());
      key.insert(key.end(), shape->begin(), shape->end());
      continue;
    }
    const auto& map = std::get<DimensionMap>(step);
    key.push_back(static_cast<std::int64_t>(map.taken.size() * 100 + map.given.size()));
    for (const Taken& taken : map.taken) key.insert(key.end(), {taken.start, taken.step, taken.count});
    for (const Given& given : map.given) key.insert(key.end(), {given.from, given.extent, given.broadcast ? 1 : 0});
  }
  return key;
}

// ---- memory

// An operand through views. Counted in elements.
struct Strided {
  struct Dimension {
    std::int64_t extent, stride;
    bool broadcast;  // one element of it will do
  };
  std::int64_t offset = 0;
  std::vector<Dimension> dimensions;

  Dims shape() const {
    Dims shape;
    for (const Dimension& d : dimensions) shape.push_back(d.extent);
    return shape;
  }

  void apply(const DimensionMap& map) {
    const bool is_empty = std::ranges::find(map.taken, 0, &Taken::count) != map.taken.end();
    std::vector<Dimension> next;
    for (std::size_t d = 0; d < dimensions.size() && !is_empty; ++d)
      offset += map.taken[d].start * dimensions[d].stride;
    for (const Given& given : map.given) {
      if (given.from == Given::kRepeated) {
        next.push_back({given.extent, 0, given.broadcast});
        continue;
      }
      const Dimension& from = dimensions[static_cast<std::size_t>(given.from)];
      const std::int64_t step = map.taken[static_cast<std::size_t>(given.from)].step;
      std::int64_t stride = 0;  // of one element any number will do
      if (given.extent > 1 && __builtin_mul_overflow(from.stride, step, &stride)) stride = 0;
      next.push_back({given.extent, stride, from.broadcast});
    }
    dimensions = std::move(next);
  }

  // In row-major order. False where that would take a copy.
  bool apply(const Dims& shape) {
    std::vector<Dimension> old;
    for (const Dimension& d : dimensions) {
      if (d.extent != 1) old.push_back(d);
    }
    std::vector<Dimension> next;
    for (const std::int64_t extent : shape) next.push_back({extent, 0, extent == 1});
    const bool is_empty = std::ranges::find(shape, 0) != shape.end();
    std::size_t to = next.size();
    for (std::size_t last = old.size(); last > 0 && !is_empty;) {
      // Dimensions first … last - 1 lie as one.
      std::size_t first = last - 1;
      std::int64_t elements = old[first].extent;
      while (first > 0 && old[first - 1].broadcast == old[first].broadcast &&
             old[first - 1].stride == old[first].stride * old[first].extent)
        elements *= old[--first].extent;
      std::int64_t stride = old[last - 1].stride;
      for (; elements > 1; --to) {
        if (to == 0) return false;
        Dimension& d = next[to - 1];
        if (elements % d.extent != 0) return false;
        if (d.extent > 1) d = {d.extent, stride, old[first].broadcast};
        stride *= d.extent;
        elements /= d.extent;
      }
      last = first;
    }
    dimensions = std::move(next);
    return true;
  }
};

// ---- text

std::string text_of(const Taken& taken, std::int64_t extent, bool is_given) {
  if (!is_given) return std::to_string(taken.start);
  std::string text = taken.start == (taken.step > 0 ? 0 : extent - 1) ? ":" : fmt::format("{}:", taken.start);
  const std::int64_t end = taken.start + taken.count * taken.step;
  if (taken.count == 0) return ":0";
  if (taken.step > 0 ? end < extent : end >= 0) text += std::to_string(end);
  return taken.step == 1 ? text : fmt::format("{}:{}", text, taken.step);
}

// "x[..., :128]"; broadcasting goes unsaid.
std::string text_of(const std::string& of, const DimensionMap& map, const Dims& shape) {
  std::vector<std::string> items;
  for (std::size_t d = 0; d < map.taken.size(); ++d) {
    const bool is_given = std::ranges::find(map.given, static_cast<int>(d), &Given::from) != map.given.end();
    items.push_back(text_of(map.taken[d], shape[static_cast<int>(d)],
                            is_given || map.taken[d].count != 1 || shape[static_cast<int>(d)] == 1));
  }
  const auto first = std::ranges::find_if(items, [](const std::string& item) { return item != ":"; });
  std::string text = of;
  if (first != items.end()) {
    if (first - items.begin() > 1) items.erase(items.begin(), first), items.insert(items.begin(), "...");
    if (items[0] != "...") {
      while (items.back() == ":") items.pop_back();
    }
    text += fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::vector<int> order;
  for (const Given& given : map.given) {
    if (given.from != Given::kRepeated) order.push_back(given.from);
  }
  if (std::ranges::is_sorted(order)) return text;
  std::vector<int> ranks = order;
  std::ranges::sort(ranks);
  for (int& d : order) d = static_cast<int>(std::ranges::find(ranks, d) - ranks.begin());
  return fmt::format("permute({}, ({}))", text, fmt::join(order, ", "));
}

std::string text_of(const std::string& name, const Dims& shape, const Steps& steps) {
  std::string text = name;
  Dims now = shape;
  for (const ViewStep& step : steps) {
    if (const auto* map = std::get_if<DimensionMap>(&step)) {
      text = text_of(text, *map, now);
    } else {
      std::string sizes = to_string(std::get<Dims>(step));
      text = fmt::format("reshape({}, ({}))", text, sizes.substr(1, sizes.size() - 2));
    }
    now = shape_of(step);
  }
  return text;
}

// ---- the chain

class Lowering {
 public:
  Lowering(const ir::Program& program, std::span<const TensorView> inputs)
      : program_(program), inputs_(inputs), shapes_(value_shapes(program, inputs)) {
    paths_.emplace_back();
    numbers_.emplace(key_of({}), 0);
    for (const Node& node : program.nodes()) {
      bool reduces = ir::is_reduction(node.op);
      for (int k = 0; k < node.computed_arity(); ++k)
        reduces = reduces || reduces_[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])];
      reduces_.push_back(reduces);
    }
  }

  Lowered run() {
    wanted_.resize(program_.nodes().size());
    for (const ir::Result& result : program_.results()) want(result.value, kWhole);
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

  struct Built {
    ir::Value value;
    Dims shape;  // what it broadcasts from may have fewer elements than the value that it stands for
  };

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

  // ---- from results to operands: what is read how

  // What argument k of an element-wise operation is read through where the operation's value is read through `path`.
  int path_of_argument(ir::Value value, std::size_t k, int path) {
    const ir::Value arg = node(value).args[k];
    const Dims& own = shape(arg);
    const Dims& all = shape(value);
    if (own == all) return path;
    if (path == kWhole || own.empty()) return kWhole;
    const DimensionMap* const map = only_takes(path);
    if (map == nullptr) return number(joined(broadcast(own, all, true), own, steps(path)));
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
    if (n.op == Op::expand_as) return number(joined(broadcast(own, shape(value), false), own, steps(path)));
    return number(joined(shape(value), own, steps(path)));
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
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const ir::Result& result = program_.results()[i];
      const Built& built = argument(result.value, kWhole);
      if (built.shape != shape(result.value)) refuse_repeated(result.value, kWhole);
      builder_.result(result.name, built.value);
    }
    Lowered lowered{std::move(builder_).finish().with(program_.math()), {}, {}};
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

  // Without reductions all results have the shape to which all operands broadcast.
  void check_shapes(const ir::Program& lowered) const {
    if (lowered.has_shaping()) return;
    Dims all;
    for (const auto& [name, operand] : operands_) join(all, operand.shape);
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const Dims& own = shape(program_.results()[i].value);
      if (own == all) continue;
      fail(unsupported,
           "the chain cannot be one kernel: its result '{}' has the shape {}, and its operands broadcast to {}. "
           "Compute it in "
           "a chain of its own",
           program_.result_name(i), to_string(own), to_string(all));
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
  ir::Builder builder_;
};

}  // namespace

Lowered lower(const ir::Program& program, std::span<const TensorView> inputs, Views views) {
  check_inputs(program, inputs, views);
  return Lowering(program, inputs).run();
}

}  // namespace epifuse::plan
