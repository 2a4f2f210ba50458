// Which values are rolled, and whether one that wraps around can be read so where its operands lie.
#include "plan/bind/rolled.hpp"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <utility>

#include "ir/pooling.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;

std::optional<Roll> roll_of(const ir::Program& program, const Dims& shape, ir::Value value) {
  const Node& n = program.node(value);
  const ir::View* const by = n.op == Op::cat ? ir::rolled_by(program, n) : nullptr;
  if (by == nullptr) return std::nullopt;
  return Roll{program.node(n.args[0]).args[0], from_front(by->numbers[0], shape.size()), by->numbers[1]};
}

// From a value to its operands, each value and dimension once.
class WrapSearch {
 public:
  WrapSearch(const ir::Program& program, const std::vector<Dims>& shapes) : program_(program), shapes_(shapes) {}

  bool reaches(ir::Value value, int d) {
    if (!seen_.emplace(value, d).second) return true;
    const Node& n = program_.node(value);
    if (n.op == Op::input || n.op == Op::constant || n.op == Op::scalar) return true;
    if (n.op == Op::view) return reaches_below(n, d);
    if (n.op == Op::cat) return reaches_joined(n, value, d);
    if (!ir::is_elementwise(n.op) && n.op != Op::cast) return false;
    for (int k = 0; k < n.arity(); ++k) {
      const ir::Value arg = n.args[static_cast<std::size_t>(k)];
      const int own = d + shape(arg).size() - shape(value).size();
      if (own >= 0 && shape(arg)[own] == shape(value)[d] && !reaches(arg, own)) return false;
    }
    return true;
  }

 private:
  const Dims& shape(ir::Value value) const { return shapes_[static_cast<std::size_t>(value)]; }

  // A view that has all elements of the dimension in their order, or reversed.
  bool reaches_below(const Node& n, int d) {
    const Dims& own = shape(n.args[0]);
    const ViewStep step = resolve(program_, n, own);
    const auto* const map = std::get_if<DimensionMap>(&step);
    if (map == nullptr) return false;
    const DimensionMap::Given& given = map->given[static_cast<std::size_t>(d)];
    if (given.from == DimensionMap::Given::kRepeated) return true;
    const DimensionMap::Taken& taken = map->taken[static_cast<std::size_t>(given.from)];
    return taken == DimensionMap::Taken{0, 1, own[given.from]} && reaches(n.args[0], given.from);
  }

  bool reaches_joined(const Node& n, ir::Value value, int d) {
    const auto roll = roll_of(program_, shape(value), value);
    if (roll) return reaches(roll->argument, d);
    const bool is_along = from_front(n.shaping.axes.at[0], shape(value).size()) == d;
    return !is_along && reaches(n.args[0], d) && reaches(n.args[1], d);
  }

  const ir::Program& program_;
  const std::vector<Dims>& shapes_;
  std::set<std::pair<ir::Value, int>> seen_;
};

}  // namespace

std::optional<Roll> wrapping_roll(const ir::Program& program, const std::vector<Dims>& shapes,
                                  const std::vector<bool>& reduces, ir::Value value) {
  const Dims& shape = shapes[static_cast<std::size_t>(value)];
  const auto roll = roll_of(program, shape, value);
  if (!roll || shape[roll->dimension] == 0 || reduces[static_cast<std::size_t>(roll->argument)]) return std::nullopt;
  return WrapSearch(program, shapes).reaches(roll->argument, roll->dimension) ? roll : std::nullopt;
}

std::optional<Steps> steps_below(const Roll& roll, const Dims& shape, const Steps& steps) {
  const auto d = static_cast<std::size_t>(roll.dimension);
  const std::int64_t extent = shape[roll.dimension];
  DimensionMap map = DimensionMap::whole(shape);
  map.taken[d] = {-(roll.shift % extent), 1, extent};
  map.taken[d].period = extent;
  const auto is_late = [&](const ViewStep& step) {
    const bool is_map = std::holds_alternative<DimensionMap>(step);
    return is_map ? &step != steps.data() : !std::holds_alternative<Dims>(step);
  };
  if (std::ranges::any_of(steps, is_late)) return std::nullopt;
  Steps then = steps;
  if (!then.empty() && std::holds_alternative<DimensionMap>(then[0])) {
    map = composed(map, std::get<DimensionMap>(then[0]));
    then.erase(then.begin());
  }
  map.taken[d] = map.taken[d].unrolled();
  if (map.taken[d].period != 0 && std::abs(map.taken[d].step) != 1) return std::nullopt;
  return joined(map, shape, then);
}

}  // namespace epifuse::plan
