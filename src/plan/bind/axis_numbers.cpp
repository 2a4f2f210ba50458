// A value needs a number for each of its subaxes once: where it would need one twice, no kernel goes over it.
#include "plan/bind/axis_numbers.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;

[[noreturn]] void refuse_diagonal(const ir::Program& program, ir::Value value, const Dims& shape) {
  const ir::Node& node = program.node(value);
  const std::string who =
      node.op == ir::Op::input
          ? fmt::format("operand '{}'", program.operand_text(static_cast<std::size_t>(node.ordinal)))
      : node.op == ir::Op::scalar || node.op == ir::Op::constant
          ? std::string("a number")
          : fmt::format("the result of '{}'", ir::written_name(node));
  fail(unsupported,
       "{} (shape {}) would be needed along two of its dimensions at once, which cannot be one kernel: a reduction "
       "without "
       "keepdim=true is used along another dimension than it has, or one operand along two. Give keepdim=true, pass "
       "the "
       "operand twice under two names, or make it two chains",
       who, to_string(shape));
}

}  // namespace

int AxisNumbers::number(int subaxis) {
  const int* const it = std::ranges::find(numbered_, subaxis);
  if (it != numbered_.end()) return static_cast<int>(it - numbered_.begin());
  numbered_.push_back(subaxis);
  return static_cast<int>(numbered_.size()) - 1;
}

std::uint32_t AxisNumbers::span_of(ir::Value value, const Shaped& shaped) {
  std::uint32_t span = 0;
  for (int d = 0; d < shaped.shape.size(); ++d) {
    if (shaped.axis(d) == kNoAxis) continue;
    for (const int subaxis : table_.subaxes(shaped.axis(d))) {
      const int axis = number(subaxis);
      if (axis >= 32) fail(unsupported, "the chain's values have more than {} different dimensions", kMaxRank);
      if ((span >> axis & 1U) != 0) refuse_diagonal(program_, value, shaped.shape);
      span |= 1U << axis;
    }
  }
  return span;
}

AxisPlaces AxisNumbers::places_of(const Shaped& shaped) {
  AxisPlaces places;
  for (int d = 0; d < shaped.shape.size(); ++d) {
    if (shaped.axis(d) == kNoAxis) continue;
    Subaxes subaxes = table_.subaxes(shaped.axis(d));
    std::ranges::reverse(subaxes);
    std::int64_t factor = 1;
    for (const int subaxis : subaxes) {
      places.places.at(places.count++) = {number(subaxis), d, factor};
      factor *= table_.extent(subaxis);
    }
  }
  return places;
}

Dims AxisNumbers::extents() const {
  Dims extents;
  for (const int subaxis : numbered_) {
    if (extents.size() == kMaxRank)
      fail(unsupported, "the chain's values have more than {} different dimensions: split the chain", kMaxRank);
    extents.push_back(table_.extent(subaxis));
  }
  return extents;
}

}  // namespace epifuse::plan
