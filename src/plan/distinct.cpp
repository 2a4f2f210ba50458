// A dimension falls into classes of coordinates that the same boxes have. Which boxes have an element follows from the
// class of each of its coordinates, so that elements are counted by class: a few dozen for the windows of a pool,
// however large the tensor is.
#include "plan/distinct.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace epifuse::plan {
namespace {

// The boxes that have a coordinate.
using Holders = std::vector<bool>;

// The coordinates that are looked at between two ends of progressions.
constexpr std::int64_t kMostPeriod = 4096;

struct Dimension {
  std::int64_t extent = 1;
  std::int64_t stride = 0;
};

// Those with several elements, the widest stride first; nothing where they overlap, or a stride is negative.
std::optional<std::vector<Dimension>> nested_dimensions(const TensorView& tensor) {
  std::vector<Dimension> dimensions;
  for (int d = 0; d < tensor.shape.size(); ++d)
    if (tensor.shape[d] > 1 && tensor.strides[d] != 0) dimensions.push_back({tensor.shape[d], tensor.strides[d]});
  std::ranges::sort(dimensions, std::ranges::greater{}, &Dimension::stride);
  std::int64_t span = 1;
  for (auto it = dimensions.rbegin(); it != dimensions.rend(); ++it) {
    if (it->stride < span) return std::nullopt;
    span += it->stride * (it->extent - 1);
  }
  return dimensions;
}

// How many elements the operand has along its dimension d, in memory.
std::int64_t existing_along(const Lowered::Operand& operand, int d) {
  for (const Lowered::Operand::Within& within : operand.within)
    if (within.dimension == d) return within.count;
  return operand.shape[d];
}

// The operand takes `count` elements, `stride` apart, of the one dimension that has them all, which nothing else takes.
bool take(Box& box, const std::vector<Dimension>& dimensions, std::int64_t stride, std::int64_t count) {
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    if (stride % dimensions[d].stride != 0) continue;
    Progression taken{box[d].first, stride / dimensions[d].stride, count};
    if (box[d].count != 1 || taken.end() > dimensions[d].extent) return false;
    box[d] = taken;
    return true;
  }
  return false;
}

// Of each class how many coordinates it has.
std::optional<std::map<Holders, std::uint64_t>> classes_along(std::span<const Box> boxes, std::size_t d) {
  std::set<std::int64_t> ends;
  std::int64_t period = 1;
  for (const Box& box : boxes) {
    ends.insert({box[d].first, box[d].end()});
    period = std::lcm(period, box[d].step);
    if (period > kMostPeriod) return std::nullopt;
  }
  std::map<Holders, std::uint64_t> classes;
  Holders holders(boxes.size());
  for (auto begin = ends.begin(), end = std::next(begin); end != ends.end(); ++begin, ++end) {
    for (std::int64_t at = *begin; at < std::min(*end, *begin + period); ++at) {
      for (std::size_t i = 0; i < boxes.size(); ++i) holders[i] = boxes[i][d].has(at);
      classes[holders] += static_cast<std::uint64_t>((*end - at + period - 1) / period);
    }
  }
  return classes;
}

// Elements of the boxes in `among` by their dimensions from d on.
std::uint64_t count_from(std::span<const std::map<Holders, std::uint64_t>> classes, const Holders& among) {
  if (std::ranges::none_of(among, std::identity{})) return 0;
  if (classes.empty()) return 1;
  std::uint64_t sum = 0;
  for (const auto& [holders, coordinates] : classes.front()) {
    Holders both(among.size());
    for (std::size_t i = 0; i < among.size(); ++i) both[i] = among[i] && holders[i];
    sum += coordinates * count_from(classes.subspan(1), both);
  }
  return sum;
}

}  // namespace

std::optional<Box> box_of(const Lowered::Operand& operand, const TensorView& tensor) {
  const auto dimensions = nested_dimensions(tensor);
  const auto size = static_cast<std::int64_t>(size_of(tensor.dtype, 1));
  if (!dimensions || operand.is_mask || !operand.gathers.empty() || !operand.wraps.empty() || is_packed(tensor.dtype) ||
      operand.offset < 0 || std::ranges::any_of(operand.within, &Lowered::Operand::Within::is_of_windows))
    return std::nullopt;
  std::int64_t offset = operand.offset / size;
  for (int d = 0; d < operand.shape.size(); ++d)  // from the first in memory on
    if (operand.strides[d] < 0) offset += operand.strides[d] * (existing_along(operand, d) - 1);
  Box box(dimensions->size());
  for (std::size_t d = 0; d < box.size(); ++d) {
    box[d].first = offset / (*dimensions)[d].stride;
    offset %= (*dimensions)[d].stride;
  }
  for (int d = 0; d < operand.shape.size(); ++d) {
    const std::int64_t count = existing_along(operand, d);
    if (count == 0) return std::nullopt;
    if (count > 1 && operand.strides[d] != 0 && !take(box, *dimensions, std::abs(operand.strides[d]), count))
      return std::nullopt;
  }
  return box;
}

std::optional<std::uint64_t> distinct_elements(std::span<const Box> boxes) {
  if (boxes.empty()) return 0;
  std::vector<std::map<Holders, std::uint64_t>> classes;
  for (std::size_t d = 0; d < boxes.front().size(); ++d) {
    auto along = classes_along(boxes, d);
    if (!along) return std::nullopt;
    classes.push_back(std::move(*along));
  }
  return count_from(classes, Holders(boxes.size(), true));
}

}  // namespace epifuse::plan
