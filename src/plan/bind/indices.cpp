// 'take', 'index_select' and 'gather' differ in which dimensions of the result are the index's: the first two have all
// of these in the place of the table's dimension, the last one has the index's and no others.
#include "plan/bind/indices.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/compute_type.hpp"
#include "plan/bind/repeats.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;
using Given = DimensionMap::Given;

}  // namespace

int indexed_dimension(const ir::Node& node, int rank) {
  const int axis = node.shaping.axes.at[0];
  if (axis < -rank || axis >= rank) {
    fail(invalid_argument, "'{}' {} dimension {} at indices, but its argument has {} dimension{}",
         ir::written_name(node), node.op == ir::Op::index_copy ? "writes" : "reads", axis, rank, rank == 1 ? "" : "s");
  }
  return from_front(axis, rank);
}

Dims indexed_shape(const ir::Node& node, const Dims& table, const Dims& index) {
  if (node.op == ir::Op::repeat_as) return repeated_shape(node, table, index);
  const int dimension = indexed_dimension(node, table.size());
  if (node.op != ir::Op::gather) {
    if (table.size() - 1 + index.size() > kMaxRank) {
      fail(invalid_argument, "'{}' would give a value of {} dimensions; at most {} are supported",
           ir::written_name(node), table.size() - 1 + index.size(), kMaxRank);
    }
    Dims result;
    for (int d = 0; d < table.size(); ++d) {
      if (d != dimension) result.push_back(table[d]);
      for (int k = 0; d == dimension && k < index.size(); ++k) result.push_back(index[k]);
    }
    return result;
  }
  bool fits = index.size() == table.size();
  for (int d = 0; fits && d < table.size(); ++d) fits = d == dimension || index[d] <= table[d];
  if (!fits) {
    fail(invalid_argument,
         "the arguments of '{}' have shapes {} and {}: the index must have as many dimensions, and no more elements in "
         "any but dimension {}",
         ir::written_name(node), to_string(table), to_string(index), node.shaping.axes.at[0]);
  }
  return index;
}

Steps table_steps(const ir::Program& program, ir::Value value, const IndexedShapes& shapes, const std::string& text,
                  const Steps& then) {
  const ir::Node& node = program.node(value);
  const bool is_like_index = node.op == ir::Op::gather;
  Indexed indexed{.dimension = indexed_dimension(node, shapes.table.size()),
                  .count = is_like_index ? 1 : shapes.index.size(),
                  .shape = shapes.result,
                  .operation = value,
                  .text = text,
                  .is_like_index = is_like_index};
  const int dimension = indexed.dimension;
  const Steps at_indices = joined(std::move(indexed), shapes.result, then);
  if (!is_like_index) return at_indices;
  // Of the other dimensions as many elements as the index has.
  std::vector<DimensionMap::Taken> taken;
  for (int d = 0; d < shapes.table.size(); ++d)
    taken.push_back({0, 1, d == dimension ? shapes.table[d] : shapes.index[d]});
  return joined(taking(taken), shapes.table, at_indices);
}

Steps index_steps(const ir::Node& node, const IndexedShapes& shapes, const Steps& then) {
  if (node.op == ir::Op::gather) return then;
  const int dimension = indexed_dimension(node, shapes.table.size());
  DimensionMap map = DimensionMap::whole(shapes.index);
  map.given.clear();
  for (int d = 0; d < shapes.result.size(); ++d) {
    const int own = d - dimension;
    const bool has = own >= 0 && own < shapes.index.size();
    map.given.push_back(has ? Given{own, shapes.result[d]} : Given{Given::kRepeated, shapes.result[d], true});
  }
  return joined(std::move(map), shapes.index, then);
}

std::optional<Steps> beside_index(const Steps& steps, const Dims& own, const Dims& all) {
  const auto* const indexed = steps.empty() ? nullptr : std::get_if<Indexed>(&steps.back());
  if (indexed == nullptr || indexed->count != 1 || steps.size() > 2) return std::nullopt;
  const auto* const map = std::get_if<DimensionMap>(steps.data());
  if (steps.size() == 2 && (map == nullptr || taking(map->taken) != *map)) return std::nullopt;
  const int missing = all.size() - own.size();
  const int at = indexed->dimension - missing;
  if (all[indexed->dimension] == 1 || (at >= 0 && own[at] != 1)) return std::nullopt;
  std::vector<DimensionMap::Taken> taken;
  for (int d = 0; d < own.size(); ++d) {
    const bool is_broadcast = own[d] != all[d + missing];
    const bool is_cut = map != nullptr && !is_broadcast;
    taken.push_back(is_cut ? map->taken[static_cast<std::size_t>(d + missing)] : DimensionMap::Taken{0, 1, own[d]});
  }
  return joined(taking(taken), own, {});
}

void check_copied(const ir::Node& node, const Dims& destination, const Dims& index, const Dims& source) {
  const int dimension = indexed_dimension(node, destination.size());
  bool fits = index.size() == 1 && source.size() == destination.size();
  for (int d = 0; fits && d < source.size(); ++d) fits = source[d] == (d == dimension ? index[0] : destination[d]);
  if (fits) return;
  fail(invalid_argument,
       "'index_copy' along dimension {} of a tensor of shape {} takes an index of one dimension and a source of the "
       "same shape but for that dimension, which has an element for each index; found shapes {} and {}",
       node.shaping.axes.at[0], to_string(destination), to_string(index), to_string(source));
}

void refuse_written(ir::Op op) {
  if (op == ir::Op::scale_tiles) {
    fail(unsupported,
         "'scale_tiles' says where in memory scales lie, so it is a result and nothing computes with it: compute with "
         "its argument instead");
  }
  fail(
      unsupported,
      "'index_copy' writes into the memory of an operand, so it is a result and nothing computes with it: compute with "
      "its source instead, or read the operand in the next launch");
}

ir::Value source_of_index(const ir::Program& program, const ir::Node& reader, ir::Value index) {
  const ir::Node& n = program.node(index);
  if (n.op == ir::Op::input) return index;
  const bool is_outside =
      n.op == ir::Op::repeat_as || (n.op == ir::Op::view && ir::value_outside(program.view(n)).has_value());
  const bool is_one = n.op != ir::Op::expand_as && ir::is_movement(n.op) && !is_outside;
  if (!is_one) refuse_index(reader, text_of(program, index));
  return source_of_index(program, reader, n.args[0]);
}

void check_index_type(const ir::Node& node, const std::string& name, DType dtype) {
  if (dtype == DType::i32 || dtype == DType::i64) return;
  fail(invalid_argument, "'{}' takes indices of i32 or i64; operand '{}' is {}", ir::written_name(node), name,
       to_string(dtype));
}

void check_classes(const ir::Program& program, std::span<const TensorView> inputs) {
  const auto compares_classes = [](const ir::Node& n) { return n.op == ir::Op::eq && n.written == "one_hot"; };
  if (std::ranges::none_of(program.nodes(), compares_classes)) return;
  const std::vector<DType> types = ir::value_types(program, operand_types(inputs));
  for (const ir::Node& n : program.nodes()) {
    if (!compares_classes(n)) continue;
    const DType type = types[static_cast<std::size_t>(n.args[0])];
    if (type == DType::i32 || type == DType::i64) continue;
    const ir::Node& classes = program.node(program.node(n.args[0]).args[0]);  // below a new dimension
    fail(invalid_argument, "'one_hot' takes classes of i32 or i64; found '{}', which is {}", text_of(program, classes),
         to_string(type));
  }
}

void refuse_index(const ir::Node& node, const std::string& found) {
  fail(unsupported,
       "'{}' takes an index that is an operand of the chain, or a view of one; found '{}'. Compute it in a launch of "
       "its own, and pass its result as an operand",
       ir::written_name(node), found);
}

void refuse_gathers(const std::string& text) {
  fail(unsupported, "'{}' reads one operand at indices of more than {} dimensions: make it two chains", text,
       kMostIndices);
}

}  // namespace epifuse::plan
