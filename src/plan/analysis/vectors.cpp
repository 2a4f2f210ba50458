// Alignment of strided operands. Extents of one do not count: nobody steps along them.
#include "plan/analysis/vectors.hpp"

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
  return true;
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
