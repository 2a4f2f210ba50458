// A chain without views, in the way that one kernel can compute it: nested reductions are taken apart, and results that
// 'cat' joins are slices or whole.
#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/counted_once.hpp"
#include "plan/bind/nested.hpp"
#include "plan/bind/push_down.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {
namespace {

// A chain without views.
Lowered unchanged(const ir::Program& program, std::span<const TensorView> inputs) {
  Lowered lowered{program, {}};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    lowered.operands.push_back({i, 0, inputs[i].shape, inputs[i].strides, program.operand_text(i)});
  const std::vector<Dims> shapes = value_shapes(program, inputs);
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    lowered.results.push_back(
        {i, shapes[static_cast<std::size_t>(program.results()[i].value)], {}, program.result_name(i)});
  }
  return lowered;
}

}  // namespace

Lowered lower(const ir::Program& program, std::span<const TensorView> inputs, Views views) {
  if (program.has_products()) {
    base::fail(ErrorCode::unsupported,
               "the chain has matrix products, which no kernel of element by element operations computes");
  }
  check_inputs(program, inputs, views);
  const auto lowered = [&](Slicing slicing) {
    const auto again = [](const ir::Program& chain, std::span<const TensorView> operands) {
      return push_down(chain, operands, Slicing::apart);
    };
    Lowered made = without_nested_reductions(
        program.has_views() ? push_down(program, inputs, slicing) : unchanged(program, inputs), inputs, again);
    made = with_values_counted_once(std::move(made), inputs);
    for (const TensorView& input : inputs) made.tensors.push_back({nullptr, input.dtype, input.shape, input.strides});
    return made;
  };
  Lowered apart = lowered(Slicing::apart);
  // Slices of a result that no one pass computes may be one as a whole, of which each element reads its slice.
  const bool is_cut = std::ranges::any_of(apart.results, [](const auto& result) { return !result.taken.empty(); });
  if (!is_cut || has_one_space(apart.program, apart.views(inputs))) return apart;
  return lowered(Slicing::whole);
}

}  // namespace epifuse::plan
