// A result that 'cat' joins is written piece by piece. 'index_copy' is written as its source, whose pieces are elements
// of its destination; and 'scale_tiles' as its argument, of which each position has a place in the tiles.
#include "plan/bind/results.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"
#include "plan/bind/bounds.hpp"
#include "plan/bind/indices.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/slices.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;
using ir::Node;
using Taken = DimensionMap::Taken;
using AllTaken = std::vector<std::vector<Taken>>;

// Whether slices of a value of that shape are cut along a dimension.
bool takes_along(const AllTaken& slices, int dimension, const Dims& shape) {
  const Taken whole{0, 1, shape[dimension]};
  return std::ranges::any_of(slices, [&](const std::vector<Taken>& taken) {
    return !taken.empty() && taken[static_cast<std::size_t>(dimension)] != whole;
  });
}

// Kernels write slices without looking: one outside would be somebody else's memory.
void check_inside(const std::vector<Taken>& slice, const Dims& shape) {
  for (std::size_t d = 0; d < slice.size(); ++d) {
    const Taken& taken = slice[d];
    const std::int64_t last = taken.start + (taken.count - 1) * taken.step;
    if (taken.start < 0 || last >= shape[static_cast<int>(d)])
      throw std::logic_error("a slice of a result has elements that the result has not");
  }
}

// Makes `result`, a slice of the source of an 'index_copy', one of its destination.
void place_at_index(const ir::Program& program, std::span<const TensorView> inputs, const std::vector<Dims>& shapes,
                    ir::Value copy, Lowered::Result& result) {
  const ir::Node& node = program.node(copy);
  const Dims& destination_shape = shapes[static_cast<std::size_t>(copy)];
  const ir::Node& destination = program.node(node.args[0]);
  if (destination.op != ir::Op::input) {
    fail(unsupported, "'index_copy' writes into the memory of an operand; found '{}'. Pass that as an operand",
         plan::text_of(program, node.args[0]));
  }
  const auto operand = static_cast<std::size_t>(destination.ordinal);
  if (is_packed(inputs[operand].dtype)) {
    fail(unsupported,
         "'index_copy' writes into operand '{}' of the type {}, of which a byte holds two: write the bytes "
         "in a launch of their own",
         program.inputs()[operand], to_string(inputs[operand].dtype));
  }
  const auto index = static_cast<std::size_t>(program.node(source_of_index(program, node, node.args[1])).ordinal);
  check_index_type(node, program.inputs()[index], inputs[index].dtype);
  const int dimension = indexed_dimension(node, destination_shape.size());
  result.shape = destination_shape;
  if (!result.taken.empty()) result.taken[static_cast<std::size_t>(dimension)] = {0, 1, destination_shape[dimension]};
  const Dims& own = shapes[static_cast<std::size_t>(node.args[2])];
  result.placed = {.destination = operand,
                   .operand = program.inputs()[operand],
                   .shape = own,
                   .along = {{dimension}},
                   .own = {},
                   .written = "index_copy"};
  for (int d = 0; d < own.size(); ++d) result.placed->own.push_back(d == dimension ? ir::kNone : d);
}

// Scale (i, j) is element [i / 128, j / 4, i % 32, i / 32 % 4, j % 4] of the tiles. The innermost digits of i and j
// come first: how far apart they lie says how the kernel goes over them.
void place_in_tiles(const Dims& scales, const Dims& tiles, Lowered::Result& result) {
  const auto digit = [](int dimension, int position, std::int64_t divisor, std::int64_t modulus) {
    return Lowered::Result::Placed::Along{
        .dimension = dimension, .computed = {.times = divisor, .modulus = modulus}, .position = position};
  };
  result.shape = tiles;
  result.placed = {
      .destination = std::nullopt,
      .operand = {},
      .shape = scales,
      .along = {digit(2, 0, 1, 32), digit(3, 0, 32, 4), digit(0, 0, 128, 0), digit(4, 1, 1, 4), digit(1, 1, 4, 0)},
      .own = {ir::kNone, ir::kNone},
      .written = "scale_tiles"};
}

// Slices of several sizes are no one kernel's: then each element is read from the argument that has it.
bool generates_or_reduces(const ir::Program& program, const std::vector<bool>& reduces) {
  return std::ranges::any_of(program.nodes(), [](const Node& n) { return ir::is_generated(n.op); }) ||
         std::ranges::find(reduces, true) != reduces.end();
}

// Whether a chain repeats elements, and may write them to each place. Where there are reductions, what is computed from
// one is written so and the rest is read (Repeats). Random numbers are drawn for whole values alone.
bool may_write_repeats(const ir::Program& program, const std::vector<bool>& reduces) {
  const auto is = [&](ir::Op op) {
    return std::ranges::any_of(program.nodes(), [op](const ir::Node& n) { return n.op == op; });
  };
  return is(ir::Op::repeat_as) && !is(ir::Op::rand_like) && std::ranges::find(reduces, true) == reduces.end();
}

// Of such a chain whose results are these slices, as the gradient of a mean pool: whether it writes a value to each
// place that repeats it. Then it is computed once, and slices that take turns are written in runs.
// Rows of an odd number of elements have no runs: there each place reads what it repeats.
bool writes_repeats(const ir::Program& program, const std::vector<Slices>& slices) {
  constexpr std::size_t kMostPlaces = 16;
  std::vector<std::int64_t> counts;
  for (const ir::Result& result : program.results()) {
    const ir::Node& root = program.node(result.value);
    if (ir::is_placed(root.op)) return false;
    const AllTaken all = all_of(slices[static_cast<std::size_t>(result.value)], kMostPlaces);
    if (all.size() < 2 || !have_one_size(all)) return false;
    std::vector<std::int64_t> own;
    for (const Taken& taken : all[0]) {
      if (taken.step > kMostRunStep) return false;
      own.push_back(taken.count);
    }
    if (own.back() % 2 != 0 || (!counts.empty() && own != counts)) return false;
    counts = own;
  }
  return true;
}

}  // namespace

std::vector<WrittenValue> written_values(const ir::Program& program, std::span<const TensorView> inputs,
                                         const std::vector<Dims>& shapes, const std::vector<bool>& reduces,
                                         const std::vector<ir::Value>& rejoined, Slicing slicing) {
  std::vector<Slices> slices;
  if (may_write_repeats(program, reduces)) slices = slices_of(program, shapes, reduces, rejoined, Repeats::written);
  if (slices.empty() || !writes_repeats(program, slices)) slices = slices_of(program, shapes, reduces, rejoined);
  const auto shape = [&](ir::Value value) -> const Dims& { return shapes[static_cast<std::size_t>(value)]; };
  const auto op = [&](ir::Value value) { return program.node(value).op; };
  const auto written = [&](ir::Value value) {
    const ir::Node& n = program.node(value);
    return n.op == ir::Op::index_copy ? n.args[2] : n.op == ir::Op::scale_tiles ? n.args[0] : value;
  };
  // Whether the pieces of a result are cut along a dimension in which something says where its elements lie.
  const auto is_cut_where_placed = [&](ir::Value value, const AllTaken& all) {
    const Dims& own = shape(written(value));
    if (op(value) == ir::Op::scale_tiles) return takes_along(all, 0, own) || takes_along(all, 1, own);
    return op(value) == ir::Op::index_copy &&
           takes_along(all, indexed_dimension(program.node(value), shape(value).size()), own);
  };
  const bool is_pointwise = !generates_or_reduces(program, reduces);
  // Some index's dimension is: then all results of a pointwise chain are whole, as its kernels have one shape.
  bool is_cut = false;
  std::vector<AllTaken> taken;
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    const ir::Value value = program.results()[i].value;
    AllTaken& all = taken.emplace_back(all_of(slices[static_cast<std::size_t>(written(value))], kMostSlices));
    if (all.empty()) refuse_slices(program.result_name(i), kMostSlices);
    const bool is_cut_here = is_cut_where_placed(value, all);
    const bool is_uneven = all.size() > 1 && is_pointwise && !have_one_size(all);
    if (is_cut_here || is_uneven || slicing == Slicing::whole) all = {{}};
    is_cut = is_cut || is_cut_here;
  }
  std::vector<WrittenValue> values;
  for (std::size_t i = 0; i < taken.size(); ++i) {
    const ir::Value value = program.results()[i].value;
    const Dims& own = shape(written(value));
    if (is_cut && is_pointwise) taken[i] = {{}};
    const std::string name = program.result_name(i);
    for (const std::vector<Taken>& one : taken[i]) {
      WrittenValue& made = values.emplace_back(WrittenValue{written(value), {}, {i, own, {}, name}});
      if (taken[i].size() > 1) {
        check_inside(one, own);
        made.through = joined(taking(one), own, {});
        made.is.taken = one;
        made.is.text = plan::text_of(name, own, made.through);
      }
      if (op(value) == ir::Op::index_copy) place_at_index(program, inputs, shapes, value, made.is);
      if (op(value) == ir::Op::scale_tiles) place_in_tiles(own, shape(value), made.is);
    }
  }
  return values;
}

std::vector<ir::Scatter> scatters_of(const Lowered& lowered) {
  std::vector<ir::Scatter> all;
  if (std::ranges::none_of(lowered.results, [](const auto& result) { return result.placed.has_value(); })) return all;
  const std::vector<std::string>& names = lowered.program.inputs();
  for (const Lowered::Result& result : lowered.results) {
    ir::Scatter& scatter = all.emplace_back();
    if (!result.placed) continue;
    for (const Lowered::Result::Placed::Along& along : result.placed->along) {
      const auto index = std::ranges::find(names, along.index) - names.begin();
      scatter.along.push_back({along.dimension, static_cast<int>(index), along.computed});
    }
    scatter.shape.assign(result.placed->shape.begin(), result.placed->shape.end());
    scatter.own = result.placed->own;
    scatter.written = result.placed->written;
  }
  return all;
}

}  // namespace epifuse::plan
