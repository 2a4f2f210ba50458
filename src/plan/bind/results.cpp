// A result that 'cat' joins is written piece by piece. 'index_copy' is written as its source, whose pieces are elements
// of its destination.
#include "plan/bind/results.hpp"

#include <algorithm>

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

constexpr std::size_t kMostSlices = 64;  // of one result: each is an output of the kernel

// Whether slices of a value of that shape are cut along a dimension.
bool takes_along(const AllTaken& slices, int dimension, const Dims& shape) {
  const Taken whole{0, 1, shape[dimension]};
  return std::ranges::any_of(slices, [&](const std::vector<Taken>& taken) {
    return !taken.empty() && taken[static_cast<std::size_t>(dimension)] != whole;
  });
}

// Makes `result`, a slice of the source of an 'index_copy', one of its destination.
void place(const ir::Program& program, std::span<const TensorView> inputs, const std::vector<Dims>& shapes,
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
  result.placed = {
      operand, program.inputs()[operand], dimension, shapes[static_cast<std::size_t>(node.args[2])][dimension], {}};
}

// Slices of several sizes are no one kernel's: then each element is read from the argument that has it.
bool generates_or_reduces(const ir::Program& program, const std::vector<bool>& reduces) {
  return std::ranges::any_of(program.nodes(), [](const Node& n) { return ir::is_generated(n.op); }) ||
         std::ranges::find(reduces, true) != reduces.end();
}

}  // namespace

std::vector<WrittenValue> written_values(const ir::Program& program, std::span<const TensorView> inputs,
                                         const std::vector<Dims>& shapes, const std::vector<bool>& reduces,
                                         const std::vector<ir::Value>& rejoined) {
  const std::vector<Slices> slices = slices_of(program, shapes, reduces, rejoined);
  const auto shape = [&](ir::Value value) -> const Dims& { return shapes[static_cast<std::size_t>(value)]; };
  const auto is_placed = [&](ir::Value value) { return program.node(value).op == ir::Op::index_copy; };
  const auto written = [&](ir::Value value) { return is_placed(value) ? program.node(value).args[2] : value; };
  const bool is_pointwise = !generates_or_reduces(program, reduces);
  // Some index's dimension is: then all results of a pointwise chain are whole, as its kernels have one shape.
  bool is_cut = false;
  std::vector<AllTaken> taken;
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    const ir::Value value = program.results()[i].value;
    AllTaken& all = taken.emplace_back(all_of(slices[static_cast<std::size_t>(written(value))], kMostSlices));
    if (all.empty()) refuse_slices(program.result_name(i), kMostSlices);
    const bool is_cut_here =
        is_placed(value) &&
        takes_along(all, indexed_dimension(program.node(value), shape(value).size()), shape(written(value)));
    if (is_cut_here || (all.size() > 1 && is_pointwise && !have_one_size(all))) all = {{}};
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
        made.through = joined(taking(one), own, {});
        made.is.taken = one;
        made.is.text = plan::text_of(name, own, made.through);
      }
      if (is_placed(value)) place(program, inputs, shapes, value, made.is);
    }
  }
  return values;
}

std::vector<ir::Scatter> scatters_of(const Lowered& lowered, std::span<const TensorView> inputs) {
  std::vector<ir::Scatter> all;
  if (std::ranges::none_of(lowered.results, [](const auto& result) { return result.placed.has_value(); })) return all;
  const std::vector<std::string>& names = lowered.program.inputs();
  for (const Lowered::Result& result : lowered.results) {
    ir::Scatter& scatter = all.emplace_back();
    if (!result.placed) continue;
    const TensorView& destination = inputs[result.placed->destination];
    const int d = result.placed->dimension;
    scatter = {static_cast<int>(std::ranges::find(names, result.placed->index) - names.begin()), d,
               result.placed->count, destination.strides[d], destination.shape[d]};
  }
  return all;
}

}  // namespace epifuse::plan
