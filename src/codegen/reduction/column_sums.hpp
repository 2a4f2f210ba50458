// Column sums in a reduction's kernel: what threads hold of them, what the last pass adds, and what follows when all
// rows are known. For reduction.cpp; the skeleton is templates/reduction/column_sums.cuh.
#pragma once

#include <string>

#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

class ColumnSumsWriter {
 public:
  /// `passes`, and what it was made of, must outlive the writer.
  ColumnSumsWriter(const ir::Program& program, const plan::KernelClass& kernel, ReductionPasses& passes)
      : program_(program), kernel_(kernel), reduction_(*kernel.reduction()), passes_(passes) {}

  /// What threads keep of their elements, a member of Held, with what it begins with.
  std::string member() const;
  /// The functions that begin with a number of a column and combine two of them; nothing where all are sums, which
  /// templates add.
  std::string combine() const;
  /// Adds the values of one vector in the pass that writes.
  std::string add() const;
  /// The function write_column, which computes and writes the results of one column. Of runs it takes the accumulators.
  std::string write_column() const;

 private:
  std::vector<plan::AccumulatorKind> kinds() const;
  std::string sum_of(const ir::Node& node, const plan::NodeRole& role) const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::ReductionClass& reduction_;
  ReductionPasses& passes_;
};

}  // namespace epifuse::codegen
