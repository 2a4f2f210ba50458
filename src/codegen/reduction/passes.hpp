// What one pass over a row reads, computes and feeds, element by element: operands, the function of one element, and
// the loop over a vector. For reduction.cpp, which writes the kernel around it.
#pragma once

#include <string>
#include <vector>

#include "codegen/chain.hpp"
#include "codegen/offsets.hpp"
#include "codegen/reduction/loops.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// Values of rows are members of Row; values of elements are variables of a function.
class ReductionChain : public ChainWriter {
 public:
  ReductionChain(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
                 Prelude& prelude)
      : ChainWriter(program, kernel, input_kinds, prelude), kernel_(kernel) {}

  const plan::NodeRole& role(ir::Value value) const;
  plan::Scope scope_of_input(std::size_t i) const;
  /// A number of the row that operands decide.
  bool is_per_row(ir::Value value) const;

 protected:
  std::string variable(ir::Value value) const override;
  std::string input(std::size_t i) const override;
  std::string scalar(std::size_t i) const override;
  std::string count(ir::Value value) const override;
  std::string special_form(const ir::Node& node, const std::array<std::string, ir::kMaxArity>& operands) override;

  const plan::KernelClass& kernel_;
};

/// The line that writes one element of output i, of which rows, segments, columns or the grid have one each. `at`: its
/// coordinates; where the result lacks the dimensions `missing`, whoever stands first in these writes it.
std::string write_one(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                      const OffsetText& offset, std::string_view at, std::uint32_t missing, std::string_view indent,
                      const std::string& value);

/// The text of passes; they are counted from 0.
class ReductionPasses {
 public:
  /// Sections that the text needs are required from `prelude`, which must outlive the writer, as must the others.
  ReductionPasses(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
                  Prelude& prelude);

  ReductionChain& chain() { return chain_; }
  void require(std::string_view section) { prelude_.require(section); }
  /// Read per element or per row; what all elements share is neither.
  bool is_input_of(std::size_t i, plan::Scope scope) const;
  /// Of an outer reduction, an operand or result of one element for each row: a thread's rows have theirs side by side,
  /// and it moves them at once.
  bool is_vector_of_rows(const plan::OperandPlan& operand) const;
  /// Some operand or result of elements is found by coordinates.
  bool gathers() const;
  /// Whether access() wrote a read of what nobody writes while the kernel runs.
  bool reads_constants() const noexcept { return reads_constants_; }
  /// Of those that are not held in one pass, and of those that are held.
  bool gathers_in(int pass) const;
  bool load_gathers() const;
  /// A statement that moves a vector: `way` is read, write, or load (Held::load says whether it will be read again).
  /// `base` is where the operand's elements begin, if not at its parameter.
  std::string access(std::string_view way, const plan::OperandPlan& operand, std::string_view packet,
                     const std::string& name, std::string_view position, const std::string& base = "");

  /// Whether indices name a row of a held operand for all of its vectors; so of one input. Then the struct IndexedRows
  /// has where these rows begin.
  bool finds_rows() const;
  bool finds_row(std::size_t input) const;
  std::string indexed_rows() const;
  /// Whether lanes find the means of a row before they take what deviates from them.
  bool finds_means_first() const;
  /// The function find_means of a stage's accumulators.
  std::string find_means(int stage) const;

  /// The struct Held: what a thread holds of one step. `of_columns`: the member that holds column sums.
  std::string held_in_registers(std::string_view of_columns);
  std::string held_in_shared_memory();
  /// A function that prefetches `count` elements of what is held, from one on.
  std::string prefetch_held() const;
  /// The struct HeldVector: what the pass over segments needs of that, where a few lanes reduce each; and what makes
  /// one.
  std::string held_vector_struct();

  /// Accumulators of rows that a pass feeds, those of grid reductions and of column sums that it feeds with elements,
  /// and all of them.
  std::vector<std::size_t> accumulators_of(int pass) const;
  std::vector<std::size_t> grid_of(int pass) const;
  std::vector<std::size_t> columns_of(int pass) const;
  std::vector<std::size_t> fed_by(int pass) const;
  /// The accumulator whose exponentials the threads hold, below their own maximum until the row's is known; -1 if none.
  int held_accumulator() const;
  /// The exponential that they hold, if there is one.
  ir::Value held_exponential() const { return reduction_.residency.saved[0]; }
  /// Results that vary within rows, if the pass writes them.
  std::vector<std::size_t> outputs_of(int pass) const;

  /// Beside column sums: an operand that all rows have in common, of which threads read their elements once. And
  /// whether there are any.
  bool is_common(std::size_t input) const;
  bool has_common() const;

  /// An operand of elements that the pass over segments reads once for each segment.
  bool is_per_segment(int pass, std::size_t input) const;

  /// A result that is transposed in shared memory.
  bool is_transposed(std::size_t output) const { return plan::is_transposed(kernel_, program_, output); }

  /// What is known of a lane segment, and its accumulators.
  std::string segment_structs();
  /// The functions element_N that compute one element of a pass: one for each of its loops.
  std::string element_functions(int pass);
  /// The loop that runs it over one vector; `held`, `position` and `values` (the index of a value) are text. What all
  /// elements of a segment share is a member of `of_segment`.
  std::string element_loop(int pass, const std::string& indent, std::string_view held, std::string_view position,
                           std::string_view values);
  /// Reads what is the same for all vectors of a thread; `position` is one of them.
  std::string read_hoisted(int pass, const std::string& indent, std::string_view position);
  /// The struct Hoisted: the same for the pass that writes staged rows, read by load_hoisted() before that pass begins;
  /// and what takes it apart.
  std::string hoisted_struct();
  /// Whether there is one: rows lie in shared memory, and some operand of that pass is loop-invariant.
  bool hoists() const;
  std::string take_hoisted() const;
  /// The function write_batch, which computes a batch of results and puts those that are transposed into their tile.
  std::string write_batch();
  /// Operands of elements that a pass reads.
  std::vector<std::size_t> inputs_of(int pass) const;

 private:
  PassNeeds needs_of(int pass) const;
  int only_operand(int pass, const std::vector<ElementLoop>& loops);
  std::string element_function(int pass, std::size_t k, const std::vector<ElementLoop>& loops);
  std::string element_text(int pass, const ElementLoop& loop);
  static bool returns_value(const ElementLoop& loop);
  std::string put_element(std::size_t output, const std::string& value) const;
  static std::string name_of_element(int pass, std::size_t k, const std::vector<ElementLoop>& loops);
  std::string vectors_read(int pass, const PassNeeds& needs, const std::string& indent, std::string_view held,
                           std::string_view position);
  std::string vectors_saved(int pass, const PassNeeds& needs, const std::string& indent, std::string_view held) const;
  std::string one_loop(int pass, std::size_t k, const std::vector<ElementLoop>& loops, const std::string& indent,
                       std::string_view held, std::string_view values);
  OffsetText offset_at(std::string_view at) const { return codegen::offset_at(program_, kernel_, at); }
  std::size_t index_of(const plan::OperandPlan& input) const {
    return static_cast<std::size_t>(&input - kernel_.inputs.begin());
  }
  std::string element_of(std::size_t input, const std::string& packet) const;
  bool is_saved(ir::Value value) const;
  bool is_seen_by(int pass, ir::Value saved) const;
  std::string copy(std::size_t i, const std::string& indent, const std::string& chunks16);
  // Of operands whose elements take turns in memory (runs.cpp): statements that read a run into the packets of all of
  // them, or declare these packets, or copy a run to shared memory, `chunks16` being the place of operand `i`.
  std::string run_read(std::size_t i, const std::string& indent, std::string_view position);
  std::string packets_of_run(std::size_t i, const std::string& indent) const;
  std::string copied_run(std::size_t i, const std::string& indent, const std::string& chunks16);
  // Whether no operand before it has that run.
  bool is_first_of_run(std::size_t i, const std::vector<std::size_t>& inputs) const;
  std::string run_written(std::size_t output, const std::string& indent, std::string_view position);
  static std::string taken(const std::string& type, const std::string& name, std::string_view held);
  bool maximum_is_only_subtracted() const;
  plan::Marks terms_of(int pass, const ElementLoop& loop) const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::ReductionClass& reduction_;
  const std::vector<ir::Kind>& input_kinds_;
  Prelude& prelude_;
  bool reads_constants_ = false;
  ReductionChain chain_;
};

}  // namespace epifuse::codegen
