// Chains with reductions: which form their rows take (held by a team, kept by blocks, walked in rounds, split), and the grid. Called by plan.cpp;
// row_planner.hpp says what stands where.
#include <algorithm>
#include <bit>
#include <limits>

#include "base/text.hpp"
#include "plan/row_planner.hpp"
#include "plan/tuning.hpp"

namespace epifuse::plan {

// Walks the operands in their order, and turns results in shared memory; false where that is no way to do it.
bool RowPlanner::run_crossed(const Order& order) {
  permute(plan_, order);
  arrange_rows(plan_);
  rows().crossing = crossing_of(plan_, program_);
  if (!crosses()) return false;
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  if (!choose_crossed_threads()) return false;
  operands_.keep_exponentials();
  choose_line_widths(plan_, program_);
  size_grid();
  operands_.find_steady();
  return true;
}

// Parts one behind the other, each walked as if it were a row, by as many teams as there are rows; false where parts are short, or rows too few.
bool RowPlanner::run_by_parts() {
  arrange_rows(plan_);
  if (!rows().along || rows().reduced - rows().part_coordinates != 1) return false;
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  walk_in_rounds();
  rows().team = kernel_.threads = kPolicy.part_threads;
  kernel_.schedule = Schedule::loop;
  const std::int64_t step = std::int64_t{rows().team} * kernel_.elements;
  rows().part_slots = power_of_two_above(
      std::clamp<std::int64_t>(plan_.row_parts, kPolicy.least_part_slots, std::int64_t{2} * kPolicy.most_part_slots));
  if (plan_.part_length < step || rows().part_slots > kPolicy.most_part_slots || !has_rows_for_blocks()) return false;
  const std::int64_t framed = rows().framed ? kernel_.elements - 1 : 0;
  plan_.chunks = divide_up(plan_.part_length + framed, step * kernel_.steps);
  kernel_.threads *= rows_of_result();
  size_grid();
  operands_.find_steady();
  return true;
}

// All rows of a result across rows, if one block's teams can walk them side by side: then nothing is left in memory, nor cleared there before the kernel.
// A large block's multiprocessor has nothing to do while it ends and the next begins, so all large ones begin at once, or there are none.
int RowPlanner::rows_of_result() {
  const std::int64_t together = plan_.rows_per_group;
  const std::int64_t threads = together * rows().team;
  const bool is_bucket = std::has_single_bit(static_cast<std::uint64_t>(together));  // few kernels for all shapes
  if (structure().across == 0 || !is_bucket || threads > kPolicy.most_resident_threads ||
      together * rows().part_slots > kPolicy.most_part_slots)
    return 1;
  const std::int64_t results = results_across(plan_);
  const std::int64_t machine = machine_.multiprocessors;
  const bool is_one_wave = results <= machine * (kPolicy.most_resident_threads / threads);
  const bool is_busy = (machine - results) * kPolicy.idle_for_results <= machine;
  return is_busy && (is_one_wave || threads <= kPolicy.row_threads) ? static_cast<int>(together) : 1;
}

void RowPlanner::run() {
  arrange_rows(plan_);
  operands_.describe();
  operands_.choose_elements();
  operands_.choose_held();
  choose_threads();
  operands_.keep_exponentials();
  size_grid();
  choose_pieces();
  choose_part_lanes(plan_, program_, machine_);
  operands_.find_steady();
  choose_ahead();
}

void RowPlanner::choose_threads() {
  const std::int64_t e = kernel_.elements;
  plan_.row_vectors = !rows().along   ? plan_.row_length
                      : rows().framed ? (plan_.row_length + e - 2) / e + 1
                                      : divide_up(plan_.row_length, e);
  kernel_.schedule = Schedule::team;
  const Values carried = rows().carried;
  const bool held = rows().along ? team_along() : team_across();
  if (held && (structure().has_parts() || !is_starved())) return;
  if (held) plan_.unheld.why = Unheld::Why::few_rows;
  rows().carried = carried;
  if (rows().along && !structure().has_parts() && keep_along()) return;
  // Walked again, a row is found in the L2 cache only if few rows are under way at a time.
  const bool is_enough = has_rows_for_blocks();
  walk_in_rounds();
  // What is read again must not have been written over.
  if (structure().has_parts() && (!is_enough || structure().writes_walk())) refuse_long_parts();
  if ((walks() == 1 || structure().has_parts()) && is_enough) {
    kernel_.schedule = Schedule::loop;  // a block walks its rows once per level, and once more for the results
  } else {
    split();
  }
}

// Blocks that walk rows alone are enough for all multiprocessors.
bool RowPlanner::has_rows_for_blocks() {
  const std::int64_t tiles = plan_.rows * divide_up(plan_.row_columns, std::int64_t{kWarp} * kernel_.elements);
  return tiles >= std::int64_t{machine_.multiprocessors} * kPolicy.fewest_blocks_of_loop;
}

void RowPlanner::refuse_long_parts() const {
  const Structure& structure = kernel_.rows->structure;
  std::string_view name;
  for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
    const NodeRole& role = structure.nodes[i];
    if (role.extent == Extent::part && role.accumulator >= 0) name = ir::written_name(program_.nodes()[i]);
  }
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: '{}' reduces parts of rows of {} elements, more than {} of this device "
             "holds, and {}. Make it two chains: the first ends with what '{}' is taken of",
             name, plan_.row_length, most_cluster(machine_) > 1 ? "a cluster of blocks" : "a block",
             structure.writes_walk() ? std::string("other results need their elements, too")
                                     : fmt::format("there are too few of them ({}) for a block each", plan_.rows),
             name);
}

// So few rows that most multiprocessors would idle, and rows long enough to be shared by many.
bool RowPlanner::is_starved() {
  const std::int64_t teams = rows().along ? kernel_.threads / rows().team : 1;
  const std::int64_t blocks = divide_up(plan_.rows, teams) *
                              divide_up(plan_.row_columns, std::int64_t{rows().columns} * kernel_.elements) *
                              rows().cluster;
  return plan_.rows > 0 && blocks * 2 < machine_.multiprocessors &&
         plan_.row_length * operands_.loaded_bytes() / kernel_.elements >= kPolicy.split_row_bytes;
}

// Threads of a block that walks rows in rounds of a few steps.
void RowPlanner::walk_in_rounds(int most_steps) {
  rows().cluster = 1;
  rows().columns = 1;
  rows().carried.clear();  // registers do not last from walk to walk
  rows().staged = false;
  rows().interleaved = false;
  plan_.shared_bytes = 0;
  kernel_.steps = std::clamp(kPolicy.round_bytes / std::max(operands_.loaded_bytes(), 1), 1, most_steps);
  if (rows().along) {
    rows().team = kPolicy.row_threads;
    kernel_.threads = rows().team;
  } else {
    rows().columns = power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
    const int threads = walks() == 1 ? kPolicy.column_threads : kPolicy.row_threads;
    while (rows().columns > 1 && exchange_bytes(rows().columns, threads) > kPolicy.shared_bytes) rows().columns /= 2;
    rows().team = threads / rows().columns;
    round_to_warps();
  }
  plan_.chunks = std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{rows().team} * kernel_.steps), 1);
}

// Many blocks share a row, each a chunk of it.
void RowPlanner::split() {
  kernel_.schedule = Schedule::split;
  rows().sums_hundreds = plan_.row_length >= kPolicy.sum_elements;
  const std::int64_t all_rounds = plan_.chunks;
  const std::int64_t together = rows().along ? kernel_.threads / rows().team : 1;
  const std::int64_t tiles =
      divide_up(plan_.rows, together) * divide_up(plan_.row_columns, std::int64_t{rows().columns} * kernel_.elements);
  const std::int64_t round_bytes =
      std::int64_t{kernel_.threads} * kernel_.steps * std::max(operands_.loaded_bytes(), 1);
  const int cached_bytes = crosses() ? kPolicy.crossed_cached_bytes : kPolicy.cached_bytes;
  // Of rows across memory a block merges as many as a line has: in f32 32, in 16 bits 64.
  const bool many_merge = crosses() && (rows().along || operands_.narrowest_bytes() < 4);
  const int chunk_bytes = walks() == 1                              ? kPolicy.chunk_bytes
                          : many_merge                              ? kPolicy.crossed_chunk_bytes
                          : all_rounds * round_bytes > cached_bytes ? kPolicy.long_chunk_bytes
                                                                    : kPolicy.kept_chunk_bytes;
  const std::int64_t wanted = std::max<std::int64_t>(chunk_bytes / round_bytes, 1);
  const std::int64_t resident =
      std::int64_t{machine_.multiprocessors} * (kPolicy.most_resident_threads / kernel_.threads);
  plan_.rounds = std::clamp<std::int64_t>(all_rounds * tiles / (2 * resident), 1, wanted);
  plan_.chunks = divide_up(all_rounds, plan_.rounds);
  // Far enough behind that a walk seldom waits for the one before, near enough that its rows are still in the L2 cache.
  const std::int64_t row_bytes = plan_.chunks * plan_.rounds * round_bytes;
  plan_.lag = std::clamp<std::int64_t>(divide_up(resident * 3 / 2, plan_.chunks * walks()), 1,
                                       std::max<std::int64_t>(cached_bytes / row_bytes, 1));
}

void RowPlanner::size_grid() {
  std::int64_t teams = 1;
  if (combines_nothing()) plan_.rows_per_group = 1;
  if (rows().along) {
    teams = kernel_.threads / rows().team;
    // Rows of one block belong to one result across rows.
    while (structure().across != 0 && teams > 1 && plan_.rows_per_group % teams != 0) teams /= 2;
    kernel_.threads = std::max(rows().team * static_cast<int>(teams), kWarp);
    if (rows().team * teams < kWarp) {
      rows().team = kWarp;
      teams = 1;
      kernel_.steps = static_cast<int>(divide_up(std::max<std::int64_t>(plan_.row_vectors, 1), kWarp));
    }
    rows().interleaved = rows().interleaved && teams > 1;
  }
  plan_.threads = kernel_.threads;
  plan_.column_tiles = divide_up(plan_.row_columns, std::int64_t{rows().columns} * kernel_.elements);
  plan_.tiles = divide_up(plan_.rows, teams * rows().passes) * plan_.column_tiles;
  if (combines_nothing()) {
    plan_.column_tiles = 1;
    plan_.tiles = results_across(plan_);
    // A block's number counts results: what is reduced across rows, on either side of what is kept, takes no part in it.
    for (int d = 0; d < space_.rank(); ++d)
      if ((structure().across >> d & 1U) != 0) space_.extents[d] = 1;
  }
  const std::int64_t shares = shares_rows(kernel_.schedule) ? plan_.chunks : rows().cluster;
  plan_.parts = plan_.rows_per_group / (teams * rows().passes) * plan_.column_tiles * shares;
  plan_.groups = kernel_.schedule == Schedule::split
                     ? (plan_.tiles + (walks() - 1) * plan_.lag) * walks() * plan_.chunks
                     : plan_.tiles * shares;
  if (plan_.groups > std::numeric_limits<std::int32_t>::max()) {
    base::fail(ErrorCode::unsupported, "the chain's {} rows need more than 2^31 blocks: launch it in parts",
               plan_.rows * plan_.row_columns);
  }
  plan_.blocks = static_cast<std::uint32_t>(plan_.groups);
  lay_out_workspace(plan_);
}

// There are results across rows, but no rows: a block for each result, whose rows do not exist, writes what a reduction of nothing is.
bool RowPlanner::combines_nothing() { return structure().across != 0 && plan_.rows * plan_.row_columns == 0; }

namespace {

// The first that does: averages over parts, operands walked in their order, all else.
void choose_form(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  if (std::optional<Structure> averages = analyse_averages(program, plan.space, structure.reduced)) {
    Plan by_parts = plan;
    if (RowPlanner(by_parts, program, std::move(*averages), machine).run_by_parts()) {
      plan = std::move(by_parts);
      return;
    }
  }
  const Order order = structure.has_parts() ? Order{} : order_of_operands(plan.space, program, structure);
  if (!order.empty()) {
    Plan crossed = plan;
    if (RowPlanner(crossed, program, structure, machine).run_crossed(order)) {
      plan = std::move(crossed);
      return;
    }
  }
  RowPlanner(plan, program, std::move(structure), machine).run();
}

}  // namespace

void plan_rows(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  plan.kernel_class.f64 = plan.space.f64;
  choose_form(plan, program, std::move(structure), machine);
  tune_rows(plan.kernel_class, program, machine);
}

}  // namespace epifuse::plan
