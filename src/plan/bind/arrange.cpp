// Steps of a path that are done with the value itself, or before another operation.
#include "plan/bind/arrange.hpp"

#include <algorithm>

#include "plan/bind/shape_rules.hpp"
#include "plan/bind/slices.hpp"

namespace epifuse::plan {

using ir::Op;
using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;

bool is_for(const ViewStep& step, const Dims& now) {
  if (const auto* shape = std::get_if<Dims>(&step)) return element_count(*shape) == element_count(now);
  if (std::holds_alternative<Unfolded>(step)) return true;
  const auto* const map = std::get_if<DimensionMap>(&step);
  return map != nullptr && std::ranges::equal(map->taken, now, {}, &Taken::count);
}

std::optional<ir::Value> arranged(ir::Builder& builder, ir::Value made, Dims& now, const ViewStep& step) {
  if (const auto* shape = std::get_if<Dims>(&step)) {
    now = *shape;
    return builder.view(made, ir::numbered_view(ir::View::Kind::reshape, {shape->begin(), shape->end()}));
  }
  if (std::holds_alternative<Unfolded>(step)) return std::nullopt;
  const auto& map = std::get<DimensionMap>(step);
  for (std::size_t d = 0; d < map.taken.size(); ++d) {
    if (map.taken[d] != Taken{0, 1, now[static_cast<int>(d)]}) return std::nullopt;
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
  if (!std::ranges::all_of(dropped, is_whole)) made = builder.view(made, ir::index_view(dropped));
  if (!std::ranges::is_sorted(order)) made = builder.view(made, ir::numbered_view(ir::View::Kind::permute, order));
  if (!std::ranges::all_of(added, is_whole)) made = builder.view(made, ir::index_view(added));
  now = shape;
  return made;
}

std::optional<Steps> taken_before_reshape(const ir::Node& node, const Dims& own, const Dims& shape,
                                          const Steps& steps) {
  if (node.op != Op::flatten && node.op != Op::unflatten) return std::nullopt;
  const auto* const map = std::get_if<DimensionMap>(steps.data());
  if (map == nullptr || std::ranges::any_of(map->taken, &Taken::is_bounded)) return std::nullopt;
  const auto before = taken_before(node, own, shape, map->taken);
  if (!before) return std::nullopt;
  DimensionMap rest = *map;
  Dims between;
  for (Taken& taken : rest.taken) {
    between.push_back(taken.count);
    taken = {0, 1, taken.count};
  }
  Steps then = joined(rest, between, {steps.begin() + 1, steps.end()});
  then = joined(between, shape_of(taking(*before)), then);
  return joined(taking(*before), own, then);
}

std::optional<std::vector<Taken>> taken_behind_reduction(const ir::Node& node, const Dims& own, const Dims& shape,
                                                         const Steps& steps) {
  const auto* const map = std::get_if<DimensionMap>(steps.data());
  if ((node.op != Op::flatten && node.op != Op::unflatten) || map == nullptr) return std::nullopt;
  const auto is_whole = [&](int d) { return map->taken[static_cast<std::size_t>(d)] == Taken{0, 1, shape[d]}; };
  bool is_all = true;
  for (int d = 0; d < shape.size(); ++d) is_all = is_all && is_whole(d);
  if (is_all || std::ranges::any_of(map->taken, &Taken::is_bounded)) return std::nullopt;
  if (node.op == Op::unflatten) {  // it names the extents of what it splits
    const int d = from_front(node.shaping.axes.at[0], own.size());
    if (!is_whole(d) || !is_whole(d + 1)) return std::nullopt;
  }
  return taken_before(node, own, shape, map->taken);
}

}  // namespace epifuse::plan
