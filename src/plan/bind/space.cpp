// Checks of a launch's tensors, and their strides. What is refused is refused here, for the GPU and the CPU alike.
#include "plan/bind/space.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/marks.hpp"
#include "plan/bind/compute_type.hpp"
#include "plan/bind/existing.hpp"
#include "plan/bind/normal_form.hpp"
#include "plan/bind/packed.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/spans.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;

// ---- one tensor

// Which tensor it is; spelled out only where something is refused.
struct Who {
  const ir::Program& program;
  bool is_output;
  std::size_t index;
  std::string str() const {
    return is_output ? fmt::format("output '{}'", program.result_name(index))
                     : fmt::format("operand '{}'", program.operand_text(index));
  }
};

std::int64_t count_elements(const Who& who, const TensorView& view) {
  std::int64_t elements = 1;
  bool empty = false;
  for (const std::int64_t extent : view.shape) {
    if (extent < 0) fail(invalid_argument, "{} has a negative extent: shape {}", who.str(), to_string(view.shape));
    empty = empty || extent == 0;
    if (__builtin_mul_overflow(elements, std::max<std::int64_t>(extent, 1), &elements) || elements > kMaxElements) {
      fail(invalid_argument, "{} has more than 2^40 elements, the most that one launch takes: shape {}", who.str(),
           to_string(view.shape));
    }
  }
  return empty ? 0 : elements;
}

// Offsets are computed in 64 bits, in bytes: strides that leave that range are refused.
void check_reach(const Who& who, const TensorView& view) {
  constexpr std::int64_t kReach = std::int64_t{1} << 60;
  std::int64_t reach = 0;
  for (int i = 0; i < view.shape.size(); ++i) {
    const std::int64_t steps = std::max<std::int64_t>(view.shape[i], 1) - 1;
    const std::int64_t stride = view.strides[i];
    if (steps == 0) continue;
    const bool huge = stride <= -kReach || stride >= kReach;
    std::int64_t bytes = 0;
    if (huge || __builtin_mul_overflow(std::abs(stride) * 8, steps, &bytes) || bytes > kReach - reach) {
      fail(invalid_argument, "{} reaches further than 2^60 bytes: shape {}, strides {}", who.str(),
           to_string(view.shape), to_string(view.strides));
    }
    reach += bytes / 8;
  }
}

std::int64_t check_view(const Who& who, const TensorView& view, Views views) {
  if (view.strides.size() != view.shape.size()) {
    fail(invalid_argument, "{} has {} strides for {} dimensions", who.str(), view.strides.size(), view.shape.size());
  }
  const std::int64_t elements = count_elements(who, view);
  check_reach(who, view);
  if (is_packed(view.dtype)) check_packed(who.str(), view);
  if (views == Views::real && elements > 0) {
    if (view.data == nullptr) {
      fail(invalid_argument, "{} has a null pointer, but its shape {} is not empty", who.str(), to_string(view.shape));
    }
    const std::size_t size = size_of(view.dtype);
    if (reinterpret_cast<std::uintptr_t>(view.data) % size != 0) {
      fail(invalid_argument, "{} has the address {}, which is not a multiple of its element's {} bytes ({})", who.str(),
           fmt::ptr(view.data), size, to_string(view.dtype));
    }
  }
  return elements;
}

bool has_no_elements(const Dims& shape) { return std::ranges::find(shape, 0) != shape.end(); }

// ---- all together

struct Names {
  const ir::Program& program;
  Who input(std::size_t i) const { return {program, false, i}; }
  Who output(std::size_t i) const { return {program, true, i}; }
};

void check_input_count(const ir::Program& program, std::span<const TensorView> inputs) {
  if (inputs.size() != program.inputs().size()) {
    fail(invalid_argument, "the chain takes {} operand{} ({}), but {} {} given", program.inputs().size(),
         program.inputs().size() == 1 ? "" : "s", fmt::join(program.inputs(), ", "), inputs.size(),
         inputs.size() == 1 ? "was" : "were");
  }
}

void check_output_count(const ir::Program& program, std::span<const OutputView> outputs) {
  if (outputs.size() != program.results().size()) {
    fail(invalid_argument, "the chain has {} result{}, but {} output{} {} given", program.results().size(),
         program.results().size() == 1 ? "" : "s", outputs.size(), outputs.size() == 1 ? "" : "s",
         outputs.size() == 1 ? "was" : "were");
  }
}

// NumPy's rule, from the last dimension on.
Dims broadcast(const Names& names, std::span<const TensorView> inputs) {
  int rank = 0;
  for (const TensorView& input : inputs) rank = std::max(rank, input.shape.size());
  Dims shape;
  for (int i = 0; i < rank; ++i) shape.push_back(1);
  for (std::size_t k = 0; k < inputs.size(); ++k) {
    const Dims& other = inputs[k].shape;
    for (int i = 1; i <= other.size(); ++i) {
      std::int64_t& extent = shape[rank - i];
      const std::int64_t own = other[other.size() - i];
      if (own == 1 || own == extent) continue;
      if (extent != 1) {
        fail(invalid_argument,
             "{} has shape {}, which does not broadcast with {} of the operands before it: {} against {} in dimension "
             "-{}",
             names.input(k).str(), to_string(other), to_string(shape), own, extent, i);
      }
      extent = own;
    }
  }
  return shape;
}

void check_outputs(const Names& names, const Dims& shape, bool has_inputs, std::span<const OutputView> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Dims& expected = has_inputs ? shape : outputs[0].shape;
    if (outputs[i].shape == expected) continue;
    fail(invalid_argument, "{} has shape {}; the operands broadcast to {}, and every output has exactly that shape",
         names.output(i).str(), to_string(outputs[i].shape), to_string(expected));
  }
}

// The usual case: one ends before the other begins.
bool lie_apart(const StridedOperand& a, const StridedOperand& b) {
  if (a.reach.empty() || b.reach.empty()) return true;
  const auto first = [](const StridedOperand& strided) {
    return reinterpret_cast<std::uintptr_t>(strided.data) + static_cast<std::uintptr_t>(strided.reach.first);
  };
  const auto bytes = [](const StridedOperand& strided) {
    return static_cast<std::uintptr_t>(strided.reach.end - strided.reach.first);
  };
  // Differences of addresses, which may wrap around as a test's may.
  return first(b) - first(a) >= bytes(a) && first(a) - first(b) >= bytes(b);
}

// What is read at indices may be read by anyone.
[[noreturn]] void refuse_over_table(const Names& names, std::size_t output, std::size_t input) {
  fail(invalid_argument,
       "{} lies among the memory of {}, whose elements are read at indices: give the result memory of its own",
       names.output(output).str(), names.input(input).str());
}

[[noreturn]] void refuse_over_read(const Names& names, std::size_t output, std::size_t input) {
  fail(invalid_argument,
       "{} is written at indices, and lies among the memory of {}, which the chain reads: copy that operand first, or "
       "read it in another launch",
       names.output(output).str(), names.input(input).str());
}

void check_overlaps(const Names& names, const Space& space, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (overlaps_itself(outputs[i])) {
      fail(invalid_argument, "{} writes some addresses more than once: shape {}, strides {}", names.output(i).str(),
           to_string(outputs[i].shape), to_string(outputs[i].strides));
    }
    for (std::size_t k = 0; k < i; ++k) {
      if (!lie_apart(space.outputs[i], space.outputs[k]) && overlap(outputs[i], outputs[k])) {
        fail(invalid_argument, "{} overlaps {}: results need memory of their own", names.output(i).str(),
             names.output(k).str());
      }
    }
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (lie_apart(space.outputs[i], space.inputs[k])) continue;
      if (!space.inputs[k].gathers.empty()) refuse_over_table(names, i, k);
      if (!space.outputs[i].gathers.empty()) refuse_over_read(names, i, k);
      const bool is_same = same_view(outputs[i], inputs[k]) && space.inputs[k].wraps.empty();
      if (!is_same && overlap(outputs[i], inputs[k])) {
        fail(invalid_argument,
             "{} overlaps {} without being the same view: in place needs the same pointer, shape, strides and element "
             "size",
             names.output(i).str(), names.input(k).str());
      }
    }
  }
}

// ---- the chain's own demands

void mark_used(const ir::Program& program, Space& space) {
  for (StridedOperand& strided : space.inputs) strided.used = false;
  const auto computed = computed_values(program);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const ir::Node& node = program.nodes()[i];
    if (computed[i] && ir::is_operand(node.op)) space.inputs[static_cast<std::size_t>(node.ordinal)].used = true;
  }
  for (std::size_t i = 0; i < space.inputs.size(); ++i) {
    if (!space.inputs[i].used) continue;
    for (const GatheredDimension& gather : space.inputs[i].gathers) {
      if (!gather.computed.exists()) space.inputs[gather.index].used = true;
    }
  }
  // What only says where others are read is no value.
  const auto use = [&](int mask) {
    StridedOperand& strided = space.inputs[static_cast<std::size_t>(mask)];
    strided.is_index = strided.is_index || !strided.used;
    strided.used = true;
  };
  for (const StridedOperand& output : space.outputs) {
    for (const GatheredDimension& gather : output.gathers) use(static_cast<int>(gather.index));
  }
  for (std::size_t i = 0; i < program.bounds().size(); ++i) {
    if (!space.inputs[i].used) continue;
    for (const int mask : program.bounds()[i].masks()) use(mask);
  }
}

void check_kinds(const ir::Program& program, std::span<const TensorView> inputs) {
  if (std::ranges::none_of(inputs, [](const TensorView& input) { return input.dtype == DType::boolean; })) return;
  for (const ir::Node& node : program.nodes()) {
    if (!ir::is_elementwise(node.op)) continue;
    const ir::OpRow& row = ir::row(node.op);
    for (std::size_t i = 0; i < row.parameters.size(); ++i) {
      const ir::Node& arg = program.node(node.args[i]);
      if (row.parameters[i].refuses_truth && arg.op == ir::Op::input &&
          inputs[static_cast<std::size_t>(arg.ordinal)].dtype == DType::boolean) {
        ir::refuse_truth(
            node.op, fmt::format("operand '{}' (bool)", program.operand_text(static_cast<std::size_t>(arg.ordinal))));
      }
    }
  }
}

// ---- strides

// An operand of no elements has no element that all others share, whatever its strides say: none may be read before its
// vector is known to exist.
std::int64_t view_stride(const TensorView& view, int dimension, std::int64_t stride) {
  return view.shape[dimension] == 0 && stride == 0 ? 1 : stride;
}

void set_strides(StridedOperand& strided, const TensorView& view, const Dims& shape) {
  strided.data = view.data;
  strided.dtype = view.dtype;
  strided.reach = reach_of(view);
  const auto missing = static_cast<std::size_t>(shape.size() - view.shape.size());
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] != 1)
      strided.strides[static_cast<std::size_t>(i) + missing] = view_stride(view, i, view.strides[i]);
  }
}

// ---- chains with shapes of their own

void check_result_shapes(const Names& names, const ir::Program& program, const Shapes& shapes,
                         std::span<const OutputView> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Dims& expected = shapes.values[static_cast<std::size_t>(program.results()[i].value)];
    if (outputs[i].shape == expected) continue;
    fail(invalid_argument, "{} has shape {}; with these operands the chain's result has shape {}",
         names.output(i).str(), to_string(outputs[i].shape), to_string(expected));
  }
}

// Of these axes.
std::int64_t count_elements(const Dims& axes, std::uint32_t counted) {
  std::int64_t elements = 1;
  for (int axis = 0; axis < axes.size(); ++axis) {
    const std::int64_t extent = (counted >> axis & 1U) != 0 ? axes[axis] : 1;
    if (extent > 0 && elements > kMaxElements / extent)
      fail(invalid_argument, "the chain's values have more than 2^40 elements, the most that one launch takes");
    elements *= extent;
  }
  return elements;
}

// One pass needs one space: a value that varies over all axes. Two may have two: rows, and what is written in place of
// their elements. That is no more than the rows, whose threads write it. Of no elements neither is: a reshape of those
// has other dimensions than its operand, and none in common.
bool is_whole(const Shapes& shapes, const Spans& spans) {
  std::uint32_t all = 0;
  for (const std::uint32_t span : shapes.spans) all |= span;
  const std::uint32_t written = spans.written();
  const std::int64_t written_elements = count_elements(shapes.axes, written);
  const bool is_written = written == 0 || (spans.has_value_of(all & ~spans.reduced()) && written_elements > 0 &&
                                           written_elements <= count_elements(shapes.axes, spans.reduced()));
  return spans.has_value_of(all & ~written) && is_written;
}

void check_whole(const ir::Program& program, const Shapes& shapes, const Spans& spans) {
  if (is_whole(shapes, spans)) return;
  for (const ir::Node& node : program.nodes()) {
    if (!ir::is_reduction(node.op)) continue;
    fail(unsupported,
         "the chain cannot be one kernel: no value has all of its dimensions ({} in all), so '{}' and the rest would "
         "iterate over different elements. Compute '{}' in a launch of its own and pass its result as an operand",
         shapes.axes.size(), ir::written_name(node), ir::written_name(node));
  }
  fail(unsupported, "the chain cannot be one kernel: no value has all of its dimensions. Make it two chains");
}

void set_strides(StridedOperand& strided, const TensorView& view, const AxisPlaces& places) {
  strided.data = view.data;
  strided.dtype = view.dtype;
  strided.reach = reach_of(view);
  for (const AxisPlace& place : places) {
    // Where there is nothing to iterate over (no elements, or one along this dimension) a stride may be any number: it
    // is not used.
    std::int64_t stride = 0;
    if (__builtin_mul_overflow(view.strides[place.dimension], place.factor, &stride)) stride = 0;
    strided.strides[static_cast<std::size_t>(place.axis)] = view_stride(view, place.dimension, stride);
  }
}

// Random numbers are numbered in row-major order: as if they lay in memory so, element 0 at the null pointer.
void set_random(StridedOperand& strided, const Dims& shape, const AxisPlaces& places) {
  set_strides(strided, TensorView(nullptr, DType::f32, shape), places);
  strided.generated = Generated::random;
  strided.reach = {};
}

// Nor do positions: an element's is the number of steps along its one dimension.
void set_position(StridedOperand& strided, const Dims& shape, int dimension, const AxisPlaces& places) {
  TensorView steps(nullptr, DType::i32, shape);
  for (int d = 0; d < shape.size(); ++d) steps.strides[d] = d == dimension ? 1 : 0;
  set_strides(strided, steps, places);
  strided.generated = Generated::position;
  strided.reach = {};
}

// Shapes meet a chain with reductions: each value has a shape of its own, and so has each output.
Dims bind_shapes(Space& space, const Names& names, const ir::Program& program, std::span<const OutputView> outputs,
                 std::span<const TensorView> inputs) {
  const Shapes shapes = infer_shapes(program, inputs);
  check_result_shapes(names, program, shapes, outputs);
  const Spans spans(program, shapes.spans);
  check_whole(program, shapes, spans);
  for (std::size_t i = 0; i < inputs.size(); ++i) set_strides(space.inputs.emplace_back(), inputs[i], shapes.inputs[i]);
  for (std::size_t i = inputs.size(); i < program.operand_count(); ++i) {
    const ir::Value value = program.generated()[i - inputs.size()];
    const Dims& shape = shapes.values[static_cast<std::size_t>(value)];
    StridedOperand& strided = space.inputs.emplace_back();
    if (program.node(value).op == ir::Op::rand_like) {
      set_random(strided, shape, shapes.inputs[i]);
    } else {
      const int dimension = from_front(program.node(value).shaping.axes.at[0], shape.size());
      set_position(strided, shape, dimension, shapes.inputs[i]);
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    set_strides(space.outputs.emplace_back(), outputs[i], shapes.results[i]);
  space.spans = shapes.spans;
  space.counts = shapes.counts;
  space.elements = count_elements(shapes.axes, ~spans.written());
  if (spans.written() != 0) space.elements = std::max(space.elements, count_elements(shapes.axes, ~spans.reduced()));
  return shapes.axes;
}

// All operands broadcast together, and every output has that shape.
Dims bind_broadcast(Space& space, const Names& names, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs) {
  const Dims common = broadcast(names, inputs);
  check_outputs(names, common, !inputs.empty(), outputs);
  const Dims& shape = outputs[0].shape;
  space.elements = count_elements(names.output(0), outputs[0]);
  for (const TensorView& input : inputs) set_strides(space.inputs.emplace_back(), input, shape);
  for (const OutputView& output : outputs) set_strides(space.outputs.emplace_back(), output, shape);
  return shape;
}

}  // namespace

bool same_view(const TensorView& a, const TensorView& b) {
  if (a.data != b.data || size_of(a.dtype) != size_of(b.dtype) || is_packed(a.dtype) != is_packed(b.dtype) ||
      a.shape != b.shape)
    return false;
  for (int i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

base::InlineVector<bool, 64> computed_values(const ir::Program& program) {
  base::InlineVector<bool, 64> computed(program.nodes().size(), false);
  for (const ir::Result& result : program.results()) computed[static_cast<std::size_t>(result.value)] = true;
  ir::mark_arguments(program.nodes(), computed, [](std::size_t) { return false; });
  return computed;
}

std::vector<ir::Kind> Space::input_kinds() const {
  std::vector<ir::Kind> kinds;
  for (const StridedOperand& strided : inputs)
    kinds.push_back(strided.dtype == DType::boolean ? ir::Kind::truth : ir::Kind::real);
  return kinds;
}

void check_inputs(const ir::Program& program, std::span<const TensorView> inputs, Views views) {
  check_input_count(program, inputs);
  const Names names{program};
  for (std::size_t i = 0; i < inputs.size(); ++i) check_view(names.input(i), inputs[i], views);
}

std::vector<Dims> result_shapes(const ir::Program& program, std::span<const TensorView> inputs) {
  check_inputs(program, inputs, Views::abstract);
  const Names names{program};
  std::vector<Dims> results;
  if (program.has_views() || program.has_products()) {
    const std::vector<Dims> shapes = value_shapes(program, inputs);
    for (const ir::Result& result : program.results())
      results.push_back(shapes[static_cast<std::size_t>(result.value)]);
    return results;
  }
  if (!program.has_shaping()) {
    results.assign(program.results().size(), broadcast(names, with_outside(program, inputs)));
    return results;
  }
  const Shapes shapes = infer_shapes(program, with_outside(program, inputs));
  for (const ir::Result& result : program.results())
    results.push_back(shapes.values[static_cast<std::size_t>(result.value)]);
  return results;
}

bool has_one_space(const ir::Program& program, std::span<const TensorView> inputs) {
  if (!program.has_shaping()) return true;
  const Shapes shapes = infer_shapes(program, with_outside(program, inputs));
  return is_whole(shapes, Spans(program, shapes.spans));
}

std::vector<DType> result_types(const ir::Program& program, std::span<const TensorView> inputs) {
  check_input_count(program, inputs);
  return ir::result_types(program, operand_types(inputs));
}

DType compute_type(const ir::Program& program, std::span<const TensorView> inputs, std::span<const DType> results) {
  check_input_count(program, inputs);
  std::vector<OutputView> outputs;
  for (const DType type : results) outputs.emplace_back(nullptr, type, Dims{});
  base::InlineVector<std::int64_t, 32> counts;
  try {
    if (program.has_shaping()) counts = infer_shapes(program, with_outside(program, inputs)).counts;
  } catch (const Error&) {
    for (std::size_t i = 0; i < program.nodes().size(); ++i) counts.push_back(std::numeric_limits<std::int64_t>::max());
  }
  return computes_in_f64(program, outputs, inputs, counts) ? DType::f64 : DType::f32;
}

namespace {

// Whether a result lacks a dimension that nobody reduced on the way to it: one of those that iterate over that
// dimension writes it, while the others read.
bool has_other_readers(const ir::Program& program, const Space& space, std::size_t output) {
  // By node: the dimensions that it varies over, or that reductions on the way to it reduce.
  base::InlineVector<std::uint32_t, 32> covered(program.nodes().size());
  for (std::size_t i = 0; i < covered.size(); ++i) {
    const ir::Node& node = program.nodes()[i];
    covered[i] = space.spans[i];
    for (int k = 0; k < node.computed_arity(); ++k) {
      const auto argument = static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)]);
      covered[i] |= ir::is_reduction(node.op) ? covered[argument] : covered[argument] & ~space.spans[argument];
    }
  }
  std::uint32_t all = 0;
  for (int d = 0; d < space.rank(); ++d) all |= space.extents[d] > 1 ? 1U << d : 0U;
  return (all & ~covered[static_cast<std::size_t>(program.results()[output].value)]) != 0;
}

// Whoever goes along another dimension than a packed tensor would have half of a byte.
void check_runs(const Who& who, const Space& space, const StridedOperand& strided) {
  if (!is_packed(strided.dtype) || !strided.used || space.elements == 0) return;
  const int inner = space.rank() - 1;
  if (inner >= 0 && strided.strides[static_cast<std::size_t>(inner)] == 1 && space.extents[inner] % kPackedRun == 0)
    return;
  fail(unsupported,
       "{} has the type {}, of which a byte holds two, but the chain goes along another dimension than its innermost, "
       "or "
       "cuts that into runs that are no multiple of {}. Give the other tensors its order, or compute it in a launch of "
       "its own",
       who.str(), to_string(strided.dtype), kPackedRun);
}

}  // namespace

void check_in_place(const ir::Program& program, const Space& space, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs) {
  const auto have_same_strides = [&](const StridedOperand& a, const StridedOperand& b) {
    for (int d = 0; d < space.rank(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (space.extents[d] != 1 && a.strides[i] != b.strides[i]) return false;
    }
    return true;
  };
  const Names names{program};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      const StridedOperand& out = space.outputs[i];
      const StridedOperand& in = space.inputs[k];
      if (!in.used || lie_apart(out, in) || !same_view(outputs[i], inputs[k])) continue;
      if (have_same_strides(out, in) && !has_other_readers(program, space, i)) continue;
      fail(unsupported,
           "{} is the memory of {}, which one kernel cannot do here: what the chain computes elsewhere needs elements "
           "that "
           "would already be written over. Give the result memory of its own",
           names.output(i).str(), names.input(k).str());
    }
  }
}

Space bind(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
           Views views) {
  if (program.has_products())
    fail(unsupported, "the chain has matrix products, which no kernel of element by element operations computes");
  check_inputs(program, inputs, views);
  check_output_count(program, outputs);
  const Names names{program};
  for (std::size_t i = 0; i < outputs.size(); ++i) check_view(names.output(i), outputs[i], views);

  Space space;
  check_kinds(program, inputs);
  const auto all = with_outside(program, inputs);
  const auto written = as_written(program, outputs);
  const Dims shape = program.has_shaping() ? bind_shapes(space, names, program, written, all)
                                           : bind_broadcast(space, names, written, all);
  set_bounds(space, program, inputs);
  set_scatters(space, program, outputs);
  space.f64 = computes_in_f64(program, outputs, inputs, space.counts);
  mark_used(program, space);
  const bool writes = std::ranges::any_of(outputs, [](const OutputView& out) { return !has_no_elements(out.shape); });
  if (writes && views == Views::real) check_overlaps(names, space, outputs, inputs);
  normalise(space, shape);
  for (std::size_t i = 0; i < inputs.size(); ++i) check_runs(names.input(i), space, space.inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) check_runs(names.output(i), space, space.outputs[i]);
  return space;
}

}  // namespace epifuse::plan
