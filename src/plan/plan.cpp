// Chooses the schedule, each operand's access, and the sizes, from the normal form of the tensors.
// docs/internals/plan.md explains every choice.
#include "plan/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

constexpr std::array<std::string_view, 8> kScheduleNames = {"flat",     "by_row", "tiled_2d", "transpose",
                                                            "resident", "looped", "split",    "split_resident"};
constexpr std::array<std::string_view, 9> kAccessNames = {
    "unused", "linear", "uniform", "row", "contiguous", "strided", "hoisted", "transposed", "transposed_unaligned"};

Schedule choose_schedule(Space& space, const Strides& dense, int instructions, KernelClass& kernel) {
  if (const int dimension = find_input_dimension(space); dimension >= 0) {
    if (transpose(space, dimension, instructions, kernel)) return Schedule::transpose;
    if (tile_2d(space, dimension)) return Schedule::tiled_2d;
  }
  const bool dense_outputs = std::ranges::all_of(space.outputs, [&](const StridedOperand& strided) {
    return classify(strided, space, dense, true) == Access::linear;
  });
  return dense_outputs ? Schedule::flat : Schedule::by_row;
}

// Whether vectors of the flat schedule begin anywhere in the rows of a broadcast operand, and so gather its elements one by one.
bool gathers_vectors(const KernelClass& kernel, const Space& space, int elements) {
  if (kernel.schedule != Schedule::flat || space.rank() == 0 || space.extents[space.rank() - 1] % elements == 0)
    return false;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (kernel.inputs[i].access == Access::contiguous && !is_full(space.inputs[i], space)) return true;
  }
  return false;
}

// Consecutive elements per thread: enough that the narrowest streamed operand moves bytes_per_access at a time, but at most two such
// accesses of the widest: further apart, neighbouring threads share no cache line in one instruction (i32 to i8: 1.17 of copy time).
int choose_elements(const KernelClass& kernel, const Space& space, int instructions) {
  int narrowest = 8;
  int widest = 1;
  int registers = 0;  // bytes per element: narrower types occupy registers as packed words
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const OperandPlan& operand : *operands) {
      if (is_streamed(operand.access)) narrowest = std::min(narrowest, size_in_bytes(operand));
      if (is_streamed(operand.access)) widest = std::max(widest, size_in_bytes(operand));
      if (operand.access != Access::unused && operand.access != Access::uniform) registers += size_in_bytes(operand);
    }
  }
  // Only element-wise accesses (a transposed copy, say): neighbouring threads on neighbouring elements serve the caches best.
  const auto streamed = [](const OperandPlan& operand) { return is_streamed(operand.access); };
  if (std::ranges::none_of(kernel.outputs, streamed)) return 1;
  int elements =
      std::min({kPolicy.bytes_per_access / narrowest, 2 * kPolicy.bytes_per_access / widest, kPolicy.most_elements});
  while (elements > 1 && elements * registers > kPolicy.register_bytes) elements /= 2;
  while (elements > 1 && elements * instructions > kPolicy.most_instructions) elements /= 2;
  if (gathers_vectors(kernel, space, elements)) {
    if (narrowest == 4 && widest == 4 && instructions <= kPolicy.gathered_instructions) return 1;
    if (narrowest == 1 && widest == 4 && space.extents[space.rank() - 1] >= kPolicy.long_row)
      elements = std::min(elements, kPolicy.gathered_elements);
  }
  // A row shorter than a vector would leave most of the vector idle.
  if (kernel.schedule != Schedule::flat && space.rank() > 0) {
    const auto inner = static_cast<std::uint64_t>(space.extents[space.rank() - 1]);
    while (elements > 1 && static_cast<std::uint64_t>(elements) / 2 >= inner) elements /= 2;
  }
  return elements;
}

// Bytes that one step of a thread has loaded before it computes.
int loaded_bytes(const KernelClass& kernel) {
  int loaded = 0;
  for (const OperandPlan& input : kernel.inputs) {
    if (input.access == Access::unused || input.access == Access::uniform || input.access == Access::hoisted) continue;
    loaded += size_in_bytes(input) * (input.access == Access::row ? 1 : kernel.elements);
  }
  return loaded;
}

// A memory-bound chain whose vectors are less than an access of every tensor, since a broadcast operand's wider elements limit them (f8, a bias in f32).
bool is_half_access(const KernelClass& kernel, const Space& space, int instructions) {
  const bool fits = kernel.schedule == Schedule::flat && !kernel.f64 &&
                    instructions <= kPolicy.half_access_instructions && kernel.elements == kPolicy.thread_elements &&
                    2 * loaded_bytes(kernel) <= kPolicy.half_access_bytes && space.rank() > 0 &&
                    space.extents[space.rank() - 1] % kernel.elements == 0;
  const auto all_half_access = [&](const auto& operands, const auto& strided_operands) {
    for (std::size_t i = 0; i < strided_operands.size(); ++i) {
      if (operands[i].access != Access::unused && is_full(strided_operands[i], space) &&
          size_in_bytes(operands[i]) * kernel.elements >= kPolicy.bytes_per_access)
        return false;
    }
    return true;
  };
  return fits && all_half_access(kernel.inputs, space.inputs) && all_half_access(kernel.outputs, space.outputs);
}

// A memory-bound chain of one big operand and one result of f32, an access of each, and of two broadcast operands at most.
bool is_memory_bound_f32(const KernelClass& kernel, const Space& space, int instructions) {
  const auto one_access = [&](const OperandPlan& operand) {
    return operand.dtype == DType::f32 && size_in_bytes(operand) * kernel.elements == kPolicy.bytes_per_access;
  };
  int full = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const OperandPlan& input = kernel.inputs[i];
    if (input.access == Access::unused || input.access == Access::uniform) continue;
    if (!one_access(input)) return false;
    full += is_full(space.inputs[i], space) ? 1 : 0;
  }
  return full == 1 && loaded_bytes(kernel) <= kPolicy.memory_bound_bytes && kernel.schedule == Schedule::flat &&
         !kernel.f64 && kernel.outputs.size() == 1 && one_access(kernel.outputs[0]) &&
         instructions <= kPolicy.memory_bound_instructions;
}

// Threads enough keep enough bytes in flight; more than one step per thread only shares what a thread costs among enough elements.
int choose_steps(const KernelClass& kernel, const Space& space, int instructions) {
  bool reads_streams = false;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Access access = kernel.inputs[i].access;
    const bool read = access != Access::unused && access != Access::uniform;
    reads_streams = reads_streams || (read && is_full(space.inputs[i], space));
  }
  if (!reads_streams || is_memory_bound_f32(kernel, space, instructions)) return 1;
  const int loaded = loaded_bytes(kernel);
  const auto wants_more = [&](int steps) {
    if (kernel.schedule == Schedule::tiled_2d) return steps * loaded < kPolicy.tiled_2d_bytes;
    return kernel.elements * steps < kPolicy.thread_elements ||
           (kernel.elements < kPolicy.thread_elements && 2 * steps * loaded <= kPolicy.bytes_in_flight);
  };
  int steps = 1;
  while (steps < kPolicy.most_steps && wants_more(steps)) steps *= 2;
  if (is_half_access(kernel, space, instructions)) steps = 2;
  while (steps > 1 && steps * loaded > kPolicy.waiting_register_bytes) steps /= 2;
  while (steps > 1 && instructions * kernel.elements * steps > kPolicy.unrolled_instructions) steps /= 2;
  return steps;
}

// All threads that a multiprocessor has space for, where their registers will do.
int choose_resident_blocks(const KernelClass& kernel, const Space& space, const ir::Program& program,
                           int instructions) {
  if (is_half_access(kernel, space, instructions)) return kPolicy.half_access_threads / kernel.threads;
  const bool fits = !kernel.f64 && kernel.steps * loaded_bytes(kernel) <= kPolicy.bytes_in_flight &&
                    program.operation_count() <= kPolicy.most_operations_of_full;
  const bool is_tiled = kernel.schedule == Schedule::tiled_2d || kernel.schedule == Schedule::transpose;
  return fits ? (is_tiled ? kPolicy.tiled_2d_threads : kPolicy.resident_threads) / kernel.threads : 0;
}

static_assert(kPolicy.bytes_per_access <= static_cast<int>(kAlignmentSeen));

// The widest access that the address allows. Vectors of a linear operand begin at multiples of `elements`, so the base decides; a
// gathered contiguous one is checked in the kernel, row by row.
int choose_width(const OperandPlan& operand, const StridedOperand& strided, int elements) {
  const int size = size_in_bytes(operand);
  int width = 1;
  if (is_streamed(operand.access)) {
    width = std::min(elements, kPolicy.bytes_per_access / size);
    if (operand.access == Access::linear) {
      const auto address = reinterpret_cast<std::uintptr_t>(strided.data);
      while (width > 1 && address % static_cast<std::uintptr_t>(width * size) != 0) width /= 2;
    }
  }
  return width;
}

// Of all schedules but `transpose`: how operands are accessed, and how many elements and steps that gives a thread.
void choose_accesses(KernelClass& kernel, const Space& space, const Strides& dense, int instructions) {
  for (const StridedOperand& strided : space.inputs)
    kernel.inputs.push_back({strided.dtype, classify(strided, space, dense, kernel.schedule == Schedule::flat), 1});
  for (const StridedOperand& strided : space.outputs)
    kernel.outputs.push_back({strided.dtype, classify(strided, space, dense, kernel.schedule == Schedule::flat), 1});
  kernel.elements = choose_elements(kernel, space, instructions);
  if (kernel.schedule == Schedule::tiled_2d) {
    kernel.elements = aligned_elements(kernel, space, kernel.elements);
    choose_lanes(kernel, space);
  }
  kernel.steps = choose_steps(kernel, space, instructions);
  for (std::size_t i = 0; i < space.inputs.size(); ++i) {
    kernel.inputs[i].width = choose_width(kernel.inputs[i], space.inputs[i], kernel.elements);
  }
  for (std::size_t i = 0; i < space.outputs.size(); ++i) {
    kernel.outputs[i].width = choose_width(kernel.outputs[i], space.outputs[i], kernel.elements);
  }
}

// A class of its own for the usual extents: without the code for vectors that are out of bounds or reach into the next row there is half as much to
// compile (docs/measurements/notes/cold-start.md).
bool has_divisible_rows(const KernelClass& kernel, const Space& space) {
  return kernel.schedule == Schedule::flat && kernel.coordinates > 0 && kernel.elements > 1 &&
         space.extents[space.rank() - 1] % kernel.elements == 0;
}

// Few sizes, so that few kernels serve all shapes: three coordinates hold almost every real tail.
int choose_coordinates(const KernelClass& kernel, const Space& space) {
  const auto gathered = [](const OperandPlan& operand) { return operand.is_gathered(); };
  if (kernel.schedule == Schedule::flat && std::ranges::none_of(kernel.inputs, gathered)) return 0;
  return space.rank() <= 3 ? 3 : space.rank() <= 5 ? 5 : 8;
}

void pad(Space& space, int coordinates) {
  const int missing = coordinates - space.rank();
  if (missing <= 0) return;
  Dims extents;
  for (int i = 0; i < missing; ++i) extents.push_back(1);
  for (const std::int64_t extent : space.extents) extents.push_back(extent);
  for (auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (StridedOperand& strided : *strided_operands) {
      std::shift_right(strided.strides.begin(), strided.strides.end(), missing);
      std::fill_n(strided.strides.begin(), missing, 0);
    }
  }
  space.extents = extents;
}

void size_grid(Plan& plan) {
  const KernelClass& kernel = plan.kernel_class;
  const int rank = plan.space.rank();
  plan.threads = kernel.threads;
  if (kernel.schedule == Schedule::tiled_2d || kernel.schedule == Schedule::transpose) {
    const bool is_transpose = kernel.schedule == Schedule::transpose;
    const std::int64_t input_side = std::int64_t{kernel.input_threads} * (is_transpose ? kernel.elements : 1);
    const std::int64_t output_side =
        std::int64_t{kernel.threads} / kernel.input_threads * kernel.steps * (is_transpose ? 1 : kernel.elements) -
        kernel.tile_overlap;
    plan.input_tiles = divide_up(plan.space.extents[is_transpose ? rank - 1 : rank - 2], input_side);
    plan.output_tiles = divide_up(plan.space.extents[is_transpose ? rank - 2 : rank - 1], output_side);
    const std::int64_t planes = plan.space.elements / plan.space.extents[rank - 1] / plan.space.extents[rank - 2];
    plan.tiles = planes * plan.input_tiles * plan.output_tiles;
    plan.blocks =
        static_cast<std::uint32_t>(std::min<std::int64_t>(plan.tiles, std::numeric_limits<std::int32_t>::max()));
    return;
  }
  if (kernel.schedule == Schedule::by_row && rank > 0) {
    const std::int64_t inner = plan.space.extents[rank - 1];
    plan.vectors_per_row = divide_up(inner, kernel.elements);
    plan.vectors = plan.space.elements / inner * plan.vectors_per_row;
  } else {
    // The elements behind the last full vector have a thread each.
    plan.vectors = plan.space.elements / kernel.elements + plan.space.elements % kernel.elements;
  }
  const auto blocks = [&] { return divide_up(plan.vectors, std::int64_t{plan.threads} * kernel.steps); };
  while (plan.threads > kPolicy.fewest_threads && blocks() < kPolicy.small_grid) plan.threads /= 2;
  plan.tiles = blocks();
  plan.blocks =
      static_cast<std::uint32_t>(std::min<std::int64_t>(plan.tiles, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

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
  if (linear_allowed && equal(dense)) return Access::linear;
  if (equal(Strides{})) return Access::uniform;
  const std::int64_t inner = rank == 0 ? 0 : strided.strides[rank - 1];
  return inner == 0 ? Access::row : inner == 1 ? Access::contiguous : Access::strided;
}

bool is_full(const StridedOperand& strided, const Space& space) {
  return every_dimension(space, [&](std::size_t d) { return strided.strides[d] != 0; });
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
    return strided.used && reach >= kLimit;
  };
  // Extents apart: those of no elements may be large, and are divided by as others.
  const auto large = [](std::int64_t extent) { return extent >= kLimit; };
  return space.elements >= kLimit || std::ranges::any_of(space.extents, large) ||
         std::ranges::any_of(space.inputs, reaches) || std::ranges::any_of(space.outputs, reaches);
}

std::string_view to_string(Access access) noexcept { return kAccessNames[static_cast<std::size_t>(access)]; }

std::string_view to_string(Schedule schedule) noexcept { return kScheduleNames[static_cast<std::size_t>(schedule)]; }

namespace {

std::string to_string(const ReductionClass& reduction, int threads) {
  std::string text =
      fmt::format(" | {}{} {}+{}+{} g{}x{}/{} k{}", reduction.inner_reduction ? "inner" : "outer",
                  reduction.tensor_aligned ? " tensor_aligned" : "", reduction.outer, reduction.reduced,
                  reduction.inner, reduction.group_threads, reduction.columns, threads, reduction.cluster);
  if (reduction.staged) text += " staged";
  if (reduction.prefetches) text += " prefetch";
  if (reduction.l2_evict_first) text += " l2_evict_first";
  if (reduction.striped) text += " striped";
  if (reduction.interleaved_rows) text += " interleaved_rows";
  if (reduction.transposed_store == TransposedStore::none && reduction.vectors_per_run > 1)
    text += fmt::format(" p{}", reduction.vectors_per_run);
  if (reduction.shares_grid) text += " shared_grid";
  if (reduction.rows_per_group > 1) text += fmt::format(" rows_per_group{}", reduction.rows_per_group);
  if (reduction.sums_hundreds) text += " long";
  if (reduction.segment_coordinates > 0) text += fmt::format(" segments{}", reduction.segment_coordinates);
  if (reduction.lanewise) text += " lanewise";
  if (reduction.segment_slots > 0) text += fmt::format(" slots{}", reduction.segment_slots);
  if (reduction.transposed_store != TransposedStore::none)
    text += fmt::format(" transposed_store {} b{} p{}",
                        reduction.transposed_store == TransposedStore::rows ? "rows" : "elements", reduction.batch,
                        reduction.vectors_per_run);
  text += to_string(reduction.structure);
  text += " h";
  for (const bool held : reduction.held) text += held ? '1' : '0';
  if (std::ranges::find(reduction.hoisted, true) != reduction.hoisted.end()) {
    text += " y";
    for (const bool hoisted : reduction.hoisted) text += hoisted ? '1' : '0';
  }
  for (const std::uint32_t mask : reduction.missing) text += fmt::format(" m{}", mask);
  for (const ir::Value value : reduction.saved) text += fmt::format(" s{}", value);
  return text;
}

std::string to_string(const Tuning& tuning) {
  std::string text = fmt::format(" | r{} u{} b{}", tuning.resident_blocks, tuning.unroll, tuning.batch);
  if (tuning.l1_evict_first) text += " l1_evict_first";
  if (tuning.cheap_terms) text += " cheap_terms";
  return text;
}

}  // namespace

std::string to_string(const KernelClass& kernel) {
  std::string text = fmt::format("{} {} i{} c{} e{} s{}", to_string(kernel.schedule), kernel.f64 ? "f64" : "f32",
                                 kernel.wide_index ? 64 : 32, kernel.coordinates, kernel.elements, kernel.steps);
  if (kernel.divisible_rows) text += " divisible";
  const auto add = [&](const OperandPlan& operand) {
    text += fmt::format(" {}:{}", to_string(operand.dtype), to_string(operand.access));
    if (operand.width > 1) text += fmt::format("x{}", operand.width);
    if (operand.read_only) text += " read_only";
  };
  for (const OperandPlan& operand : kernel.inputs) add(operand);
  text += " ->";
  for (const OperandPlan& operand : kernel.outputs) add(operand);
  if (kernel.input_lanes > 0) text += fmt::format(" | {} lanes of {}", kernel.input_lanes, kernel.input_threads);
  if (kernel.tile_overlap > 0) text += fmt::format(" tile_overlap {}", kernel.tile_overlap);
  if (kernel.reduction) text += to_string(*kernel.reduction, kernel.threads) + to_string(kernel.tuning);
  return text;
}

namespace {

void add_code(ClassCode& code, const Structure& structure) {
  code.push_back(static_cast<std::uint32_t>(structure.output_pass));
  code.push_back(static_cast<std::uint32_t>(structure.accumulators.size()));
  for (const Accumulator& a : structure.accumulators) {
    code.push_back(static_cast<std::uint32_t>(a.kind) | (a.grid ? 1U << 8 : 0U) | (a.segment ? 1U << 31 : 0U) |
                   (a.grid ? 0U : static_cast<std::uint32_t>(a.stage) << 9));
    code.push_back(static_cast<std::uint32_t>(a.argument));
  }
  for (const NodeRole& node : structure.nodes) {
    const bool reduces = node.accumulator >= 0;
    code.push_back(static_cast<std::uint32_t>(node.scope) | (reduces && node.second ? 1U << 2 : 0U) |
                   (node.per_segment ? 1U << 3 : 0U) | static_cast<std::uint32_t>(node.accumulator + 1) << 4);
  }
}

void add_code(ClassCode& code, const ReductionClass& reduction, int threads) {
  std::uint32_t flags = 0;
  for (const bool flag :
       {reduction.inner_reduction, reduction.tensor_aligned, reduction.staged, reduction.striped,
        reduction.interleaved_rows, reduction.shares_grid, reduction.sums_hundreds, reduction.lanewise})
    flags = flags << 1 | (flag ? 1U : 0U);
  code.push_back(flags | static_cast<std::uint32_t>(reduction.transposed_store) << 8 |
                 (reduction.prefetches ? 1U << 12 : 0U) | (reduction.l2_evict_first ? 1U << 13 : 0U) |
                 static_cast<std::uint32_t>(reduction.segment_coordinates) << 16);
  code.push_back(static_cast<std::uint32_t>(reduction.batch) | static_cast<std::uint32_t>(reduction.vectors_per_run)
                                                                   << 16);
  for (const int number :
       {reduction.outer, reduction.reduced, reduction.inner, reduction.group_threads, reduction.columns, threads,
        reduction.cluster, reduction.segment_slots, reduction.rows_per_group})
    code.push_back(static_cast<std::uint32_t>(number));
  add_code(code, reduction.structure);
  for (std::size_t i = 0; i < reduction.held.size(); ++i)
    code.push_back((reduction.held[i] ? 1U : 0U) | (reduction.hoisted[i] ? 2U : 0U));
  for (const std::uint32_t mask : reduction.missing) code.push_back(mask);
  for (const ir::Value value : reduction.saved) code.push_back(static_cast<std::uint32_t>(value));
}

}  // namespace

// The counts of nodes and operands are the chain's: no two codes of one chain differ in where their fields begin.
ClassCode code_of(const KernelClass& kernel) {
  ClassCode code;
  code.push_back(static_cast<std::uint32_t>(kernel.schedule) | (kernel.f64 ? 1U << 4 : 0U) |
                 (kernel.wide_index ? 1U << 5 : 0U) | (kernel.reduction ? 1U << 6 : 0U) |
                 (kernel.divisible_rows ? 1U << 7 : 0U) | static_cast<std::uint32_t>(kernel.coordinates) << 8 |
                 static_cast<std::uint32_t>(kernel.elements) << 16);
  code.push_back(static_cast<std::uint32_t>(kernel.steps) | static_cast<std::uint32_t>(kernel.input_lanes) << 8 |
                 static_cast<std::uint32_t>(kernel.input_threads) << 16 |
                 static_cast<std::uint32_t>(kernel.tile_overlap) << 24);
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const OperandPlan& operand : *operands) {
      code.push_back(static_cast<std::uint32_t>(operand.dtype) | static_cast<std::uint32_t>(operand.access) << 8 |
                     static_cast<std::uint32_t>(operand.width) << 16 | (operand.read_only ? 1U << 24 : 0U));
    }
  }
  if (!kernel.reduction) return code;
  add_code(code, *kernel.reduction, kernel.threads);
  const Tuning& tuning = kernel.tuning;
  code.push_back(static_cast<std::uint32_t>(tuning.resident_blocks) | static_cast<std::uint32_t>(tuning.unroll) << 8 |
                 static_cast<std::uint32_t>(tuning.batch) << 16 | (tuning.l1_evict_first ? 1U << 24 : 0U) |
                 (tuning.cheap_terms ? 1U << 25 : 0U));
  return code;
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
  }
  return sum;
}

std::uint64_t bytes_of(const StridedOperand& strided, const Space& space) {
  if (!strided.used) return 0;
  std::uint64_t bytes = size_of(strided.dtype);
  for (int i = 0; i < space.rank(); ++i) {
    if (strided.strides[static_cast<std::size_t>(i)] != 0) bytes *= static_cast<std::uint64_t>(space.extents[i]);
  }
  return bytes;
}

namespace {

// Where there are no rows, no thread has one whose results it could write: only grid reductions, each of which has a block, are written.
void check_written(const Plan& plan, const ir::Program& program, std::span<const OutputView> outputs) {
  if (plan.rows * plan.row_columns > 0) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::ranges::find(outputs[i].shape, 0) != outputs[i].shape.end()) continue;
    const auto value = static_cast<std::size_t>(program.results()[i].value);
    const bool is_of_grid = plan.kernel_class.reduction->structure.nodes[value].scope == Scope::grid;
    if (is_of_grid && grid_results(plan) > 0) continue;
    base::fail(
        ErrorCode::unsupported,
        "output '{}' (shape {}) has elements, but the rows that the chain's other results are computed from have "
        "none, so no kernel of the chain writes it. Give it a chain of its own",
        program.result_name(i), to_string(outputs[i].shape));
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
      check_written(plan, program, outputs);
      const auto is_empty = [](const OutputView& out) { return std::ranges::find(out.shape, 0) != out.shape.end(); };
      if (std::ranges::all_of(outputs, is_empty)) plan.blocks = 0;
      return plan;
    }
  }
  Space& space = plan.space;
  KernelClass& kernel = plan.kernel_class;
  kernel.f64 = space.f64;
  kernel.threads = kPolicy.threads;
  const Strides dense = dense_strides(space);
  const int instructions = instructions_of(program);
  kernel.schedule = choose_schedule(space, dense, instructions, kernel);
  if (kernel.schedule != Schedule::transpose) choose_accesses(kernel, space, dense, instructions);
  kernel.tuning.resident_blocks = choose_resident_blocks(kernel, space, program, instructions);
  kernel.wide_index = needs_wide_index(space);
  kernel.coordinates = choose_coordinates(kernel, space);
  pad(space, kernel.coordinates);
  kernel.divisible_rows = has_divisible_rows(kernel, space);
  if (space.elements > 0) size_grid(plan);
  std::uint64_t bytes = 0;
  for (const auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (const StridedOperand& strided : *strided_operands) bytes += bytes_of(strided, space);
  }
  plan.reverse_order = bytes >= kPolicy.reverse_order_bytes;
  return plan;
}

}  // namespace epifuse::plan
