// Segments of rows whose reductions are needed again with the segments' elements: the scales of a block format behind a
// norm. Neighbouring lanes of a warp hold a segment in one step, so that its reductions take no pass and no barrier.
// Called by reduction.cpp and its neighbours.
#include <algorithm>
#include <bit>

#include "base/text.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// Of a thread's vector, where a warp would not hold a segment else.
constexpr std::int64_t kMostSegmentElements = kAccessBytes;

}  // namespace

// A vector is of one segment, and the lanes of a warp hold one.
void ReductionOperands::fit_lane_segments() {
  const std::int64_t least = divide_up(plan_.segment_length, kWarp);
  const std::int64_t most = std::max<std::int64_t>(plan_.segment_length, 1);
  kernel_.elements = static_cast<int>(std::clamp<std::int64_t>(kernel_.elements, least, most));
}

// The last reduction of that scope.
const ir::Node* ReductionPlanner::reduction_of(Scope scope) const {
  const Structure& structure = kernel_.reduction()->structure;
  for (std::size_t i = structure.nodes.size(); i-- > 0;) {
    if (structure.nodes[i].accumulator >= 0 && structure.nodes[i].scope == scope) return &program_.nodes()[i];
  }
  return nullptr;
}

// Of the reductions of rows and of lane segments, one that takes what the others give: a second chain begins with it.
std::string_view ReductionPlanner::name_of_second() const {
  const Structure& structure = kernel_.reduction()->structure;
  const bool is_of_row = std::ranges::any_of(structure.nodes, [](const NodeRole& role) {
    return role.scope == Scope::lane_segment && role.accumulator >= 0 && role.stage > 0;
  });
  return ir::written_name(*reduction_of(is_of_row ? Scope::lane_segment : Scope::row));
}

void ReductionPlanner::check_lane_segments() {
  const std::int64_t most = kWarp * kMostSegmentElements;
  const std::int64_t length = plan_.segment_length;
  if (length == 0 || (std::has_single_bit(static_cast<std::uint64_t>(length)) && length <= most)) return;
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: '{0}' reduces segments of {1} elements of the chain's rows, and these "
             "elements are needed again with its result. That takes segments of a power of two of elements, and of {2} "
             "at most. Make it two chains: the first ends with what '{3}' is taken of",
             ir::written_name(*reduction_of(Scope::lane_segment)), length, most, name_of_second());
}

void ReductionPlanner::choose_lanes() {
  const std::int64_t lanes = std::max<std::int64_t>(plan_.segment_length / kernel_.elements, 1);
  reduction().lane_segments = LaneSegments{static_cast<int>(lanes)};
}

}  // namespace epifuse::plan
