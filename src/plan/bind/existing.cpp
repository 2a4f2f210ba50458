// Bounds meet the operands of a launch: shapes with elements that do not exist, and what of an operand is read.
#include "plan/bind/existing.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace epifuse::plan {

namespace {

// What an operand steps by from one position of a mask to the next.
std::int64_t stride_along(const StridedOperand& mask, const StridedOperand& strided) {
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    if (mask.strides[d] == 1) return strided.strides[d];
  }
  for (std::size_t d = 0; d < kMaxRank; ++d) {
    if (mask.strides[d] != 0) return strided.strides[d] / mask.strides[d];
  }
  return 0;
}

std::int64_t divided_up(std::int64_t number, std::int64_t by) {
  return number / by + (number % by != 0 && (number < 0) == (by < 0) ? 1 : 0);
}

// How many elements of windows exist, along both of their dimensions.
std::int64_t count_existing(const TensorView& mask, const ir::Bounds& interval) {
  std::vector<int> along;
  for (int d = 0; d < mask.shape.size(); ++d)
    if (mask.shape[d] != 1) along.push_back(d);
  if (!interval.is_of_windows || along.size() != 2) return interval.count;
  if (mask.shape[along[0]] > mask.shape[along[1]]) std::swap(along[0], along[1]);
  const std::int64_t step = mask.strides[along[1]];
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < mask.shape[along[0]]; ++i) {
    // first <= i * … + k * step < end
    const std::int64_t first = interval.first - i * mask.strides[along[0]];
    const std::int64_t end = first + interval.count;
    const std::int64_t from = step > 0 ? divided_up(first, step) : divided_up(end - 1, step);
    const std::int64_t to = step > 0 ? divided_up(end, step) : divided_up(first - 1, step);
    sum += std::max<std::int64_t>(std::min(to, mask.shape[along[1]]) - std::max<std::int64_t>(from, 0), 0);
  }
  return sum;
}

}  // namespace

void set_bounds(Space& space, const ir::Program& program, std::span<const TensorView> inputs) {
  for (std::size_t i = 0; i < program.bounds().size(); ++i) {
    const ir::Bounds& bounds = program.bounds()[i];
    StridedOperand& strided = space.inputs[i];
    if (bounds.kind == ir::Bounds::Kind::inside) {
      strided.generated = Generated::inside;
      strided.reach = {};
      strided.origin = bounds.first;
      strided.count = bounds.count;
    }
    if (bounds.kind == ir::Bounds::Kind::none || bounds.kind == ir::Bounds::Kind::inside) continue;
    strided.is_index = bounds.kind == ir::Bounds::Kind::index;
    strided.bounded = !bounds.by.empty() || !bounds.wraps.empty();
    strided.reach = reach_of(inputs[i]);
    for (const ir::Bounds::Gather& gather : bounds.gathers) {
      strided.gathers.push_back({static_cast<std::size_t>(gather.index), gather.stride, gather.extent,
                                 gather.wraps ? gather.extent : 0, gather.computed});
      const std::int64_t last = (gather.extent - 1) * gather.stride * static_cast<std::int64_t>(size_of(strided.dtype));
      if (!strided.reach.empty()) (last < 0 ? strided.reach.first : strided.reach.end) += last;
    }
    for (const int by : bounds.by) {
      const StridedOperand& mask = space.inputs[static_cast<std::size_t>(by)];
      const ir::Bounds& interval = program.bounds()[static_cast<std::size_t>(by)];
      const TensorView& positions = inputs[static_cast<std::size_t>(by)];
      for (const std::int64_t extent : positions.shape) strided.places *= extent;
      strided.existing *= count_existing(positions, interval);
      strided.origin += interval.first * stride_along(mask, strided);
    }
    for (const ir::Bounds::Wrap& wrap : bounds.wraps) {
      const auto behind = static_cast<std::size_t>(wrap.behind);
      const std::int64_t stride = stride_along(space.inputs[behind], strided);
      strided.origin -= wrap.before * stride;
      strided.wraps.push_back({behind, -wrap.extent * stride});
    }
  }
}

void set_scatters(Space& space, const ir::Program& program, std::span<const OutputView> outputs) {
  for (std::size_t i = 0; i < program.scatters().size(); ++i) {
    const ir::Scatter* const scatter = program.scatter_of(i);
    if (scatter == nullptr) continue;
    StridedOperand& strided = space.outputs[i];
    for (const ir::Scatter::Along& along : scatter->along) {
      strided.gathers.push_back({static_cast<std::size_t>(along.index), outputs[i].strides[along.dimension],
                                 outputs[i].shape[along.dimension], 0, along.computed});
    }
    strided.reach = reach_of(outputs[i]);
  }
}

base::InlineVector<OutputView, 4> as_written(const ir::Program& program, std::span<const OutputView> outputs) {
  base::InlineVector<OutputView, 4> written;
  for (const OutputView& output : outputs) written.push_back(output);
  for (std::size_t i = 0; i < program.scatters().size() && i < written.size(); ++i) {
    const ir::Scatter* const scatter = program.scatter_of(i);
    if (scatter == nullptr) continue;
    written[i].shape = {};
    written[i].strides = {};
    for (std::size_t d = 0; d < scatter->own.size(); ++d) {
      const int own = scatter->own[d];
      written[i].shape.push_back(own == ir::kNone ? scatter->shape[d] : outputs[i].shape[own]);
      written[i].strides.push_back(own == ir::kNone ? 0 : outputs[i].strides[own]);
    }
  }
  return written;
}

base::InlineVector<TensorView, 8> with_outside(const ir::Program& program, std::span<const TensorView> inputs) {
  base::InlineVector<TensorView, 8> all;
  for (const TensorView& input : inputs) all.push_back(input);
  for (std::size_t i = 0; i < program.bounds().size() && i < all.size(); ++i) {
    for (const int asked : program.bounds()[i].masks()) {
      const TensorView& mask = inputs[static_cast<std::size_t>(asked)];
      const int outer = all[i].shape.size() - mask.shape.size();
      all[i].shape[outer] = mask.shape[0];
      if (!program.bounds()[static_cast<std::size_t>(asked)].is_of_windows) continue;
      // The inner of both dimensions has a step for each position, the outer one none.
      const auto inner = static_cast<int>(
          std::find_if(mask.shape.begin() + 1, mask.shape.end(), [](std::int64_t n) { return n != 1; }) -
          mask.shape.begin());
      const std::int64_t stride = all[i].strides[outer + inner];
      all[i].shape[outer + inner] = mask.shape[inner];
      all[i].strides[outer] = stride * mask.strides[0];
      all[i].strides[outer + inner] = stride * mask.strides[inner];
    }
  }
  // What indices say where it is read has the same element all along their dimensions.
  for (std::size_t i = 0; i < program.bounds().size() && i < all.size(); ++i) {
    for (const ir::Bounds::Gather& gather : program.bounds()[i].gathers) {
      if (gather.computed.exists()) continue;  // the dimension of its mask, as above
      const Dims& index = all[static_cast<std::size_t>(gather.index)].shape;
      for (int d = 0; d < index.size(); ++d) {
        if (all[i].shape[d] == index[d] || index[d] == 1) continue;
        all[i].shape[d] = index[d];
        all[i].strides[d] = 0;
      }
    }
  }
  return all;
}

bool varies_along(const StridedOperand& strided, const Space& space, std::size_t d) noexcept {
  return strided.strides[d] != 0 || std::ranges::any_of(strided.gathers, [&](const GatheredDimension& gather) {
           return space.inputs[gather.index].strides[d] != 0;
         });
}

}  // namespace epifuse::plan
