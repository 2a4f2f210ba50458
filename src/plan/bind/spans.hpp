// Over which dimensions the values of a chain vary, and which of them reductions reduce. For nested.cpp and
// analysis/structure.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"

namespace epifuse::plan {

class Spans {
 public:
  /// `spans`, by node, are those of Space or Shapes: a bit for each dimension. Both must outlive it.
  Spans(const ir::Program& program, std::span<const std::uint32_t> spans);

  std::uint32_t of(ir::Value value) const { return spans_[static_cast<std::size_t>(value)]; }
  /// Whether a result needs its elements; of the others only the shape counts.
  bool is_computed(ir::Value value) const { return computed_[static_cast<std::size_t>(value)]; }
  /// The dimensions that a reduction reduces; 0 for other operations, and where only a shape counts.
  std::uint32_t reduced_by(ir::Value value) const;
  /// Something that uses the reduction varies over what it reduced: then the reduced elements are needed again.
  bool is_broadcast_back(ir::Value reduction) const {
    return (users_[static_cast<std::size_t>(reduction)] & reduced_by(reduction)) != 0;
  }

  /// Dimensions that reductions reduce.
  std::uint32_t reduced() const { return reduced_; }
  /// Dimensions that results have in place of those: no value has one of either. They are what a view takes of a row
  /// whose statistic is known.
  std::uint32_t written() const;
  /// Whether a value varies over all of these dimensions.
  bool has_value_of(std::uint32_t dimensions) const {
    return std::ranges::any_of(spans_, [&](std::uint32_t span) { return (dimensions & ~span) == 0; });
  }

 private:
  const ir::Program& program_;
  std::span<const std::uint32_t> spans_;
  const base::InlineVector<bool, 64> computed_;  // by node
  std::uint32_t reduced_ = 0;
  base::InlineVector<std::uint32_t, 64> users_;  // by node: what uses it, directly or not, varies over these dimensions
};

}  // namespace epifuse::plan
