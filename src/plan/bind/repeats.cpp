// A repeated dimension is read as one at indices is: row (factor * position + shift) / times of it. No index is read,
// since the position of a mask gives it.
#include "plan/bind/repeats.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/bounds.hpp"
#include "plan/bind/shape_rules.hpp"

namespace epifuse::plan {

using ir::Op;
using Given = DimensionMap::Given;
using Taken = DimensionMap::Taken;

const Dims& repeated_shape(const ir::Node& node, const Dims& own, const Dims& other) {
  const int d = from_front(node.shaping.axes.at[0], other.size());
  bool fits = own.size() == other.size() && d >= 0 && d < other.size();
  for (int k = 0; fits && k < other.size(); ++k) fits = k == d || own[k] == other[k];
  if (!fits) {
    base::fail(ErrorCode::invalid_argument,
               "the arguments of '{}' have shapes {} and {}: they must have as many dimensions, and differ in "
               "dimension {} alone",
               ir::written_name(node), to_string(own), to_string(other), node.shaping.axes.at[0]);
  }
  return other;
}

Steps repeated_steps(const ir::Node& node, const Dims& own, const Dims& other, const Steps& then) {
  const int d = from_front(node.shaping.axes.at[0], other.size());
  const ir::Bounds::Repeat repeat{node.shaping.sizes[0], 1, node.shaping.sizes[1]};
  if (repeat.times != 1) return joined(Repeated{d, repeat, other}, other, then);
  DimensionMap map = DimensionMap::whole(own);
  map.taken[static_cast<std::size_t>(d)] = Taken{repeat.shift, 1, other[d]}.within(0, own[d]);
  map.given[static_cast<std::size_t>(d)].extent = other[d];
  return joined(std::move(map), own, then);
}

bool has_only_positions(const Steps& steps) {
  return std::ranges::all_of(steps, [](const ViewStep& step) {
    return std::holds_alternative<DimensionMap>(step) || std::holds_alternative<Repeated>(step) ||
           std::holds_alternative<Unfolded>(step);
  });
}

namespace {

// Positions along dimensions of what a path gives, as numbers of the chain.
class Positions {
 public:
  Positions(ir::Builder& builder, const Steps& steps, const std::function<ir::Value(int)>& iota)
      : builder_(builder), steps_(steps), iota_(iota) {}

  /// Along dimension d of what step `first` of the path is of.
  ir::Value before(std::size_t first, int d) {
    if (first == steps_.size()) {
      varies = true;
      return iota_(d);
    }
    const ViewStep& step = steps_[first];
    if (const auto* repeated = std::get_if<Repeated>(&step)) {
      const ir::Value made = before(first + 1, d);
      return repeated->dimension == d ? taken(made, repeated->repeat) : made;
    }
    if (const auto* unfolded = std::get_if<Unfolded>(&step)) {
      if (unfolded->dimension != d) return before(first + 1, d);
      const ir::Value windows = taken(before(first + 1, d), {1, unfolded->step, -unfolded->padding});
      return builder_.apply(Op::add, {windows, before(first + 1, unfolded->shape.size() - 1), ir::kNone});
    }
    const auto& map = std::get<DimensionMap>(step);
    const Taken& elements = map.taken[static_cast<std::size_t>(d)];
    const auto given = std::ranges::find(map.given, d, &Given::from);
    const bool goes = given == map.given.end();
    return taken(goes ? number(0) : before(first + 1, static_cast<int>(given - map.given.begin())),
                 {1, elements.step, elements.start});
  }

  bool varies = false;

 private:
  ir::Value number(std::int64_t one) { return builder_.constant(static_cast<double>(one), ir::Category::integer); }
  ir::Value apply(Op op, ir::Value a, std::int64_t b) { return builder_.apply(op, {a, number(b), ir::kNone}); }

  ir::Value taken(ir::Value made, const ir::Bounds::Repeat& way) {
    if (way.factor != 1) made = apply(Op::mul, made, way.factor);
    if (way.shift != 0) made = apply(Op::add, made, way.shift);
    if (way.times != 1) made = builder_.apply(Op::floor, {apply(Op::div, made, way.times), ir::kNone, ir::kNone});
    return made;
  }

  ir::Builder& builder_;
  const Steps& steps_;
  const std::function<ir::Value(int)>& iota_;
};

}  // namespace

std::pair<ir::Value, bool> positions_through(ir::Builder& builder, const Steps& steps, int d,
                                             const std::function<ir::Value(int)>& iota) {
  Positions positions(builder, steps, iota);
  const ir::Value made = positions.before(0, d);
  return {made, positions.varies};
}

std::optional<std::int64_t> remainder_of_places(const ir::Program& program, const std::vector<Dims>& shapes,
                                                ir::Value value, const Steps& steps) {
  const auto* const map = steps.size() == 1 ? std::get_if<DimensionMap>(steps.data()) : nullptr;
  const auto is = [&](ir::Value one, Op op) { return one != ir::kNone && program.node(one).op == op; };
  const auto argument = [&](ir::Value one, std::size_t k) { return program.node(one).args[k]; };
  if (map == nullptr || taking(map->taken) != *map || !is(value, Op::sub)) return std::nullopt;
  const ir::Value place = argument(value, 0);
  const ir::Value before = argument(value, 1);  // the multiple of `times` that is not above the place
  if (!is(place, Op::iota) || !is(before, Op::mul) || !is(argument(before, 0), Op::floor)) return std::nullopt;
  const ir::Value quotient = argument(argument(before, 0), 0);
  const ir::Value times = argument(before, 1);
  const bool is_remainder = is(quotient, Op::div) && argument(quotient, 0) == place && argument(quotient, 1) == times;
  if (!is_remainder || !is(times, Op::constant)) return std::nullopt;
  const auto count = static_cast<std::int64_t>(program.node(times).constant);
  const int rank = shapes[static_cast<std::size_t>(place)].size();
  const auto d = static_cast<std::size_t>(from_front(program.node(place).shaping.axes.at[0], rank));
  const Taken& taken = map->taken[d];
  if (count <= 0 || taken.is_bounded() || (taken.count != 1 && taken.step % count != 0)) return std::nullopt;
  return taken.start % count;
}

std::vector<std::pair<Lowered::Operand, Lowered::Operand::Gather>> repeated_dimensions(const Strided& strided) {
  std::vector<std::pair<Lowered::Operand, Lowered::Operand::Gather>> all;
  for (std::size_t d = 0; d < strided.dimensions.size(); ++d) {
    const Strided::Dimension& one = strided.dimensions[d];
    if (!one.repeat.exists()) continue;
    Lowered::Operand::Gather gather{.index = {}, .stride = one.row_stride, .extent = one.rows, .written = "repeat_as"};
    gather.computed = one.repeat;
    const auto behind = static_cast<int>(strided.dimensions.size() - 1 - d);
    all.emplace_back(mask_along(behind, one.extent, one.bounded ? one.first : 0, one.bounded ? one.count : one.extent),
                     gather);
  }
  for (const auto& [within, are_all, windows] : strided.within_windows()) {
    if (!windows->repeat.exists()) continue;
    Lowered::Operand::Gather gather{
        .index = {}, .stride = windows->row_stride, .extent = windows->rows, .written = "repeat_as"};
    gather.computed = windows->repeat;
    all.emplace_back(mask_of(strided.extents(), within), gather);
  }
  return all;
}

}  // namespace epifuse::plan
