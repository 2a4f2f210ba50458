// What a reduction's kernel knows of a row, and what its passes accumulate until they do: the structs Row, StageN and
// GridStage, and what feeds them. For reduction.cpp, which writes the kernel around them.
#pragma once

#include <string>
#include <vector>

#include "codegen/reduction/passes.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// The text of stages; they are counted from 1, and pass N - 1 accumulates stage N.
class ReductionStages {
 public:
  /// `passes`, and what it was made of, must outlive the writer.
  ReductionStages(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
                  ReductionPasses& passes)
      : program_(program),
        kernel_(kernel),
        reduction_(*kernel_.reduction()),
        input_kinds_(input_kinds),
        passes_(passes),
        chain_(passes.chain()),
        of_rows_(needed_of_rows()) {}

  /// The sections of all accumulators.
  void require_accumulators(Prelude& prelude) const;
  /// The struct Row, and the function load_rows, which computes what needs no accumulator.
  std::string row();
  /// The function write_rows, which writes the results of one element for each row.
  std::string write_rows() const;
  /// The struct of a stage's accumulators: takes vectors of steps, and gives rows what is then known of them.
  std::string stage_struct(int stage);
  /// The accumulators of segments of rows, what the elements of a segment share, and the function that writes a
  /// segment's results.
  std::string segment_struct();
  std::string segment_operands() const;
  std::string write_segment();
  /// The struct of the accumulators of grid reductions; there always is one.
  std::string grid_struct() const;
  /// The function write_grid, which computes and writes the grid reductions.
  std::string write_grid() const;
  /// Feeds the accumulators of grid reductions with the values of `count` vectors.
  std::string add_to_grid(int pass, std::string_view position, std::string_view count, const std::string& indent) const;
  /// A reduction's result, from its accumulator, a member of `set`.
  std::string result_of(const ir::Node& node, const plan::NodeRole& role, std::string_view set) const;

 private:
  bool has_one_row() const { return reduction_.layout.inner_reduction; }  // to a thread
  const char* row_index() const { return has_one_row() ? "0" : "k"; }
  bool has_one_step() const { return kernel_.tuning.batch == 1; }  // that an accumulator takes at once
  bool is_row_operation(std::size_t i) const;
  bool is_row_operand(std::size_t input) const;
  bool is_result_vector_of_rows(std::size_t output) const;
  std::string row_operations(int stage);
  bool holds_exponentials(std::size_t accumulator) const;
  bool is_mean_first(const plan::Accumulator& accumulator) const;
  std::string accumulator_struct(const std::string& name, const std::vector<std::size_t>& accumulators) const;
  std::string exponentials(int stage) const;
  std::string accumulate(int stage, const std::vector<std::size_t>& accumulators);
  std::string values_of_steps(int pass);
  std::string mask_of_steps(std::string_view mask, std::string_view else_takes) const;
  std::string add_to_row(int pass, const std::vector<std::size_t>& accumulators) const;
  std::string add_to_columns(const std::vector<std::size_t>& accumulators) const;
  std::string recenter(const std::vector<std::size_t>& accumulators) const;
  std::string accumulate_held(int pass, const std::vector<std::size_t>& accumulators);
  bool is_known_per_segment(std::size_t i) const;
  plan::Marks needed_of_rows() const;
  plan::Marks needed_of_segment() const;
  bool has_segment_means() const { return reduction_.structure.has_segment_means(); }
  std::vector<std::size_t> accumulators_of(int pass, bool of_segments) const;
  std::string means_of_segment() const;
  plan::Marks tops_of_segment_means() const;
  std::string mean_of_elements(std::size_t top);
  std::string add_segment_to_grid() const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::ReductionClass& reduction_;
  const std::vector<ir::Kind>& input_kinds_;
  ReductionPasses& passes_;
  ReductionChain& chain_;
  const plan::Marks of_rows_;
};

}  // namespace epifuse::codegen
