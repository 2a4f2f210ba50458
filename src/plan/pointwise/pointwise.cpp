// Chains without reductions: how threads map to the iteration space, how operands are accessed, how many elements and
// steps a thread takes, and the grid. The maps that tile two dimensions have files of their own.
#include "plan/pointwise/pointwise.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "plan/policy.hpp"
#include "plan/runs.hpp"

namespace epifuse::plan {
namespace {

// Whether vectors of the flat schedule begin anywhere in the rows of a broadcast operand, and so gather its elements
// one by one.
bool gathers_vectors(const KernelClass& kernel, const Space& space, int elements) {
  if (!kernel.map<Flat>() || space.rank() == 0 || space.extents[space.rank() - 1] % elements == 0) return false;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (kernel.inputs[i].access == Access::contiguous && !is_full(space.inputs[i], space)) return true;
  }
  return false;
}

// A vector of what need not exist, or is rolled, is read by two rows at most.
bool has_runs_of_rows(const KernelClass& kernel) {
  return std::ranges::any_of(kernel.inputs, [](const OperandPlan& operand) {
    return operand.access == Access::bounded || operand.access == Access::inside;
  });
}

// Operands of the whole iteration space that are read element by element: every second column, say, or what is padded.
// Of those that exist here and there, as the pieces of what is rolled, some together count as one: roll(x, (3, 5), (2,
// 3)) of f16 took 3.6 of a copy on an H100 with two elements per thread, and 2.0 with eight (a run each, of different
// commits).
int full_operands_by_element(const KernelClass& kernel, const Space& space) {
  int count = 0;
  double existing = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Access access = kernel.inputs[i].access;
    const StridedOperand& strided = space.inputs[i];
    const bool is_by_element = access == Access::strided ||
                               (access == Access::bounded && !has_aligned_existing(strided, space)) ||
                               (access == Access::gathered && !has_one_index_per_row(strided, space));
    if (!is_by_element || !is_full(strided, space)) continue;
    if (access == Access::bounded && has_runs(strided, space)) {
      existing += static_cast<double>(strided.existing) / static_cast<double>(strided.places);
    } else {
      ++count;
    }
  }
  return count + static_cast<int>(std::ceil(existing));
}

// Consecutive elements per thread: a vector of the streamed operands, or fewer.
int choose_elements(const KernelClass& kernel, const Space& space, int instructions) {
  int narrowest = 8;
  int widest = 1;
  int registers = 0;  // bytes per element: narrower types occupy registers as packed words
  for (const auto* operands : {&kernel.inputs, &kernel.outputs}) {
    for (const OperandPlan& operand : *operands) {
      if (is_streamed(operand.access)) narrowest = std::min(narrowest, size_in_bytes(operand));
      if (is_streamed(operand.access) || operand.access == Access::run) widest = std::max(widest, moved_bytes(operand));
      if (operand.access != Access::unused && operand.access != Access::uniform) registers += moved_bytes(operand);
    }
  }
  // Only element-wise accesses (a transposed copy, say): neighbouring threads on neighbouring elements serve the caches
  // best.
  const auto streamed = [](const OperandPlan& operand) { return is_streamed(operand.access) || operand.run; };
  if (std::ranges::none_of(kernel.outputs, streamed) || !has_one_place_per_row(space)) return 1;
  for (const OperandPlan& output : kernel.outputs)
    if (output.access == Access::run) narrowest = std::min(narrowest, moved_bytes(output));
  auto elements = static_cast<int>(std::bit_floor(static_cast<unsigned>(elements_of_vector(narrowest, widest))));
  while (elements > 1 && elements * registers > kPolicy.register_bytes) elements /= 2;
  while (elements > 1 && elements * instructions > kPolicy.most_instructions) elements /= 2;
  // Each load of an operand that is read element by element touches a sector per thread, and those of all elements the
  // same ones again. With 8 elements of f16 one such operand took 0.98 of a copy on an H200, two 1.49 and four 1.98;
  // with 4 and 2 elements they take 1.04 and 1.24.
  const int by_element = kernel.map<Flat>() ? full_operands_by_element(kernel, space) : 0;
  while (elements > 1 && elements * by_element > kPolicy.thread_elements) elements /= 2;
  if (gathers_vectors(kernel, space, elements)) {
    if (narrowest == 4 && widest == 4 && instructions <= kPolicy.gathered_instructions) return 1;
    if (narrowest == 1 && widest == 4 &&
        space.extents[space.rank() - 1] >= std::int64_t{kPolicy.block_threads} * (kAccessBytes / widest))
      elements = std::min(elements, kAccessBytes / widest);
  }
  if (has_runs_of_rows(kernel)) {
    while (elements > 1 && elements > space.extents[space.rank() - 1]) elements /= 2;
  }
  // A row shorter than a vector would leave most of the vector idle.
  if (!kernel.map<Flat>() && space.rank() > 0) {
    const auto inner = static_cast<std::uint64_t>(space.extents[space.rank() - 1]);
    while (elements > 1 && static_cast<std::uint64_t>(elements) / 2 >= inner) elements /= 2;
  }
  return elements;
}

// Bytes that one step of a thread has loaded before it computes.
int loaded_bytes(const KernelClass& kernel) {
  int loaded = 0;
  for (const OperandPlan& input : kernel.inputs) {
    if (!is_value(input.access) || input.access == Access::uniform || input.access == Access::hoisted) continue;
    loaded += moved_bytes(input) * (input.access == Access::row ? 1 : kernel.elements);
  }
  return loaded;
}

// Bytes of results that wait, in registers, until the last one is computed: all but one.
int waiting_bytes(const KernelClass& kernel) {
  int waiting = 0;
  for (std::size_t i = 1; i < kernel.outputs.size(); ++i) waiting += size_in_bytes(kernel.outputs[i]) * kernel.elements;
  return waiting;
}

// A memory-bound chain whose vectors are less than an access of every tensor, since a broadcast operand's wider
// elements limit them (f8, a bias in f32).
bool is_half_access(const KernelClass& kernel, const Space& space, int instructions) {
  const bool fits = kernel.map<Flat>() && !kernel.f64 && instructions <= kPolicy.half_access_instructions &&
                    kernel.elements == kPolicy.thread_elements && loaded_bytes(kernel) <= kPolicy.memory_bound_bytes &&
                    space.rank() > 0 && space.extents[space.rank() - 1] % kernel.elements == 0;
  const auto all_half_access = [&](const auto& operands, const auto& strided_operands) {
    for (std::size_t i = 0; i < strided_operands.size(); ++i) {
      if (is_value(operands[i].access) && is_full(strided_operands[i], space) &&
          size_in_bytes(operands[i]) * kernel.elements >= kAccessBytes)
        return false;
    }
    return true;
  };
  return fits && all_half_access(kernel.inputs, space.inputs) && all_half_access(kernel.outputs, space.outputs);
}

// A memory-bound chain of one big operand and one result of f32, an access of each, and of two broadcast operands at
// most.
bool is_memory_bound_f32(const KernelClass& kernel, const Space& space, int instructions) {
  const auto one_access = [&](const OperandPlan& operand) {
    return operand.dtype == DType::f32 && size_in_bytes(operand) * kernel.elements == kAccessBytes;
  };
  int full = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const OperandPlan& input = kernel.inputs[i];
    if (!is_value(input.access) || input.access == Access::uniform) continue;
    if (!one_access(input)) return false;
    full += is_full(space.inputs[i], space) ? 1 : 0;
  }
  return full == 1 && loaded_bytes(kernel) <= kPolicy.memory_bound_bytes && kernel.map<Flat>() && !kernel.f64 &&
         kernel.outputs.size() == 1 && one_access(kernel.outputs[0]) &&
         instructions <= kPolicy.memory_bound_instructions;
}

// Threads enough keep enough bytes in flight; more than one step per thread only shares what a thread costs among
// enough elements.
int choose_steps(const KernelClass& kernel, const Space& space, int instructions) {
  bool reads_streams = false;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const Access access = kernel.inputs[i].access;
    const bool read = is_value(access) && access != Access::uniform;
    reads_streams = reads_streams || (read && is_full(space.inputs[i], space));
  }
  if (!reads_streams || is_memory_bound_f32(kernel, space, instructions)) return 1;
  const int loaded = loaded_bytes(kernel);
  const auto wants_more = [&](int steps) {
    if (kernel.map<Tiled2D>()) return steps * loaded < kPolicy.lean_bytes;
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
int choose_resident_blocks(const KernelClass& kernel, const Space& space, const ir::Program& program, int instructions,
                           const Machine& machine) {
  const int lean_threads = machine.threads_with(registers_for(kPolicy.lean_bytes));
  if (is_half_access(kernel, space, instructions)) return lean_threads / kernel.threads;
  const bool fits = !kernel.f64 &&
                    kernel.steps * loaded_bytes(kernel) + waiting_bytes(kernel) <= kPolicy.bytes_in_flight &&
                    program.operation_count() <= kPolicy.most_operations_of_full;
  const bool is_tiled = kernel.map<Tiled2D>() || kernel.map<Transpose>();
  return fits ? (is_tiled ? lean_threads : machine.threads) / kernel.threads : 0;
}

static_assert(kAccessBytes <= static_cast<int>(kAlignmentSeen));

// The widest access that the address allows. Vectors of a linear operand begin at multiples of `elements`, so the base
// decides; a gathered contiguous one is checked in the kernel, row by row.
int choose_width(const OperandPlan& operand, const StridedOperand& strided, const Space& space, int elements) {
  if (operand.access == Access::gathered) {
    return has_one_index_per_row(strided, space)
               ? access_width(operand.dtype, elements,
                              [&](int width) { return is_aligned(strided, space, space.rank() - 1, width); })
               : 1;
  }
  // Checked in the kernel, vector by vector.
  const bool is_existing = operand.access == Access::bounded && has_runs(strided, space);
  if (!is_streamed(operand.access) && !is_existing) return 1;
  return access_width(operand.dtype, elements, [&](int width) {
    return (operand.access != Access::linear || begins_aligned(strided, width)) && has_aligned_rows(strided, width);
  });
}

// Random numbers that come of one computation: neighbours whose first has a number that is a multiple of theirs.
int choose_random_width(const OperandPlan& operand, const StridedOperand& strided, const Space& space, int elements,
                        bool is_flat) {
  const int inner = space.rank() - 1;
  return access_width(operand.dtype, elements, [&](int width) {
    if (operand.access == Access::random_linear) return true;
    const bool begins = !is_flat || space.extents[inner] % width == 0;
    return begins && strided.strides[static_cast<std::size_t>(inner)] == 1 && is_aligned(strided, space, inner, width);
  });
}

// A result of one element has strides of 0. Kernels that go row by row write it as any other.
Access classify_written(const StridedOperand& strided, const Space& space, const Strides& dense, bool is_flat) {
  const Access access = classify_result(strided, space, dense, is_flat);
  return access == Access::uniform ? Access::strided : access;
}

// A class of its own for the usual extents: without the code for vectors that are out of bounds or reach into the next
// row there is half as much to compile (docs/measurements/notes/cold-start.md).
bool has_divisible_rows(const KernelClass& kernel, const Space& space) {
  return kernel.map<Flat>() != nullptr && (kernel.coordinates > 0 || has_packed(kernel)) && kernel.elements > 1 &&
         space.extents[space.rank() - 1] % kernel.elements == 0;
}

// The same of rows of results that are no dense line, where no access needs a test: these rows are in line, too.
bool has_full_vectors(const KernelClass& kernel, const Space& space) {
  const auto all_aligned = [&](const auto& operands, const auto& strided_operands) {
    for (std::size_t i = 0; i < strided_operands.size(); ++i) {
      const bool moves_several = operands[i].access == Access::contiguous && operands[i].width > 1;
      if (moves_several && !is_aligned(strided_operands[i], space, space.rank() - 1, operands[i].width)) return false;
    }
    return true;
  };
  return kernel.map<ByRow>() != nullptr && kernel.elements > 1 &&
         space.extents[space.rank() - 1] % kernel.elements == 0 && all_aligned(kernel.inputs, space.inputs) &&
         all_aligned(kernel.outputs, space.outputs);
}

// The longest vectors that runs of memory serve, and that are not longer than what is chosen with these; whether there
// are some.
bool choose_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int instructions) {
  for (int elements = kAccessBytes; elements > 1; elements /= 2) {
    KernelClass shared = kernel;
    share_runs(shared, space, program, elements);
    const bool has_runs =
        std::ranges::any_of(shared.inputs, [](const OperandPlan& input) { return input.run.has_value(); });
    if (!has_runs || choose_elements(shared, space, instructions) < elements) continue;
    kernel = std::move(shared);
    kernel.elements = elements;
    return true;
  }
  return false;
}

// Likewise where all slices of results share runs, each written by one access of a thread. With two, every one touches
// half of each sector that it meets: stack((relu(x), silu(y)), -1) in f32 took 1.25 of a copy (an H200). These kernels
// have no vector that is cut or not aligned.
bool choose_written_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int instructions) {
  if (kernel.map<ByRow>() == nullptr || !reads_views(program)) return false;
  for (int elements = kAccessBytes; elements > 1; elements /= 2) {
    KernelClass shared = kernel;
    share_written_runs(shared, space, program, elements, [](std::size_t) { return true; });
    const auto is_one_access = [&](const OperandPlan& output) {
      return output.access == Access::of_run || output.width == output.run->step * elements;
    };
    if (!std::ranges::all_of(shared.outputs, [](const OperandPlan& output) { return output.run.has_value(); }))
      continue;
    if (elements > 2 && !std::ranges::all_of(shared.outputs, is_one_access)) continue;
    share_runs(shared, space, program, elements);
    shared.elements = elements;
    for (std::size_t i = 0; i < shared.inputs.size(); ++i)
      if (!shared.inputs[i].run)
        shared.inputs[i].width = choose_width(shared.inputs[i], space.inputs[i], space, elements);
    if (choose_elements(shared, space, instructions) < elements || !has_full_vectors(shared, space)) continue;
    kernel = std::move(shared);
    return true;
  }
  return false;
}

// Of all schedules but `transpose`: how operands are accessed, and how many elements and steps that gives a thread.
void choose_accesses(KernelClass& kernel, const Space& space, const ir::Program& program, int instructions) {
  const Strides dense = dense_strides(space);
  const bool is_flat = kernel.map<Flat>() != nullptr;
  for (const StridedOperand& strided : space.inputs)
    kernel.inputs.push_back({strided.dtype, classify(strided, space, dense, is_flat), 1});
  for (const StridedOperand& strided : space.outputs)
    kernel.outputs.push_back({strided.dtype, classify_written(strided, space, dense, is_flat), 1});
  const bool has_runs = is_flat ? choose_runs(kernel, space, program, instructions)
                                : choose_written_runs(kernel, space, program, instructions);
  if (!has_runs) kernel.elements = choose_elements(kernel, space, instructions);
  if (has_packed(kernel)) kernel.elements = std::max(kernel.elements, 2);
  if (kernel.map<Tiled2D>() != nullptr) {
    kernel.elements = aligned_elements(kernel, space, kernel.elements);
    kernel.body = PointwiseClass{choose_lanes(kernel, space)};
  }
  kernel.steps = choose_steps(kernel, space, instructions);
  for (std::size_t i = 0; i < space.inputs.size(); ++i) {
    if (kernel.inputs[i].run) continue;
    kernel.inputs[i].width =
        is_random(kernel.inputs[i].access)
            ? choose_random_width(kernel.inputs[i], space.inputs[i], space, kernel.elements, is_flat)
            : choose_width(kernel.inputs[i], space.inputs[i], space, kernel.elements);
  }
  for (std::size_t i = 0; i < space.outputs.size(); ++i) {
    if (kernel.outputs[i].run) continue;
    kernel.outputs[i].width = choose_width(kernel.outputs[i], space.outputs[i], space, kernel.elements);
  }
}

// Whether offsets that are made of quotients stay in the index's range on the way.
bool has_small_quotients(const KernelClass& kernel, const Space& space) {
  const auto fits = [&](const StridedOperand& strided) {
    double sum = 0;
    double number = static_cast<double>(space.elements);
    for (int d = space.rank(); d-- > 0;) {
      sum += number * std::abs(static_cast<double>(stride_of_quotient(strided, space, d)));
      number /= static_cast<double>(space.extents[d]);
    }
    return sum < (kernel.wide_index ? 0x1p62 : 0x1p31);
  };
  return kernel.coordinates > 0 && std::ranges::all_of(space.inputs, fits) && std::ranges::all_of(space.outputs, fits);
}

// Broadcast operands none of whose vectors needs another way: nearly every bias. The other way is a quarter of such a
// kernel (cold-start.md).
void find_aligned(KernelClass& kernel, const Space& space) {
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    OperandPlan& input = kernel.inputs[i];
    input.aligned = input.access == Access::contiguous && input.width > 1 &&
                    is_aligned(space.inputs[i], space, space.rank() - 1, input.width);
  }
}

// In the order of the outputs, not in tiles.
bool is_in_line(const KernelClass& kernel) { return kernel.map<Flat>() != nullptr || kernel.map<ByRow>() != nullptr; }

// Few sizes, so that few kernels serve all shapes: three coordinates hold almost every real tail. Each takes a
// division, which counts where an access serves few elements, as of views.
int choose_coordinates(const KernelClass& kernel, const Space& space, const ir::Program& program) {
  const auto gathered = [](const OperandPlan& operand) { return operand.is_gathered(); };
  if (kernel.map<Flat>() != nullptr && std::ranges::none_of(kernel.inputs, gathered)) return 0;
  if (is_in_line(kernel) && reads_views(program) && space.rank() <= 2) return 2;
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

// Blocks and what they are numbered by, for each map.
class GridSizer {
 public:
  GridSizer(Plan& plan, const Machine& machine)
      : plan_(plan), kernel_(plan.kernel_class), space_(plan.space), machine_(machine), rank_(plan.space.rank()) {
    plan_.threads = kernel_.threads;
  }

  void operator()(const Flat&) {
    // The elements behind the last full vector have a thread each.
    size_vectors(space_.elements / kernel_.elements + space_.elements % kernel_.elements);
  }
  void operator()(const ByRow&) {
    const std::int64_t inner = space_.extents[rank_ - 1];
    plan_.vectors_per_row = divide_up(inner, kernel_.elements);
    size_vectors(space_.elements / inner * plan_.vectors_per_row);
  }
  void operator()(const Tiled2D& map) {
    const std::int64_t output_side =
        std::int64_t{kernel_.threads} / map.input_threads * kernel_.steps * kernel_.elements;
    size_tiles(rank_ - 2, map.input_threads, rank_ - 1, output_side);
  }
  void operator()(const WindowTile& map) { size_tiles(rank_ - 2, map.rows, rank_ - 1, map.columns); }
  void operator()(const Transpose& map) {
    const std::int64_t output_side =
        std::int64_t{kernel_.threads} / map.input_threads * kernel_.steps - map.tile_overlap;
    size_tiles(rank_ - 1, std::int64_t{map.input_threads} * kernel_.elements, rank_ - 2, output_side);
  }

 private:
  void size_vectors(std::int64_t vectors) {
    plan_.vectors = vectors;
    const auto blocks = [&] { return divide_up(vectors, std::int64_t{plan_.threads} * kernel_.steps); };
    const auto few = std::bit_floor(static_cast<unsigned>(kPolicy.small_grid_blocks * machine_.multiprocessors));
    while (plan_.threads > kPolicy.fewest_threads && blocks() < few) plan_.threads /= 2;
    set_tiles(blocks());
  }
  void size_tiles(int input, std::int64_t input_side, int output, std::int64_t output_side) {
    plan_.input_tiles = divide_up(space_.extents[input], input_side);
    plan_.output_tiles = divide_up(space_.extents[output], output_side);
    const std::int64_t planes = space_.elements / space_.extents[input] / space_.extents[output];
    set_tiles(planes * plan_.input_tiles * plan_.output_tiles);
  }
  void set_tiles(std::int64_t tiles) {
    plan_.tiles = tiles;
    plan_.blocks = static_cast<std::uint32_t>(std::min<std::int64_t>(tiles, std::numeric_limits<std::int32_t>::max()));
  }

  Plan& plan_;
  const KernelClass& kernel_;
  const Space& space_;
  const Machine& machine_;
  const int rank_;
};

// The first map that suits: tiles that are transposed, tiles of two dimensions, one line, rows.
Mapped choose_map(Space space, const ir::Program& program, int instructions, const Machine& machine) {
  const int dimension = writes_at_indices(space) ? -1 : find_input_dimension(space);
  if (dimension >= 0) {
    if (auto transposed = transpose(space, dimension, instructions)) return std::move(*transposed);
  }
  if (auto tiled_windows = tile_windows(space, program, machine)) return std::move(*tiled_windows);
  const Strides dense = dense_strides(space);
  const bool dense_outputs = std::ranges::all_of(space.outputs, [&](const StridedOperand& strided) {
    return classify_result(strided, space, dense, true) == Access::linear;
  });
  std::optional<Mapped> tiled = dimension >= 0 ? tile_2d(space, dimension) : std::nullopt;
  Mapped mapped = tiled           ? std::move(*tiled)
                  : dense_outputs ? Mapped(std::move(space), {Flat{}})
                                  : Mapped(std::move(space), {ByRow{}});
  choose_accesses(mapped.kernel, mapped.space, program, instructions);
  return mapped;
}

// Reading what a producer wrote last comes first, where the L2 cache does not hold all.
bool takes_last_tile_first(const Space& space, const Machine& machine) {
  std::uint64_t bytes = 0;
  for (const auto* strided_operands : {&space.inputs, &space.outputs}) {
    for (const StridedOperand& strided : *strided_operands) bytes += bytes_of(strided, space);
  }
  return bytes >= static_cast<std::uint64_t>(machine.of_l2(kPolicy.reverse_order_bytes));
}

}  // namespace

void plan_pointwise(Plan& plan, const ir::Program& program, const Machine& machine) {
  const int instructions = instructions_of(program);
  Mapped mapped = choose_map(std::move(plan.space), program, instructions, machine);
  KernelClass& kernel = mapped.kernel;
  Space& space = mapped.space;
  if (kernel.map<WindowTile>() == nullptr)
    kernel.tuning.resident_blocks = choose_resident_blocks(kernel, space, program, instructions, machine);
  plan.existing_rows = mapped.existing_rows;
  plan.existing_columns = mapped.existing_columns;
  kernel.wide_index = needs_wide_index(space);
  kernel.coordinates = choose_coordinates(kernel, space, program);
  pad(space, kernel.coordinates);
  if (has_divisible_rows(kernel, space) || (reads_views(program) && has_full_vectors(kernel, space))) {
    const bool by_quotients = reads_views(program) && has_small_quotients(kernel, space);
    kernel.body = PointwiseClass{Flat{.divisible_rows = true, .by_quotients = by_quotients}};
    find_aligned(kernel, space);
    if (reads_views(program)) {
      find_bases(kernel, space, program);
      find_moves(kernel, space, by_quotients);
      drop_masks_of_runs(kernel, program);
    }
  }
  if (reads_views(program) && is_in_line(kernel)) share_strides(kernel, space);
  if (kernel.map<WindowTile>() != nullptr) {
    find_moves(kernel, space, false);
    share_strides(kernel, space, [](const OperandPlan& operand) { return !operand.place; });
  }
  plan.kernel_class = std::move(kernel);
  plan.space = std::move(space);
  if (plan.space.elements > 0)
    std::visit(GridSizer(plan, machine), std::get<PointwiseClass>(plan.kernel_class.body).map);
  plan.reverse_order = takes_last_tile_first(plan.space, machine);
}

std::string why(const Flat&, const KernelClass& kernel) {
  const auto is_in_line = [](const OperandPlan& output) { return output.access == Access::linear; };
  if (!std::ranges::all_of(kernel.outputs, is_in_line))
    return "an output has gaps, steps or an order of its own, but rows are multiples of vectors and begin aligned, so "
           "threads iterate over them in one line";
  return kernel.coordinates == 0 ? "everything lies in memory as the output does: one index serves all operands"
                                 : "the outputs are dense, so threads iterate over them in one line; only broadcast or "
                                   "strided operands need coordinates";
}

std::string why(const ByRow&, const KernelClass&) {
  return "an output has gaps, steps or an order of its own, so each row of the innermost dimension has vectors of its "
         "own";
}

std::string why_pointwise(const KernelClass& kernel) {
  return std::visit([&](const auto& map) { return why(map, kernel); }, std::get<PointwiseClass>(kernel.body).map);
}

}  // namespace epifuse::plan
