// One element is for all of a factor. Else each dimension of a scale has one element, as many as the factor, or one for
// each 128 of it.
#include "plan/bind/block_scales.hpp"

#include "base/text.hpp"
#include "ir/ops.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using enum ErrorCode;

bool has_one_element(const Dims& shape) {
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] != 1) return false;
  }
  return shape.size() <= 2;
}

bool fits(const Dims& factor, const Dims& scale, std::size_t side) {
  if (has_one_element(scale)) return true;
  if (scale.size() != 2) return false;
  const ScaledExtents of(factor, side);
  const ScaledExtents found(scale, side);
  const bool fits_lines =
      found.lines == 1 || found.lines == of.lines || found.lines == divide_up(of.lines, kScaledBlock);
  return fits_lines && (found.depth == 1 || found.depth == divide_up(of.depth, kScaledBlock));
}

std::string_view name_of_scale(const Node& product, std::size_t side) {
  if (product.written != "scaled_mm") return side == 0 ? "the left scale" : "the right scale";
  return side == 0 ? "scale_a" : "scale_b";
}

[[noreturn]] void refuse_scale(const Node& product, std::size_t side, const Dims& factor, const Dims& scale) {
  const ScaledExtents of(factor, side);
  const std::int64_t depth = divide_up(of.depth, kScaledBlock);
  const auto shape = [&](std::int64_t lines, std::int64_t blocks) {
    return to_string(side == 0 ? Dims{lines, blocks} : Dims{blocks, lines});
  };
  const std::string_view lines = side == 0 ? "row" : "column";
  const bool is_transposed = scale.size() == 2 && fits(factor, {scale[1], scale[0]}, side);
  fail(invalid_argument,
       "{} of '{}' has the shape {}; for the {} factor {} it has one element, or the shape {} or {} (a scale for each "
       "{}, or each 128 {}s, and 128 numbers of the depth), or {} (one for each {}). {}",
       name_of_scale(product, side), ir::written_name(product), to_string(scale), side == 0 ? "left" : "right",
       to_string(factor), shape(of.lines, depth), shape(divide_up(of.lines, kScaledBlock), depth), lines, lines,
       shape(of.lines, 1), lines,
       is_transposed ? "Transpose it: transpose(scale, 0, 1)"
                     : "Other blocks go through 'dequantize' in a chain of their own, whose result is the factor");
}

}  // namespace

ScaledExtents::ScaledExtents(const Dims& shape, std::size_t side)
    : lines(shape[static_cast<int>(side)]), depth(shape[1 - static_cast<int>(side)]) {}

ScaleShape shape_of_scale(const Dims& factor, const Dims& scale, std::size_t side) {
  if (has_one_element(scale)) return {false, false};
  const ScaledExtents of(factor, side);
  const ScaledExtents found(scale, side);
  const bool is_of_each = found.lines == of.lines && of.lines > 1;
  return {is_of_each, found.depth > 1 || (found.lines > 1 && !is_of_each)};
}

void check_scale(const Node& product, std::size_t side, const Dims& factor, const Dims& scale) {
  if (factor.size() != 2)
    fail(invalid_argument,
         "'{}' has scales of a factor of shape {}; factors with scales are matrices. Make the dimensions before the "
         "last one: flatten(x, 0, -2)",
         ir::written_name(product), to_string(factor));
  if (!fits(factor, scale, side)) refuse_scale(product, side, factor, scale);
}

void check_scaled_factors(const ir::Program& program) {
  const auto refuse = [](std::string_view who) {
    fail(
        unsupported,
        "'block_scaled' makes a factor of a matrix product, and {}. Write 'dequantize(x, scale, 128)' where its values "
        "are needed",
        who);
  };
  for (const Node& node : program.nodes()) {
    if (node.op == Op::matmul) continue;
    for (int k = 0; k < node.arity(); ++k) {
      if (program.node(node.args[static_cast<std::size_t>(k)]).op == Op::block_scaled)
        refuse(fmt::format("'{}' reads it", ir::written_name(node)));
    }
  }
  for (const ir::Result& result : program.results()) {
    if (program.node(result.value).op == Op::block_scaled) refuse("here it is a result");
  }
}

}  // namespace epifuse::plan
