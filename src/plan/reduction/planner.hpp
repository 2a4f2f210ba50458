// Which threads reduce the rows of one launch: the steps of planning after dimensions.cpp (which dimensions are rows)
// and with operands.cpp (what a thread takes). reduction.cpp has the order of the steps and the grid; each driver has a
// file of its own, transposed_store_blocks.cpp results that are transposed, prefetch.cpp what is prefetched.
// docs/internals/plan/reduction.md explains every choice.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>

#include "plan/policy.hpp"
#include "plan/reduction/operands.hpp"

namespace epifuse::plan {

/// Of rows in registers whose results are transposed.
struct TransposedStoreTile {
  int lanes = 0;       ///< of a warp that share a row, at least, where a block's rows are neighbours in the results
  int line_bytes = 0;  ///< of a line that such a block writes at least, or it has more threads
  int tile_bytes = 0;  ///< of results in shared memory at a time
};

/// Blocks that hold chunks of rows in shared memory.
struct ResidentBlock {
  int threads = 0;
  int blocks = 0;  ///< of a multiprocessor, that its shared memory has space for
  int prefetch_bytes = 0;
  bool l2_evict_first = false;  ///< what is read and written leaves the L2 cache first
};

/// Works on a plan whose space is bound; each run… fills in the rest, once.
class ReductionPlanner {
 public:
  ReductionPlanner(Plan& plan, const ir::Program& program, Structure structure, const Machine& machine)
      : plan_(plan),
        space_(plan.space),
        kernel_(plan.kernel_class),
        program_(program),
        machine_(machine),
        operands_(plan, program) {
    kernel_.body = ReductionClass{};
    reduction().structure = std::move(structure);
  }

  /// Iterates in the order of the operands, and transposes results in shared memory; false where that is no way to do
  /// it.
  bool run_transposed_store(const Order& order);
  /// Segments one behind the other, each reduced as if it were a row; false where segments are short, or rows too few.
  bool run_by_segments();
  /// Sums over rows whose threads meet once, at the end; false where rows are too few, or longer than a block holds.
  bool run_column_sums();
  /// Sums over rows that have reductions of their own, whose threads meet once, too; false where no block holds a row.
  bool run_held_columns();
  /// Reductions of segments; false where no thread group holds a row and results need its elements behind them.
  bool run_segments();
  /// The same of segments of rows that more than one block holds: warps leave what they have of each. False where no
  /// cluster holds a row, and not enough blocks at a time do.
  bool run_column_runs();
  /// All others. Throws Error where the chain cannot be one kernel.
  void run();

 private:
  ReductionClass& reduction() { return std::get<ReductionClass>(kernel_.body); }
  const Structure& structure() { return reduction().structure; }
  int passes() { return structure().output_pass + 1; }
  RowLayout& layout() { return reduction().layout; }
  RowThreads& row_threads() { return reduction().threads; }

  // Works on a copy of the plan: a form that does not apply leaves nothing behind but the reason.
  ReductionPlanner(Plan& candidate, const ReductionPlanner& other)
      : plan_(candidate),
        space_(candidate.space),
        kernel_(candidate.kernel_class),
        program_(other.program_),
        machine_(other.machine_),
        operands_(candidate, other.operands_),
        resident_block_(other.resident_block_) {}
  template <class Form>
  bool attempt(Form form);

  // reduction.cpp
  void choose_driver();
  bool hold_rows();
  void choose_rest();
  bool hold();
  bool is_starved();
  int fill_warps();
  void size_grid();
  bool combines_nothing();

  // by_segments.cpp
  bool has_no_other_form(const Plan& bound) const;
  int rows_of_result();

  // lane_segments.cpp
  const ir::Node* reduction_of(Scope scope) const;
  std::string_view name_of_second() const;
  void check_lane_segments();
  void choose_lanes();
  bool has_lane_segments() { return reduction().lane_segments.has_value(); }

  // looped.cpp
  bool may_read_in_rounds();
  void read_in_rounds();
  void take_rounds(int most_steps = kPolicy.most_steps);
  bool has_rows_for_blocks();
  [[noreturn]] void refuse_long_segments() const;
  [[noreturn]] void refuse_few_written() const;

  // split.cpp
  void split();

  // column_sums.cpp
  bool hold_columns();
  bool hold_outer_columns();
  [[noreturn]] void refuse_columns();
  int most_column_cluster();
  int column_threads(int steps);
  bool choose_column_group(int cluster, int steps);
  int column_residents();
  int column_groups();
  void count_results_of_nothing();
  void size_column_grid();
  void size_outer_columns();
  void share_tiles(int resident);
  void finish_column_grid();
  void add_in_clusters();

  // resident.cpp
  int neighbours();
  int most_steps();
  int most_lane_steps();
  int few_steps(int most);
  int lane_steps_of(std::int64_t vectors);
  bool has_costly_block(std::int64_t vectors);
  bool fills_lanes(std::int64_t vectors, int lanes);
  int group_steps(std::int64_t own, int most);
  bool choose_inner_group();
  void hold_result_rows(std::int64_t vectors, int lane_steps);
  bool choose_outer_group();
  bool holds_rows_alone(std::int64_t length, int most);
  bool stage_inner(std::int64_t vectors, int most);
  bool stage_outer(std::int64_t length);
  std::int64_t whole_batches(std::int64_t steps);
  void choose_vectors_per_run();
  void round_to_warps();
  int exchange_bytes(int columns, int threads);

  // split_resident.cpp
  bool choose_split_resident();

  // written.cpp
  std::optional<int> held_row_of(std::size_t input);
  bool reads_rows_again();
  void find_written_operands();

  // prefetch.cpp
  void choose_prefetch();
  std::int64_t prefetch_bytes();
  std::int64_t elements_of_block();

  // transposed_store_blocks.cpp
  bool choose_transposing_driver();
  bool transpose_columns();
  bool round_steps();
  int batch_of(int steps);
  bool fits_tile();
  TransposedStoreTile transposed_store_tile();
  bool transpose_rows();
  bool transpose_chunks();
  int rows_together();
  bool share_lines(int threads);

  Plan& plan_;
  Space& space_;
  KernelClass& kernel_;
  const ir::Program& program_;
  const Machine machine_;
  ReductionOperands operands_;
  ResidentBlock resident_block_;  ///< of split_resident; else empty
};

template <class Form>
bool ReductionPlanner::attempt(Form form) {
  Plan candidate = plan_;
  ReductionPlanner planner(candidate, *this);
  if (!(planner.*form)()) {
    plan_.unheld = candidate.unheld;
    return false;
  }
  plan_ = std::move(candidate);
  resident_block_ = planner.resident_block_;
  return true;
}

inline int power_of_two_above(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

}  // namespace epifuse::plan
