// Which threads reduce the rows of one launch: the steps of planning chains with reductions after reduction_dimensions.cpp (which dimensions are rows) and with
// reduction_operands.cpp (what a thread takes). reduction.cpp has the order of the steps and the grid, thread_groups.cpp rows that are held, transposed_store_blocks.cpp results
// that are transposed, prefetch.cpp what is prefetched. docs/internals/plan.md explains every choice.
#pragma once

#include <algorithm>
#include <bit>

#include "plan/policy.hpp"
#include "plan/reduction_operands.hpp"

namespace epifuse::plan {

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
    kernel_.reduction.emplace();
    reduction().structure = std::move(structure);
  }

  /// Iterates in the order of the operands, and transposes results in shared memory; false where that is no way to do it.
  bool run_transposed_store(const Order& order);
  /// Segments one behind the other, each reduced as if it were a row; false where segments are short, or rows too few.
  bool run_by_segments();
  /// All others. Throws Error where the chain cannot be one kernel.
  void run();

 private:
  ReductionClass& reduction() { return *kernel_.reduction; }
  const Structure& structure() { return reduction().structure; }
  int passes() { return structure().output_pass + 1; }
  bool transposes_stores() { return reduction().transposed_store != TransposedStore::none; }

  // reduction.cpp
  void choose_threads();
  int rows_of_result();
  bool has_rows_for_blocks();
  [[noreturn]] void refuse_long_segments() const;
  bool is_starved();
  void take_in_rounds(int most_steps = kPolicy.most_round_steps);
  void split();
  void size_grid();
  bool combines_nothing();

  // thread_groups.cpp
  int neighbours();
  int most_steps();
  int most_lane_steps();
  int few_steps(int most);
  int lane_steps_of(std::int64_t vectors);
  bool fills_lanes(std::int64_t vectors, int lanes);
  int group_steps(std::int64_t own, int most);
  bool choose_inner_group();
  void hold_result_rows(std::int64_t vectors, int lane_steps);
  bool choose_outer_group();
  bool stage_inner(std::int64_t vectors, int most);
  void choose_vectors_per_run();
  bool choose_split_resident();
  void round_to_warps();
  int exchange_bytes(int columns, int threads);

  // prefetch.cpp
  void choose_prefetch();
  std::int64_t prefetch_bytes();
  std::int64_t elements_of_block();

  // transposed_store_blocks.cpp
  bool choose_transposed_store_threads();
  bool round_steps();
  int batch_of(int steps);
  bool fits_tile();
  const TransposedStoreTile& transposed_store_tile();
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

inline int power_of_two_above(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

}  // namespace epifuse::plan
