// What kind of chain with reductions this is: which dimensions make a row, what is accumulated in which order, what is
// known per element, per row, and only for the whole grid. Called by plan.cpp; codegen reads the result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/inline_vector.hpp"
#include "plan/bind/space.hpp"
#include "plan/fields.hpp"

namespace epifuse::plan {

/// A few values; and a mark for each node or operand. Inline, since launches of new shapes are planned without the
/// heap.
using Values = base::InlineVector<ir::Value, 8>;
using Marks = base::InlineVector<bool, 64>;

/// What a thread accumulates over the elements of a row.
enum class AccumulatorKind : std::uint8_t {
  sum,
  product,
  maximum,
  minimum,
  any,
  all,
  moments,     ///< count, mean and sum of squared deviations: var, and mean beside it
  max_sumexp,  ///< the largest, and the sum of exp(element - largest): softmax and logsumexp in one pass
};
std::string_view to_string(AccumulatorKind kind) noexcept;
/// Numbers of the compute type that it consists of.
int words_of(AccumulatorKind kind) noexcept;

struct Accumulator {
  AccumulatorKind kind = AccumulatorKind::sum;
  ir::Value argument = ir::kNone;
  int stage = 1;         ///< known after that many passes; of a grid reduction: accumulated in the last pass
  bool grid = false;     ///< combines rows too, not only the elements of one
  bool segment = false;  ///< of each segment of a row; known after the pass behind all stages
  bool columns =
      false;  ///< combines rows, element by element: accumulated in the last pass, known at the end of the grid
  bool lane_segment = false;  ///< of each lane segment: known within a pass, in every pass that needs it; has no stage
  std::int64_t count = 1;

  /// Of segments of rows, combined over rows as well: accumulated in the pass over segments, known at the end of the
  /// grid.
  bool in_runs() const noexcept { return columns && segment; }
  /// Fed in the last pass, and known when all rows of its result are.
  bool ends_with_grid() const noexcept { return grid || (columns && !segment); }
  /// A pass over the row accumulates it, and all of its threads know it behind that pass.
  bool has_stage() const noexcept { return !ends_with_grid() && !lane_segment; }

  static constexpr auto fields() {  // the count is a number of the launch
    return std::tuple{Field{"", &Accumulator::kind},
                      Field{"argument", &Accumulator::argument},
                      Field{"stage", &Accumulator::stage},
                      Field{"grid", &Accumulator::grid},
                      Field{"segment", &Accumulator::segment},
                      Field{"columns", &Accumulator::columns},
                      Field{"lane_segment", &Accumulator::lane_segment}};
  }
};

enum class Scope : std::uint8_t {
  row,           ///< one value per row
  element,       ///< varies within the row
  grid,          ///< a grid reduction: known when all rows of its result are
  segment,       ///< one value per segment of the row, known when that is
  column,        ///< a column sum: one value for each element of a row, known when all rows of its result are
  lane_segment,  ///< one value per lane segment of the row, known within the passes that compute its elements
  written,       ///< varies over what is written in place of the row's elements, and is computed once the row is known
};
/// Passes over the row compute such values; the others are known before or after them.
constexpr bool is_computed_in_passes(Scope scope) noexcept {
  return scope == Scope::element || scope == Scope::lane_segment;
}

struct NodeRole {
  Scope scope = Scope::row;
  int stage = 0;  ///< passes of the row after which it can be computed
  int phase = 0;  ///< of what a pass computes: reductions of lane segments, one behind the other, that come first
  int accumulator = -1;  ///< of a reduction: index of its accumulator; -1: reduces one element, and is computed as that
  bool second = false;   ///< of a reduction: the accumulator's second number (var of moments, sumexp of max_sumexp)
  bool per_segment = false;  ///< varies within the row, but not within its segments: a weight per channel

  static constexpr auto fields() {  // stages follow from the accumulators
    return std::tuple{Field{"", &NodeRole::scope}, Field{"accumulator", &NodeRole::accumulator},
                      Field{"second", &NodeRole::second}, Field{"per_segment", &NodeRole::per_segment}};
  }
};

struct Structure {
  std::uint32_t reduced =
      0;  ///< dimensions of the space that make a row; 0: the chain has no reduction of more than one element
  std::uint32_t grid = 0;     ///< further dimensions that grid reductions reduce
  std::uint32_t columns = 0;  ///< dimensions outside of rows that column sums reduce: gradients of a norm's weights,
                              ///< or the largest over channels behind a norm of each
  std::uint32_t column_segment =
      0;  ///< dimensions of a row, the innermost ones, that these reduce too: pixels of a channel
  /// Dimensions of a row, the innermost ones, that reductions over segments of it reduce; 0: there are none. The
  /// segments of a row are runs of its elements, numbered by the row's other dimensions. They are accumulated in a pass
  /// behind all stages.
  std::uint32_t segment = 0;
  /// The same of lane segments: their reductions are needed again with the elements. Neighbouring lanes of a warp hold
  /// one of them in one step, so that they know its reductions before the next step. A row has segments of one of the
  /// two kinds.
  std::uint32_t lane_segment = 0;
  /// Dimensions that results have in place of a row's: what a view takes of a row behind its statistics. An element of
  /// them is computed of the row's numbers and of operands that are read for it.
  std::uint32_t written = 0;
  /// The value whose segment means, not its elements, go through what follows it; kNone: elements do. Segments are then
  /// accumulated in the one pass.
  ir::Value segment_mean_of = ir::kNone;
  int stages = 0;       ///< passes that accumulate for rows
  int output_pass = 0;  ///< the last pass, counted from 0: results that vary within rows are computed in it
  base::InlineVector<NodeRole, 32> nodes;
  base::InlineVector<Accumulator, 4> accumulators;

  bool has_reductions() const noexcept { return stages > 0 || across() != 0; }
  bool has_column_sums() const noexcept { return columns != 0; }
  /// Column sums of segments that are accumulated as reductions over segments are, in a pass of their own.
  bool has_column_runs() const noexcept { return std::ranges::any_of(accumulators, &Accumulator::in_runs); }
  /// Dimensions outside of rows over which rows are combined.
  std::uint32_t across() const noexcept { return grid | columns; }
  bool has_segments() const noexcept {
    return std::ranges::any_of(accumulators, [](const Accumulator& a) { return a.segment; });
  }
  /// Segments whose results the thread group writes that holds their row.
  bool has_own_segments() const noexcept { return has_segments() && !has_column_runs(); }
  bool has_lane_segments() const noexcept {
    return std::ranges::any_of(accumulators, [](const Accumulator& a) { return a.lane_segment; });
  }
  bool has_written() const noexcept { return written != 0; }
  bool has_segment_means() const noexcept { return segment_mean_of != ir::kNone; }
  /// Whether that pass, counted from 0, is the one over segments.
  bool is_segment_pass(int pass) const noexcept { return has_segments() && pass == stages; }
  /// The last pass is for results that vary within rows or of grid reductions, and accumulates nothing for rows or
  /// segments.
  bool has_write_pass() const noexcept { return output_pass >= stages + (has_segments() ? 1 : 0); }
  /// Compact text, equal for structures that give the same kernel.
  std::string text() const;

  static constexpr auto fields() {  // not the dimensions: a class has their numbers as its layout
    return std::tuple{Field{"output_pass", &Structure::output_pass},
                      Field{"segment_mean_of", &Structure::segment_mean_of},
                      Field{"accumulators", &Structure::accumulators}, Field{"nodes", &Structure::nodes}};
  }
};

/// The node whose elements `value` has: shape operations change none.
ir::Value unshaped(const ir::Program& program, ir::Value value) noexcept;

/// Throws Error(unsupported) for a chain that cannot be one kernel, saying why and what to split. `space` as bind made
/// it.
Structure analyse(const ir::Program& program, const Space& space);
/// The same with segment means, for chains whose results need no more of a row's elements than one pass finds out.
/// `rows`: the dimensions that make a row, as analyse() found them.
std::optional<Structure> analyse_segment_means(const ir::Program& program, const Space& space, std::uint32_t rows);
/// The same with column sums, for chains that only sum over outer dimensions and write elements beside it, as the
/// backward pass of a bias does: rows then are what lies inside of the summed dimensions, and threads meet once, not
/// once for each row. `structure`: as analyse() found it.
std::optional<Structure> analyse_column_sums(const ir::Program& program, const Space& space,
                                             const Structure& structure);
/// The same with column sums, or reductions of segments, that are accumulated segment by segment in a pass behind all
/// stages and known at the end of the launch: then who holds a row need not be one block. `structure`: as analyse()
/// found it. Nothing where its column sums are of elements, or what is made of segments needs statistics of their row.
std::optional<Structure> analyse_column_runs(const ir::Program& program, const Space& space,
                                             const Structure& structure);
/// Whether dimensions of a row, not all of them, are its innermost ones: they make a run of its elements. Where nothing
/// is written the space has no dimensions, and any will do.
bool is_segment_of(std::uint32_t rows, std::uint32_t segment, int rank) noexcept;

/// The nodes that vary within rows, or from one lane segment to the next, and are computed in a pass: what its
/// accumulators and results need, but for the values of earlier passes that are `saved`.
Marks computed_in_pass(const ir::Program& program, const Structure& structure, int pass, const Values& saved);
/// The accumulator that exp(v - amax(v)) is the term of, `value` being that exponential; -1 for other values.
int accumulator_of_exponential(const ir::Program& program, const Structure& structure, ir::Value value);
/// The same of what is written in place of rows' elements, behind all passes.
Marks computed_when_written(const ir::Program& program, const Structure& structure);
/// By operand: whether a pass computes something from its elements.
Marks inputs_of_pass(const ir::Program& program, const Structure& structure, int pass, const Values& saved);
/// The same of all passes at once: by operand, the passes, in their order.
std::vector<std::vector<int>> passes_of_inputs(const ir::Program& program, const Structure& structure,
                                               const Values& saved);
/// The role of an operand. One that no result uses has that of a row's number.
NodeRole role_of_input(const ir::Program& program, const Structure& structure, std::size_t input);
inline Scope scope_of_input(const ir::Program& program, const Structure& structure, std::size_t input) {
  return role_of_input(program, structure, input).scope;
}
/// The same of a result.
inline Scope scope_of_result(const ir::Program& program, const Structure& structure, std::size_t result) {
  return structure.nodes[static_cast<std::size_t>(program.results()[result].value)].scope;
}
/// The values that a pass is for: arguments of its accumulators and, in the last, results that vary within rows.
Values targets_of_pass(const ir::Program& program, const Structure& structure, int pass);

}  // namespace epifuse::plan
