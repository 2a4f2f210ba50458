// What is written in place of rows' elements: windows and slices of a row behind its statistics. For reduction.cpp.
#pragma once

#include <string>
#include <vector>

#include "codegen/reduction/passes.hpp"

namespace epifuse::codegen {

/// All must outlive it.
class WrittenElements {
 public:
  WrittenElements(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
                  ReductionChain& chain)
      : program_(program), kernel_(kernel), input_kinds_(input_kinds), chain_(chain) {}

  /// Whether some operand has elements of a row in shared memory.
  bool reads_staged() const;
  /// The function write_element, which reads, computes and writes one of them.
  std::string function() const;

 private:
  std::string element(std::size_t input) const;
  std::string reads(const plan::Marks& computed) const;
  std::string values(const plan::Marks& computed) const;
  std::string writes() const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const std::vector<ir::Kind>& input_kinds_;
  ReductionChain& chain_;
};

}  // namespace epifuse::codegen
