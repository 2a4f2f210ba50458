// What the results of a chain are written in: one piece each, the slices that 'cat' joins, or the elements of a larger
// tensor that an index or a position names. For lower.cpp.
#pragma once

#include <span>
#include <vector>

#include "plan/bind/path.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {

/// A value that a kernel writes, what it is read through, and what that is of the chain's results.
struct WrittenValue {
  ir::Value value;
  Steps through;  ///< none: all of the value
  Lowered::Result is;
};

/// Slices of a result where 'cat' joins it, each an output of its own, or the result as a whole.
enum class Slicing : std::uint8_t { apart, whole };

/// In the order of the results. `shapes` are those of values; the rest is what computed_from_reductions() and
/// rejoined_rows() give. Throws Error(unsupported) for an 'index_copy' into what is no operand, and for too many
/// slices.
std::vector<WrittenValue> written_values(const ir::Program& program, std::span<const TensorView> inputs,
                                         const std::vector<Dims>& shapes, const std::vector<bool>& reduces,
                                         const std::vector<ir::Value>& rejoined, Slicing slicing);

/// By result of the chain without views, what says where in the output it lies; none where none is.
std::vector<ir::Scatter> scatters_of(const Lowered& lowered);

}  // namespace epifuse::plan
