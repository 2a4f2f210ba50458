// A dimension that is reduced, and nowhere needed again, may be the same as another one of its extent: no value tells
// them apart. One loop then reduces both. Where a value has all dimensions nothing is done: no other kernel changes.
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
      const AxisList row = row_of(i);
      if (first.empty()) first = row;
      if (are_alike(first, row)) {
        for (std::size_t k = 0; k < row.size(); ++k) table_.identify(row[k], first[k]);
      }
    }
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

  // What a reduction reduces.
  AxisList row_of(std::size_t reduction) const {
    const AxisList kept = axes_of(reduction);
    AxisList row;
    for (const int axis : axes_of(static_cast<std::size_t>(program_.nodes()[reduction].args[0]))) {
      if (!has(kept, axis)) row.push_back(axis);
    }
    return row;
  }

  // Of one shape, and in no value together.
  bool are_alike(const AxisList& a, const AxisList& b) const {
    const auto extent = [&](int axis) { return table_.extent(axis); };
    if (!std::ranges::equal(a, b, {}, extent, extent)) return false;
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
