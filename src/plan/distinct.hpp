// How many elements of a tensor views of it read together, each counted once. Called by traffic.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <epifuse/tensor.hpp>

#include "plan/bind/views.hpp"

namespace epifuse::plan {

/// Coordinates of a dimension: first, first + step, …
struct Progression {
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t count = 1;
  std::int64_t end() const noexcept { return first + (count - 1) * step + 1; }
  bool has(std::int64_t at) const noexcept { return at >= first && at < end() && (at - first) % step == 0; }
};

/// The elements that an operand reads: those that have such coordinates in every dimension of its tensor.
using Box = std::vector<Progression>;

/// Nothing where the elements are no box: reads at indices, what is rolled, reshapes of other dimensions, tensors whose
/// elements lie over one another.
std::optional<Box> box_of(const Lowered::Operand& operand, const TensorView& tensor);

/// The elements that are in at least one of the boxes. Nothing where their steps have too large a common multiple.
std::optional<std::uint64_t> distinct_elements(std::span<const Box> boxes);

}  // namespace epifuse::plan
