// The operands of kernels with rows: how each is read, how many neighbours a thread takes, and what it keeps of them from walk to walk. For the row planner.
#pragma once

#include "plan/accuracy.hpp"
#include "plan/parts.hpp"

namespace epifuse::plan {

/// Works on the class of a plan whose rows are arranged; both must outlive it.
class RowOperands {
 public:
  RowOperands(Plan& plan, const ir::Program& program)
      : plan_(plan), space_(plan.space), kernel_(plan.kernel_class), program_(program) {}

  /// Gives the class its inputs and outputs, and says which results lack kept dimensions.
  void describe();
  /// Consecutive elements per thread, and how many of each operand one instruction moves.
  void choose_elements();
  /// Operands and values that registers keep from walk to walk.
  void choose_held();
  /// Both again, for so many elements at most.
  void take_fewer(int elements);
  /// Where registers keep rows without parts: exponentials of the first walk instead of what they are taken of. Called when the threads are chosen.
  void keep_exponentials();
  /// Operands of the elements of a piece, a weight per channel: a thread works for the same elements of all pieces.
  void find_steady();

  /// Of one group of elements: bytes kept from walk to walk, and loaded in the first walk. Known once choose_held is done.
  int held_bytes() const { return held_bytes_; }
  int loaded_bytes() const { return loaded_bytes_; }

  struct Streamed {
    const OperandPlan* operand;
    const Walk* walk;
  };
  /// Operands and results of elements that come from memory or go there.
  base::InlineVector<Streamed, 8> streamed() const;
  /// Bytes of an element of the narrowest of them.
  int narrowest_bytes() const;
  /// Whether walks after the first read operands of elements that nobody holds.
  bool reads_lines() const;
  /// Instructions that compute a value from operands, by each operation's own formula or by cheaper ones.
  int cost_of(ir::Value value, const Arithmetic* arithmetic = nullptr) const;

 private:
  RowClass& rows() { return *kernel_.rows; }
  const RowClass& rows() const { return *kernel_.rows; }
  const Structure& structure() const { return rows().structure; }
  int walks() const { return structure().output_walk + 1; }
  bool crosses() const { return rows().crossing != Crossing::none; }
  Extent extent_of_input(std::size_t i) const { return plan::extent_of_input(program_, structure(), i); }
  Extent extent_of_output(std::size_t i) const;
  bool is_walked(std::size_t i) const;
  bool is_needed_later(std::size_t input) const;
  void choose_width(OperandPlan& operand, const Walk& walk);
  void choose_carried();
  void carry_instead_of_operands();
  int reads_of_later_walks() const;

  Plan& plan_;
  Space& space_;
  KernelClass& kernel_;
  const ir::Program& program_;
  int held_bytes_ = 0;
  int loaded_bytes_ = 0;
};

}  // namespace epifuse::plan
