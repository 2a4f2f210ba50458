// Allocation and copies between layouts. Index arithmetic is checked: extents and strides come from the user.
#include "host_tensor.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

constexpr std::size_t kAlignment = 256;

// The most that one tensor may span; leaves space for a few of them in 64-bit sums.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 60;

template <class Element>
void copy_row(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
              std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    // memcpy of a constant size: one load and one store, without assuming what lies there.
    std::memcpy(to + i * to_stride, from + i * from_stride, sizeof(Element));
  }
}

// One dimension after the other; strides in bytes.
struct Copy {
  Dims shape;
  Dims to_strides;
  Dims from_strides;
  std::size_t size;

  void row(std::byte* to, const std::byte* from, int axis) const {
    const std::int64_t count = shape[axis];
    const std::int64_t a = to_strides[axis];
    const std::int64_t b = from_strides[axis];
    if (a == static_cast<std::int64_t>(size) && b == a) {
      std::memcpy(to, from, static_cast<std::size_t>(count) * size);
    } else if (size == 1) {
      copy_row<std::uint8_t>(to, a, from, b, count);
    } else if (size == 2) {
      copy_row<std::uint16_t>(to, a, from, b, count);
    } else if (size == 4) {
      copy_row<std::uint32_t>(to, a, from, b, count);
    } else {
      copy_row<std::uint64_t>(to, a, from, b, count);
    }
  }
  void copy_axis(std::byte* to, const std::byte* from, int axis) const {
    if (axis == shape.size() - 1) return row(to, from, axis);
    for (std::int64_t i = 0; i < shape[axis]; ++i) {
      copy_axis(to + i * to_strides[axis], from + i * from_strides[axis], axis + 1);
    }
  }
};

Dims in_bytes(const TensorView& view) {
  Dims strides;
  for (const std::int64_t stride : view.strides)
    strides.push_back(stride * static_cast<std::int64_t>(size_of(view.dtype)));
  return strides;
}

bool has_strides(const TensorView& view, bool column_major) noexcept {
  if (element_count(view.shape) == 0) return true;
  std::int64_t expected = 1;
  const int rank = view.shape.size();
  for (int k = 0; k < rank; ++k) {
    const int i = column_major ? k : rank - 1 - k;
    if (view.shape[i] != 1 && view.strides[i] != expected) return false;
    expected *= view.shape[i];
  }
  return true;
}

}  // namespace

std::int64_t element_count(const Dims& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(count, extent, &count)) count = std::numeric_limits<std::int64_t>::max();
  }
  return count;
}

std::string describe(const TensorInfo& info) {
  return fmt::format("{} {}", to_string(info.dtype), to_string(info.shape));
}

Storage storage_of(const TensorInfo& info) {
  const auto size = static_cast<std::int64_t>(size_of(info.dtype));
  if (std::ranges::find(info.shape, 0) != info.shape.end()) return {};
  std::int64_t lowest = 0;  // of the element offsets from element 0
  std::int64_t highest = 0;
  bool fits = info.offset >= 0 && info.offset <= kMostBytes / size;
  for (int i = 0; i < info.shape.size(); ++i) {
    std::int64_t reach = 0;
    std::int64_t& end = info.strides[i] < 0 ? lowest : highest;
    fits = fits && !__builtin_mul_overflow(info.shape[i] - 1, info.strides[i], &reach) &&
           !__builtin_add_overflow(end, reach, &end) && -kMostBytes / size < end && end < kMostBytes / size;
  }
  if (!fits) {
    refuse("tensor '{}': {} with strides {} and offset {} reaches beyond {}, the most that one tensor may span",
           info.name, describe(info), to_string(info.strides), info.offset,
           format_bytes(static_cast<double>(kMostBytes)));
  }
  const auto below = static_cast<std::size_t>(-lowest * size);
  Storage storage;
  storage.origin = (below + kAlignment - 1) / kAlignment * kAlignment + static_cast<std::size_t>(info.offset * size);
  storage.bytes = storage.origin + static_cast<std::size_t>((highest + 1) * size);
  return storage;
}

HostTensor HostTensor::uninitialised(const TensorInfo& info) {
  HostTensor tensor;
  tensor.info_ = info;
  tensor.storage_ = storage_of(info);
  const std::size_t rounded = (tensor.storage_.bytes / kAlignment + 1) * kAlignment;
  tensor.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (tensor.memory_ == nullptr) {
    fail(ErrorCode::out_of_memory, "tensor '{}': the host has no {} for {}; use smaller tensors", info.name,
         format_bytes(static_cast<double>(rounded)), describe(info));
  }
  return tensor;
}

HostTensor HostTensor::filled(const TensorInfo& info) {
  HostTensor tensor = uninitialised(info);
  parallel_pieces(tensor.storage_.bytes, 1 << 20, [&](std::uint64_t first, std::uint64_t last) {
    std::memset(tensor.memory_.get() + first, 0xff, last - first);
  });
  return tensor;
}

OutputView HostTensor::view_at(void* memory) const noexcept {
  return {static_cast<std::byte*>(memory) + storage_.origin, info_.dtype, info_.shape, info_.strides};
}

bool is_row_major(const TensorView& view) noexcept { return has_strides(view, false); }
bool is_column_major(const TensorView& view) noexcept { return has_strides(view, true); }

namespace {

// Whether no two elements share memory, as far as strides tell: in the order of their size, each steps over all before
// it.
bool are_apart(const TensorView& view) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // stride, extent
  for (int i = 0; i < view.shape.size(); ++i) {
    if (view.shape[i] > 1) steps.emplace_back(std::abs(view.strides[i]), view.shape[i]);
  }
  std::ranges::sort(steps);
  std::int64_t span = 1;
  for (const auto& [stride, extent] : steps) {
    if (stride < span) return false;
    span += stride * (extent - 1);
  }
  return true;
}

}  // namespace

void copy_elements(const OutputView& to, const TensorView& from) {
  if (element_count(to.shape) == 0) return;
  auto* target = static_cast<std::byte*>(to.writable());
  const auto* source = static_cast<const std::byte*>(from.data);
  const std::size_t size = size_of(to.dtype);
  if (to.shape.empty()) {
    std::memcpy(target, source, size);
    return;
  }
  Copy copy{to.shape, in_bytes(to), in_bytes(from), size};
  // Elements that share memory get the last one's value: one thread, in their order.
  if (!are_apart(to)) return copy.copy_axis(target, source, 0);
  // The first dimension is shared out; a piece of it is a copy of its own.
  parallel_pieces(static_cast<std::uint64_t>(to.shape[0]), 1, [&](std::uint64_t first, std::uint64_t last) {
    Copy slab = copy;
    slab.shape[0] = static_cast<std::int64_t>(last - first);
    const auto start = static_cast<std::int64_t>(first);
    slab.copy_axis(target + start * copy.to_strides[0], source + start * copy.from_strides[0], 0);
  });
}

HostTensor densified(const TensorView& view) {
  HostTensor dense = HostTensor::uninitialised({"copy", view.dtype, view.shape, row_major(view.shape), 0});
  copy_elements(dense.view(), view);
  return dense;
}

}  // namespace epifuse::tool
