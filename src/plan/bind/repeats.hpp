// Where a value is read at places that follow from positions: each of its elements several times. For lower.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// What the argument of a 'repeat_as' is read through, where its value of shape `other` is read through `then`.
/// Throws Error(invalid_argument) for shapes that differ in another dimension.
Steps repeated_steps(const ir::Node& node, const Dims& own, const Dims& other, const Steps& then);

/// The shape of a 'repeat_as', which is that of its second argument. Throws as above.
const Dims& repeated_shape(const ir::Node& node, const Dims& own, const Dims& other);

/// Whether a path has no reshapes and no indices.
bool has_only_positions(const Steps& steps);

/// Of the positions along dimension `d` of a value, what a path of views without reshapes takes. `iota` makes the
/// positions along a dimension of what the path gives. Of a path of maps and repeats. Whether it is more than a number.
std::pair<ir::Value, bool> positions_through(ir::Builder& builder, const Steps& steps, int d,
                                             const std::function<ir::Value(int)>& iota);

/// Of `i - floor(i / times) * times`, i being positions along a dimension: the number that it is for all elements that
/// the steps take. Nothing of another value, or where it is not one number.
std::optional<std::int64_t> remainder_of_places(const ir::Program& program, const std::vector<Dims>& shapes,
                                                ir::Value value, const Steps& steps);

/// For each dimension that is repeated the operand that lies nowhere and has its positions, and what is read there; the
/// operand's name is still to be filled in.
std::vector<std::pair<Lowered::Operand, Lowered::Operand::Gather>> repeated_dimensions(const Strided& strided);

}  // namespace epifuse::plan
