// A dimension that is reduced, and nowhere needed again, may be the same as another one of its extent: no value tells
// them apart. One loop then reduces both. So may dimensions of two results, which one loop then writes. Where a value
// has all dimensions nothing is done: no other kernel changes.
#include "plan/bind/united_rows.hpp"

#include <algorithm>

#include "plan/bind/shape_rules.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Value;

// Subaxes, in the order of dimensions.
using AxisList = base::InlineVector<int, 16>;

class RowsOfReductions {
 public:
  RowsOfReductions(const ir::Program& program, AxisTable& table, std::span<const Shaped> values)
      : program_(program), table_(table), values_(values), computed_(computed_values(program)) {}

  void unite() {
    if (has_value_of_all()) return;
    AxisList first;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!computed_[i] || !ir::is_reduction(program_.nodes()[i].op)) continue;
      const AxisList row = without(axes_of(static_cast<std::size_t>(program_.nodes()[i].args[0])), axes_of(i));
      if (first.empty()) first = row;
      unite(first, row);
    }
    if (has_value_of_all()) return;
    const auto result = [&](std::size_t i) { return axes_of(static_cast<std::size_t>(program_.results()[i].value)); };
    for (std::size_t i = 1; i < program_.results().size(); ++i)
      unite(without(result(0), result(i)), without(result(i), result(0)));
  }

 private:
  AxisList axes_of(std::size_t i) const {
    AxisList axes;
    for (int d = 0; d < values_[i].shape.size(); ++d) {
      if (values_[i].axis(d) == kNoAxis) continue;
      for (const int subaxis : table_.subaxes(values_[i].axis(d))) axes.push_back(subaxis);
    }
    return axes;
  }

  static bool has(const AxisList& axes, int axis) { return std::ranges::find(axes, axis) != axes.end(); }

  bool has_value_of_all() const {
    AxisList all;
    std::size_t most = 0;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!computed_[i]) continue;
      const AxisList own = axes_of(i);
      most = std::max(most, own.size());
      for (const int axis : own) {
        if (!has(all, axis)) all.push_back(axis);
      }
    }
    return most == all.size();
  }

  static AxisList without(const AxisList& axes, const AxisList& others) {
    AxisList left;
    for (const int axis : axes) {
      if (!has(others, axis)) left.push_back(axis);
    }
    return left;
  }

  void unite(const AxisList& first, const AxisList& other) {
    if (!are_alike(first, other)) return;
    for (std::size_t k = 0; k < other.size(); ++k) table_.identify(other[k], first[k]);
  }

  // Of one shape, and in no value together. Of no elements dimensions may be the same or not, as they are split.
  bool are_alike(const AxisList& a, const AxisList& b) const {
    const auto extent = [&](int axis) { return table_.extent(axis); };
    if (!std::ranges::equal(a, b, {}, extent, extent) || std::ranges::find(a, 0, extent) != a.end()) return false;
    for (std::size_t i = 0; i < values_.size(); ++i) {
      if (!computed_[i]) continue;
      const AxisList own = axes_of(i);
      const auto has_one_of = [&](const AxisList& row) {
        return std::ranges::any_of(row, [&](int axis) { return has(own, axis); });
      };
      if (has_one_of(a) && has_one_of(b)) return false;
    }
    return true;
  }

  const ir::Program& program_;
  AxisTable& table_;
  std::span<const Shaped> values_;
  const base::InlineVector<bool, 64> computed_;  // by node
};

}  // namespace

void unite_rows(const ir::Program& program, AxisTable& table, std::span<const Shaped> values) {
  RowsOfReductions(program, table, values).unite();
}

}  // namespace epifuse::plan
