// Lane segments in a reduction's kernel: what is known of one, and how its lanes find that out between the loops of a
// pass. For passes.cpp.
#pragma once

#include <string>
#include <vector>

#include "codegen/reduction/loops.hpp"
#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

class LaneSegmentsWriter {
 public:
  /// All must outlive the writer. `chain`: the passes' own.
  LaneSegmentsWriter(const ir::Program& program, const plan::KernelClass& kernel,
                     const std::vector<ir::Kind>& input_kinds, ReductionChain& chain)
      : program_(program), kernel_(kernel), reduction_(*kernel.reduction()), input_kinds_(input_kinds), chain_(chain) {}

  /// The structs SegmentValues (what is known of a segment) and LaneStage (its accumulators).
  std::string structs() const;
  /// The function that computes what is known of a segment before loop `k` of a pass; empty if that is nothing.
  std::string function(int pass, std::size_t k, const ElementLoop& loop) const;
  /// The call of it.
  std::string call(int pass, std::size_t k, const ElementLoop& loop, const std::string& indent,
                   std::string_view position) const;
  /// Behind a loop: the lanes of a segment agree on its accumulators.
  std::string agree(const ElementLoop& loop, const std::string& indent, std::string_view position) const;
  /// One of a segment's lanes writes the results of the segment.
  std::string write_results(const std::string& indent, std::string_view position) const;

 private:
  std::vector<std::size_t> outputs() const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const plan::ReductionClass& reduction_;
  const std::vector<ir::Kind>& input_kinds_;
  ReductionChain& chain_;
};

}  // namespace epifuse::codegen
