// The chain behind the last row: grid reductions, column sums, and what follows from them. For stages.cpp and
// column_sums.cpp, which write the functions that compute it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "codegen/reduction/passes.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// No Row is known there, and what is known before any row is a variable.
class GridChain : public ReductionChain {
 public:
  explicit GridChain(const ReductionChain& chain) : ReductionChain(chain) {}

  /// The lines that compute the results of `scope`, grid or column, and write them: operands that `reads` names, at the
  /// coordinates `at`, and what follows from them and from reductions, the text of which `reduced` gives.
  std::string results(plan::Scope scope, std::string_view at, const std::function<bool(std::size_t input)>& reads,
                      const std::function<std::string(const ir::Node& node, const plan::NodeRole& role)>& reduced);

 protected:
  std::string variable(ir::Value value) const override { return ChainWriter::variable(value); }
  std::string input(std::size_t i) const override;

 private:
  plan::Marks needed_by(plan::Scope scope) const;
};

}  // namespace epifuse::codegen
