// Column sums in a reduction's kernel: what threads hold of them, what the last pass adds, and what follows when all
// rows are known. For reduction.cpp; the skeleton is templates/reduction/column_sums.cuh.
#pragma once

#include <string>
#include <vector>

#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

class ColumnSumsWriter {
 public:
  /// `passes`, and what it was made of, must outlive the writer.
  ColumnSumsWriter(const ir::Program& program, const plan::KernelClass& kernel,
                   const std::vector<ir::Kind>& input_kinds, ReductionPasses& passes)
      : program_(program),
        kernel_(kernel),
        reduction_(*kernel.reduction()),
        input_kinds_(input_kinds),
        passes_(passes) {}

  /// Adds the values of one vector in the pass that writes.
  std::string add() const;
  /// The function write_column, which computes and writes the results of one column.
  std::string write_column() const;

 private:
  plan::Marks needed() const;
  std::string sum_of(const ir::Node& node, const plan::NodeRole& role) const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::ReductionClass& reduction_;
  const std::vector<ir::Kind>& input_kinds_;
  ReductionPasses& passes_;
};

}  // namespace epifuse::codegen
