// A sweep from the operands to the results. Dimensions are looked at one by one: where several are joined,
// the slices are all combinations.
#include "plan/bind/slices.hpp"

#include <algorithm>

#include "plan/bind/bounds.hpp"
#include "plan/bind/rolled.hpp"
#include "plan/bind/shape_rules.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;
using Cuts = std::vector<Taken>;  // of one dimension

// Both at once: their intersections. Slices at steps of more than one meet whole dimensions only.
Cuts refined(const Cuts& a, const Cuts& b) {
  if (b.size() <= 1 || a == b) return a;
  if (a.size() <= 1) return b;
  Cuts all;
  for (const Taken& x : a) {
    for (const Taken& y : b) {
      if (x.step != 1 || y.step != 1) return a;
      const std::int64_t start = std::max(x.start, y.start);
      const std::int64_t end = std::min(x.start + x.count, y.start + y.count);
      if (start < end) all.push_back({start, 1, end - start});
    }
  }
  return all;
}

Cuts moved(Cuts cuts, std::int64_t by) {
  for (Taken& taken : cuts) taken.start += by;
  return cuts;
}

// The slices of a dimension as a view that takes some of its elements sees them. Slices at steps of more than one are
// seen by a view of all elements only.
Cuts seen_through(const Cuts& cuts, const Taken& view, std::int64_t extent) {
  const Cuts whole = {{0, 1, view.count}};
  if (cuts.size() <= 1 || view.count == 0 || view.is_bounded()) return whole;
  Cuts seen;
  const std::int64_t step = std::abs(view.step);
  for (const Taken& cut : cuts) {
    if (cut.step != 1) return view == Taken{0, 1, extent} ? cuts : whole;
    const std::int64_t before = view.step > 0 ? cut.start - view.start : view.start - cut.start - cut.count + 1;
    const std::int64_t first = before <= 0 ? 0 : (before + step - 1) / step;
    const std::int64_t behind = before + cut.count;
    const std::int64_t end = behind <= 0 ? 0 : std::min((behind + step - 1) / step, view.count);
    if (first < end) seen.push_back({first, 1, end - first});
  }
  if (view.step < 0) std::ranges::reverse(seen);
  return seen;
}

// By dimension of a value: of which value's rows along it there is a statistic; kNone where there is none.
using Rows = std::vector<ir::Value>;

Rows rows_of_reduced(const Node& n, const Rows& of_argument, const Dims& argument) {
  const std::uint32_t mask = reduced_dimensions(n, argument.size());
  Rows rows;
  for (int d = 0; d < argument.size(); ++d) {
    const bool is_reduced = (mask >> d & 1U) != 0;
    if (!is_reduced || n.shaping.keepdim)
      rows.push_back(is_reduced ? n.args[0] : of_argument[static_cast<std::size_t>(d)]);
  }
  return rows;
}

Rows rows_of_view(const ViewStep& step, const Rows& of_argument, Rows rows) {
  const auto* const map = std::get_if<DimensionMap>(&step);
  for (std::size_t d = 0; map != nullptr && d < rows.size(); ++d) {
    const int from = map->given[d].from;
    if (from != Given::kRepeated) rows[d] = of_argument[static_cast<std::size_t>(from)];
  }
  return rows;
}

class Sweep {
 public:
  Sweep(const ir::Program& program, const std::vector<Dims>& shapes, const std::vector<bool>& reduces,
        const std::vector<ir::Value>& rejoined, Repeats repeats)
      : program_(program), shapes_(shapes), reduces_(reduces), rejoined_(rejoined), repeats_(repeats) {}

  std::vector<Slices> run() {
    for (std::size_t i = 0; i < shapes_.size(); ++i) slices_.push_back(of(i));
    return std::move(slices_);
  }

 private:
  const Dims& shape(ir::Value value) const { return shapes_[static_cast<std::size_t>(value)]; }
  const Slices& slices(ir::Value value) const { return slices_[static_cast<std::size_t>(value)]; }

  Slices of(std::size_t i) const {
    const Node& n = program_.nodes()[i];
    const Dims& own = shapes_[i];
    Slices whole;
    for (const std::int64_t extent : own) whole.push_back({{0, 1, extent}});
    if (n.op == Op::cat) return joined_of(n, static_cast<ir::Value>(i));
    if (n.op == Op::view) return viewed(n, std::move(whole));
    if (n.op == Op::repeat_as) return repeated(n, own, std::move(whole));
    if (n.op == Op::flatten) return flattened(n, own, std::move(whole));
    if (n.op == Op::unflatten) return unflattened(n, std::move(whole));
    if (ir::is_reduction(n.op)) return reduced(n, own, std::move(whole));
    if (ir::is_elementwise(n.op) || n.op == Op::cast || n.op == Op::expand_as)
      return combined(n, own, std::move(whole));
    return whole;
  }

  Slices joined_of(const Node& n, ir::Value value) const {
    const int d = from_front(n.shaping.axes.at[0], shape(n.args[0]).size());
    if (rejoined_[static_cast<std::size_t>(value)] != ir::kNone) {
      Slices all = slices(n.args[0]);
      all[static_cast<std::size_t>(d)] = {{0, 1, shape(value)[d]}};
      return all;
    }
    // What is rolled is read as one.
    if (const auto roll = wrapping_roll(program_, shapes_, reduces_, value)) {
      Slices all = slices(roll->argument);
      all[static_cast<std::size_t>(d)] = {{0, 1, shape(value)[d]}};
      return all;
    }
    Slices all = slices(n.args[0]);
    for (int k = 0; k < shape(n.args[0]).size(); ++k) {
      Cuts& cuts = all[static_cast<std::size_t>(k)];
      const Cuts& others = slices(n.args[1])[static_cast<std::size_t>(k)];
      const std::int64_t extent = shape(n.args[0])[k];
      if (k != d) {
        cuts = refined(cuts, others);
        continue;
      }
      if (extent == 0) cuts.clear();
      const Cuts behind = moved(others, extent);
      if (shape(n.args[1])[k] != 0 || extent == 0) cuts.insert(cuts.end(), behind.begin(), behind.end());
    }
    return all;
  }

  Slices combined(const Node& n, const Dims& own, Slices all) const {
    const int arity = n.op == Op::expand_as ? 1 : n.arity();
    for (int k = 0; k < arity; ++k) {
      const ir::Value arg = n.args[static_cast<std::size_t>(k)];
      for (int d = 0; d < shape(arg).size(); ++d) {
        const int at = d + own.size() - shape(arg).size();
        Cuts& cuts = all[static_cast<std::size_t>(at)];
        if (shape(arg)[d] == own[at]) cuts = refined(cuts, slices(arg)[static_cast<std::size_t>(d)]);
      }
    }
    return all;
  }

  Slices viewed(const Node& n, Slices all) const {
    const ViewStep step = resolve(program_, n, shape(n.args[0]));
    const auto* const map = std::get_if<DimensionMap>(&step);
    for (std::size_t d = 0; map != nullptr && d < all.size(); ++d) {
      const int from = map->given[d].from;
      if (from == Given::kRepeated) continue;
      const auto at = static_cast<std::size_t>(from);
      all[d] = seen_through(slices(n.args[0])[at], map->taken[at], shape(n.args[0])[from]);
    }
    return all;
  }

  // What reductions give is written once for each place that repeats it.
  Slices repeated(const Node& n, const Dims& own, Slices all) const {
    if (!reduces_[static_cast<std::size_t>(n.args[0])] && repeats_ == Repeats::read) return all;
    const Dims& arg = shape(n.args[0]);
    const int d = from_front(n.shaping.axes.at[0], own.size());
    for (int k = 0; k < own.size(); ++k)
      if (k != d) all[static_cast<std::size_t>(k)] = slices(n.args[0])[static_cast<std::size_t>(k)];
    if (!repeats_all(n, arg, own)) return all;
    Cuts& cuts = all[static_cast<std::size_t>(d)];
    const std::int64_t times = n.shaping.sizes[0];
    cuts.clear();
    for (std::int64_t place = 0; place < times; ++place) cuts.push_back({place, times, arg[d]});
    return all;
  }

  // Along dimensions that stay. What is joined along one that is reduced, lower() refuses.
  Slices reduced(const Node& n, const Dims& own, Slices all) const {
    if (n.arity() == 2) return shape(n.args[0]) == own ? slices(n.args[0]) : all;
    const Dims& arg = shape(n.args[0]);
    const std::uint32_t mask = reduced_dimensions(n, arg.size());
    std::size_t next = 0;
    for (int d = 0; d < arg.size(); ++d) {
      const bool is_reduced = (mask >> d & 1U) != 0;
      if (!is_reduced) all[next] = slices(n.args[0])[static_cast<std::size_t>(d)];
      if (!is_reduced || n.shaping.keepdim) ++next;
    }
    return all;
  }

  // Elements side by side in the innermost of the merged dimensions, or blocks of the outermost.
  Slices flattened(const Node& n, const Dims& own, Slices all) const {
    const Dims& arg = shape(n.args[0]);
    const int first = from_front(n.shaping.sizes[0], arg.size());
    const int last = from_front(n.shaping.sizes[1], arg.size());
    std::int64_t inner = 1;  // elements of the merged dimension for a step of the one at hand
    for (int d = last; d >= first; --d) {
      const Cuts& cuts = slices(n.args[0])[static_cast<std::size_t>(d)];
      const bool is_outermost = inner * arg[d] == own[first];
      const bool are_single = std::ranges::all_of(cuts, [](const Taken& t) { return t.count == 1; });
      if (cuts.size() > 1 && (is_outermost || (inner == 1 && are_single))) {
        Cuts merged;
        for (const Taken& t : cuts) {
          if (inner > 1 || !are_single || is_outermost)
            merged.push_back({t.start * inner, 1, t.count * inner});
          else
            merged.push_back({t.start, arg[d], own[first] / arg[d]});
        }
        all[static_cast<std::size_t>(first)] = merged;
        break;
      }
      inner *= arg[d];
    }
    for (int d = 0; d < first; ++d) all[static_cast<std::size_t>(d)] = slices(n.args[0])[static_cast<std::size_t>(d)];
    for (int d = last + 1; d < arg.size(); ++d)
      all[static_cast<std::size_t>(d - (last - first))] = slices(n.args[0])[static_cast<std::size_t>(d)];
    return all;
  }

  // The split dimension stays whole: what is joined along it, lower() refuses.
  Slices unflattened(const Node& n, Slices all) const {
    const int rank = shape(n.args[0]).size();
    const int d = from_front(n.shaping.axes.at[0], rank);
    for (int k = 0; k < rank; ++k) {
      if (k != d) all[static_cast<std::size_t>(k < d ? k : k + 1)] = slices(n.args[0])[static_cast<std::size_t>(k)];
    }
    return all;
  }

  const ir::Program& program_;
  const std::vector<Dims>& shapes_;
  const std::vector<bool>& reduces_;
  const std::vector<ir::Value>& rejoined_;
  const Repeats repeats_;
  std::vector<Slices> slices_;
};

std::optional<std::vector<Taken>> before_flatten(const Node& n, const Dims& argument, const std::vector<Taken>& taken) {
  const int first = from_front(n.shaping.sizes[0], argument.size());
  const int last = from_front(n.shaping.sizes[1], argument.size());
  std::vector<Taken> all(taken.begin(), taken.begin() + first);
  for (int d = first; d <= last; ++d) all.push_back({0, 1, argument[d]});
  all.insert(all.end(), taken.begin() + first + 1, taken.end());
  const Taken& merged = taken[static_cast<std::size_t>(first)];
  std::int64_t behind = 1;  // of the outermost
  for (int d = first + 1; d <= last; ++d) behind *= argument[d];
  if (merged == Taken{0, 1, argument[first] * behind}) return all;
  if (merged.count == 1 && !merged.is_bounded()) {
    std::int64_t place = merged.start;
    for (int d = last; d >= first; place /= argument[d], --d)
      all[static_cast<std::size_t>(d)] = {place % argument[d], 1, 1};
    return all;
  }
  const std::int64_t inner = argument[last];
  if (merged.step == inner && merged.start < inner && merged.count * inner == argument[first] * behind) {
    all[static_cast<std::size_t>(last)] = {merged.start, 1, 1};
    return all;
  }
  const bool is_of_blocks = behind > 0 && merged.step == 1 && merged.start % behind == 0 && merged.count % behind == 0;
  if (!is_of_blocks) return std::nullopt;
  all[static_cast<std::size_t>(first)] = {merged.start / behind, 1, merged.count / behind};
  return all;
}

std::optional<std::vector<Taken>> before_unflatten(const Node& n, const Dims& argument, const Dims& shape,
                                                   const std::vector<Taken>& taken) {
  const auto d = static_cast<std::size_t>(from_front(n.shaping.axes.at[0], argument.size()));
  const Taken& outer = taken[d];
  const Taken& inner = taken[d + 1];
  const std::int64_t extent = shape[static_cast<int>(d) + 1];
  Taken split;
  if (inner.count == 1)
    split = {outer.start * extent + inner.start, outer.step * extent, outer.count};
  else if (inner == Taken{0, 1, extent} && outer.step == 1)
    split = {outer.start * extent, 1, outer.count * extent};
  else
    return std::nullopt;
  std::vector<Taken> all(taken.begin(), taken.begin() + static_cast<std::ptrdiff_t>(d));
  all.push_back(split.count == 1 ? Taken{split.start, 1, 1} : split);
  all.insert(all.end(), taken.begin() + static_cast<std::ptrdiff_t>(d) + 2, taken.end());
  return all;
}

}  // namespace

bool repeats_all(const Node& node, const Dims& argument, const Dims& own) {
  const int d = from_front(node.shaping.axes.at[0], own.size());
  const auto [times, shift] = node.shaping.sizes;
  return times > 1 && times <= static_cast<std::int64_t>(kMostSlices) && shift == 0 && own[d] == argument[d] * times;
}

bool sums_nothing(const Node& node, const std::vector<Dims>& shapes, const Dims& own) {
  return ir::is_reduction(node.op) && node.arity() == 2 && shapes[static_cast<std::size_t>(node.args[0])] == own;
}

std::vector<bool> computed_from_reductions(const ir::Program& program, const std::vector<Dims>& shapes) {
  std::vector<bool> all;
  for (const Node& n : program.nodes()) {
    bool reduces = ir::is_reduction(n.op) && !sums_nothing(n, shapes, shapes[all.size()]);
    for (int k = 0; k < n.computed_arity(); ++k)
      reduces = reduces || all[static_cast<std::size_t>(n.args[static_cast<std::size_t>(k)])];
    all.push_back(reduces);
  }
  return all;
}

std::vector<ir::Value> rejoined_rows(const ir::Program& program, const std::vector<Dims>& shapes) {
  std::vector<Rows> all;
  std::vector<ir::Value> rejoined;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Node& n = program.nodes()[i];
    const Dims& own = shapes[i];
    Rows rows(static_cast<std::size_t>(own.size()), ir::kNone);
    const auto argument = [&](int k) { return static_cast<std::size_t>(n.args[static_cast<std::size_t>(k)]); };
    rejoined.push_back(ir::kNone);
    if (n.op == Op::view) {
      rows = rows_of_view(resolve(program, n, shapes[argument(0)]), all[argument(0)], rows);
    } else if (ir::is_reduction(n.op) && n.arity() == 1) {
      rows = rows_of_reduced(n, all[argument(0)], shapes[argument(0)]);
    } else if (n.op == Op::cat) {
      const int d = from_front(n.shaping.axes.at[0], own.size());
      const ir::Value row = all[argument(0)][static_cast<std::size_t>(d)];
      const bool is_rejoined = row != ir::kNone && row == all[argument(1)][static_cast<std::size_t>(d)] &&
                               shapes[static_cast<std::size_t>(row)] == own && shapes[argument(0)][d] < own[d] &&
                               shapes[argument(1)][d] < own[d];
      if (is_rejoined) rejoined.back() = rows[static_cast<std::size_t>(d)] = row;
    } else if (ir::is_elementwise(n.op) || n.op == Op::cast) {
      for (int k = 0; k < n.arity(); ++k) {
        const Rows& others = all[argument(k)];
        for (std::size_t d = 0; d < others.size(); ++d) {
          ir::Value& row = rows[d + rows.size() - others.size()];
          if (row == ir::kNone) row = others[d];
        }
      }
    }
    all.push_back(std::move(rows));
  }
  return rejoined;
}

std::vector<Slices> slices_of(const ir::Program& program, const std::vector<Dims>& shapes,
                              const std::vector<bool>& reduces, const std::vector<ir::Value>& rejoined,
                              Repeats repeats) {
  return Sweep(program, shapes, reduces, rejoined, repeats).run();
}

std::vector<Side> sides_through(const Dims& all, const std::array<Dims, 2>& shapes, int axis, const Steps& steps) {
  const DimensionMap whole = DimensionMap::whole(all);
  const int d = from_front(axis, all.size());
  // All of it is read at indices along another dimension.
  const auto* const indexed = steps.empty() ? nullptr : std::get_if<Indexed>(steps.data());
  const bool is_of_many =
      !steps.empty() && (std::holds_alternative<Repeated>(steps[0]) || std::holds_alternative<Unfolded>(steps[0]));
  const bool is_whole = steps.empty() || is_of_many || (indexed != nullptr && indexed->dimension != d);
  const auto* const map = is_whole ? &whole : std::get_if<DimensionMap>(steps.data());
  if (map == nullptr) return {};
  const auto taken = sides_of_joined(map->taken[static_cast<std::size_t>(d)], shapes[0][d], shapes[1][d]);
  const Steps then = is_whole ? steps : Steps(steps.begin() + 1, steps.end());
  std::vector<Side> sides;
  for (std::size_t k = 0; k < 2; ++k) {
    if (!taken[k]) continue;
    DimensionMap of_side = *map;
    of_side.taken[static_cast<std::size_t>(d)] = *taken[k];
    sides.push_back({k, joined(of_side, shapes[k], then)});
  }
  return sides;
}

bool have_one_size(const std::vector<std::vector<Taken>>& slices) {
  return std::ranges::all_of(slices, [&](const std::vector<Taken>& taken) {
    return std::ranges::equal(taken, slices[0], {}, &Taken::count, &Taken::count);
  });
}

std::vector<std::vector<Taken>> all_of(const Slices& slices, std::size_t most) {
  std::vector<std::vector<Taken>> all = {{}};
  for (const std::vector<Taken>& cuts : slices) {
    std::vector<std::vector<Taken>> next;
    for (const std::vector<Taken>& before : all) {
      for (const Taken& cut : cuts) {
        next.push_back(before);
        next.back().push_back(cut);
      }
    }
    if (next.size() > most) return {};
    all = std::move(next);
  }
  return all;
}

std::optional<std::vector<Taken>> taken_before(const Node& node, const Dims& argument, const Dims& shape,
                                               const std::vector<Taken>& taken) {
  const bool is_empty = std::ranges::find(taken, 0, &Taken::count) != taken.end();
  if (is_empty) return std::nullopt;
  return node.op == Op::flatten ? before_flatten(node, argument, taken)
                                : before_unflatten(node, argument, shape, taken);
}

std::optional<std::vector<Taken>> taken_before_reduction(const Node& node, const Dims& argument, const Dims& shape,
                                                         const std::vector<Taken>& taken) {
  const bool is_to_other = node.arity() == 2;
  std::vector<Taken> all;
  int next = is_to_other ? shape.size() - argument.size() : 0;  // the dimension of the result
  const std::uint32_t mask = is_to_other ? 0 : reduced_dimensions(node, argument.size());
  for (int d = 0; d < argument.size(); ++d) {
    const bool is_reduced = is_to_other ? next < 0 || shape[next] != argument[d] : (mask >> d & 1U) != 0;
    const bool has_place = !is_reduced || is_to_other || node.shaping.keepdim;
    if (is_reduced && has_place && next >= 0 && taken[static_cast<std::size_t>(next)].count == 0) return std::nullopt;
    all.push_back(is_reduced ? Taken{0, 1, argument[d]} : taken[static_cast<std::size_t>(next)]);
    if (has_place) ++next;
  }
  return all;
}

std::optional<std::vector<Taken>> taken_before_repeat(const Node& node, const Dims& argument, const Dims& shape,
                                                      const std::vector<Taken>& taken) {
  const auto d = static_cast<std::size_t>(from_front(node.shaping.axes.at[0], shape.size()));
  const std::int64_t times = node.shaping.sizes[0];
  const Taken& one = taken[d];
  if (!repeats_all(node, argument, shape) || one.is_bounded() || one.step <= 0) return std::nullopt;
  if (one.count != 1 && one.step % times != 0) return std::nullopt;
  std::vector<Taken> all = taken;
  all[d] = {one.start / times, one.count == 1 ? 1 : one.step / times, one.count};
  return all;
}

}  // namespace epifuse::plan
