// Union of axes, and their refinement where they are split.
#include "plan/bind/axes.hpp"

#include <algorithm>

namespace epifuse::plan {

int AxisTable::fresh(std::int64_t extent) {
  entries_.push_back({extent, kNoAxis, kNoAxis, kNoAxis});
  return static_cast<int>(entries_.size()) - 1;
}

int AxisTable::joined(int outer, int inner) {
  const int axis = fresh(entry(outer).extent * entry(inner).extent);
  entries_[static_cast<std::size_t>(axis)].outer = outer;
  entries_[static_cast<std::size_t>(axis)].inner = inner;
  return axis;
}

bool AxisTable::identify(int a, int b) {
  a = find(a);
  b = find(b);
  if (a == b) return true;
  if (entry(a).extent == 0) return identify_empty(a, b);
  if (is_atomic(a)) return alias(a, b);
  if (is_atomic(b)) return alias(b, a);
  Subaxes left = subaxes(a);
  Subaxes right = subaxes(b);
  while (!left.empty() && !right.empty()) {
    const int x = left.back();
    const int y = right.back();
    const std::int64_t size_x = entry(x).extent;
    const std::int64_t size_y = entry(y).extent;
    if (size_x == size_y) {
      if (!identify(x, y)) return false;
      left.pop_back();
      right.pop_back();
    } else if (size_x % size_y == 0) {
      split(x, size_y, left);
    } else if (size_y % size_x == 0) {
      split(y, size_x, right);
    } else {
      return false;
    }
  }
  return alias(a, b);
}

Subaxes AxisTable::subaxes(int axis) const {
  axis = find(axis);
  if (is_atomic(axis)) return {axis};
  Subaxes all = subaxes(entry(axis).outer);
  for (const int subaxis : subaxes(entry(axis).inner)) all.push_back(subaxis);
  return all;
}

// Of dimensions without elements nothing tells where an element is, so they need not be split alike: subaxes of equal
// sizes are the same, and one that was split into the other is not made of it again.
bool AxisTable::identify_empty(int a, int b) {
  const Subaxes left = subaxes(a);
  const Subaxes right = subaxes(b);
  if (std::ranges::find_first_of(left, right) != left.end()) return true;
  if (is_atomic(a)) return alias(a, b);
  if (is_atomic(b)) return alias(b, a);
  const auto size = [&](int subaxis) { return entry(subaxis).extent; };
  if (!std::ranges::equal(left, right, {}, size, size)) return true;
  for (std::size_t i = 0; i < left.size(); ++i) alias(left[i], right[i]);
  return alias(a, b);
}

int AxisTable::find(int axis) const {
  while (entry(axis).same_as != kNoAxis) axis = entry(axis).same_as;
  return axis;
}

bool AxisTable::alias(int axis, int of) {
  entries_[static_cast<std::size_t>(axis)].same_as = of;
  return true;
}

void AxisTable::split(int subaxis, std::int64_t inner, Subaxes& list) {
  const int low = fresh(inner);
  const int high = fresh(entry(subaxis).extent / inner);
  entries_[static_cast<std::size_t>(subaxis)].outer = high;
  entries_[static_cast<std::size_t>(subaxis)].inner = low;
  list.back() = high;
  list.push_back(low);
}

}  // namespace epifuse::plan
