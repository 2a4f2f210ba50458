// Where 'cat' joins values: a result of it is written in slices, each where it belongs. For lower.cpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// By dimension of a value: views that together are all of it, each of which reads one side of every 'cat'. One of all
/// where nothing is joined.
using Slices = std::vector<std::vector<DimensionMap::Taken>>;

/// Of one result: each is an output of the kernel.
constexpr std::size_t kMostSlices = 64;
/// Views or slices that take turns in memory are moved as a run. With larger steps a vector's run would be too long.
constexpr int kMostRunStep = 4;

/// Whether a node of the shape `own` is a sum to a shape that its argument may have been broadcast from, as gradients
/// have it, and has that shape already.
bool sums_nothing(const ir::Node& node, const std::vector<Dims>& shapes, const Dims& own);

/// Of a 'repeat_as' of the shape `own`: whether each element of its argument stands so often in it as the node says, so
/// that what is written of it is as many slices of the argument's shape.
bool repeats_all(const ir::Node& node, const Dims& argument, const Dims& own);

/// By value: whether it is computed from a reduction's.
std::vector<bool> computed_from_reductions(const ir::Program& program, const std::vector<Dims>& shapes);

/// By value: of a 'cat' of slices of rows that together have a row's extent, each behind a statistic of its whole row,
/// the value that the statistic is of; of others kNone. Such a result is no slices, since the row is one: each of its
/// elements is read from the argument that has it.
std::vector<ir::Value> rejoined_rows(const ir::Program& program, const std::vector<Dims>& shapes);

/// What a 'repeat_as' repeats is read for each of its elements, or written to each: then a result of it is slices. What
/// is computed from a reduction is always written.
enum class Repeats : std::uint8_t { read, written };

/// Of each value of the chain, whose shapes these are, with what computed_from_reductions() and rejoined_rows() give.
std::vector<Slices> slices_of(const ir::Program& program, const std::vector<Dims>& shapes,
                              const std::vector<bool>& reduces, const std::vector<ir::Value>& rejoined,
                              Repeats repeats = Repeats::read);

/// What an 'unflatten' or 'flatten' reads of its argument for these elements of its own, dimension by dimension;
/// nothing where these are no elements at equal steps there.
std::optional<std::vector<DimensionMap::Taken>> taken_before(const ir::Node& node, const Dims& argument,
                                                             const Dims& shape,
                                                             const std::vector<DimensionMap::Taken>& taken);

/// What a reduction whose result has the shape `shape` reads of its argument for these elements of it: rows are whole.
/// Nothing where no element is taken of a dimension that it reduces.
std::optional<std::vector<DimensionMap::Taken>> taken_before_reduction(const ir::Node& node, const Dims& argument,
                                                                       const Dims& shape,
                                                                       const std::vector<DimensionMap::Taken>& taken);

/// What a 'repeat_as' of the shape `shape` reads of its argument for these elements of its own. Nothing where it
/// repeats elements among these, or not all of them equally often.
std::optional<std::vector<DimensionMap::Taken>> taken_before_repeat(const ir::Node& node, const Dims& argument,
                                                                    const Dims& shape,
                                                                    const std::vector<DimensionMap::Taken>& taken);

/// What an argument of 'cat' is read through.
struct Side {
  std::size_t argument;
  Steps through;
};
/// Of a 'cat' along `axis` of values of these shapes, which itself has the shape `all` and is read through `steps`: the
/// arguments that these reach. Of both each then has elements that do not exist. None where the steps take no elements
/// of a dimension first.
std::vector<Side> sides_through(const Dims& all, const std::array<Dims, 2>& shapes, int axis, const Steps& steps);

/// Whether all take the same number of elements of each dimension.
bool have_one_size(const std::vector<std::vector<DimensionMap::Taken>>& slices);

/// All combinations of the slices of dimensions, in row-major order. Empty where there are more than `most`.
std::vector<std::vector<DimensionMap::Taken>> all_of(const Slices& slices, std::size_t most);

}  // namespace epifuse::plan
