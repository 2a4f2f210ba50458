// Composites of what is read at indices. Both front ends call these.
#pragma once

#include "ir/program.hpp"

namespace epifuse::ir {

/// 1 where a new last dimension of so many classes is at the class that each element names, else 0. No table is read.
Value one_hot(Builder& builder, Value input, std::int64_t classes);
/// A rotary embedding whose tables have a row for each position; `positions` are indices, and broadcast with all but
/// the last dimension.
Value rope_at(Builder& builder, Value input, Value cos, Value sin, Value positions, bool interleaved);

}  // namespace epifuse::ir
