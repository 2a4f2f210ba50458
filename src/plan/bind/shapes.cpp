// One pass over the program gives shapes, by shape_rules.hpp, and identifies dimensions, for which axes.hpp keeps the
// axes.
#include "plan/bind/shapes.hpp"

#include <algorithm>
#include <optional>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/result_types.hpp"
#include "plan/bind/axes.hpp"
#include "plan/bind/axis_numbers.hpp"
#include "plan/bind/block_scales.hpp"
#include "plan/bind/indices.hpp"
#include "plan/bind/products.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/space.hpp"
#include "plan/bind/united_rows.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using ir::Program;
using enum ErrorCode;

class Inference {
 public:
  Inference(const Program& program, std::span<const TensorView> inputs) : program_(program), inputs_(inputs) {}

  Shapes run() {
    infer();
    unite_rows(program_, table_, std::span(values_.begin(), values_.size()));
    return collect();
  }

  // Views may be any: what they name are dimensions of their own.
  std::vector<Dims> run_for_shapes() {
    only_shapes_ = true;
    infer();
    std::vector<Dims> shapes;
    for (const Shaped& shaped : values_) shapes.push_back(shaped.shape);
    return shapes;
  }

 private:
  void infer() {
    check_scaled_factors(program_);
    for (const Node& node : program_.nodes()) {
      values_.push_back(shape_of(node));
      check_elements(node, values_.back().shape);
    }
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const ir::Value value = program_.results()[i].value;
      if (const ir::Scatter* scatter = program_.scatter_of(i)) share_places(value, *scatter);
    }
  }

  const Shaped& value(ir::Value v) const { return values_[static_cast<std::size_t>(v)]; }

  Shaped shape_of(const Node& node) {
    counts_.push_back(1);
    if (node.op == Op::input) return operand(node);
    if (node.op == Op::scalar || node.op == Op::constant) return {};
    if (node.op == Op::count) return counted(node);
    if (node.op == Op::cast || node.op == Op::rand_like) return value(node.args[0]);
    if (node.op == Op::iota) return numbered(node);
    if (node.op == Op::cat) return joined(node);
    if (ir::is_product(node.op)) return multiplied(node);
    if (node.op == Op::block_scaled) return fresh(value(node.args[0]).shape);
    if (node.op == Op::index_copy) return copied_into(node);
    if (node.op == Op::scale_tiles) return tiled(node);
    if (ir::is_indexing(node.op) || node.op == Op::repeat_as) return indexed(node);
    if (ir::is_reduction(node.op)) return node.arity() == 2 ? summed_to(node) : reduced(node);
    if (node.op == Op::unflatten) return unflattened(node);
    if (node.op == Op::flatten) return flattened(node);
    if (node.op == Op::along) return lay_along(node);
    if (node.op == Op::expand_as) return expanded(node);
    if (node.op == Op::unsqueeze_as) return unsqueezed(node);
    if (node.op == Op::reshape_as) return reshaped(node);
    if (node.op == Op::view) return viewed(node);
    return broadcast(node);
  }

  Shaped operand(const Node& node) {
    const auto ordinal = static_cast<std::size_t>(node.ordinal);
    if (program_.bounds().empty()) return fresh(inputs_[ordinal].shape);
    const ir::Bounds& bounds = program_.bounds()[ordinal];
    if (bounds.kind == ir::Bounds::Kind::inside) return asked(node.ordinal);
    Shaped shaped = fresh(inputs_[ordinal].shape);
    for (const int mask : bounds.masks()) share_positions(node, shaped, mask);
    for (const ir::Bounds::Gather& gather : bounds.gathers) {
      if (!gather.computed.exists()) share_dimensions(node, shaped, gather.index);
    }
    return shaped;
  }

  // A mask is of one dimension of what asks it, or of two of windows.
  void share_positions(const Node& node, const Shaped& shaped, int mask) {
    const Shaped& positions = asked(mask);
    const int first = shaped.shape.size() - positions.shape.size();
    for (int d = 0; d < positions.shape.size(); ++d) {
      if (positions.axis(d) != kNoAxis && !table_.identify(shaped.axis(first + d), positions.axis(d)))
        refuse_split(node, positions.shape[d]);
    }
  }

  void share_places(ir::Value result, const ir::Scatter& scatter) {
    const Node& node = program_.node(result);
    for (const ir::Scatter::Along& along : scatter.along) {
      if (along.computed.exists())
        share_positions(node, value(result), along.index);
      else
        share_dimensions(node, value(result), along.index);
    }
  }

  // What is read or written where an index says has the index's dimensions.
  void share_dimensions(const Node& node, const Shaped& shaped, int index) {
    const Shaped& of_index = asked(index);
    for (int d = 0; d < of_index.shape.size(); ++d) {
      if (of_index.axis(d) != kNoAxis && !table_.identify(shaped.axis(d), of_index.axis(d)))
        refuse_split(node, of_index.shape[d]);
    }
  }

  Shaped fresh(const Dims& shape) {
    Shaped shaped;
    for (const std::int64_t extent : shape) shaped.push_back(extent, extent == 1 ? kNoAxis : table_.fresh(extent));
    return shaped;
  }

  // Operands that are read at the same index have its dimensions, and those that exist at the same positions have
  // these.
  const Shaped& asked(int operand) {
    asked_.resize(inputs_.size());
    std::optional<Shaped>& shaped = asked_[static_cast<std::size_t>(operand)];
    if (!shaped) shaped = fresh(inputs_[static_cast<std::size_t>(operand)].shape);
    return *shaped;
  }

  // Every dimension is one of its own: lower() says where the value is read.
  Shaped indexed(const Node& node) {
    return fresh(indexed_shape(node, value(node.args[0]).shape, value(node.args[1]).shape));
  }

  // The output is the operand's memory; lower() says what of it is written.
  Shaped copied_into(const Node& node) {
    const auto shape = [&](std::size_t k) -> const Dims& { return value(node.args[k]).shape; };
    check_copied(node, shape(0), shape(1), shape(2));
    return fresh(shape(0));
  }

  // The same of scales in tiles.
  Shaped tiled(const Node& node) { return fresh(tiled_shape(value(node.args[0]).shape)); }

  Shaped broadcast(const Node& node) {
    int rank = 0;
    for (int i = 0; i < node.arity(); ++i)
      rank = std::max(rank, value(node.args[static_cast<std::size_t>(i)]).shape.size());
    Shaped result;
    for (int d = 0; d < rank; ++d) {
      std::int64_t extent = 1;
      int axis = kNoAxis;
      for (int i = 0; i < node.arity(); ++i) {
        const Shaped& arg = value(node.args[static_cast<std::size_t>(i)]);
        const int own = d - (rank - arg.shape.size());
        if (own < 0 || arg.shape[own] == 1) continue;
        if (axis != kNoAxis && arg.shape[own] != extent) refuse_broadcast(node);
        if (axis != kNoAxis && !table_.identify(axis, arg.axis(own))) refuse_split(node, extent);
        extent = arg.shape[own];
        // Without elements two axes may stay apart: the plainer one is no product of others that the result has.
        const bool is_plainer =
            axis == kNoAxis || extent != 0 || table_.subaxes(arg.axis(own)).size() < table_.subaxes(axis).size();
        if (is_plainer) axis = arg.axis(own);
      }
      result.push_back(extent, axis);
    }
    return result;
  }

  [[noreturn]] void refuse_broadcast(const Node& node) const {
    std::vector<std::string> shapes;
    for (int i = 0; i < node.arity(); ++i)
      shapes.push_back(to_string(value(node.args[static_cast<std::size_t>(i)]).shape));
    fail(invalid_argument,
         "the arguments of '{}' have shapes {}, which do not broadcast: extents must be equal or 1, counted from the "
         "last dimension{}",
         ir::written_name(node), fmt::join(shapes, " and "),
         uses_reduction(node) ? " (a reduction without keepdim=true drops its dimensions)" : "");
  }

  bool uses_reduction(const Node& node) const {
    for (int i = 0; i < node.arity(); ++i) {
      if (ir::is_reduction(program_.node(node.args[static_cast<std::size_t>(i)]).op)) return true;
    }
    return false;
  }

  [[noreturn]] static void refuse_split(const Node& node, std::int64_t extent) {
    fail(unsupported,
         "the arguments of '{}' split a dimension of {} in ways that do not fit into each other, so they cannot be one "
         "kernel: "
         "make it two chains",
         ir::written_name(node), extent);
  }

  // The most that f32 counts to.
  static constexpr std::int64_t kMostPositions = std::int64_t{1} << 24;

  Shaped numbered(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const int dimension = resolve_axis(node, node.shaping.axes.at[0], arg.shape.size());
    if (arg.shape[dimension] > kMostPositions)
      fail(unsupported, "'{}' counts the {} elements of dimension {}; f32 counts to 2^24", ir::written_name(node),
           arg.shape[dimension], dimension);
    counts_.back() = arg.shape[dimension];
    return arg;
  }

  // What stands side by side along the dimension is a dimension of its own: lower() takes 'cat' apart.
  Shaped joined(const Node& node) {
    return fresh(joined_shape(node, value(node.args[0]).shape, value(node.args[1]).shape));
  }

  // Nothing iterates over the dimensions of a product and of its factors at once: its own are new ones.
  Shaped multiplied(const Node& node) {
    for (std::size_t side = 0; side < 2; ++side) {
      const Node& factor = program_.node(node.args[side]);
      if (factor.op == Op::block_scaled)
        check_scale(node, side, value(factor.args[0]).shape, value(factor.args[1]).shape);
    }
    return fresh(shape_of_product(node, value(node.args[0]).shape, value(node.args[1]).shape));
  }

  Shaped reduced(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const std::uint32_t mask = reduced_dimensions(node, arg.shape.size());
    Shaped result;
    std::int64_t count = 1;
    for (int d = 0; d < arg.shape.size(); ++d) {
      if ((mask >> d & 1U) == 0) {
        result.push_back(arg.shape[d], arg.axis(d));
        continue;
      }
      count *= arg.shape[d];
      if (node.shaping.keepdim) result.push_back(1, kNoAxis);
    }
    counts_.back() = count;
    if (count == 0 && ir::is_extreme(node.op)) {
      fail(invalid_argument,
           "'{}' reduces a dimension without elements (its argument has shape {}), and has no value then",
           ir::written_name(node), to_string(arg.shape));
    }
    return result;
  }

  Shaped unflattened(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const int dimension = resolve_axis(node, node.shaping.axes.at[0], arg.shape.size());
    const auto [outer, inner] = split_extents(node, arg.shape, dimension);
    int outer_axis = arg.axis(dimension);
    int inner_axis = arg.axis(dimension);
    if (outer != 1 && inner != 1) {
      outer_axis = table_.fresh(outer);
      inner_axis = table_.fresh(inner);
      if (!table_.identify(table_.joined(outer_axis, inner_axis), arg.axis(dimension)))
        refuse_split(node, arg.shape[dimension]);
    }
    Shaped result;
    for (int d = 0; d < arg.shape.size(); ++d) {
      if (d != dimension) {
        result.push_back(arg.shape[d], arg.axis(d));
        continue;
      }
      result.push_back(outer, outer_axis);
      result.push_back(inner, inner_axis);
    }
    return result;
  }

  Shaped flattened(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const int rank = arg.shape.size();
    const int first = resolve_axis(node, static_cast<int>(node.shaping.sizes[0]), rank);
    const int last = resolve_axis(node, static_cast<int>(node.shaping.sizes[1]), rank);
    if (first > last)
      fail(invalid_argument, "'flatten' merges dimensions {} to {}: the first stands behind the last", first, last);
    Shaped result;
    for (int d = 0; d < first; ++d) result.push_back(arg.shape[d], arg.axis(d));
    std::int64_t extent = 1;
    int axis = kNoAxis;
    for (int d = last; d >= first; --d) {
      if (arg.shape[d] == 1) continue;
      extent *= arg.shape[d];
      axis = axis == kNoAxis ? arg.axis(d) : table_.joined(arg.axis(d), axis);
    }
    result.push_back(extent, axis);
    for (int d = last + 1; d < rank; ++d) result.push_back(arg.shape[d], arg.axis(d));
    return result;
  }

  Shaped lay_along(const Node& node) {
    const Shaped& vector = value(node.args[0]);
    const Shaped& other = value(node.args[1]);
    const int dimension = resolve_axis(node, node.shaping.axes.at[0], other.shape.size());
    if (vector.shape.size() > 1) {
      fail(invalid_argument, "'{}' lays a vector along a dimension; found the shape {}", ir::written_name(node),
           to_string(vector.shape));
    }
    Shaped result;
    for (int d = 0; d < other.shape.size(); ++d) {
      const bool here = d == dimension && !vector.shape.empty();
      result.push_back(here ? vector.shape[0] : 1, here ? vector.axis(0) : kNoAxis);
    }
    return result;
  }

  // ---- what gradients are made of

  Shaped counted(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const std::uint32_t mask = reduced_dimensions(node, arg.shape.size());
    for (int d = 0; d < arg.shape.size(); ++d) counts_.back() *= (mask >> d & 1U) != 0 ? arg.shape[d] : 1;
    return {};
  }

  // The dimension of `other` that dimension `d` of `arg` is, counted from the back.
  static int counterpart(const Shaped& arg, int d, const Shaped& other) {
    return d - (arg.shape.size() - other.shape.size());
  }

  Shaped summed_to(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const Shaped& other = value(node.args[1]);
    Shaped result;
    for (int d = 0; d < arg.shape.size(); ++d) {
      const int own = counterpart(arg, d, other);
      const bool is_there = own >= 0 && other.shape[own] == arg.shape[d];
      if (own >= 0 && !is_there && other.shape[own] != 1) refuse_sum_to(node);
      if (is_there && !same_axis(arg.axis(d), other.axis(own))) refuse_split(node, arg.shape[d]);
      if (!is_there) counts_.back() *= arg.shape[d];
      if (own >= 0) result.push_back(is_there ? arg.shape[d] : 1, is_there ? arg.axis(d) : kNoAxis);
    }
    if (other.shape.size() > arg.shape.size()) refuse_sum_to(node);
    return result;
  }

  [[noreturn]] void refuse_sum_to(const Node& node) const {
    fail(invalid_argument, "'{}' cannot sum a value of shape {} to the shape {}: this does not broadcast to that",
         ir::written_name(node), to_string(value(node.args[0]).shape), to_string(value(node.args[1]).shape));
  }

  bool same_axis(int a, int b) { return a == kNoAxis || b == kNoAxis || table_.identify(a, b); }

  Shaped expanded(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    Shaped result = value(node.args[1]);
    for (int d = 0; d < arg.shape.size(); ++d) {
      const int own = counterpart(arg, d, result);
      if (own >= 0 && arg.shape[d] == 1) continue;
      if (own < 0 || result.shape[own] != arg.shape[d]) refuse_expand(node);
      if (!same_axis(arg.axis(d), result.axis(own))) refuse_split(node, arg.shape[d]);
    }
    return result;
  }

  [[noreturn]] void refuse_expand(const Node& node) const {
    fail(invalid_argument, "'{}' cannot give a value of shape {} the shape {}: it does not broadcast to that",
         ir::written_name(node), to_string(value(node.args[0]).shape), to_string(value(node.args[1]).shape));
  }

  Shaped reshaped(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const Shaped& other = value(node.args[1]);
    if (element_count(arg.shape) != element_count(other.shape)) {
      fail(invalid_argument, "'{}' cannot give a value of shape {} the shape {}: that has another number of elements",
           ir::written_name(node), to_string(arg.shape), to_string(other.shape));
    }
    if (!same_axis(whole(arg), whole(other))) refuse_split(node, element_count(arg.shape));
    return other;
  }

  Shaped viewed(const Node& node) {
    const Shaped arg = value(node.args[0]);
    const ViewStep step = resolve(program_, node, arg.shape);
    Shaped result;
    if (const auto* shape = std::get_if<Dims>(&step)) {
      result = fresh(*shape);
      if (!only_shapes_ && !same_axis(whole(arg), whole(result))) refuse_split(node, element_count(arg.shape));
      return result;
    }
    if (const auto* unfolded = std::get_if<Unfolded>(&step)) return fresh(unfolded->shape);
    const auto& map = std::get<DimensionMap>(step);
    for (const DimensionMap::Given& given : map.given) {
      const bool is_whole =
          given.from != DimensionMap::Given::kRepeated && !only_shapes_ &&
          map.taken[static_cast<std::size_t>(given.from)] == DimensionMap::Taken{0, 1, arg.shape[given.from]};
      result.push_back(given.extent, is_whole ? arg.axis(given.from) : table_.fresh(given.extent));
    }
    return result;
  }

  // All dimensions as one.
  int whole(const Shaped& shaped) {
    int axis = kNoAxis;
    for (int d = shaped.shape.size(); d-- > 0;) {
      if (shaped.axis(d) != kNoAxis) axis = axis == kNoAxis ? shaped.axis(d) : table_.joined(shaped.axis(d), axis);
    }
    return axis;
  }

  Shaped unsqueezed(const Node& node) {
    const Shaped& arg = value(node.args[0]);
    const Shaped& other = value(node.args[1]);
    const std::uint32_t mask = reduced_dimensions(node, other.shape.size());
    Shaped result;
    int next = 0;
    for (int d = 0; d < other.shape.size(); ++d) {
      if ((mask >> d & 1U) != 0) {
        result.push_back(1, kNoAxis);
        continue;
      }
      if (next == arg.shape.size() || (arg.shape[next] != other.shape[d] && arg.shape[next] != 1))
        refuse_unsqueeze(node);
      if (!same_axis(arg.axis(next), other.axis(d))) refuse_split(node, arg.shape[next]);
      result.push_back(arg.shape[next], arg.axis(next));
      ++next;
    }
    if (next != arg.shape.size()) refuse_unsqueeze(node);
    return result;
  }

  [[noreturn]] void refuse_unsqueeze(const Node& node) const {
    fail(invalid_argument,
         "'{}' takes what a reduction of shape {} over axis={} gives without keepdim; found the shape {}",
         ir::written_name(node), to_string(value(node.args[1]).shape), ir::print_axes(node.shaping.axes),
         to_string(value(node.args[0]).shape));
  }

  // ---- from identified dimensions to numbered axes

  Shapes collect() {
    Shapes shapes;
    AxisNumbers numbers(program_, table_);
    shapes.counts = counts_;
    const auto computed = computed_values(program_);
    for (std::size_t i = 0; i < values_.size(); ++i) {
      shapes.values.push_back(values_[i].shape);
      shapes.spans.push_back(computed[i] ? numbers.span_of(static_cast<ir::Value>(i), values_[i])
                                         : 0);  // of a mere shape nothing is iterated over
    }
    shapes.axes = numbers.extents();
    shapes.inputs.resize(program_.operand_count());
    for (std::size_t i = 0; i < values_.size(); ++i) {
      const Node& node = program_.nodes()[i];
      if (ir::is_operand(node.op) && computed[i])
        shapes.inputs[static_cast<std::size_t>(node.ordinal)] = numbers.places_of(values_[i]);
    }
    const std::vector<ir::Bounds>& bounds = program_.bounds();
    for (std::size_t i = 0; i < asked_.size(); ++i)
      if (bounds[i].kind == ir::Bounds::Kind::index && asked_[i]) shapes.inputs[i] = numbers.places_of(*asked_[i]);
    for (std::size_t i = 0; i < bounds.size(); ++i) {
      for (const int mask : shapes.inputs[i].count == 0 ? std::vector<int>() : bounds[i].masks())
        shapes.inputs[static_cast<std::size_t>(mask)] = numbers.places_of(asked(mask));
    }
    for (const ir::Scatter& scatter : program_.scatters()) {
      for (const ir::Scatter::Along& along : scatter.along)
        shapes.inputs[static_cast<std::size_t>(along.index)] = numbers.places_of(asked(along.index));
    }
    for (const ir::Result& result : program_.results())
      shapes.results.push_back(numbers.places_of(value(result.value)));
    return shapes;
  }

  const Program& program_;
  std::span<const TensorView> inputs_;
  bool only_shapes_ = false;
  AxisTable table_;
  base::InlineVector<Shaped, 32> values_;
  std::vector<std::optional<Shaped>> asked_;  // by operand: those that say where others are read, and where they exist
  base::InlineVector<std::int64_t, 32> counts_;
};

}  // namespace

std::string text_of(const Program& program, const Node& node) {
  if (node.op == Op::input) return program.operand_text(static_cast<std::size_t>(node.ordinal));
  if (node.op == Op::scalar) return program.scalars()[static_cast<std::size_t>(node.ordinal)];
  if (node.op == Op::constant) return ir::print_number(node.constant, ir::category_of(node.dtype));
  const ir::View* const view = program.view_of(node);
  if (view == nullptr || ir::is_within_call(node, *view)) {
    const std::string_view name = ir::written_name(node);
    return std::string(name) + (name.find(' ') == name.npos ? "(…)" : "");  // "the gradient of softmax" is no call
  }
  // Of a view of a view of … only the last few are told.
  const Node& arg = program.node(node.args[0]);
  const bool is_deep = arg.op == Op::view && program.node(arg.args[0]).op == Op::view;
  return ir::print_view(*view, is_deep ? "…" : text_of(program, arg));
}

Shapes infer_shapes(const Program& program, std::span<const TensorView> inputs) {
  return Inference(program, inputs).run();
}

std::vector<Dims> value_shapes(const Program& program, std::span<const TensorView> inputs) {
  return Inference(program, inputs).run_for_shapes();
}

}  // namespace epifuse::plan
