// Chains with reductions: the forms of rows along and across memory, in registers, shared memory or rounds, and the threads and blocks that share
// a row. Called by plan.cpp; row_sections.cpp and row_operands.cpp come before. docs/plan.md explains every choice.
#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "base/text.hpp"
#include "plan/policy.hpp"
#include "plan/row_operands.hpp"

namespace epifuse::plan {
namespace {

int power_of_two_above(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

class RowPlanner {
 public:
  RowPlanner(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine)
      : plan_(plan),
        space_(plan.space),
        kernel_(plan.kernel_class),
        program_(program),
        machine_(machine),
        operands_(plan, program) {
    kernel_.rows.emplace();
    rows().structure = std::move(structure);
  }

  // Walks the operands in their order, and turns results in shared memory; false where that is no way to do it.
  bool run_crossed(const Order& order) {
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

  // Parts one behind the other, each walked as if it were a row, by as many blocks as there are rows; false where parts are short, or rows too few.
  bool run_by_parts() {
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
    size_grid();
    operands_.find_steady();
    return true;
  }

  void run() {
    arrange_rows(plan_);
    operands_.describe();
    operands_.choose_elements();
    operands_.choose_held();
    choose_threads();
    operands_.keep_exponentials();
    size_grid();
    operands_.find_steady();
  }

 private:
  RowClass& rows() { return *kernel_.rows; }
  const Structure& structure() { return rows().structure; }
  int walks() { return structure().output_walk + 1; }
  bool crosses() { return rows().crossing != Crossing::none; }

  // ---- threads

  // Rows that lie side by side in pieces shorter than what memory moves at once: how many of them are read together.
  int neighbours() {
    if (!rows().along || rows().reduced < 2 || structure().has_parts()) return 1;
    const int innermost = space_.rank() - 1;
    const auto kept = static_cast<std::size_t>(rows().outer) - 1;
    const std::int64_t piece = space_.extents[innermost];
    std::int64_t bytes = 0;
    for (const auto& [operand, walk] : operands_.streamed()) {
      if (!is_full(*walk, space_)) continue;
      if (walk->strides[kept] != piece || walk->strides[static_cast<std::size_t>(innermost)] != 1) return 1;
      bytes = std::max(bytes, piece * size_in_bytes(*operand));
    }
    int together = 1;
    while (bytes > 0 && bytes * together < kPolicy.piece_bytes &&
           std::int64_t{2} * together <= space_.extents[rows().outer - 1])
      together *= 2;
    return together;
  }

  // In registers. Rows in short pieces are read together only where they lie in shared memory.
  int most_steps() {
    const int bytes = neighbours() > 1 ? kPolicy.held_bytes_of_pieces : kPolicy.held_bytes;
    return std::clamp(bytes / operands_.held_bytes(), 1, kPolicy.most_row_steps);
  }

  void choose_threads() {
    const std::int64_t e = kernel_.elements;
    plan_.row_vectors = !rows().along   ? plan_.row_length
                        : rows().framed ? (plan_.row_length + e - 2) / e + 1
                                        : divide_up(plan_.row_length, e);
    kernel_.schedule = Schedule::team;
    const Values carried = rows().carried;
    const bool held = rows().along ? team_along() : team_across();
    if (held && (structure().has_parts() || !is_starved())) return;
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
  bool has_rows_for_blocks() {
    const std::int64_t tiles = plan_.rows * divide_up(plan_.row_columns, std::int64_t{kWarp} * kernel_.elements);
    return tiles >= std::int64_t{machine_.multiprocessors} * kPolicy.fewest_blocks_of_loop;
  }

  [[noreturn]] void refuse_long_parts() const {
    const Structure& structure = kernel_.rows->structure;
    std::string_view name;
    for (std::size_t i = 0; i < structure.nodes.size(); ++i) {
      const NodeRole& role = structure.nodes[i];
      if (role.extent == Extent::part && role.accumulator >= 0) name = ir::name_of(program_.nodes()[i].op);
    }
    base::fail(ErrorCode::unsupported,
               "the chain cannot be one kernel: '{}' reduces parts of rows of {} elements, more than {} of this device "
               "holds, and {}. Make it two chains: the first ends with what '{}' is taken of",
               name, plan_.row_length, most_cluster(machine_) > 1 ? "a cluster of blocks" : "a block",
               structure.writes_walk() ? std::string("other results need their elements, too")
                                       : fmt::format("there are too few of them ({}) for a block each", plan_.rows),
               name);
  }

  // ---- results that turn in shared memory

  bool choose_crossed_threads() {
    plan_.row_vectors = rows().along ? plan_.row_length / kernel_.elements : plan_.row_length;
    kernel_.schedule = Schedule::team;
    if (rows().crossing == Crossing::rows) return cross_neighbours();
    if (rows().along) rows().pieces = static_cast<int>(space_.extents[space_.rank() - 1] / kernel_.elements);
    const Values carried = rows().carried;
    if (!rows().along && team_across() && round_steps() && fits_tile() && !is_starved()) return true;
    rows().cluster = 1;
    rows().carried = carried;
    return cross_chunks();
  }

  // Steps of rows in registers in twos or fours, which move together in shared memory; not where it takes a cluster to hold a row, or many
  // registers.
  bool round_steps() {
    if (rows().cluster > 1) return false;
    const int batch = kernel_.steps > 2 ? 4 : kernel_.steps;
    kernel_.steps = (kernel_.steps + batch - 1) / batch * batch;
    if (kernel_.steps * operands_.held_bytes() > kPolicy.crossed_held_bytes) return false;
    rows().team = static_cast<int>(divide_up(plan_.row_length, kernel_.steps));
    round_to_warps();
    return true;
  }

  // The largest part of `steps` whose results fit a tile in shared memory; of a walk, a power of two.
  int batch_of(int steps) {
    const int bytes = kernel_.threads * kernel_.elements * crossed_bytes(kernel_, program_);
    const int tile_bytes = crossed_tile().tile_bytes;
    int batch = 1;
    for (int part = 1; part <= steps; ++part) {
      const bool is_usable = rows().crossing == Crossing::rows || std::has_single_bit(static_cast<unsigned>(part));
      if (steps % part == 0 && is_usable && part * bytes <= tile_bytes) batch = part;
    }
    return batch;
  }

  // What blocks exchange and turn fits the shared memory that needs no asking.
  bool fits_tile() {
    rows().batch = batch_of(kernel_.steps);
    int tile = kernel_.threads * kernel_.elements * rows().batch * crossed_bytes(kernel_, program_);
    const int length = kernel_.threads / rows().team;
    if (rows().crossing == Crossing::rows)
      tile = tile / length * (length + kPolicy.row_unit);  // with what lies between lines
    const int exchange =
        rows().along ? kPolicy.exchange_bytes : exchange_bytes(rows().columns, kernel_.threads) * 9 / 8;
    return tile + exchange <= kPolicy.static_shared_bytes;
  }

  // By where the results' lines begin, of rows that are neighbours in them.
  const CrossedTile& crossed_tile() {
    for (std::size_t i = 0; i < kernel_.outputs.size() && rows().crossing == Crossing::rows; ++i) {
      const bool turns = is_crossed(kernel_, program_, i);
      if (turns && !begins_at(space_.outputs[i], space_, rows().outer - 1, kPolicy.sector_bytes))
        return kPolicy.crossed_anywhere;
    }
    return kPolicy.crossed_at_sectors;
  }

  // Rows of a warp or less: a block's are neighbours in the results.
  bool cross_neighbours() {
    const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
    const int lane_steps = most_lane_steps();
    if (vectors > std::int64_t{kWarp} * lane_steps) return false;
    const CrossedTile& tile = crossed_tile();
    rows().team =
        std::max(power_of_two_above(divide_up(vectors, lane_steps)), std::min(power_of_two_above(vectors), tile.lanes));
    const int bytes = crossed_bytes(kernel_, program_);
    const auto line_bytes = [&] { return kernel_.threads / rows().team * bytes; };
    kernel_.threads = kPolicy.row_threads;
    if (line_bytes() < tile.line_bytes) kernel_.threads *= 2;
    kernel_.steps = static_cast<int>(divide_up(vectors, rows().team));
    return line_bytes() >= kPolicy.sector_bytes && fits_tile();
  }

  // Many blocks share rows, each a chunk of them; those that lie side by side are read together.
  bool cross_chunks() {
    if (plan_.row_length < kPolicy.sum_elements) return false;  // too short to be shared
    walk_in_rounds();
    kernel_.steps = static_cast<int>(std::bit_floor(static_cast<unsigned>(kernel_.steps)));
    if (rows().along) {
      if (!share_lines(kPolicy.row_threads)) return false;
    } else {
      while (rows().columns > 1 && rows().columns * kernel_.elements * operands_.narrowest_bytes() > kPolicy.line_bytes)
        rows().columns /= 2;
      rows().team = kPolicy.row_threads / rows().columns;
      round_to_warps();
    }
    while (kernel_.steps > 1 && batch_of(kernel_.steps) < kernel_.steps) kernel_.steps /= 2;
    plan_.chunks = std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{rows().team} * kernel_.steps), 1);
    if (!fits_tile() || rows().batch != kernel_.steps) return false;
    split();
    return true;
  }

  // Rows in pieces that lie side by side: as many together as make a line of memory, or 0 if they are too narrow.
  int rows_together() {
    const auto outer = static_cast<std::size_t>(rows().outer) - 1;
    const std::int64_t piece = space_.extents[space_.rank() - 1];
    const auto lie_beside = [&](const RowOperands::Streamed& s) {
      return !is_full(*s.walk, space_) || s.walk->strides[outer] == piece;
    };
    int together = 1;
    if (std::ranges::all_of(operands_.streamed(), lie_beside)) {
      while (together < kWarp && piece * together * operands_.narrowest_bytes() < kPolicy.line_bytes &&
             space_.extents[rows().outer - 1] % (std::int64_t{2} * together) == 0)
        together *= 2;
    }
    return piece * together * operands_.narrowest_bytes() < kPolicy.sector_bytes ? 0 : together;
  }

  // A thread works for one place in all pieces, so that its steps are neighbours in the results: about `threads` of a block do. False if it
  // takes too many.
  bool share_lines(int threads) {
    const int together = rows_together();
    if (together == 0) return false;
    const int unit = std::lcm(rows().pieces, kWarp / together);
    if (unit * together > kPolicy.most_team) return false;
    rows().team = unit * std::max(1, threads / together / unit);
    rows().interleaved = together > 1;
    kernel_.threads = rows().team * together;
    return true;
  }

  // So few rows that most multiprocessors would idle, and rows long enough to be shared by many.
  bool is_starved() {
    const std::int64_t teams = rows().along ? kernel_.threads / rows().team : 1;
    const std::int64_t blocks = divide_up(plan_.rows, teams) *
                                divide_up(plan_.row_columns, std::int64_t{rows().columns} * kernel_.elements) *
                                rows().cluster;
    return plan_.rows > 0 && blocks * 2 < machine_.multiprocessors &&
           plan_.row_length * operands_.loaded_bytes() / kernel_.elements >= kPolicy.split_row_bytes;
  }

  // A row in shared memory: the blocks of a cluster are as many as it takes to have several of them on a multiprocessor, where a
  // cluster can have that many; at least as many as it takes to hold the row at all.
  bool stage_along(std::int64_t vectors, int most) {
    const std::int64_t bytes = staged_bytes(program_, kernel_);
    if (bytes == 0) return false;
    const int together = neighbours();
    const std::int64_t row_bytes = vectors * bytes * together;
    int cluster = 1;
    while (cluster < most && row_bytes > std::int64_t{kPolicy.staged_bytes} * cluster) cluster *= 2;
    while (cluster < most && plan_.rows * cluster < machine_.multiprocessors &&
           row_bytes > std::int64_t{kPolicy.least_staged_bytes} * cluster)
      cluster *= 2;
    const std::int64_t own = divide_up(vectors, cluster);
    int threads = kPolicy.team_threads;
    // Where later walks read operands as long as the row: the more threads, the more of those loads are under way.
    // Rows that are read together need the registers more.
    const int most_steps = operands_.reads_lines() && together == 1 ? kPolicy.staged_steps : kPolicy.staged_steps_alone;
    while (threads < kPolicy.most_team && own * together > std::int64_t{threads} * most_steps) threads *= 2;
    // So that walks may take two or four at once.
    std::int64_t steps = divide_up(own * together, threads);
    steps = steps > 6 ? (steps + 3) / 4 * 4 : steps > 1 ? (steps + 1) / 2 * 2 : 1;
    threads = kWarp * static_cast<int>(divide_up(own * together, steps * kWarp));
    if (steps * threads * bytes > most_shared(machine_)) return false;
    plan_.shared_bytes = steps * threads * bytes;
    rows().staged = true;
    rows().cluster = cluster;
    rows().team = threads / together;
    rows().interleaved = together > 1;
    kernel_.threads = threads;
    kernel_.steps = static_cast<int>(steps);
    return true;
  }

  // A row in the shared memory of blocks that meet in the workspace. What a thread keeps of a step must be 16 bytes: more, and neighbouring
  // threads meet in the same banks of shared memory (level2 19 in f16, 32 bytes: 1.49 of the copy, split 1.30).
  bool keep_along() {
    // Carried values have 32 bits: where formulas are cheap, computing them again leaves room for twice as many elements (level2 19 in f16: 1.04
    // of the copy, carried 1.28).
    if (rounds_to_few_bits(kernel_) && !rows().carried.empty()) {
      const Arithmetic arithmetic = choose_arithmetic(program_, kernel_);
      const auto is_cheap = [&](ir::Value value) {
        return operands_.cost_of(value, &arithmetic) <= kPolicy.again_instructions;
      };
      if (std::ranges::all_of(rows().carried, is_cheap)) rows().carried.clear();
    }
    const int bytes = staged_bytes(program_, kernel_);
    if (bytes == 0 || walks() != 2 || structure().levels != 1 || most_shared(machine_) < kPolicy.staged_bytes)
      return false;
    const std::optional<KeptParts> parts = keep_parts(plan_, bytes, machine_);
    if (!parts) return false;
    kernel_.schedule = Schedule::kept;
    kernel_.threads = parts->threads;
    kernel_.steps = parts->steps;
    rows().staged = true;
    rows().interleaved = false;
    rows().cluster = 1;
    rows().team = kernel_.threads;
    plan_.shared_bytes = std::int64_t{parts->steps} * parts->threads * bytes;
    plan_.chunks = parts->parts;
    return true;
  }

  // Of a lane, where one warp or less holds a row.
  int most_lane_steps() { return std::clamp(kPolicy.lane_held_bytes / operands_.held_bytes(), 1, kPolicy.lane_steps); }

  // That a thread had better have, if threads suffice.
  int few_steps(int most) { return std::clamp(kPolicy.held_elements / kernel_.elements, 1, most); }

  // Rows that take a lane more than a few steps have a block, if its warps are all busy.
  int lane_steps_of(std::int64_t vectors) {
    const int most = most_lane_steps();
    if (structure().has_parts()) return most;
    const int few = few_steps(most);
    return vectors > std::int64_t{kWarp} * few && vectors % (std::int64_t{2} * kWarp) != 0 ? most : few;
  }

  // More lanes of a warp with fewer steps wait less, unless two steps leave more than a few of them idle.
  bool spreads_well(std::int64_t vectors, int team) {
    const std::int64_t steps = divide_up(vectors, team);
    const std::int64_t idle = steps * team - vectors;
    return !structure().has_parts() && team <= kWarp && (steps > 2 || (steps == 2 && idle * kPolicy.few_idle <= team));
  }

  // Of a block's threads that hold `own` groups in registers.
  int team_steps(std::int64_t own, int most) {
    const bool narrow =
        operands_.narrowest_bytes() < 4 && structure().writes_walk() && !structure().has_parts() && neighbours() == 1;
    const int threads = narrow ? kPolicy.narrow_team_threads : kPolicy.team_threads;
    const int few = narrow ? few_steps(most) : most;
    int steps = std::min(narrow ? 2 : 1, few);
    while (steps < few && divide_up(own, steps) > threads) ++steps;
    while (steps < most && divide_up(own, steps) > kPolicy.most_team) ++steps;
    return steps;
  }

  // Threads of one team, and blocks of one cluster, for `vectors` groups; false if they are too many.
  bool team_along() {
    const std::int64_t vectors = std::max<std::int64_t>(plan_.row_vectors, 1);
    const int most = most_steps();
    const int lane_steps = lane_steps_of(vectors);
    if (vectors <= std::int64_t{kWarp} * lane_steps) {
      // At least eight lanes side by side, where the row has as many groups: whole cache lines in one instruction.
      rows().team =
          std::max(power_of_two_above(divide_up(vectors, lane_steps)), std::min(power_of_two_above(vectors), 8));
      while (spreads_well(vectors, 2 * rows().team)) rows().team *= 2;
      kernel_.threads = kPolicy.row_threads;
      hold_group(vectors, lane_steps);
    } else if (walks() > 1 && vectors > std::int64_t{kPolicy.most_team} * most) {
      // Carried values have 32 bits: where formulas are cheap, computing them again leaves room for twice as many elements. If that takes many
      // blocks still, splitting rows is faster, which has more registers.
      const bool again = rounds_to_few_bits(kernel_) && !rows().carried.empty() &&
                         vectors * staged_bytes(program_, kernel_) > kPolicy.staged_bytes;
      if (again) rows().carried.clear();
      return stage_along(vectors,
                         again ? std::min(most_cluster(machine_), kPolicy.most_cluster_again) : most_cluster(machine_));
    } else {
      // One walk needs nothing held: a long row is walked in rounds.
      if (vectors > std::int64_t{kPolicy.most_team} * most) return false;
      // Few rows: more blocks for each.
      int cluster = 1;
      while (cluster < most_cluster(machine_) && plan_.rows * cluster < machine_.multiprocessors &&
             vectors > std::int64_t{kWarp} * 4 * most * cluster) {
        cluster *= 2;
      }
      rows().cluster = cluster;
      const std::int64_t own = divide_up(vectors, cluster);
      const int steps = team_steps(own, most);
      rows().team = kWarp * static_cast<int>(divide_up(own, std::int64_t{kWarp} * steps));
      kernel_.threads = rows().team * std::max(1, cluster == 1 ? kPolicy.team_threads / rows().team : 1);
    }
    kernel_.steps = static_cast<int>(divide_up(vectors, std::int64_t{rows().team} * rows().cluster));
    return true;
  }

  // One block for all rows of a result across rows, where it can hold them: then nothing is left in memory for other blocks.
  void hold_group(std::int64_t vectors, int lane_steps) {
    const bool is_bucket =
        std::has_single_bit(static_cast<std::uint64_t>(plan_.rows_per_group));  // few kernels for all shapes
    if (structure().across == 0 || !is_bucket || results_across(plan_) < machine_.multiprocessors) return;
    // Lanes side by side read whole lines of memory: rather passes over several rows than fewer lanes (level2 75).
    const int most_passes = structure().has_parts() || rounds_to_few_bits(kernel_) ? 1 : kPolicy.most_passes;
    int team = rows().team;
    const auto passes = [&] { return divide_up(plan_.rows_per_group * team, kPolicy.most_team); };
    while (team > 1 && passes() > most_passes) team /= 2;
    const std::int64_t threads = plan_.rows_per_group * team / passes();
    const bool is_held = passes() <= most_passes && passes() * divide_up(vectors, team) <= lane_steps;
    if (!is_held || threads < kPolicy.fewest_threads || threads % kWarp != 0) return;
    rows().team = team;
    rows().passes = static_cast<int>(passes());
    kernel_.threads = static_cast<int>(threads);
  }

  bool team_across() {
    const std::int64_t length = std::max<std::int64_t>(plan_.row_length, 1);
    const int most = most_steps();
    int columns = power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
    while (columns > 1 && exchange_bytes(columns, kPolicy.most_team) > kPolicy.shared_bytes) columns /= 2;
    const auto capacity = [&](int width) { return std::int64_t{kPolicy.most_team / width} * most; };
    // Narrower tiles hold longer rows, down to a sector's 32 bytes.
    while (columns > 1 && length > capacity(columns) && columns * kernel_.elements * operands_.narrowest_bytes() > 32)
      columns /= 2;
    int cluster = 1;
    while (cluster <= most_cluster(machine_) && length > capacity(columns) * cluster) cluster *= 2;
    if (cluster > most_cluster(machine_)) return false;
    rows().cluster = cluster;
    rows().columns = columns;
    const std::int64_t own = divide_up(length, cluster);
    int steps = 1;
    while (steps < most && divide_up(own, steps) * columns > kPolicy.row_threads) ++steps;
    rows().team = static_cast<int>(divide_up(own, steps));
    round_to_warps();
    kernel_.steps = static_cast<int>(divide_up(length, std::int64_t{rows().team} * cluster));
    return true;
  }

  void round_to_warps() {
    const int per_warp = kWarp / rows().columns;
    rows().team = (rows().team + per_warp - 1) / per_warp * per_warp;
    kernel_.threads = rows().team * rows().columns;
  }

  // What a block across memory exchanges: accumulators of at most three words per warp and column.
  int exchange_bytes(int columns, int threads) {
    const int words = 3 * static_cast<int>(structure().accumulators.size());
    return threads / kWarp * columns * kernel_.elements * words * word_bytes(kernel_);
  }

  // Threads of a block that walks rows in rounds of a few steps.
  void walk_in_rounds() {
    rows().cluster = 1;
    rows().columns = 1;
    rows().carried.clear();  // registers do not last from walk to walk
    rows().staged = false;
    rows().interleaved = false;
    plan_.shared_bytes = 0;
    kernel_.steps = std::clamp(kPolicy.round_bytes / std::max(operands_.loaded_bytes(), 1), 1, 4);
    if (rows().along) {
      rows().team = kPolicy.row_threads;
      kernel_.threads = rows().team;
    } else {
      rows().columns =
          power_of_two_above(std::min<std::int64_t>(kWarp, divide_up(plan_.row_columns, kernel_.elements)));
      const int threads = walks() == 1 ? kPolicy.column_threads : kPolicy.row_threads;
      while (rows().columns > 1 && exchange_bytes(rows().columns, threads) > kPolicy.shared_bytes) rows().columns /= 2;
      rows().team = threads / rows().columns;
      round_to_warps();
    }
    plan_.chunks = std::max<std::int64_t>(divide_up(plan_.row_vectors, std::int64_t{rows().team} * kernel_.steps), 1);
  }

  // Many blocks share a row, each a chunk of it.
  void split() {
    kernel_.schedule = Schedule::split;
    rows().sums_hundreds = plan_.row_length >= kPolicy.sum_elements;
    const std::int64_t all_rounds = plan_.chunks;
    const std::int64_t together = rows().along ? kernel_.threads / rows().team : 1;
    const std::int64_t tiles =
        divide_up(plan_.rows, together) * divide_up(plan_.row_columns, std::int64_t{rows().columns} * kernel_.elements);
    const std::int64_t round_bytes =
        std::int64_t{kernel_.threads} * kernel_.steps * std::max(operands_.loaded_bytes(), 1);
    const int chunk_bytes = walks() == 1                                      ? kPolicy.chunk_bytes
                            : all_rounds * round_bytes > kPolicy.cached_bytes ? kPolicy.long_chunk_bytes
                                                                              : kPolicy.kept_chunk_bytes;
    const std::int64_t wanted = std::max<std::int64_t>(chunk_bytes / round_bytes, 1);
    const std::int64_t resident =
        std::int64_t{machine_.multiprocessors} * (kPolicy.most_resident_threads / kernel_.threads);
    plan_.rounds = std::clamp<std::int64_t>(all_rounds * tiles / (2 * resident), 1, wanted);
    plan_.chunks = divide_up(all_rounds, plan_.rounds);
    // Far enough behind that a walk seldom waits for the one before, near enough that its rows are still in the L2 cache.
    const std::int64_t row_bytes = plan_.chunks * plan_.rounds * round_bytes;
    plan_.lag = std::clamp<std::int64_t>(divide_up(resident * 3 / 2, plan_.chunks * walks()), 1,
                                         std::max<std::int64_t>(kPolicy.cached_bytes / row_bytes, 1));
  }

  void size_grid() {
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
  bool combines_nothing() { return structure().across != 0 && plan_.rows * plan_.row_columns == 0; }

  Plan& plan_;
  Space& space_;
  KernelClass& kernel_;
  const ir::Program& program_;
  const Machine machine_;
  RowOperands operands_;
};

}  // namespace

void plan_rows(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine) {
  plan.kernel_class.f64 = plan.space.f64;
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

}  // namespace epifuse::plan
