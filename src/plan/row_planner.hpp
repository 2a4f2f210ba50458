// Who walks the rows of one launch: the steps of planning chains with reductions after row_sections.cpp (which dimensions are rows) and with
// row_operands.cpp (what a thread takes). rows.cpp has the order of the steps and the grid, row_teams.cpp rows that are held, crossed_blocks.cpp results
// that turn, ahead.cpp what is asked for ahead of time. docs/internals/plan.md explains every choice.
#pragma once

#include <algorithm>
#include <bit>

#include "plan/policy.hpp"
#include "plan/row_operands.hpp"

namespace epifuse::plan {

/// Works on a plan whose space is bound; each run… fills in the rest, once.
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

  /// Walks the operands in their order, and turns results in shared memory; false where that is no way to do it.
  bool run_crossed(const Order& order);
  /// Parts one behind the other, each walked as if it were a row; false where parts are short, or rows too few.
  bool run_by_parts();
  /// All others. Throws Error where the chain cannot be one kernel.
  void run();

 private:
  RowClass& rows() { return *kernel_.rows; }
  const Structure& structure() { return rows().structure; }
  int walks() { return structure().output_walk + 1; }
  bool crosses() { return rows().crossing != Crossing::none; }

  // rows.cpp
  void choose_threads();
  int rows_of_result();
  bool has_rows_for_blocks();
  [[noreturn]] void refuse_long_parts() const;
  bool is_starved();
  void walk_in_rounds(int most_steps = kPolicy.most_round_steps);
  void split();
  void size_grid();
  bool combines_nothing();

  // row_teams.cpp
  int neighbours();
  int most_steps();
  int most_lane_steps();
  int few_steps(int most);
  int lane_steps_of(std::int64_t vectors);
  bool spreads_well(std::int64_t vectors, int team);
  int team_steps(std::int64_t own, int most);
  bool team_along();
  void hold_group(std::int64_t vectors, int lane_steps);
  bool team_across();
  bool stage_along(std::int64_t vectors, int most);
  void choose_pieces();
  bool keep_along();
  void round_to_warps();
  int exchange_bytes(int columns, int threads);

  // ahead.cpp
  void choose_ahead();
  std::int64_t bytes_ahead();
  std::int64_t elements_of_block();

  // crossed_blocks.cpp
  bool choose_crossed_threads();
  bool round_steps();
  int batch_of(int steps);
  bool fits_tile();
  const CrossedTile& crossed_tile();
  bool cross_neighbours();
  bool cross_chunks();
  int rows_together();
  bool share_lines(int threads);

  Plan& plan_;
  Space& space_;
  KernelClass& kernel_;
  const ir::Program& program_;
  const Machine machine_;
  RowOperands operands_;
  KeptBlock kept_block_;  ///< of kept rows; else it asks for nothing
};

inline int power_of_two_above(std::int64_t n) {
  return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 1))));
}

}  // namespace epifuse::plan
