// Masks are operands of the chain, so that a value that does not exist is chosen by 'where' like any other; the
// operands that they bound refer to them.
#include "plan/bind/bounds.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/text.hpp"

namespace epifuse::plan {

using Taken = DimensionMap::Taken;

std::array<std::optional<Taken>, 2> sides_of_joined(const Taken& taken, std::int64_t first, std::int64_t second) {
  const std::int64_t last = taken.start + std::max<std::int64_t>(taken.count - 1, 0) * taken.step;
  const std::int64_t low = std::max(std::min(taken.start, last), taken.low);
  const std::int64_t high = std::min(std::max(taken.start, last), taken.high - 1);
  const bool only_first = taken.count == 0 || high < first;
  const bool only_second = !only_first && low >= first;
  Taken behind = taken;
  behind.start -= first;
  if (behind.low != Taken::kOpenLow) behind.low -= first;
  if (behind.high != Taken::kOpenHigh) behind.high -= first;
  std::array<std::optional<Taken>, 2> sides;
  if (!only_second) sides[0] = taken.within(0, first);
  if (!only_first) sides[1] = behind.within(0, second);
  return sides;
}

Lowered::Operand mask_along(int behind, std::int64_t extent, std::int64_t first, std::int64_t count) {
  Lowered::Operand mask;
  mask.shape.push_back(extent);
  for (int k = 0; k < behind; ++k) mask.shape.push_back(1);
  for (int k = 0; k < mask.shape.size(); ++k) mask.strides.push_back(1);
  mask.within = {{0, first, count}};
  mask.is_mask = true;
  mask.text = fmt::format("{} from {} on of {} positions", count, first, extent);
  return mask;
}

Lowered::Operand positions_along(const Dims& shape, int dimension) {
  const std::int64_t extent = shape[dimension];
  Lowered::Operand line = mask_along(shape.size() - 1 - dimension, extent, 0, extent);
  line.text = fmt::format("{} positions", extent);
  return line;
}

Lowered::Operand positions_mask(std::int64_t extent) { return positions_along({extent}, 0); }

Lowered::Operand mask_of(const Dims& shape, const Lowered::Operand::Within& within) {
  Lowered::Operand mask =
      mask_along(shape.size() - 1 - within.dimension, shape[within.dimension], within.first, within.count);
  if (!within.is_of_windows()) return mask;
  const int inner = within.inner - within.dimension;
  mask.shape[inner] = shape[within.inner];
  mask.strides[0] = within.step;
  mask.strides[inner] = within.inner_step;
  mask.within[0].step = within.step;
  mask.within[0].inner = inner;
  mask.within[0].inner_step = within.inner_step;
  mask.text = fmt::format("{} from {} on of {} by {} and {} by {} positions", within.count, within.first, mask.shape[0],
                          within.step, mask.shape[inner], within.inner_step);
  return mask;
}

std::vector<Lowered::Operand> masks_of(const Strided& strided) {
  std::vector<Lowered::Operand> masks;
  const std::size_t rank = strided.dimensions.size();
  for (std::size_t d = 0; d < rank; ++d) {
    const Strided::Dimension& dimension = strided.dimensions[d];
    if (!dimension.bounded) continue;
    masks.push_back(mask_along(static_cast<int>(rank - d) - 1, dimension.extent, dimension.first, dimension.count));
  }
  for (const Strided::WithinWindows& windows : strided.within_windows())
    if (!windows.are_all) masks.push_back(mask_of(strided.extents(), windows.within));
  return masks;
}

namespace {

// The positions of a rolled dimension at which its elements have begun again.
Lowered::Operand::Within behind_wrap(const Lowered::Operand& operand, const Lowered::Operand::Wrap& wrap) {
  return {wrap.dimension, wrap.from, operand.shape[wrap.dimension] - wrap.from};
}

}  // namespace

std::vector<Lowered::Operand> wrap_masks_of(const Lowered::Operand& operand) {
  std::vector<Lowered::Operand> masks;
  for (const Lowered::Operand::Wrap& wrap : operand.wraps) {
    const Lowered::Operand::Within behind = behind_wrap(operand, wrap);
    const int inner = operand.shape.size() - 1 - wrap.dimension;
    masks.push_back(mask_along(inner, operand.shape[wrap.dimension], behind.first, behind.count));
  }
  return masks;
}

namespace {

bool is_along(const Lowered::Operand& mask, const Lowered::Operand& operand, const Lowered::Operand::Within& within) {
  if (!mask.is_mask) return false;
  const Lowered::Operand own = mask_of(operand.shape, within);
  return mask.shape == own.shape && mask.within == own.within;
}

// What bounds an operand bounds the value that a view or 'cat' took it for, so that there is a mask.
int which_mask(const std::vector<Lowered::Operand>& operands, const Lowered::Operand& operand,
               const Lowered::Operand::Within& within) {
  const auto fits = [&](const Lowered::Operand& mask) { return is_along(mask, operand, within); };
  const auto it = std::ranges::find_if(operands, fits);
  if (it == operands.end()) throw std::logic_error("an operand is bounded, and no mask says where");
  return static_cast<int>(it - operands.begin());
}

void add_masks(std::vector<int>& by, const std::vector<Lowered::Operand>& operands, const Lowered::Operand& operand) {
  for (const Lowered::Operand::Within& within : operand.within) {
    const int mask = which_mask(operands, operand, within);
    if (std::ranges::find(by, mask) == by.end()) by.push_back(mask);
  }
}

}  // namespace

bool is_bounded_by(const Lowered::Operand& operand, const Lowered::Operand& mask) {
  return std::ranges::any_of(operand.within, [&](const auto& within) { return is_along(mask, operand, within); });
}

std::vector<ir::Bounds> bounds_of(const std::vector<Lowered::Operand>& operands,
                                  const std::vector<std::string>& names) {
  using Kind = ir::Bounds::Kind;
  std::vector<ir::Bounds> all;
  const auto is_plain = [](const Lowered::Operand& operand) {
    return operand.within.empty() && operand.wraps.empty() && operand.gathers.empty() && !operand.is_index;
  };
  if (std::ranges::all_of(operands, is_plain)) return all;
  for (const Lowered::Operand& operand : operands) {
    ir::Bounds& bounds = all.emplace_back();
    if (operand.is_mask) {
      bounds = {Kind::inside, {}, operand.within[0].first, operand.within[0].count};
      bounds.is_of_windows = operand.within[0].is_of_windows();
      continue;
    }
    if (is_plain(operand)) continue;
    bounds.kind = operand.is_index ? Kind::index : operand.gathers.empty() ? Kind::bounded : Kind::gathered;
    add_masks(bounds.by, operands, operand);
    for (const Lowered::Operand::Wrap& wrap : operand.wraps)
      bounds.wraps.push_back({which_mask(operands, operand, behind_wrap(operand, wrap)), wrap.extent, wrap.before});
    for (const Lowered::Operand::Gather& gather : operand.gathers) {
      const auto index = static_cast<std::size_t>(std::ranges::find(names, gather.index) - names.begin());
      bounds.gathers.push_back({static_cast<int>(index), gather.stride, gather.extent, gather.wraps, gather.written});
      if (gather.computed.exists()) {
        bounds.gathers.back().computed = gather.computed;
        if (std::ranges::find(bounds.by, static_cast<int>(index)) == bounds.by.end())
          bounds.by.push_back(static_cast<int>(index));
        continue;
      }
      add_masks(bounds.by, operands, operands[index]);  // an index is read where its element exists
    }
  }
  return all;
}

void refuse_outside(const std::string& text, const std::string& reduced) {
  base::fail(
      ErrorCode::unsupported,
      "'{}' reads outside what a reduction gives, which one kernel does not keep. Compute '{}' in a launch of its "
      "own, and pass its result as an operand",
      text, reduced);
}

void refuse_split(const std::string& of) {
  base::fail(
      ErrorCode::unsupported,
      "a view of '{}' splits or merges a dimension of which elements do not exist, since it is padded or joined: "
      "reshape first, and pad then",
      of);
}

void refuse_merged(const std::string& text) {
  base::fail(ErrorCode::unsupported,
             "'{}' would copy: it merges or splits a dimension that is read at indices with others. Reshape the "
             "operands instead",
             text);
}

// The number of an element follows from its index in the shape that the numbers are drawn for.
void refuse_random() {
  base::fail(ErrorCode::unsupported,
             "a view of what 'rand_like' or 'dropout' gives is no operand: view first, and draw the numbers for what "
             "the view gives");
}

void refuse_joined(const std::string& text, const Dims& first, const Dims& second) {
  base::fail(
      ErrorCode::unsupported,
      "what '{}' joins (shapes {} and {}) is needed as one here, by a reduction or a reshape over both. Write it "
      "in a launch of its own, and pass its result as an operand",
      text, to_string(first), to_string(second));
}

void refuse_behind_reduction(const std::string& text, const Dims& shape) {
  base::fail(ErrorCode::unsupported,
             "a view of '{}' takes elements of shape {} that no operand has: there is a reduction before it. Compute "
             "'{}' in a launch of its own, and pass its result as an operand",
             text, to_string(shape), text);
}

void refuse_repeated(const std::string& text, const Dims& shape) {
  base::fail(ErrorCode::unsupported,
             "'{}' would have the shape {}, of which no operand has all elements: numbers and reduced values are "
             "broadcast where an operation needs it, and not on their own",
             text, to_string(shape));
}

void refuse_slices(const std::string& result, std::size_t most) {
  base::fail(ErrorCode::unsupported, "result '{}' is joined of more than {} slices: split the chain", result, most);
}

void refuse_slice(const std::string& result, const Dims& shape, const Dims& other) {
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: result '{}' has the shape {}, and another slice of the results {}. Join "
             "slices of one size, or write each in a chain of its own into a slice of the result",
             result, to_string(shape), to_string(other));
}

void refuse_shape(const std::string& result, const Dims& shape, const Dims& operands) {
  base::fail(ErrorCode::unsupported,
             "the chain cannot be one kernel: its result '{}' has the shape {}, and its operands broadcast to {}. "
             "Compute it in a chain of its own",
             result, to_string(shape), to_string(operands));
}

}  // namespace epifuse::plan
