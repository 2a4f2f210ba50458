// Every decision of structure.cpp and rows.cpp, said in a sentence: what a walk is for, who shares a row, what is held, and why.
#include "plan/explain_rows.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/parts.hpp"

namespace epifuse::plan {
namespace {

class RowsExplainer {
 public:
  RowsExplainer(const ir::Program& program, const Plan& plan)
      : program_(program),
        plan_(plan),
        kernel_(plan.kernel_class),
        rows_(*kernel_.rows),
        walks_of_(walks_of_inputs(program, rows_.structure, rows_.carried)) {}

  RowsSummary summary() const {
    RowsSummary s;
    s.rows = plan_.rows * plan_.row_columns;
    s.row_length = plan_.row_length;
    s.along = rows_.along;
    s.rows_side_by_side = plan_.row_columns;
    s.row_parts = plan_.row_parts;
    s.part_length = plan_.part_length;
    s.part_lanes = plan_.part_lanes;
    s.team_threads = rows_.team;
    s.cluster_blocks = rows_.cluster;
    s.blocks_per_row = shares_rows(kernel_.schedule) ? plan_.chunks : rows_.cluster;
    s.rows_per_block = rows_per_block();
    s.rounds = is(Schedule::split) ? plan_.rounds : is(Schedule::loop) ? plan_.chunks : 1;
    s.lag = plan_.lag;
    s.ahead = plan_.ahead < plan_.blocks ? plan_.ahead : 0;
    s.bytes_ahead = s.ahead > 0 ? bytes_ahead() : 0;
    s.shared_by = shared_by();
    for (int walk = 0; walk < walks(); ++walk) s.walks.push_back(walk_summary(walk));
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (is_needed_again(i)) s.held.push_back(program_.inputs()[i]);
    }
    for (const ir::Value value : rows_.carried) s.carried.push_back(name(value));
    s.held_in = rows_.staged ? "shared memory" : "registers";
    s.staged_bytes = static_cast<std::uint64_t>(plan_.shared_bytes);
    s.bytes_under_way = is(Schedule::split) ? bytes_under_way() : 0;
    return s;
  }

  bool is(Schedule schedule) const { return kernel_.schedule == schedule; }
  int walks() const { return rows_.structure.output_walk + 1; }

  Extent extent_of_input(std::size_t input) const { return plan::extent_of_input(program_, rows_.structure, input); }
  Extent extent_of_result(std::size_t output) const {
    return rows_.structure.nodes[static_cast<std::size_t>(program_.results()[output].value)].extent;
  }

  // Walks that compute something from the operand's elements.
  const std::vector<int>& walks_with(std::size_t input) const { return walks_of_[input]; }

  // In registers or shared memory from the first walk on; a block that walks its rows again keeps nothing.
  bool is_kept(std::size_t input) const { return (is(Schedule::team) || is(Schedule::kept)) && rows_.held[input]; }

  bool is_needed_again(std::size_t input) const {
    return is_kept(input) && std::ranges::any_of(walks_with(input), [](int walk) { return walk > 0; });
  }

  // The same for all elements of a part, and needed where parts are reduced or after that.
  bool is_read_by_parts(std::size_t input) const {
    return role_of_input(program_, rows_.structure, input).part_wise &&
           std::ranges::all_of(walks_with(input), [&](int walk) { return rows_.structure.walks_parts(walk); });
  }

  int reads(std::size_t input) const {
    const bool again = extent_of_input(input) == Extent::element && kernel_.inputs[input].access != Access::uniform;
    return is_kept(input) || !again ? 1 : std::max(1, static_cast<int>(walks_with(input).size()));
  }

 private:
  // An operand by its name, another value by its number in the SSA list and what computes it.
  std::string name(ir::Value value) const {
    const ir::Node& node = program_.node(value);
    if (node.op == ir::Op::input) return program_.inputs()[static_cast<std::size_t>(node.ordinal)];
    if (ir::is_elementwise(node.op) || ir::is_reduction(node.op))
      return fmt::format("%{} ({})", value, ir::name_of(node.op));
    return fmt::format("%{}", value);
  }
  WalkSummary walk_summary(int walk) const {
    WalkSummary s;
    for (const Accumulator& a : rows_.structure.accumulators) {
      if (a.across ? walk == rows_.structure.output_walk : walk + 1 == a.level) {
        s.accumulates.push_back(fmt::format("{} of {}{}", to_string(a.kind), name(unshaped(program_, a.argument)),
                                            a.across ? " across rows"
                                            : a.part ? " by parts"
                                                     : ""));
      }
    }
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (extent_of_input(i) != Extent::element || kernel_.inputs[i].access == Access::uniform) continue;
      const std::vector<int>& users = walks_with(i);
      const bool ends = rows_.structure.has_averages() && users.empty();  // what follows the averages
      const bool reads = ends || (is_kept(i) ? walk == 0 : std::ranges::find(users, walk) != users.end());
      if (reads) s.reads.push_back(program_.inputs()[i]);
    }
    for (std::size_t i = 0; i < kernel_.outputs.size() && walk == rows_.structure.output_walk; ++i) {
      if (extent_of_result(i) == Extent::element) s.writes.push_back(program_.result_name(i));
    }
    const bool ends_parts = rows_.structure.walks_parts(walk) || rows_.structure.has_averages();
    for (std::size_t i = 0; i < kernel_.outputs.size() && ends_parts; ++i) {
      if (extent_of_result(i) == Extent::part) s.writes.push_back(program_.result_name(i));
    }
    return s;
  }

  std::int64_t rows_per_block() const {
    if (!rows_.along) return std::min<std::int64_t>(plan_.row_columns, std::int64_t{rows_.columns} * kernel_.elements);
    return shares_rows(kernel_.schedule) ? 1 : std::max(1, plan_.threads / rows_.team) * rows_.passes;
  }

  std::string shared_by() const {
    std::string who = threads_text();
    if (rows_.cluster > 1) return fmt::format("a cluster of {} blocks, {} of each", rows_.cluster, who);
    if (shares_rows(kernel_.schedule) && plan_.chunks > 1)
      return fmt::format("{} blocks, {} of each", plan_.chunks, who);
    return who;
  }
  std::string threads_text() const {
    if (!rows_.along) {
      return fmt::format("{} thread{} across memory, each for {} row{} side by side", rows_.team,
                         rows_.team == 1 ? "" : "s", kernel_.elements, kernel_.elements == 1 ? "" : "s");
    }
    if (rows_.team == 1) return "one thread";
    if (rows_.team < kWarp) return fmt::format("{} lanes of a warp", rows_.team);
    if (rows_.team == kWarp) return "one warp";
    return fmt::format("{} warps", rows_.team / kWarp);
  }

  template <class Which>
  std::uint64_t bytes_of_inputs(const Which& which) const {
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (which(i)) bytes += bytes_of(plan_.space.inputs[i], plan_.space);
    }
    return bytes;
  }

  // Of a split row between two walks: what was read by the first and not yet by the last.
  std::uint64_t bytes_under_way() const {
    const std::uint64_t bytes = bytes_of_inputs([&](std::size_t i) { return rows_.held[i] && reads(i) > 1; });
    const auto tiles = static_cast<std::uint64_t>(std::max<std::int64_t>(plan_.tiles, 1));
    const auto under_way = std::min(tiles, static_cast<std::uint64_t>(plan_.lag * (walks() - 1) + 1));
    return bytes / tiles * under_way;
  }

  // Of the blocks between one and that for which it asks.
  std::uint64_t bytes_ahead() const {
    const std::uint64_t bytes = bytes_of_inputs([&](std::size_t i) { return is_asked_for(kernel_, i); });
    return bytes / plan_.blocks * static_cast<std::uint64_t>(plan_.ahead);
  }

  const ir::Program& program_;
  const Plan& plan_;
  const KernelClass& kernel_;
  const RowClass& rows_;
  const std::vector<std::vector<int>> walks_of_;
};

// "a, b and c"
std::string listed(const std::vector<std::string>& words) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) out += i + 1 == words.size() ? " and " : ", ";
    out += words[i];
  }
  return out;
}

std::string walk_text(const WalkSummary& walk) {
  std::vector<std::string> parts;
  if (!walk.reads.empty()) parts.push_back("reads " + listed(walk.reads));
  if (!walk.accumulates.empty()) parts.push_back("accumulates " + listed(walk.accumulates));
  if (!walk.writes.empty()) parts.push_back("writes " + listed(walk.writes));
  return fmt::to_string(fmt::join(parts, "; "));
}

}  // namespace

RowsSummary summarise_rows(const ir::Program& program, const Plan& plan) {
  return RowsExplainer(program, plan).summary();
}

int reads_of(const ir::Program& program, const Plan& plan, std::size_t input) {
  return RowsExplainer(program, plan).reads(input);
}

namespace {

std::string why_unheld(const Plan& plan, const RowsSummary& rows, const Machine& machine) {
  const std::string row = fmt::format("a row of {} element{}", rows.row_length, rows.row_length == 1 ? "" : "s");
  const std::string_view who = machine.architecture >= 90 ? "cluster of blocks" : "block";
  const Unheld& unheld = plan.unheld;
  switch (unheld.why) {
    case Unheld::Why::few_rows:
      return fmt::format("{} for {} multiprocessors",
                         rows.along ? fmt::format("{} row{}", plan.rows, plan.rows == 1 ? "" : "s")
                                    : fmt::format("{} tile{} of rows", plan.tiles, plan.tiles == 1 ? "" : "s"),
                         machine.multiprocessors);
    case Unheld::Why::registers:
      return row + " is more than the registers of a block hold";
    case Unheld::Why::cluster:
      return fmt::format("{} is more than the registers of a {} hold", row, who);
    case Unheld::Why::not_copied:
      return row + " is more than the registers of a block hold, and is not copied to shared memory";
    case Unheld::Why::shared_memory: {
      const auto kilobytes = [](std::int64_t bytes) { return base::format_bytes(static_cast<double>(bytes)); };
      const std::string where = unheld.blocks > 1 ? fmt::format("in each of {} blocks of a cluster", unheld.blocks)
                                                  : std::string("of a block");
      const std::string takes = fmt::format("{} of shared memory {}, more than the {} that rows may have",
                                            kilobytes(unheld.bytes), where, kilobytes(most_shared(machine)));
      if (unheld.together == 1) return fmt::format("{} takes {}", row, takes);
      return fmt::format(
          "{} rows of {} elements, which lie side by side in pieces of {}, are read together and take {}",
          unheld.together, rows.row_length, plan.space.extents[plan.space.rank() - 1], takes);
    }
    case Unheld::Why::none:
      break;
  }
  return fmt::format("{} is more than a {} holds", row, who);
}

}  // namespace

std::string why_rows(const Plan& plan, const RowsSummary& rows, const Machine& machine) {
  if (plan.kernel_class.schedule == Schedule::team) {
    return fmt::format("a row of {} element{} fits the {} of those who share it, so memory is read once",
                       rows.row_length, rows.row_length == 1 ? "" : "s", rows.held_in);
  }
  if (plan.kernel_class.rows->structure.has_averages()) {
    return "results need of each row's elements no more than averages over its parts: one walk is enough, and there "
           "are rows for all multiprocessors";
  }
  const std::string unheld = why_unheld(plan, rows, machine);
  if (plan.kernel_class.schedule == Schedule::loop && rows.row_parts > 0) {
    return unheld + ", but there are blocks for all multiprocessors: each reads its row again for the parts";
  }
  if (plan.kernel_class.schedule == Schedule::loop)
    return unheld + ", but one walk is enough and there are blocks for all multiprocessors";
  return unheld + (plan.kernel_class.schedule == Schedule::kept ? ": many blocks keep their parts of each"
                                                                : ": many blocks share each");
}

std::string why_operand_of_rows(const ir::Program& program, const Plan& plan, std::size_t input) {
  const RowsExplainer rows(program, plan);
  const Access access = plan.kernel_class.inputs[input].access;
  if (access == Access::uniform || access == Access::unused) return "";
  if (rows.extent_of_input(input) != Extent::element) return "one element per row: read once by each of its threads";
  if (rows.is_needed_again(input)) return "; kept for all walks";
  const int reads = rows.reads(input);
  if (rows.is_read_by_parts(input)) return "one element per part of a row: read once for it, not per group";
  if (reads < 2) return "";
  return plan.kernel_class.rows->held[input]
             ? fmt::format("; read in {} walks", reads)
             : fmt::format("; the same for many rows: read in {} walks, from cache", reads);
}

std::string why_result_of_rows(const ir::Program& program, const Plan& plan, std::size_t output) {
  const Extent extent = RowsExplainer(program, plan).extent_of_result(output);
  if (is_crossed(plan.kernel_class, program, output)) {
    const OperandPlan& operand = plan.kernel_class.outputs[output];
    return fmt::format(
        "its neighbours lie across the operands': it turns in shared memory, and is written as it lies, {} byte{} at a "
        "time",
        operand.width * size_in_bytes(operand), operand.width * size_in_bytes(operand) == 1 ? "" : "s");
  }
  if (extent == Extent::row) return "one element per row: written by one of its threads";
  if (extent == Extent::part) return "one element per part of a row: written by one of the threads that walk it";
  if (extent == Extent::across)
    return plan.parts > 1 ? fmt::format("combines {} blocks: written by the last of them", plan.parts)
                          : "combines rows of one block: written by one of its threads";
  return "";
}

std::string to_text(const RowsSummary& rows, std::string_view schedule) {
  std::string out = fmt::format(
      "rows             {} of {} element{}, {}\n", rows.rows, rows.row_length, rows.row_length == 1 ? "" : "s",
      rows.along ? std::string("along memory") : fmt::format("across memory: {} side by side", rows.rows_side_by_side));
  if (rows.row_parts > 0)
    out += fmt::format("parts            {} of {} element{} in each row, reduced on their own{}\n", rows.row_parts,
                       rows.part_length, rows.part_length == 1 ? "" : "s",
                       rows.part_lanes > 0 ? fmt::format(": {} lane{} for each, from shared memory", rows.part_lanes,
                                                         rows.part_lanes == 1 ? "" : "s")
                                           : "");
  out += fmt::format("shared by        {}; {} row{} per block\n", rows.shared_by, rows.rows_per_block,
                     rows.rows_per_block == 1 ? "" : "s");
  for (std::size_t i = 0; i < rows.walks.size(); ++i)
    out += fmt::format("{:<16} {}: {}\n", i == 0 ? "walks" : "", i + 1, walk_text(rows.walks[i]));
  if (!rows.held.empty())
    out += fmt::format("kept             {} in {}, from the first walk to the last\n", listed(rows.held), rows.held_in);
  if (rows.staged_bytes > 0)
    out += fmt::format("staged           {} of shared memory per block\n",
                       base::format_bytes(static_cast<double>(rows.staged_bytes)));
  if (rows.ahead > 0)
    out +=
        fmt::format("asked for        {} ahead, what is read {} block{} later: memory reads while blocks write\n",
                    base::format_bytes(static_cast<double>(rows.bytes_ahead)), rows.ahead, rows.ahead == 1 ? "" : "s");
  if (!rows.carried.empty()) out += fmt::format("carried          {}: computed once and kept\n", listed(rows.carried));
  if (rows.rounds > 1)
    out += fmt::format("rounds           {} of a {} over its part of a row\n", rows.rounds,
                       rows.row_parts > 0 && rows.rows_per_block > 1 ? "team" : "block");
  if (schedule == "split" && rows.walks.size() > 1) {
    out += fmt::format(
        "lag              {} tile{} between walks: {} are under way and come from the L2 cache if it holds "
        "them\n",
        rows.lag, rows.lag == 1 ? "" : "s", base::format_bytes(static_cast<double>(rows.bytes_under_way)));
  }
  return out;
}

}  // namespace epifuse::plan
