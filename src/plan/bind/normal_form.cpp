// Outputs decide the order first, then operands in theirs, so that a kernel writes memory as it lies.
#include "plan/bind/normal_form.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <utility>

namespace epifuse::plan {
namespace {

class Normaliser {
 public:
  Normaliser(Space& space, const Dims& shape) : space_(space), shape_(shape) {
    for (StridedOperand& strided : space.outputs) passes_.push_back(&strided);
    for (StridedOperand& strided : space.inputs) {
      if (strided.used) passes_.push_back(&strided);
    }
  }

  void run() {
    for (int i = 0; i < shape_.size(); ++i) {
      if (shape_[i] != 1) order_.push_back(static_cast<std::size_t>(i));
    }
    sort();
    apply();
  }

 private:
  // True if dimension a should stand outside dimension b: the first operand that tells them apart decides, outputs
  // first.
  bool outside(std::size_t a, std::size_t b) const {
    for (const StridedOperand* strided : passes_) {
      const std::int64_t step_a = step(*strided, a);
      const std::int64_t step_b = step(*strided, b);
      if (step_a == 0 || step_b == 0 || step_a == step_b) continue;
      return step_a > step_b;
    }
    return a < b;
  }

  // How far apart neighbours along a dimension lie. Where indices say it: as neighbouring indices do.
  std::int64_t step(const StridedOperand& strided, std::size_t dimension) const {
    if (strided.strides[dimension] != 0) return std::abs(strided.strides[dimension]);
    for (const GatheredDimension& gather : strided.gathers) {
      if (space_.inputs[gather.index].strides[dimension] != 0) return std::abs(gather.stride);
    }
    return 0;
  }

  // Insertion sort: `outside` need not be transitive, and there are at most eight.
  void sort() {
    for (std::size_t i = 1; i < order_.size(); ++i) {
      for (std::size_t k = i; k > 0 && outside(order_[k], order_[k - 1]); --k) std::swap(order_[k], order_[k - 1]);
    }
  }

  bool mergeable(std::size_t outer, std::size_t inner) const {
    const std::int64_t extent = shape_[static_cast<int>(inner)];
    const auto apart = [&](std::uint32_t span) { return (span >> outer & 1U) != (span >> inner & 1U); };
    if (std::ranges::any_of(space_.spans, apart)) return false;
    return std::ranges::all_of(
        passes_, [&](const StridedOperand* w) { return w->strides[outer] == w->strides[inner] * extent; });
  }

  void apply() {
    Dims extents;
    base::InlineVector<std::size_t, kMaxRank>
        merged;  // the innermost original dimension of each merged one: its strides hold
    for (std::size_t i = 0; i < order_.size(); ++i) {
      const std::int64_t extent = shape_[static_cast<int>(order_[i])];
      if (i > 0 && mergeable(merged.back(), order_[i])) {
        extents[extents.size() - 1] *= extent;
        merged.back() = order_[i];
      } else {
        extents.push_back(extent);
        merged.push_back(order_[i]);
      }
    }
    space_.extents = extents;
    for (StridedOperand* strided : passes_) {
      const std::array<std::int64_t, kMaxRank> old = strided->strides;
      for (std::size_t i = 0; i < kMaxRank; ++i) strided->strides[i] = i < merged.size() ? old[merged[i]] : 0;
    }
    for (std::uint32_t& span : space_.spans) {
      std::uint32_t renumbered = 0;
      for (std::size_t i = 0; i < merged.size(); ++i) renumbered |= (span >> merged[i] & 1U) << i;
      span = renumbered;
    }
  }

  Space& space_;
  const Dims& shape_;
  base::InlineVector<StridedOperand*, 16> passes_;
  base::InlineVector<std::size_t, kMaxRank> order_;
};

}  // namespace

void normalise(Space& space, const Dims& shape) { Normaliser(space, shape).run(); }

}  // namespace epifuse::plan
