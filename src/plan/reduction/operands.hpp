// The operands of kernels with rows: how each is read, how many neighbours a thread takes, and what it keeps of them
// from pass to pass. For the row planner.
#pragma once

#include "plan/analysis/accuracy.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {

/// Works on the class of a plan whose rows are arranged; both must outlive it.
class ReductionOperands {
 public:
  ReductionOperands(Plan& plan, const ir::Program& program)
      : plan_(plan), space_(plan.space), kernel_(plan.kernel_class), program_(program) {}
  /// The same of a copy of the other's plan.
  ReductionOperands(Plan& copy, const ReductionOperands& other)
      : plan_(copy),
        space_(copy.space),
        kernel_(copy.kernel_class),
        program_(other.program_),
        held_bytes_(other.held_bytes_),
        loaded_bytes_(other.loaded_bytes_) {}

  /// Gives the class its inputs and outputs, and chooses elements per thread and what is held.
  void choose();
  /// The last two again, for so many elements at most.
  void take_fewer(int elements);
  /// Where registers hold rows without segments: exponentials of the first pass instead of what they are taken of.
  /// Called when the threads are chosen.
  void hold_exponentials();
  /// Operands of the elements of a run, a weight per channel: a thread works for the same elements of all runs.
  void find_hoisted();
  /// Beside column sums: operands that all rows have in common, of which a thread keeps its elements in registers. And
  /// the bytes of one vector of them.
  void find_common();
  int common_bytes() const;

  /// Of one vector: bytes held from pass to pass, and loaded in the first pass. Known once choose() is done.
  int held_bytes() const { return held_bytes_; }
  int loaded_bytes() const { return loaded_bytes_; }

  struct Streamed {
    const OperandPlan* operand;
    const StridedOperand* strided;
  };
  /// Operands and results of elements that come from memory or go there.
  base::InlineVector<Streamed, 8> streamed() const;
  /// Bytes of an element of the narrowest of them.
  int narrowest_bytes() const;
  /// Whether passes after the first read operands of elements that nobody holds.
  bool reads_lines() const;
  /// Instructions that compute a value from operands, by each operation's own formula or by cheaper ones.
  int cost_of(ir::Value value, const Arithmetic* arithmetic = nullptr) const;

 private:
  // Inputs and outputs, and which results lack parallel dimensions.
  void describe();
  bool is_of_written(const StridedOperand& strided, Scope scope) const;
  OperandPlan of_written(const StridedOperand& strided, bool is_result) const;
  // Consecutive elements per thread, and how many of each operand one instruction moves.
  void choose_elements();
  // Operands and results whose elements take turns in memory are moved in runs.
  void share_runs();
  // Bytes of a vector's run of slices that are written.
  int longest_written_run() const;
  // Where rows have lane segments: a vector is of one of them, and a warp has lanes for it.
  void fit_lane_segments();
  // Operands and values that registers keep from pass to pass.
  void choose_held();

  ReductionClass& reduction() { return *kernel_.reduction(); }
  const ReductionClass& reduction() const { return *kernel_.reduction(); }
  const Structure& structure() const { return reduction().structure; }
  int passes() const { return structure().output_pass + 1; }
  bool transposes_stores() const { return reduction().store.has_value(); }
  Scope scope_of_input(std::size_t i) const { return plan::scope_of_input(program_, structure(), i); }
  Scope scope_of_output(std::size_t i) const;
  bool is_full_size(std::size_t i) const;
  bool repeats_along(std::size_t i, int first, int end) const;
  bool is_needed_later(std::size_t input) const;
  void choose_width(OperandPlan& operand, const StridedOperand& strided);
  void choose_saved();
  bool is_computed_later(ir::Value value) const;
  void save_instead_of_operands();
  int reads_of_later_passes() const;

  Plan& plan_;
  Space& space_;
  KernelClass& kernel_;
  const ir::Program& program_;
  int held_bytes_ = 0;
  int loaded_bytes_ = 0;
};

}  // namespace epifuse::plan
