// Products and sums of one pass that round once, in kernels whose results round to few bits: a product and its sum, the
// two factors of a norm's elements, and a factor of a sigmoid's argument. For reduction/passes.cpp, which writes the
// pass's elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/reduction/passes.hpp"
#include "plan/analysis/intervals.hpp"

namespace epifuse::codegen {

class Contraction {
 public:
  /// `computed`: the nodes that the pass computes; `terms`: those that nothing but sums uses. All must outlive this.
  Contraction(const ir::Program& program, const plan::KernelClass& kernel, const ReductionChain& chain,
              const plan::Marks& computed, const plan::Marks& terms);

  /// A part of another node's text, which nothing else uses.
  bool is_inlined(std::size_t node) const { return inlined_[node]; }
  /// The right-hand side of a node that others are part of; empty: it has none of its own.
  std::string text(std::size_t node) const;
  /// What a node's cheaper formula takes in place of its argument, which is part of it; empty: that.
  std::string arguments(std::size_t node) const;

 private:
  // element * factor * other: a number of the row, and one that is the same for a vector.
  struct Scaled {
    ir::Value element, factor, other;
  };

  const ir::Node& node_of(ir::Value value) const { return program_.node(chain_.unshaped(value)); }
  void inline_argument(ir::Value value);
  bool is_inner(ir::Value value) const;
  bool is_hoisted(ir::Value value) const;
  bool may_overflow(ir::Value factor, ir::Value other) const;
  std::optional<Scaled> scaled(ir::Value value) const;
  bool is_product(ir::Value value) const;
  bool is_sum_of_product(ir::Value value) const;
  bool is_of_product(ir::Value value) const;
  bool is_small(ir::Value value) const;
  std::string real(ir::Value value) const { return chain_.argument(value, ir::Kind::real); }

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
  const ReductionChain& chain_;
  const plan::Marks& computed_;
  const plan::Marks& terms_;
  std::optional<plan::Intervals> intervals_;  // where anything is contracted
  std::vector<int> uses_;
  plan::Marks inlined_;
};

}  // namespace epifuse::codegen
