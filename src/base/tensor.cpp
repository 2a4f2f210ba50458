// Dims and dense strides: the small values that every component passes around.
#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include <spdlog/fmt/ranges.h>

#include <epifuse/scale_layouts.hpp>
#include <epifuse/tensor.hpp>

#include "base/text.hpp"

namespace epifuse {

Dims::Dims(std::span<const std::int64_t> values) {
  for (const std::int64_t value : values) push_back(value);
}

void Dims::push_back(std::int64_t value) {
  if (size_ == kMaxRank) {
    base::fail(ErrorCode::invalid_argument, "a tensor has more than {} dimensions, the most that EpiFuse takes",
               kMaxRank);
  }
  values_[static_cast<std::size_t>(size_++)] = value;
}

bool operator==(const Dims& a, const Dims& b) noexcept { return std::ranges::equal(a, b); }

std::string to_string(const Dims& dims) { return fmt::format("[{}]", fmt::join(dims.begin(), dims.end(), ", ")); }

Dims row_major(const Dims& shape) noexcept {
  Dims strides = shape;
  // Unsigned: a shape too large to address is refused when it is bound, not here, and must not be undefined behaviour.
  std::uint64_t step = 1;
  for (int i = shape.size(); i-- > 0;) {
    strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[i], 1));
  }
  return strides;
}

namespace {

// Dense strides of `shape` when its dimensions lie in memory in this order, outermost first.
Dims dense(const Dims& shape, std::span<const int> order) noexcept {
  Dims strides = shape;
  std::uint64_t step = 1;  // unsigned, as in row_major()
  for (std::size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[order[i]], 1));
  }
  return strides;
}

std::uint64_t magnitude(std::int64_t stride) noexcept {
  return stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

// The position of dimension `axis`, which may count from the back.
int dimension(const TensorView& view, std::int64_t axis, std::string_view what) {
  const int rank = view.shape.size();
  if (axis < -rank || axis >= rank) {
    base::fail(ErrorCode::invalid_argument, "{}: a view of shape {} has no dimension {}; expected one from {} to {}",
               what, to_string(view.shape), axis, -rank, rank - 1);
  }
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// An address that is `elements` further. Views for planning have none.
const void* advanced(const TensorView& view, std::int64_t elements) noexcept {
  if (view.data == nullptr) return nullptr;
  const auto bytes = static_cast<std::uint64_t>(size_of(view.dtype, elements));
  return reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(view.data) +
                                       bytes);  // NOLINT(performance-no-int-to-ptr)
}

OutputView with_layout(OutputView view, const TensorView& layout) noexcept {
  static_cast<TensorView&>(view) = layout;
  return view;
}

}  // namespace

Dims channels_last(const Dims& shape) noexcept {
  if (shape.size() < 3) return row_major(shape);
  std::array<int, kMaxRank> order{0};
  const auto rank = static_cast<std::size_t>(shape.size());
  for (std::size_t i = 1; i + 1 < rank; ++i) order[i] = static_cast<int>(i) + 1;
  order[rank - 1] = 1;
  return dense(shape, std::span(order).first(rank));
}

std::int64_t padded_rows(std::int64_t rows) noexcept { return (rows + 3) / 4 * 4; }

OutputView transposed_scales(void* data, DType dtype, std::int64_t rows, std::int64_t blocks) {
  if (rows < 0 || blocks < 0) {
    base::fail(ErrorCode::invalid_argument, "transposed_scales: found {} rows of {} blocks; expected extents from 0 on",
               rows, blocks);
  }
  return {data, dtype, {rows, blocks}, {1, padded_rows(rows)}};
}

TensorView TensorView::slice(int axis, const Slice& range) const {
  const int at = dimension(*this, axis, "slice");
  if (range.step == 0) {
    base::fail(ErrorCode::invalid_argument, "slice: found a step of 0 along dimension {}; expected 1, 2, -1, …", axis);
  }
  const std::int64_t extent = shape[at];
  const bool down = range.step < 0;
  const std::int64_t least = down ? -1 : 0;
  const std::int64_t most = down ? extent - 1 : extent;
  const auto place = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given) return otherwise;
    return std::clamp(*given < 0 ? *given + extent : *given, least, most);
  };
  const std::int64_t start = place(range.start, down ? most : 0);
  const std::int64_t stop = place(range.stop, down ? -1 : extent);
  const std::uint64_t step = magnitude(range.step);
  const auto distance = static_cast<std::uint64_t>(std::max<std::int64_t>(down ? start - stop : stop - start, 0));
  TensorView view = *this;
  view.shape[at] = static_cast<std::int64_t>(distance / step + (distance % step == 0 ? 0 : 1));
  if (view.shape[at] > 0) view.data = advanced(*this, start * strides[at]);
  if (view.shape[at] > 1) view.strides[at] = strides[at] * range.step;
  return view;
}

TensorView TensorView::permute(const Dims& order) const {
  const auto wrong = [&] {
    base::fail(ErrorCode::invalid_argument,
               "permute: found the order {} for a view of shape {}; expected each of its {} dimensions once",
               to_string(order), to_string(shape), shape.size());
  };
  if (order.size() != shape.size()) wrong();
  TensorView view = *this;
  std::array<bool, kMaxRank> seen{};
  for (int i = 0; i < order.size(); ++i) {
    const int from = dimension(*this, order[i], "permute");
    if (std::exchange(seen[static_cast<std::size_t>(from)], true)) wrong();
    view.shape[i] = shape[from];
    view.strides[i] = strides[from];
  }
  return view;
}

OutputView OutputView::slice(int axis, const Slice& range) const {
  return with_layout(*this, TensorView::slice(axis, range));
}

OutputView OutputView::permute(const Dims& order) const { return with_layout(*this, TensorView::permute(order)); }

OutputView OutputView::like(const TensorView& other, void* pointer) {
  std::array<int, kMaxRank> places{};
  std::iota(places.begin(), places.end(), 0);
  const auto order = std::span(places).first(static_cast<std::size_t>(other.shape.size()));
  const auto repeats = [&](int i) { return other.strides[i] == 0 && other.shape[i] > 1; };
  if (std::ranges::none_of(order, repeats)) {
    std::ranges::stable_sort(order, std::greater<>(), [&](int i) { return magnitude(other.strides[i]); });
  }
  return {pointer, other.dtype, other.shape, dense(other.shape, order)};
}

}  // namespace epifuse
