// Chooses the schedule, each operand's access, and the sizes, from the normal form of the tensors.
// docs/internals/plan.md explains every choice.
#include "plan/plan.hpp"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <limits>

#include "base/text.hpp"
#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

constexpr std::array<std::string_view, 8> kScheduleNames = {"flat", "rows", "crossed", "turned",
                                                            "team", "loop", "split",   "kept"};
constexpr std::array<std::string_view, 9> kAccessNames = {"unused",  "linear", "uniform", "row",    "contiguous",
                                                          "strided", "steady", "turned",  "shifted"};

Schedule choose_schedule(Space& space, const Strides& dense, int instructions, KernelClass& kernel) {
  if (const int across = find_across(space); across >= 0) {
    if (turn(space, across, instructions, kernel)) return Schedule::turned;
    if (cross(space, across)) return Schedule::crossed;
  }
  const bool dense_outputs = std::ranges::all_of(
      space.outputs, [&](const Walk& walk) { return classify(walk, space, dense, true) == Access::linear; });
  return dense_outputs ? Schedule::flat : Schedule::rows;
}

// Whether groups of a flat walk begin anywhere in the rows of a vector, and so gather its elements one by one.
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
  // Only element-wise walks (a transposed copy, say): neighbouring threads on neighbouring elements serve the caches best.
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
  // A row shorter than a group would leave most of the group idle.
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
    if (input.access == Access::unused || input.access == Access::uniform || input.access == Access::steady) continue;
    loaded += size_in_bytes(input) * (input.access == Access::row ? 1 : kernel.elements);
  }
  return loaded;
}

// A light chain whose groups are less than an access of every tensor, since a vector's wider elements limit them (f8, a bias in f32).
bool is_narrow(const KernelClass& kernel, const Space& space, int instructions) {
  const bool fits = kernel.schedule == Schedule::flat && !kernel.f64 && instructions <= kPolicy.narrow_instructions &&
                    kernel.elements == kPolicy.thread_elements && 2 * loaded_bytes(kernel) <= kPolicy.narrow_bytes &&
                    space.rank() > 0 && space.extents[space.rank() - 1] % kernel.elements == 0;
  const auto all_narrow = [&](const auto& operands, const auto& walks) {
    for (std::size_t i = 0; i < walks.size(); ++i) {
      if (operands[i].access != Access::unused && is_full(walks[i], space) &&
          size_in_bytes(operands[i]) * kernel.elements >= kPolicy.bytes_per_access)
        return false;
    }
    return true;
  };
  return fits && all_narrow(kernel.inputs, space.inputs) && all_narrow(kernel.outputs, space.outputs);
}

// A light chain of one big operand and one result of f32, an access of each, and of two vectors at most.
bool is_light_f32(const KernelClass& kernel, const Space& space, int instructions) {
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
  return full == 1 && loaded_bytes(kernel) <= kPolicy.light_bytes && kernel.schedule == Schedule::flat && !kernel.f64 &&
         kernel.outputs.size() == 1 && one_access(kernel.outputs[0]) && instructions <= kPolicy.light_instructions;
}

// Threads enough keep enough bytes in flight; more than one step per thread only shares what a thread costs among enough elements.
int choose_steps(const KernelClass& kernel, const Space& space, int instructions) {
  bool reads_streams = false;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Access access = kernel.inputs[i].access;
    const bool read = access != Access::unused && access != Access::uniform;
    reads_streams = reads_streams || (read && is_full(space.inputs[i], space));
  }
  if (!reads_streams || is_light_f32(kernel, space, instructions)) return 1;
  const int loaded = loaded_bytes(kernel);
  const auto wants_more = [&](int steps) {
    if (kernel.schedule == Schedule::crossed) return steps * loaded < kPolicy.crossed_bytes;
    return kernel.elements * steps < kPolicy.thread_elements ||
           (kernel.elements < kPolicy.thread_elements && 2 * steps * loaded <= kPolicy.bytes_in_flight);
  };
  int steps = 1;
  while (steps < kPolicy.most_steps && wants_more(steps)) steps *= 2;
  if (is_narrow(kernel, space, instructions)) steps = 2;
  while (steps > 1 && steps * loaded > kPolicy.waiting_register_bytes) steps /= 2;
  while (steps > 1 && instructions * kernel.elements * steps > kPolicy.unrolled_instructions) steps /= 2;
  return steps;
}

// All threads that a multiprocessor has room for, where their registers will do.
int choose_resident_blocks(const KernelClass& kernel, const Space& space, const ir::Program& program,
                           int instructions) {
  if (is_narrow(kernel, space, instructions)) return kPolicy.narrow_threads / kernel.threads;
  const bool fits = !kernel.f64 && kernel.steps * loaded_bytes(kernel) <= kPolicy.bytes_in_flight &&
                    program.operation_count() <= kPolicy.most_operations_of_full;
  const bool crossed = kernel.schedule == Schedule::crossed || kernel.schedule == Schedule::turned;
  return fits ? (crossed ? kPolicy.crossed_threads : kPolicy.resident_threads) / kernel.threads : 0;
}

static_assert(kPolicy.bytes_per_access <= static_cast<int>(kAlignmentSeen));

// The widest access that the address allows. Groups of a linear operand begin at multiples of `elements`, so the base decides; a
// gathered contiguous one is checked in the kernel, row by row.
int choose_width(const OperandPlan& operand, const Walk& walk, int elements) {
  const int size = size_in_bytes(operand);
  int width = 1;
  if (is_streamed(operand.access)) {
    width = std::min(elements, kPolicy.bytes_per_access / size);
    if (operand.access == Access::linear) {
      const auto address = reinterpret_cast<std::uintptr_t>(walk.data);
      while (width > 1 && address % static_cast<std::uintptr_t>(width * size) != 0) width /= 2;
    }
  }
  return width;
}

// Of all schedules but `turned`: how operands are accessed, and how many elements and steps that gives a thread.
void choose_accesses(KernelClass& kernel, const Space& space, const Strides& dense, int instructions) {
  for (const Walk& walk : space.inputs)
    kernel.inputs.push_back({walk.dtype, classify(walk, space, dense, kernel.schedule == Schedule::flat), 1});
  for (const Walk& walk : space.outputs)
    kernel.outputs.push_back({walk.dtype, classify(walk, space, dense, kernel.schedule == Schedule::flat), 1});
  kernel.elements = choose_elements(kernel, space, instructions);
  if (kernel.schedule == Schedule::crossed) {
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

// A class of its own for the usual extents: without the ways of groups that are not whole or cross into the next row there is half as much to
// compile (docs/measurements/notes/cold-start.md).
bool has_whole_rows(const KernelClass& kernel, const Space& space) {
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
  for (auto* walks : {&space.inputs, &space.outputs}) {
    for (Walk& walk : *walks) {
      std::shift_right(walk.strides.begin(), walk.strides.end(), missing);
      std::fill_n(walk.strides.begin(), missing, 0);
    }
  }
  space.extents = extents;
}

void size_grid(Plan& plan) {
  const KernelClass& kernel = plan.kernel_class;
  const int rank = plan.space.rank();
  plan.threads = kernel.threads;
  if (kernel.schedule == Schedule::crossed || kernel.schedule == Schedule::turned) {
    const bool turned = kernel.schedule == Schedule::turned;
    const std::int64_t across = std::int64_t{kernel.threads_across} * (turned ? kernel.elements : 1);
    const std::int64_t along =
        std::int64_t{kernel.threads} / kernel.threads_across * kernel.steps * (turned ? 1 : kernel.elements) -
        kernel.halo;
    plan.tiles_across = divide_up(plan.space.extents[turned ? rank - 1 : rank - 2], across);
    plan.tiles_along = divide_up(plan.space.extents[turned ? rank - 2 : rank - 1], along);
    const std::int64_t planes = plan.space.elements / plan.space.extents[rank - 1] / plan.space.extents[rank - 2];
    plan.tiles = planes * plan.tiles_across * plan.tiles_along;
    plan.blocks =
        static_cast<std::uint32_t>(std::min<std::int64_t>(plan.tiles, std::numeric_limits<std::int32_t>::max()));
    return;
  }
  if (kernel.schedule == Schedule::rows && rank > 0) {
    const std::int64_t inner = plan.space.extents[rank - 1];
    plan.groups_per_row = divide_up(inner, kernel.elements);
    plan.groups = plan.space.elements / inner * plan.groups_per_row;
  } else {
    // The elements behind the last whole group have a thread each.
    plan.groups = plan.space.elements / kernel.elements + plan.space.elements % kernel.elements;
  }
  const auto blocks = [&] { return divide_up(plan.groups, std::int64_t{plan.threads} * kernel.steps); };
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

Access classify(const Walk& walk, const Space& space, const Strides& dense, bool linear_allowed) {
  if (!walk.used) return Access::unused;
  const auto rank = static_cast<std::size_t>(space.rank());
  const auto equal = [&](const Strides& other) {
    return every_dimension(space, [&](std::size_t d) { return other[d] == walk.strides[d]; });
  };
  if (linear_allowed && equal(dense)) return Access::linear;
  if (equal(Strides{})) return Access::uniform;
  const std::int64_t inner = rank == 0 ? 0 : walk.strides[rank - 1];
  return inner == 0 ? Access::row : inner == 1 ? Access::contiguous : Access::strided;
}

bool is_full(const Walk& walk, const Space& space) {
  return every_dimension(space, [&](std::size_t d) { return walk.strides[d] != 0; });
}

bool needs_wide_index(const Space& space) {
  // Below 2^31 with room for the last tile and the coordinate arithmetic.
  constexpr std::int64_t kLimit = std::int64_t{std::numeric_limits<std::int32_t>::max()} - (1 << 20);
  const auto reaches = [&](const Walk& walk) {
    if (walk.reach.empty()) return false;  // strides of nothing are any numbers
    std::int64_t reach = 0;
    for (int i = 0; i < space.rank(); ++i)
      if (space.extents[i] > 1) reach += std::abs(walk.strides[static_cast<std::size_t>(i)]) * (space.extents[i] - 1);
    return walk.used && reach >= kLimit;
  };
  // Extents apart: those of no elements may be large, and are divided by as others.
  const auto large = [](std::int64_t extent) { return extent >= kLimit; };
  return space.elements >= kLimit || std::ranges::any_of(space.extents, large) ||
         std::ranges::any_of(space.inputs, reaches) || std::ranges::any_of(space.outputs, reaches);
}

std::string_view to_string(Access access) noexcept { return kAccessNames[static_cast<std::size_t>(access)]; }

std::string_view to_string(Schedule schedule) noexcept { return kScheduleNames[static_cast<std::size_t>(schedule)]; }

namespace {

std::string to_string(const RowClass& rows, int threads) {
  std::string text =
      fmt::format(" | {}{} {}+{}+{} t{}x{}/{} k{}", rows.along ? "along" : "across", rows.framed ? " framed" : "",
                  rows.outer, rows.reduced, rows.inner, rows.team, rows.columns, threads, rows.cluster);
  if (rows.staged) text += " staged";
  if (rows.asks_ahead) text += " ahead";
  if (rows.streams) text += " streams";
  if (rows.spread) text += " spread";
  if (rows.interleaved) text += " interleaved";
  if (rows.crossing == Crossing::none && rows.pieces > 1) text += fmt::format(" p{}", rows.pieces);
  if (rows.shares_across) text += " shared";
  if (rows.passes > 1) text += fmt::format(" passes{}", rows.passes);
  if (rows.sums_hundreds) text += " long";
  if (rows.part_coordinates > 0) text += fmt::format(" parts{}", rows.part_coordinates);
  if (rows.lanewise) text += " lanewise";
  if (rows.part_slots > 0) text += fmt::format(" slots{}", rows.part_slots);
  if (rows.crossing != Crossing::none)
    text +=
        fmt::format(" crossing {} b{} p{}", rows.crossing == Crossing::rows ? "rows" : "walk", rows.batch, rows.pieces);
  text += to_string(rows.structure);
  text += " h";
  for (const bool held : rows.held) text += held ? '1' : '0';
  if (std::ranges::find(rows.steady, true) != rows.steady.end()) {
    text += " y";
    for (const bool steady : rows.steady) text += steady ? '1' : '0';
  }
  for (const std::uint32_t mask : rows.missing) text += fmt::format(" m{}", mask);
  for (const ir::Value value : rows.carried) text += fmt::format(" c{}", value);
  return text;
}

std::string to_string(const Tuning& tuning) {
  std::string text = fmt::format(" | r{} u{} b{}", tuning.resident_blocks, tuning.unroll, tuning.batch);
  if (tuning.evict_first) text += " evict_first";
  if (tuning.cheap_terms) text += " cheap_terms";
  return text;
}

}  // namespace

std::string to_string(const KernelClass& kernel) {
  std::string text = fmt::format("{} {} i{} c{} e{} s{}", to_string(kernel.schedule), kernel.f64 ? "f64" : "f32",
                                 kernel.wide_index ? 64 : 32, kernel.coordinates, kernel.elements, kernel.steps);
  if (kernel.whole_rows) text += " whole";
  const auto add = [&](const OperandPlan& operand) {
    text += fmt::format(" {}:{}", to_string(operand.dtype), to_string(operand.access));
    if (operand.width > 1) text += fmt::format("x{}", operand.width);
    if (operand.read_only) text += " read_only";
  };
  for (const OperandPlan& operand : kernel.inputs) add(operand);
  text += " ->";
  for (const OperandPlan& operand : kernel.outputs) add(operand);
  if (kernel.lanes_across > 0) text += fmt::format(" | {} lanes of {}", kernel.lanes_across, kernel.threads_across);
  if (kernel.halo > 0) text += fmt::format(" halo {}", kernel.halo);
  if (kernel.rows) text += to_string(*kernel.rows, kernel.threads) + to_string(kernel.tuning);
  return text;
}

namespace {

void add_code(ClassCode& code, const Structure& structure) {
  code.push_back(static_cast<std::uint32_t>(structure.output_walk));
  code.push_back(static_cast<std::uint32_t>(structure.accumulators.size()));
  for (const Accumulator& a : structure.accumulators) {
    code.push_back(static_cast<std::uint32_t>(a.kind) | (a.across ? 1U << 8 : 0U) | (a.part ? 1U << 31 : 0U) |
                   (a.across ? 0U : static_cast<std::uint32_t>(a.level) << 9));
    code.push_back(static_cast<std::uint32_t>(a.argument));
  }
  for (const NodeRole& node : structure.nodes) {
    const bool reduces = node.accumulator >= 0;
    code.push_back(static_cast<std::uint32_t>(node.extent) | (reduces && node.second ? 1U << 2 : 0U) |
                   (node.part_wise ? 1U << 3 : 0U) | static_cast<std::uint32_t>(node.accumulator + 1) << 4);
  }
}

void add_code(ClassCode& code, const RowClass& rows, int threads) {
  std::uint32_t flags = 0;
  for (const bool flag : {rows.along, rows.framed, rows.staged, rows.spread, rows.interleaved, rows.shares_across,
                          rows.sums_hundreds, rows.lanewise})
    flags = flags << 1 | (flag ? 1U : 0U);
  code.push_back(flags | static_cast<std::uint32_t>(rows.crossing) << 8 | (rows.asks_ahead ? 1U << 12 : 0U) |
                 (rows.streams ? 1U << 13 : 0U) | static_cast<std::uint32_t>(rows.part_coordinates) << 16);
  code.push_back(static_cast<std::uint32_t>(rows.batch) | static_cast<std::uint32_t>(rows.pieces) << 16);
  for (const int number : {rows.outer, rows.reduced, rows.inner, rows.team, rows.columns, threads, rows.cluster,
                           rows.part_slots, rows.passes})
    code.push_back(static_cast<std::uint32_t>(number));
  add_code(code, rows.structure);
  for (std::size_t i = 0; i < rows.held.size(); ++i)
    code.push_back((rows.held[i] ? 1U : 0U) | (rows.steady[i] ? 2U : 0U));
  for (const std::uint32_t mask : rows.missing) code.push_back(mask);
  for (const ir::Value value : rows.carried) code.push_back(static_cast<std::uint32_t>(value));
}

}  // namespace

// The counts of nodes and operands are the chain's: no two codes of one chain differ in where their parts begin.
ClassCode code_of(const KernelClass& kernel) {
  ClassCode code;
  code.push_back(static_cast<std::uint32_t>(kernel.schedule) | (kernel.f64 ? 1U << 4 : 0U) |
                 (kernel.wide_index ? 1U << 5 : 0U) | (kernel.rows ? 1U << 6 : 0U) |
                 (kernel.whole_rows ? 1U << 7 : 0U) | static_cast<std::uint32_t>(kernel.coordinates) << 8 |
                 static_cast<std::uint32_t>(kernel.elements) << 16);
  code.push_back(static_cast<std::uint32_t>(kernel.steps) | static_cast<std::uint32_t>(kernel.lanes_across) << 8 |
                 static_cast<std::uint32_t>(kernel.threads_across) << 16 |
                 static_cast<std::uint32_t>(kernel.halo) << 24);
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const OperandPlan& operand : *operands) {
      code.push_back(static_cast<std::uint32_t>(operand.dtype) | static_cast<std::uint32_t>(operand.access) << 8 |
                     static_cast<std::uint32_t>(operand.width) << 16 | (operand.read_only ? 1U << 24 : 0U));
    }
  }
  if (!kernel.rows) return code;
  add_code(code, *kernel.rows, kernel.threads);
  const Tuning& tuning = kernel.tuning;
  code.push_back(static_cast<std::uint32_t>(tuning.resident_blocks) | static_cast<std::uint32_t>(tuning.unroll) << 8 |
                 static_cast<std::uint32_t>(tuning.batch) << 16 | (tuning.evict_first ? 1U << 24 : 0U) |
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

std::uint64_t bytes_of(const Walk& walk, const Space& space) {
  if (!walk.used) return 0;
  std::uint64_t bytes = size_of(walk.dtype);
  for (int i = 0; i < space.rank(); ++i) {
    if (walk.strides[static_cast<std::size_t>(i)] != 0) bytes *= static_cast<std::uint64_t>(space.extents[i]);
  }
  return bytes;
}

namespace {

// Where there are no rows, no thread has one whose results it could write: only results across rows, each of which has a block, are written.
void check_written(const Plan& plan, const ir::Program& program, std::span<const OutputView> outputs) {
  if (plan.rows * plan.row_columns > 0) return;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::ranges::find(outputs[i].shape, 0) != outputs[i].shape.end()) continue;
    const auto value = static_cast<std::size_t>(program.results()[i].value);
    const bool is_across = plan.kernel_class.rows->structure.nodes[value].extent == Extent::across;
    if (is_across && results_across(plan) > 0) continue;
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
    if (structure.has_rows()) {
      plan_rows(plan, program, std::move(structure), machine);
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
  if (kernel.schedule != Schedule::turned) choose_accesses(kernel, space, dense, instructions);
  kernel.tuning.resident_blocks = choose_resident_blocks(kernel, space, program, instructions);
  kernel.wide_index = needs_wide_index(space);
  kernel.coordinates = choose_coordinates(kernel, space);
  pad(space, kernel.coordinates);
  kernel.whole_rows = has_whole_rows(kernel, space);
  if (space.elements > 0) size_grid(plan);
  std::uint64_t bytes = 0;
  for (const auto* walks : {&space.inputs, &space.outputs}) {
    for (const Walk& walk : *walks) bytes += bytes_of(walk, space);
  }
  plan.backwards = bytes >= kPolicy.backwards_bytes;
  return plan;
}

}  // namespace epifuse::plan
