// Reductions: which form their rows take (held by a thread group, held by many blocks, read in rounds, split), and the
// grid. Called by plan.cpp; planner.hpp says what stands where.
#include <algorithm>
#include <bit>
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
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  if (!choose_transposing_driver()) return false;
  operands_.hold_exponentials();
  choose_line_widths(plan_, program_);
  size_grid();
  operands_.find_hoisted();
  return true;
}

// Segments one behind the other, each reduced as if it were a row, by as many thread groups as there are rows; false
// where segments are short, or rows too few.
bool ReductionPlanner::run_by_segments() {
  arrange_rows(plan_);
  if (!layout().inner_reduction || layout().reduced - reduction().segment_coordinates() != 1) return false;
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  take_rounds();
  row_threads().group = kernel_.threads = kPolicy.segment_threads;
  const std::int64_t step = std::int64_t{row_threads().group} * kernel_.elements;
  const int slots = power_of_two_above(std::clamp<std::int64_t>(plan_.segments_per_row, kPolicy.least_segment_slots,
                                                                std::int64_t{2} * kPolicy.most_segment_slots));
  if (plan_.segment_length < step || slots > kPolicy.most_segment_slots || !has_rows_for_blocks()) return false;
  reduction().driver = BySegments{slots};
  const std::int64_t before = layout().tensor_aligned ? kernel_.elements - 1 : 0;
  plan_.chunks = divide_up(plan_.segment_length + before, step * kernel_.steps);
  kernel_.threads *= rows_of_result();
  size_grid();
  operands_.find_hoisted();
  return true;
}

// All rows of a grid reduction, if one block's thread groups can reduce them side by side: then nothing is left in
// memory, nor cleared there before the kernel. A large block's multiprocessor has nothing to do while it ends and the
// next begins, so all large ones begin at once, or there are none.
int ReductionPlanner::rows_of_result() {
  const std::int64_t together = plan_.rows_per_result;
  const std::int64_t threads = together * row_threads().group;
  const bool is_bucket = std::has_single_bit(static_cast<std::uint64_t>(together));  // few kernels for all shapes
  if (structure().grid == 0 || !is_bucket || threads > kPolicy.most_resident_threads ||
      together * std::get<BySegments>(reduction().driver).slots > kPolicy.most_segment_slots)
    return 1;
  const std::int64_t results = grid_results(plan_);
  const std::int64_t machine = machine_.multiprocessors;
  const bool is_one_wave = results <= machine * (kPolicy.most_resident_threads / threads);
  const bool is_busy = (machine - results) * kPolicy.idle_for_results <= machine;
  return is_busy && (is_one_wave || threads <= kPolicy.row_threads) ? static_cast<int>(together) : 1;
}

void ReductionPlanner::run() {
  arrange_rows(plan_);
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  choose_driver();
  operands_.hold_exponentials();
  size_grid();
  choose_vectors_per_run();
  choose_segment_lanes(plan_, program_, machine_);
  operands_.find_hoisted();
  choose_prefetch();
}

// The first that suits: rows that a thread group holds, rows that many blocks hold, rows that are read in rounds.
void ReductionPlanner::choose_driver() {
  const std::int64_t e = kernel_.elements;
  plan_.row_vectors = !layout().inner_reduction ? plan_.row_length
                      : layout().tensor_aligned ? (plan_.row_length + e - 2) / e + 1
                                                : divide_up(plan_.row_length, e);
  if (attempt(&ReductionPlanner::hold)) return;
  if (layout().inner_reduction && !structure().has_segments() && attempt(&ReductionPlanner::choose_split_resident))
    return;
  read_in_rounds();
}

bool ReductionPlanner::hold() {
  if (!(layout().inner_reduction ? choose_inner_group() : choose_outer_group())) return false;
  if (structure().has_segments() || !is_starved()) return true;
  plan_.unheld.why = Unheld::Why::few_rows;
  return false;
}

// Read again, a row is found in the L2 cache only if few rows are under way at a time.
void ReductionPlanner::read_in_rounds() {
  const bool is_enough = has_rows_for_blocks();
  // What is read again must not have been written over.
  if (structure().has_segments() && (!is_enough || structure().has_write_pass())) refuse_long_segments();
  take_rounds();
  if ((passes() == 1 || structure().has_segments()) && is_enough) {
    reduction().driver = Looped{};
  } else {
    split();
  }
}

// Blocks that each read rows of their own are enough for all multiprocessors.
bool ReductionPlanner::has_rows_for_blocks() {
  const std::int64_t tiles = plan_.rows * divide_up(plan_.row_columns, std::int64_t{kWarp} * kernel_.elements);
  return tiles >= std::int64_t{machine_.multiprocessors} * kPolicy.fewest_blocks_of_loop;
}

void ReductionPlanner::refuse_long_segments() const {
  const Structure& structure = kernel_.reduction()->structure;
  std::string_view name;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const NodeRole& role = structure.nodes[i];
    if (role.scope == Scope::segment && role.accumulator >= 0) name = ir::written_name(program_.nodes()[i]);
  }
  base::fail(
      ErrorCode::unsupported,
      "the chain cannot be one kernel: '{}' reduces segments of rows of {} elements, more than {} of this device "
      "holds, and {}. Make it two chains: the first ends with what '{}' is taken of",
      name, plan_.row_length, most_cluster(machine_) > 1 ? "a cluster of blocks" : "a block",
      structure.has_write_pass() ? std::string("other results need their elements, too")
                                 : fmt::format("there are too few of them ({}) for a block each", plan_.rows),
      name);
}

// So few rows that most multiprocessors would idle, and rows long enough to be shared by many.
bool ReductionPlanner::is_starved() {
  const std::int64_t groups = layout().inner_reduction ? kernel_.threads / row_threads().group : 1;
  const std::int64_t blocks = divide_up(plan_.rows, groups) *
                              divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements) *
                              reduction().cluster();
  return plan_.rows > 0 && blocks * 2 < machine_.multiprocessors &&
         plan_.row_length * operands_.loaded_bytes() / kernel_.elements >= kPolicy.split_row_bytes;
}

// Threads of a block that reads rows in rounds of a few steps.
void ReductionPlanner::take_rounds(int most_steps) {
  reduction().residency.saved.clear();  // registers do not last from pass to pass
  kernel_.steps = std::clamp(kPolicy.round_bytes / std::max(operands_.loaded_bytes(), 1), 1, most_steps);
  if (layout().inner_reduction) {
    row_threads().group = kernel_.threads = kPolicy.row_threads;
  } else {
    row_threads().columns =
        power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
    const int all = passes() == 1 ? kPolicy.column_threads : kPolicy.row_threads;
    while (row_threads().columns > 1 && exchange_bytes(row_threads().columns, all) > kPolicy.shared_bytes)
      row_threads().columns /= 2;
    row_threads().group = all / row_threads().columns;
    round_to_warps();
  }
  plan_.chunks =
      std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{row_threads().group} * kernel_.steps), 1);
}

// Many blocks share a row, each a chunk of it.
void ReductionPlanner::split() {
  reduction().driver = Split{};
  const std::int64_t all_rounds = plan_.chunks;
  const std::int64_t together = layout().inner_reduction ? kernel_.threads / row_threads().group : 1;
  const std::int64_t tiles = divide_up(plan_.rows, together) *
                             divide_up(plan_.row_columns, std::int64_t{row_threads().columns} * kernel_.elements);
  const std::int64_t round_bytes =
      std::int64_t{kernel_.threads} * kernel_.steps * std::max(operands_.loaded_bytes(), 1);
  const std::int64_t cached_bytes =
      machine_.of_l2(reduction().store ? kPolicy.transposed_store_cached_bytes : kPolicy.cached_bytes);
  // Of rows of outer reductions a block merges as many as a line has: in f32 32, in 16 bits 64.
  const bool many_merge = reduction().store && (layout().inner_reduction || operands_.narrowest_bytes() < 4);
  const int chunk_bytes = passes() == 1                             ? kPolicy.chunk_bytes
                          : many_merge                              ? kPolicy.transposed_store_chunk_bytes
                          : all_rounds * round_bytes > cached_bytes ? kPolicy.long_chunk_bytes
                                                                    : kPolicy.reread_chunk_bytes;
  const std::int64_t wanted = std::max<std::int64_t>(chunk_bytes / round_bytes, 1);
  const std::int64_t resident =
      std::int64_t{machine_.multiprocessors} * (kPolicy.most_resident_threads / kernel_.threads);
  plan_.rounds = std::clamp<std::int64_t>(all_rounds * tiles / (2 * resident), 1, wanted);
  plan_.chunks = divide_up(all_rounds, plan_.rounds);
  // Far enough behind that a pass seldom waits for the one before, near enough that its rows are still in the L2 cache.
  const std::int64_t row_bytes = plan_.chunks * plan_.rounds * round_bytes;
  plan_.lag = std::clamp<std::int64_t>(divide_up(resident * 3 / 2, plan_.chunks * passes()), 1,
                                       std::max<std::int64_t>(cached_bytes / row_bytes, 1));
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
    // A block's number counts results: what is reduced over the grid, on either side of the parallel dimensions, takes no part in it.
    for (int d = 0; d < space_.rank(); ++d)
      if ((structure().grid >> d & 1U) != 0) space_.extents[d] = 1;
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

// There are grid reductions, but no rows: a block for each result, whose rows do not exist, writes what a reduction of nothing is.
bool ReductionPlanner::combines_nothing() { return structure().grid != 0 && plan_.rows * plan_.row_columns == 0; }

namespace {

// The first that does: segment means, iteration in the order of the operands, all else.
void choose_form(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  if (std::optional<Structure> segment_means = analyse_segment_means(program, plan.space, structure.reduced)) {
    Plan by_segments = plan;
    if (ReductionPlanner(by_segments, program, std::move(*segment_means), machine).run_by_segments()) {
      plan = std::move(by_segments);
      return;
    }
  }
  const Order order = structure.has_segments() ? Order{} : order_of_operands(plan.space, program, structure);
  if (!order.empty()) {
    Plan transposed = plan;
    if (ReductionPlanner(transposed, program, structure, machine).run_transposed_store(order)) {
      plan = std::move(transposed);
      return;
    }
  }
  ReductionPlanner(plan, program, std::move(structure), machine).run();
}

}  // namespace

void plan_reduction(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  plan.kernel_class.f64 = plan.space.f64;
  choose_form(plan, program, std::move(structure), machine);
  tune_reduction(plan, program, machine);
}

}  // namespace epifuse::plan
