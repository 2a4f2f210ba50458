// The plan of a launch: the chain's structure decides who makes it. Besides, what all planners ask of operands and of
// the iteration space. docs/internals/plan.md and its pages explain every choice.
#include "plan/plan.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "plan/planning.hpp"
#include "plan/pointwise/pointwise.hpp"

namespace epifuse::plan {
namespace {

// Of more than one element: a stride over a single one means nothing.
template <class Predicate>
bool every_dimension(const Space& space, const Predicate& predicate) {
  for (int d = 0; d < space.rank(); ++d) {
    if (space.extents[d] != 1 && !predicate(static_cast<std::size_t>(d))) return false;
  }
  return true;
}

}  // namespace

Strides dense_strides(const Space& space) {
  Strides strides{};
  std::int64_t step = 1;
  for (int i = space.rank(); i-- > 0;) {
    strides[static_cast<std::size_t>(i)] = step;
    step *= space.extents[i];
  }
  return strides;
}

Access classify(const StridedOperand& strided, const Space& space, const Strides& dense, bool linear_allowed) {
  if (!strided.used) return Access::unused;
  const auto rank = static_cast<std::size_t>(space.rank());
  const auto equal = [&](const Strides& other) {
    return every_dimension(space, [&](std::size_t d) { return other[d] == strided.strides[d]; });
  };
  if (strided.generated == Generated::position) return Access::position;
  if (strided.generated == Generated::inside) return strided.is_index ? Access::bound : Access::inside;
  if (strided.is_index) return Access::index;
  if (!strided.gathers.empty()) return Access::gathered;
  if (strided.bounded) return Access::bounded;
  if (linear_allowed && equal(dense))
    return strided.generated == Generated::random ? Access::random_linear : Access::linear;
  if (strided.generated == Generated::random) return Access::random_strided;
  if (equal(Strides{})) return Access::uniform;
  const std::int64_t inner = rank == 0 ? 0 : strided.strides[rank - 1];
  return inner == 0 ? Access::row : inner == 1 ? Access::contiguous : Access::strided;
}

Access classify_result(const StridedOperand& strided, const Space& space, const Strides& dense, bool linear_allowed) {
  if (strided.gathers.empty()) return classify(strided, space, dense, linear_allowed);
  return has_runs(strided, space) ? Access::contiguous : Access::strided;
}

bool writes_at_indices(const Space& space) {
  return std::ranges::any_of(space.outputs, [](const StridedOperand& output) { return !output.gathers.empty(); });
}

bool is_full(const StridedOperand& strided, const Space& space) {
  return every_dimension(space, [&](std::size_t d) { return varies_along(strided, space, d); });
}

bool needs_wide_index(const Space& space) {
  // Below 2^31 with space for the last tile and the coordinate arithmetic.
  constexpr std::int64_t kLimit = std::int64_t{std::numeric_limits<std::int32_t>::max()} - (1 << 20);
  const auto reaches = [&](const StridedOperand& strided) {
    if (strided.reach.empty()) return false;  // strides of nothing are any numbers
    std::int64_t reach = 0;
    for (int i = 0; i < space.rank(); ++i)
      if (space.extents[i] > 1)
        reach += std::abs(strided.strides[static_cast<std::size_t>(i)]) * (space.extents[i] - 1);
    for (const GatheredDimension& gather : strided.gathers)
      reach += std::max(std::abs(gather.stride) * (gather.extent - 1), gather.extent);
    return strided.used && reach >= kLimit;
  };
  // Extents apart: those of no elements may be large, and are divided by as others.
  const auto large = [](std::int64_t extent) { return extent >= kLimit; };
  return space.elements >= kLimit || std::ranges::any_of(space.extents, large) ||
         std::ranges::any_of(space.inputs, reaches) || std::ranges::any_of(space.outputs, reaches);
}

bool rounds_to_few_bits(const KernelClass& kernel) noexcept {
  const auto is_small_float = [](const OperandPlan& output) {
    return output.dtype == DType::f16 || output.dtype == DType::bf16 || output.dtype == DType::f8e4m3 ||
           output.dtype == DType::f8e5m2;
  };
  return !kernel.f64 && std::ranges::all_of(kernel.outputs, is_small_float);
}

int instructions_of(const ir::Program& program) {
  int sum = 0;
  for (const ir::Node& node : program.nodes()) {
    if (ir::is_elementwise(node.op)) sum += ir::row(node.op).cost;
    if (ir::is_reduction(node.op)) sum += ir::reduction_row(node.op).cost;
    if (node.op == ir::Op::cast) ++sum;
    if (node.op == ir::Op::rand_like) sum += ir::kRandomCost;
  }
  return sum;
}

std::uint64_t bytes_of(const StridedOperand& strided, const Space& space) {
  if (!strided.used || strided.is_generated()) return 0;
  std::uint64_t bytes = size_of(strided.dtype);  // counted as elements of one byte where two share one
  std::uint64_t table = bytes;
  for (int i = 0; i < space.rank(); ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (varies_along(strided, space, d)) bytes *= static_cast<std::uint64_t>(space.extents[i]);
    if (strided.strides[d] != 0) table *= static_cast<std::uint64_t>(space.extents[i]);
  }
  // Of what is read at indices no more than there is.
  for (const GatheredDimension& gather : strided.gathers)
    if (gather.stride != 0) table *= static_cast<std::uint64_t>(gather.extent);
  if (strided.places > 0)
    bytes = bytes / static_cast<std::uint64_t>(strided.places) * static_cast<std::uint64_t>(strided.existing);
  if (!strided.gathers.empty()) bytes = std::min(bytes, table);
  return is_packed(strided.dtype) ? bytes / 2 : bytes;
}

namespace {

// Where there are no rows, no thread has one whose results it could write: only grid reductions, each of which has a
// block, are written.
void check_written(const Plan& plan, const ir::Program& program, std::span<const OutputView> outputs) {
  if (plan.rows * plan.row_columns > 0) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::ranges::find(outputs[i].shape, 0) != outputs[i].shape.end()) continue;
    const auto value = static_cast<std::size_t>(program.results()[i].value);
    const Scope scope = plan.kernel_class.reduction()->structure.nodes[value].scope;
    const bool is_of_grid = scope == Scope::grid || scope == Scope::column;
    if (is_of_grid && grid_results(plan) > 0) continue;
    base::fail(
        ErrorCode::unsupported,
        "output '{}' (shape {}) has elements, but the rows that the chain's other results are computed from have "
        "none, so no kernel of the chain writes it. Give it a chain of its own",
        program.result_name(i), to_string(outputs[i].shape));
  }
}

// How kernels move packed operands: in vectors that begin with a byte.
void check_packed_operand(const KernelClass& kernel, const OperandPlan& operand, const std::string& who) {
  if (!is_packed(operand.dtype) || operand.access == Access::unused) return;
  const bool is_moved_so = operand.access == Access::linear || operand.access == Access::contiguous;
  const bool is_pointwise = kernel.map<Flat>() != nullptr;
  const bool is_reduction = kernel.reduction() != nullptr && !kernel.reduction()->layout.striped;
  if (is_moved_so && operand.width == kernel.elements && kernel.elements > 1 && (is_pointwise || is_reduction)) return;
  base::fail(
      ErrorCode::unsupported,
      "{} has the type {}, of which a byte holds two. No kernel of the schedule '{}' moves it: it is accessed as "
      "'{}', {} of {} elements at a time. Its address must be a multiple of {} bytes, and all other tensors of "
      "its shape dense in row-major order; else compute it in a launch of its own",
      who, to_string(operand.dtype), kernel.schedule(), to_string(operand.access), operand.width, kernel.elements,
      kAccessBytes);
}

void check_packed_operands(const KernelClass& kernel, const ir::Program& program) {
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i)
    check_packed_operand(kernel, kernel.inputs[i], fmt::format("operand '{}'", program.operand_text(i)));
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i)
    check_packed_operand(kernel, kernel.outputs[i], fmt::format("output '{}'", program.result_name(i)));
}

// Of the tiles in which positions have their places, whether there are places without a position.
bool has_padding(const StridedOperand& output, const Space& space) {
  std::int64_t places = 1;
  std::int64_t positions = 1;
  for (const GatheredDimension& gather : output.gathers) {
    if (!gather.computed.exists()) continue;
    places *= gather.extent;
    if (gather.computed.modulus == 0) positions *= space.inputs[gather.index].count;  // once for each mask
  }
  return places != positions;
}

// What is known of results that lie in tiles, and of the masks that have their positions.
void find_places(Plan& plan) {
  KernelClass& kernel = plan.kernel_class;
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    const StridedOperand& output = plan.space.outputs[i];
    kernel.outputs[i].pads = has_padding(output, plan.space);
    for (const GatheredDimension& gather : output.gathers) {
      if (!gather.computed.exists() || !kernel.reduction()) continue;
      const Strides& strides = plan.space.inputs[gather.index].strides;
      kernel.inputs[gather.index].moves =
          moves_of(plan.space, [&](int d) { return strides[static_cast<std::size_t>(d)]; });
    }
  }
}

}  // namespace

Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               Views views, const Machine& machine) {
  Plan plan{.kernel_class = {}, .space = bind(program, outputs, inputs, views), .workspace = {}};
  if (program.has_shaping()) {
    if (views == Views::real) check_in_place(program, plan.space, outputs, inputs);
    Structure structure = analyse(program, plan.space);
    if (structure.has_reductions()) {
      plan_reduction(plan, program, std::move(structure), machine);
      find_places(plan);
      check_packed_operands(plan.kernel_class, program);
      const auto written = as_written(program, outputs);
      check_written(plan, program, written);
      const auto is_empty = [](const OutputView& out) { return std::ranges::find(out.shape, 0) != out.shape.end(); };
      if (std::ranges::all_of(written, is_empty)) plan.blocks = 0;
      return plan;
    }
  }
  plan_pointwise(plan, program, machine);
  find_places(plan);
  check_packed_operands(plan.kernel_class, program);
  return plan;
}

}  // namespace epifuse::plan
