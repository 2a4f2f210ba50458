// What a view does where it cannot be pushed down as it stands: behind a reduction, where dimensions are only ordered,
// and before dimensions are split or merged. For lower.cpp.
#pragma once

#include <optional>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// Whether a step is for a value of that shape, and not for one that is broadcast from it.
bool is_for(const ViewStep& step, const Dims& now);

/// A value with its dimensions in another order, with others of one element, or in another shape, which `now` becomes.
/// Nothing where the step takes elements.
std::optional<ir::Value> arranged(ir::Builder& builder, ir::Value made, Dims& now, const ViewStep& step);

/// What the argument of flatten or unflatten is read through, where its value is read through `steps`: elements are
/// taken first, where they stand at equal steps there. Nothing where they do not.
std::optional<Steps> taken_before_reshape(const ir::Node& node, const Dims& own, const Dims& shape, const Steps& steps);

/// What the argument of flatten or unflatten takes of its dimensions, where its value is computed from reductions and
/// read through `steps`: these take elements, but none of a dimension that is merged or split. Nothing for other steps.
std::optional<std::vector<DimensionMap::Taken>> taken_behind_reduction(const ir::Node& node, const Dims& own,
                                                                       const Dims& shape, const Steps& steps);

}  // namespace epifuse::plan
