// What kind of chain with reductions this is: which dimensions make a row, what is accumulated in which order, what is known per
// element, per row, and only across rows. Called by plan.cpp; codegen reads the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/inline_vector.hpp"
#include "plan/space.hpp"

namespace epifuse::plan {

/// A few values; and a mark for each node or operand. Inline, since launches of new shapes are planned without the heap.
using Values = base::InlineVector<ir::Value, 8>;
using Marks = base::InlineVector<bool, 64>;

/// What a thread carries along while it walks the elements of a row.
enum class AccumulatorKind : std::uint8_t {
  sum,
  product,
  maximum,
  minimum,
  any,
  all,
  moments,     ///< count, mean and sum of squared deviations: var, and mean beside it
  max_sumexp,  ///< the largest, and the sum of exp(element - largest): softmax and logsumexp in one walk
};
std::string_view to_string(AccumulatorKind kind) noexcept;
/// Numbers of the compute type that it consists of.
int words_of(AccumulatorKind kind) noexcept;

struct Accumulator {
  AccumulatorKind kind = AccumulatorKind::sum;
  ir::Value argument = ir::kNone;
  int level = 1;        ///< known after that many walks; of one across rows: accumulated in the last walk
  bool across = false;  ///< combines rows too, not only the elements of one
  bool part = false;    ///< of each part of a row; known after the walk behind all levels
  std::int64_t count = 1;

  friend bool operator==(const Accumulator& a, const Accumulator& b) {  // the count is no part of a class
    return a.kind == b.kind && a.argument == b.argument && a.level == b.level && a.across == b.across &&
           a.part == b.part;
  }
};

enum class Extent : std::uint8_t {
  row,      ///< one value per row
  element,  ///< varies within the row
  across,   ///< known when all rows of a group are
  part,     ///< one value per part of the row, known when that is
};

struct NodeRole {
  Extent extent = Extent::row;
  int level = 0;         ///< walks of the row after which it can be computed
  int accumulator = -1;  ///< of a reduction: index of its accumulator; -1: reduces one element, and is computed as that
  bool second = false;   ///< of a reduction: the accumulator's second number (var of moments, sumexp of max_sumexp)
  bool part_wise = false;  ///< varies within the row, but not within its parts: a weight per channel

  friend bool operator==(const NodeRole&, const NodeRole&) = default;
};

struct Structure {
  std::uint32_t reduced =
      0;  ///< dimensions of the space that make a row; 0: the chain has no reduction of more than one element
  std::uint32_t across = 0;  ///< further dimensions that reductions across rows reduce
  /// Dimensions of a row, the innermost ones, that reductions over parts of it reduce; 0: there are none. The parts of a row are runs of its
  /// elements, numbered by the row's other dimensions. They are accumulated in a walk behind all levels.
  std::uint32_t part = 0;
  /// The value whose averages over parts, not its elements, go through what follows it; kNone: elements do. Parts are then accumulated in the one walk.
  ir::Value averaged = ir::kNone;
  int levels = 0;       ///< walks that accumulate for rows
  int output_walk = 0;  ///< the last walk, counted from 0: results that vary within rows are computed in it
  base::InlineVector<NodeRole, 32> nodes;
  base::InlineVector<Accumulator, 4> accumulators;

  bool has_rows() const noexcept { return levels > 0 || across != 0; }
  bool has_parts() const noexcept {
    return std::ranges::any_of(accumulators, [](const Accumulator& a) { return a.part; });
  }
  bool has_averages() const noexcept { return averaged != ir::kNone; }
  /// Whether that walk, counted from 0, is the one over parts.
  bool walks_parts(int walk) const noexcept { return has_parts() && walk == levels; }
  /// The last walk is for results that vary within rows or across them, and accumulates nothing for rows or parts.
  bool writes_walk() const noexcept { return output_walk >= levels + (has_parts() ? 1 : 0); }
  friend bool operator==(const Structure&, const Structure&) = default;
};

/// The node whose elements `value` has: shape operations change none.
ir::Value unshaped(const ir::Program& program, ir::Value value) noexcept;

/// Throws Error(unsupported) for a chain that cannot be one kernel, saying why and what to split. `space` as bind made it.
Structure analyse(const ir::Program& program, const Space& space);
/// The same with averages over parts of rows, for chains whose results need no more of a row's elements than one walk finds out. `rows`: the
/// dimensions that make a row, as analyse() found them.
std::optional<Structure> analyse_averages(const ir::Program& program, const Space& space, std::uint32_t rows);
/// Whether dimensions of a row, not all of them, are its innermost ones: they make a run of its elements. Where nothing is written the space has no
/// dimensions, and any will do.
bool is_part_of(std::uint32_t rows, std::uint32_t part, int rank) noexcept;

/// The nodes that vary within rows and are computed in a walk: what its accumulators and results need, but for the values of earlier walks
/// that are `carried` along.
Marks computed_in_walk(const ir::Program& program, const Structure& structure, int walk, const Values& carried);
/// The accumulator that exp(v - amax(v)) is the term of, `value` being that exponential; -1 for other values.
int accumulator_of_exponential(const ir::Program& program, const Structure& structure, ir::Value value);
/// By operand: whether a walk computes something from its elements.
Marks inputs_of_walk(const ir::Program& program, const Structure& structure, int walk, const Values& carried);
/// The same of all walks at once: by operand, the walks, in their order.
std::vector<std::vector<int>> walks_of_inputs(const ir::Program& program, const Structure& structure,
                                              const Values& carried);
/// That of a row's number for an operand that no result uses.
NodeRole role_of_input(const ir::Program& program, const Structure& structure, std::size_t input);
inline Extent extent_of_input(const ir::Program& program, const Structure& structure, std::size_t input) {
  return role_of_input(program, structure, input).extent;
}
/// The values that a walk is for: arguments of its accumulators and, in the last, results that vary within rows.
Values targets_of_walk(const ir::Program& program, const Structure& structure, int walk);

/// Compact text, equal for structures that give the same kernel.
std::string to_string(const Structure& structure);

}  // namespace epifuse::plan
