// What is rolled: found among the values of a chain, where it is written as 'cat' of both pieces. For lower.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <epifuse/tensor.hpp>

#include "ir/program.hpp"
#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// A value whose elements leave a dimension at its end and come in at its beginning.
struct Roll {
  ir::Value argument = ir::kNone;
  int dimension = 0;
  std::int64_t shift = 0;  ///< as written
};
/// Of a 'cat' of both pieces of one value, where its operands can be read so that they wrap around once: no value on
/// the way to them takes some elements of the dimension, gives it others, or is reduced. `reduces`: by value, whether
/// it is computed from a reduction's.
std::optional<Roll> wrapping_roll(const ir::Program& program, const std::vector<Dims>& shapes,
                                  const std::vector<bool>& reduces, ir::Value value);

/// What the argument is read through where the rolled value, of that shape, is read through `steps`. Nothing where it
/// wraps in steps of more than one, or where views behind the first decide what is taken.
std::optional<Steps> steps_below(const Roll& roll, const Dims& shape, const Steps& steps);

}  // namespace epifuse::plan
