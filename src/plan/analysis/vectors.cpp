// Alignment of strided operands. Extents of one do not count: nobody steps along them.
#include "plan/analysis/vectors.hpp"

#include <algorithm>

namespace epifuse::plan {

bool begins_aligned(const StridedOperand& strided, int width) {
  const auto bytes = static_cast<std::uintptr_t>(size_of(strided.dtype)) * static_cast<std::uintptr_t>(width);
  return reinterpret_cast<std::uintptr_t>(strided.data) % bytes == 0;
}

bool is_aligned(const StridedOperand& strided, const Space& space, int run, int width) {
  if (!begins_aligned(strided, width)) return false;
  for (int d = 0; d < space.rank(); ++d) {
    if (d != run && space.extents[d] > 1 && strided.strides[static_cast<std::size_t>(d)] % width != 0) return false;
  }
  return has_aligned_rows(strided, width);
}

bool has_aligned_rows(const StridedOperand& strided, int width) {
  return std::ranges::all_of(strided.gathers, [&](const auto& gather) { return gather.stride % width == 0; });
}

bool has_runs(const StridedOperand& strided, const Space& space) {
  return space.rank() > 0 && strided.strides[static_cast<std::size_t>(space.rank()) - 1] == 1;
}

bool has_aligned_existing(const StridedOperand& strided, const Space& space) {
  const int width = most_per_access(strided.dtype, kAccessBytes);
  return has_runs(strided, space) && strided.origin % width == 0 && is_aligned(strided, space, space.rank() - 1, width);
}

namespace {

// Whether its indices are the same along the innermost dimension.
bool has_indices_per_row(const StridedOperand& strided, const Space& space) {
  const auto inner = static_cast<std::size_t>(space.rank()) - 1;
  return std::ranges::all_of(strided.gathers,
                             [&](const auto& gather) { return space.inputs[gather.index].strides[inner] == 0; });
}

}  // namespace

bool has_one_index_per_row(const StridedOperand& strided, const Space& space) {
  return !strided.bounded && has_runs(strided, space) && has_indices_per_row(strided, space);
}

bool has_one_place_per_row(const Space& space) {
  return space.rank() == 0 || std::ranges::all_of(space.outputs, [&](const StridedOperand& output) {
           return has_indices_per_row(output, space);
         });
}

bool has_aligned_vectors(const StridedOperand& strided, const Space& space, int run, int elements) {
  return is_aligned(strided, space, run, most_per_access(strided.dtype, elements));
}

bool has_aligned_lines(const StridedOperand& strided, const Space& space, int run, int width) {
  return space.extents[run] % width == 0 && is_aligned(strided, space, run, width);
}

bool begins_at(const StridedOperand& strided, const Space& space, int run, int bytes) {
  return is_aligned(strided, space, run, bytes / static_cast<int>(size_of(strided.dtype)));
}

}  // namespace epifuse::plan
