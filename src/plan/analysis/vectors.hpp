// How many neighbouring elements move at once, and where memory allows it: the length of a vector, the width of an
// access, alignment. For all planners.
#pragma once

#include <algorithm>

#include "plan/bind/space.hpp"
#include "plan/device/machine.hpp"

namespace epifuse::plan {

/// Consecutive elements of a thread, by the bytes of the narrowest and the widest operand that memory moves: the
/// narrowest moves in accesses of full width, the widest in two at most. Further apart, neighbouring threads share no
/// cache line in one instruction (i32 to i8: 1.17 of copy time).
inline int elements_of_vector(int narrowest, int widest) {
  return std::min(kAccessBytes / narrowest, 2 * kAccessBytes / widest);
}

/// Elements of one access to an operand, if a vector has so many.
inline int most_per_access(DType dtype, int elements) {
  return std::min(elements, kAccessBytes / static_cast<int>(size_of(dtype)));
}

/// The same, or fewer: the longest access that `fits`, which is asked for elements of one access.
template <class Fits>
int access_width(DType dtype, int elements, const Fits& fits) {
  int width = most_per_access(dtype, elements);
  while (width > 1 && !fits(width)) width /= 2;
  return width;
}

/// Whether an access of `width` elements may begin at the operand's first.
bool begins_aligned(const StridedOperand& strided, int width);
/// Whether accesses of `width` elements are aligned wherever they begin: at multiples of `width` along dimension `run`.
bool is_aligned(const StridedOperand& strided, const Space& space, int run, int width);
/// The same of the accesses that a vector of so many elements is made of.
bool has_aligned_vectors(const StridedOperand& strided, const Space& space, int run, int elements);
/// Whether accesses of `width` elements may begin where rows do that indices name. True where there is no index.
bool has_aligned_rows(const StridedOperand& strided, int width);
/// Whether neighbours along the innermost dimension lie side by side.
bool has_runs(const StridedOperand& strided, const Space& space);
/// Of an operand that is bounded: whether vectors all of which exist are aligned.
bool has_aligned_existing(const StridedOperand& strided, const Space& space);
/// Of an operand that is read at indices: whether neighbours along the innermost dimension lie side by side, at the
/// same indices.
bool has_one_index_per_row(const StridedOperand& strided, const Space& space);
/// Whether each result that is written at indices has the same one for all of a row of the innermost dimension.
bool has_one_place_per_row(const Space& space);
/// Whether lines along `run` consist of aligned accesses of `width` elements.
bool has_aligned_lines(const StridedOperand& strided, const Space& space, int run, int width);
/// Whether lines along `run` begin at multiples of so many bytes.
bool begins_at(const StridedOperand& strided, const Space& space, int run, int bytes);

}  // namespace epifuse::plan
