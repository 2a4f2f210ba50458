// Reductions: which form their rows take, and the grid. Called by plan.cpp; planner.hpp says what stands where.
#include <algorithm>
#include <limits>

#include "base/text.hpp"
#include "plan/reduction/planner.hpp"
#include "plan/reduction/tuning.hpp"

namespace epifuse::plan {

// Iterates in the order of the operands, and transposes results in shared memory; false where that is no way to do it.
bool ReductionPlanner::run_transposed_store(const Order& order) {
  permute(plan_, order);
  arrange_rows(plan_);
  reduction().store = transposed_store_of(plan_, program_);
  if (!reduction().store) return false;
  operands_.choose();
  if (!choose_transposing_driver()) return false;
  operands_.hold_exponentials();
  choose_line_widths(plan_, program_);
  size_grid();
  operands_.find_hoisted();
  return true;
}

void ReductionPlanner::run() {
  arrange_rows(plan_);
  if (structure().has_lane_segments()) check_lane_segments();
  operands_.choose();
  if (structure().has_lane_segments()) choose_lanes();
  if (structure().has_column_sums()) refuse_columns();
  choose_driver();
  choose_rest();
}

bool ReductionPlanner::run_segments() {
  arrange_rows(plan_);
  operands_.choose();
  if (!hold_rows()) {
    if (!may_read_in_rounds()) return false;
    read_in_rounds();
  }
  choose_rest();
  return true;
}

// What follows from the driver.
void ReductionPlanner::choose_rest() {
  operands_.hold_exponentials();
  size_grid();
  choose_vectors_per_run();
  if (!structure().has_column_runs()) choose_segment_lanes(plan_, program_, machine_);
  operands_.find_hoisted();
  find_written_operands();
  choose_prefetch();
}

// The first that suits: rows that a thread group holds, rows that many blocks hold, rows that are read in rounds.
void ReductionPlanner::choose_driver() {
  if (hold_rows()) return;
  if (has_lane_segments()) refuse_long_segments();
  read_in_rounds();
}

// Segments of their own are written by the thread group that holds the row.
bool ReductionPlanner::hold_rows() {
  const std::int64_t e = kernel_.elements;
  plan_.row_vectors = !layout().inner_reduction ? plan_.row_length
                      : layout().tensor_aligned ? (plan_.row_length + e - 2) / e + 1
                                                : divide_up(plan_.row_length, e);
  if (attempt(&ReductionPlanner::hold)) return true;
  const bool may_split =
      layout().inner_reduction && !structure().has_own_segments() && !has_lane_segments() && !structure().has_written();
  return may_split && attempt(&ReductionPlanner::choose_split_resident);
}

bool ReductionPlanner::hold() {
  if (!(layout().inner_reduction ? choose_inner_group() : choose_outer_group())) return false;
  if (structure().has_own_segments() || has_lane_segments() || structure().has_written() || !is_starved()) return true;
  plan_.unheld.why = Unheld::Why::few_rows;
  return false;
}

// So few rows that most multiprocessors would idle, and rows long enough to be shared by many.
bool ReductionPlanner::is_starved() {
  const std::int64_t groups = layout().inner_reduction ? kernel_.threads / row_threads().group : 1;
  const std::int64_t blocks = divide_up(plan_.rows, groups) *
                              divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements) *
                              reduction().cluster();
  return plan_.rows > 0 && blocks * kPolicy.least_blocks < machine_.multiprocessors &&
         plan_.row_length * operands_.loaded_bytes() / kernel_.elements >= kPolicy.long_chunk_bytes;
}

// Thread groups of a block: rows of one block belong to one grid reduction, and a block has a warp at least.
int ReductionPlanner::fill_warps() {
  if (!layout().inner_reduction) return 1;
  int groups = kernel_.threads / row_threads().group;
  while (structure().grid != 0 && groups > 1 && plan_.rows_per_result % groups != 0) groups /= 2;
  kernel_.threads = std::max(row_threads().group * groups, kWarp);
  if (row_threads().group * groups < kWarp) {
    row_threads().group = kWarp;
    groups = 1;
    kernel_.steps = static_cast<int>(divide_up(std::max<std::int64_t>(plan_.row_vectors, 1), kWarp));
  }
  if (groups == 1) {
    if (reduction().store) reduction().store->interleaved_rows = false;
    if (auto* shared = std::get_if<ResidentShared>(&reduction().driver)) shared->interleaved.reset();
  }
  return groups;
}

void ReductionPlanner::size_grid() {
  if (combines_nothing()) plan_.rows_per_result = 1;
  const std::int64_t rows_of_block = std::int64_t{fill_warps()} * reduction().rows_per_group();
  plan_.threads = kernel_.threads;
  plan_.column_tiles = divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements);
  plan_.tiles = divide_up(plan_.rows, rows_of_block) * plan_.column_tiles;
  if (combines_nothing()) {
    plan_.column_tiles = 1;
    plan_.tiles = grid_results(plan_);
    // A block's number counts results: what is reduced over the grid, on either side of the parallel dimensions, takes
    // no part in it.
    count_results_of_nothing();
  }
  const std::int64_t shares = reduction().shares_rows() ? plan_.chunks : reduction().cluster();
  plan_.blocks_per_result = plan_.rows_per_result / rows_of_block * plan_.column_tiles * shares;
  if (structure().grid != 0) reduction().grid = GridReduction{plan_.blocks_per_result > 1};
  const std::int64_t blocks = reduction().is<Split>()
                                  ? (plan_.tiles + (passes() - 1) * plan_.lag) * passes() * plan_.chunks
                                  : plan_.tiles * shares;
  if (blocks > std::numeric_limits<std::int32_t>::max()) {
    base::fail(ErrorCode::unsupported, "the chain's {} rows need more than 2^31 blocks: launch fewer rows at a time",
               plan_.rows * plan_.row_columns);
  }
  plan_.blocks = static_cast<std::uint32_t>(blocks);
  lay_out_workspace(plan_);
}

// There are grid reductions, but no rows: a block for each result, whose rows do not exist, writes what a reduction of
// nothing is.
bool ReductionPlanner::combines_nothing() { return structure().across() != 0 && plan_.rows * plan_.row_columns == 0; }

namespace {

// Some operand or result of elements is found by coordinates, which vectors across lines do not share.
bool finds_elements_by_coordinates(const KernelClass& kernel, const ir::Program& program) {
  const Structure& structure = kernel.reduction()->structure;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (kernel.inputs[i].is_gathered() && scope_of_input(program, structure, i) == Scope::element) return true;
  }
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    if (kernel.outputs[i].is_gathered() && scope_of_result(program, structure, i) == Scope::element) return true;
  }
  return false;
}

// Results of elements leave a pass that accumulates, in which thread groups without a row take part.
bool writes_while_accumulating(const ir::Program& program, const Structure& structure) {
  bool any = false;
  for (std::size_t i = 0; i < program.results().size(); ++i)
    any = any || scope_of_result(program, structure, i) == Scope::element;
  return any && !structure.has_write_pass();
}

// What the kernel needs no code for: vectors across lines, and vectors that do not exist. That fewer rows are left than
// a block has thread groups is not asked: the batch size would change the class. Groups without a row compute the first
// row again and keep it to themselves. Where they would write it, in place of an operand perhaps, vectors that do not
// exist keep their code.
void find_full_vectors(Plan& plan, const ir::Program& program) {
  KernelClass& kernel = plan.kernel_class;
  ReductionClass& reduction = *kernel.reduction();
  RowLayout& layout = reduction.layout;
  if (layout.tensor_aligned || reduction.segments || reduction.is<BySegments>()) return;
  if (layout.inner_reduction && layout.reduced > 1 && finds_elements_by_coordinates(kernel, program))
    layout.whole_lines = plan.space.extents[plan.space.rank() - 1] % kernel.elements == 0;
  if (plan.rows * plan.row_columns == 0) return;
  // Lanes of a warp that agree on a segment must not leave it alone for want of a row.
  if (reduction.lane_segments && kernel.threads != reduction.threads.group && reduction.threads.group % kWarp != 0)
    return;
  if (layout.inner_reduction && kernel.threads != reduction.threads.group &&
      writes_while_accumulating(program, reduction.structure))
    return;
  const std::int64_t round =
      std::int64_t{reduction.threads.group} * kernel.steps * (layout.inner_reduction ? kernel.elements : 1);
  const bool is_in_rounds = reduction.is<Looped>() || reduction.is<Split>();
  const std::int64_t shares = reduction.is<SplitResident>() ? plan.chunks : reduction.cluster();
  reduction.threads.full =
      (is_in_rounds ? plan.row_length > 0 && plan.row_length % round == 0 : plan.row_length == round * shares) &&
      plan.row_columns % (std::int64_t{reduction.threads.columns} * (layout.inner_reduction ? 1 : kernel.elements)) ==
          0;
}

// Indices that all of a row shares: kernels read one for a row, not for each of its vectors.
void find_indices_of_rows(Plan& plan) {
  KernelClass& kernel = plan.kernel_class;
  const RowLayout& layout = kernel.reduction()->layout;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    OperandPlan& input = kernel.inputs[i];
    input.per_row = input.access == Access::index && !input.written && layout.inner_reduction && layout.inner == 0;
    for (int d = layout.outer; d < plan.space.rank() && input.per_row; ++d)
      input.per_row = !varies_along(plan.space.inputs[i], plan.space, static_cast<std::size_t>(d));
  }
}

// Positions along another dimension than the innermost: the same for all of a vector, which lies in one line.
void find_positions_of_lines(Plan& plan) {
  KernelClass& kernel = plan.kernel_class;
  const RowLayout& layout = kernel.reduction()->layout;
  if (!layout.inner_reduction || (layout.reduced > 1 && !layout.whole_lines)) return;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (kernel.inputs[i].access != Access::position || kernel.inputs[i].written) continue;
    const Strides& strides = plan.space.inputs[i].strides;
    const std::uint16_t moves = moves_of(plan.space, [&](int d) { return strides[static_cast<std::size_t>(d)]; });
    const bool moves_in_line = strides[static_cast<std::size_t>(plan.space.rank()) - 1] != 0;
    if (!moves_in_line) kernel.inputs[i].moves = moves;
  }
}

// Operands of a row's elements that are the same for all rows, as a norm's weights: their offsets need no coordinate of
// the row. Those of vectors that are always full are all that ask.
void find_operands_of_all_rows(Plan& plan) {
  KernelClass& kernel = plan.kernel_class;
  // Vectors of 16 elements of 8 bits leave no registers for addresses (measured: layer_norm(x + r) spilled more).
  if (!kernel.reduction()->holds_full_rows() || kernel.elements > kAccessBytes / 2) return;
  const int outer = kernel.reduction()->layout.outer;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    OperandPlan& input = kernel.inputs[i];
    const bool is_read_in_vectors =
        input.access == Access::contiguous || (input.access == Access::gathered && input.width > 1);
    if (!is_read_in_vectors || input.written) continue;
    const Strides& strides = plan.space.inputs[i].strides;
    const std::uint16_t moves = moves_of(plan.space, [&](int d) { return strides[static_cast<std::size_t>(d)]; });
    const bool moves_with_rows = (moves & ((1U << outer) - 1)) != 0;
    if (!moves_with_rows) input.moves = moves;
  }
}

// The first that does: column sums beside results of elements, segment means, iteration in the order of the operands,
// column sums and segments of rows that a block holds or that many do, all else.
void choose_form(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  // Works on a copy: a form that does not apply leaves nothing behind.
  const auto is_adopted = [&](const Structure& other, const auto& run) {
    Plan candidate = plan;
    ReductionPlanner planner(candidate, program, other, machine);
    const bool applies = run(planner);
    if (applies) plan = std::move(candidate);
    return applies;
  };
  if (!structure.has_column_sums() && !structure.has_lane_segments() && !structure.has_written()) {
    const auto columns = analyse_column_sums(program, plan.space, structure);
    if (columns && is_adopted(*columns, [](ReductionPlanner& planner) { return planner.run_column_sums(); })) return;
    const auto means = analyse_segment_means(program, plan.space, structure.reduced);
    if (means && is_adopted(*means, [](ReductionPlanner& planner) { return planner.run_by_segments(); })) return;
    const bool keeps_order = structure.has_segments() || writes_at_indices(plan.space);
    const Order order = keeps_order ? Order{} : order_of_operands(plan.space, program, structure);
    const auto transposes = [&](ReductionPlanner& planner) { return planner.run_transposed_store(order); };
    if (!order.empty() && is_adopted(structure, transposes)) return;
  }
  if (structure.has_column_sums() || structure.has_segments()) {
    const auto as_they_are = [&](ReductionPlanner& planner) {
      return structure.has_column_sums() ? planner.run_held_columns() : planner.run_segments();
    };
    if (is_adopted(structure, as_they_are)) return;
    const auto runs =
        structure.has_lane_segments() ? std::nullopt : analyse_column_runs(program, plan.space, structure);
    if (runs && is_adopted(*runs, [](ReductionPlanner& planner) { return planner.run_column_runs(); })) return;
  }
  ReductionPlanner(plan, program, std::move(structure), machine).run();
}

// A result that many rows give, as a sum over them, is written by the block that ends last. That code reads no index.
void check_scattered(const Plan& plan, const ir::Program& program) {
  for (std::size_t i = 0; i < program.results().size(); ++i) {
    const Scope scope = scope_of_result(program, plan.kernel_class.reduction()->structure, i);
    if (program.scatter_of(i) == nullptr || (scope != Scope::grid && scope != Scope::column)) continue;
    base::fail(ErrorCode::unsupported,
               "result '{}' is written at indices, and is reduced over what other results keep: compute it in a launch "
               "of its own",
               program.result_name(i));
  }
}

}  // namespace

void plan_reduction(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  plan.kernel_class.f64 = plan.space.f64;
  choose_form(plan, program, std::move(structure), machine);
  check_scattered(plan, program);
  find_full_vectors(plan, program);
  find_indices_of_rows(plan);
  find_positions_of_lines(plan);
  find_operands_of_all_rows(plan);
  tune_reduction(plan, program, machine);
}

}  // namespace epifuse::plan
