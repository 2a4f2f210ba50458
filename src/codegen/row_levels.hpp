// What a kernel with rows knows of a row, and what its walks accumulate until they do: the structs Row, LevelN and Across, and what feeds them.
// For rows.cpp, which writes the kernel around them.
#pragma once

#include <string>
#include <vector>

#include "codegen/row_walks.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// The text of levels; they are counted from 1, and walk N - 1 accumulates level N.
class RowLevels {
 public:
  /// `walks`, and what it was made of, must outlive the writer.
  RowLevels(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
            RowWalks& walks)
      : program_(program),
        kernel_(kernel),
        rows_(*kernel.rows),
        input_kinds_(input_kinds),
        walks_(walks),
        chain_(walks.chain()),
        of_rows_(needed_of_rows()) {}

  /// The sections of all accumulators.
  void require_accumulators(Prelude& prelude) const;
  /// The struct Row, and the function load_rows, which computes what needs no accumulator.
  std::string row();
  /// The struct of a level's accumulators: takes groups of steps, and gives rows what is then known of them.
  std::string level_struct(int level);
  /// The accumulators of parts of rows, what the elements of a part share, and the function that writes a part's results.
  std::string part_struct();
  std::string part_operands() const;
  std::string write_part();
  /// The struct of the accumulators across rows; there always is one.
  std::string across_struct() const;
  /// The function write_across, which computes and writes the results across rows.
  std::string write_across() const;
  /// Feeds the accumulators across rows with the values of `count` groups.
  std::string add_across(int walk, std::string_view position, std::string_view count, const std::string& indent) const;
  /// A condition in front of a store: a result that lacks kept dimensions is written by their first element. `at`: coordinates.
  std::string first_of_missing(std::uint32_t missing, std::string_view at) const;
  /// A reduction's result, from its accumulator, a member of `set`.
  std::string result_of(const ir::Node& node, const plan::NodeRole& role, std::string_view set) const;

 private:
  bool is_row_operation(std::size_t i) const;
  bool is_row_operand(std::size_t input) const;
  std::string row_operations(int level);
  std::string count_of(const plan::NodeRole& role) const;
  bool keeps_exponentials(std::size_t accumulator) const;
  bool is_guarded(const ir::Node& sum) const;
  std::string accumulator_struct(const std::string& name, const std::vector<std::size_t>& accumulators) const;
  std::string exponentials(int level) const;
  std::string accumulate(int level, const std::vector<std::size_t>& accumulators);
  std::string recenter(const std::vector<std::size_t>& accumulators) const;
  std::string accumulate_kept(int walk, const std::vector<std::size_t>& accumulators);
  bool is_known_per_part(std::size_t i) const;
  plan::Marks needed_of_rows() const;
  plan::Marks needed_across() const;
  plan::Marks needed_of_part() const;
  bool has_averages() const { return rows_.structure.has_averages(); }
  std::vector<std::size_t> accumulators_of(int walk, bool of_parts) const;
  std::string averages_of_part() const;
  plan::Marks means_of_averages() const;
  std::string mean_of_elements(std::size_t top);
  std::string add_part_across() const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::RowClass& rows_;
  const std::vector<ir::Kind>& input_kinds_;
  RowWalks& walks_;
  RowChain& chain_;
  const plan::Marks of_rows_;
};

}  // namespace epifuse::codegen
