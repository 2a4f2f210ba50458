// Sums of values that lack a dimension of the chain's rows. For lowered.cpp.
#pragma once

#include <span>

#include <epifuse/tensor.hpp>

#include "plan/bind/views.hpp"

namespace epifuse::plan {

/// `lowered` with each sum over other dimensions than rows have, of a value that lacks a dimension of the iteration
/// space, as one over this dimension too: the value counts at its first place, and is 0 elsewhere. The same where no
/// row is reduced and needed again, or no operand has the dimensions.
Lowered with_values_counted_once(Lowered lowered, std::span<const TensorView> inputs);

}  // namespace epifuse::plan
