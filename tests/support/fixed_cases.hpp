// Cases that are always the same: what random ones might miss. Run from emitted text, on the CPU device and on the GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// A tail of a public benchmark's model: /work/shared/cases/level2_odd.tsv, those without a reduction, scaled down.
struct TailCase {
  int id;                               ///< there
  std::string_view text;                ///< the chain as written there
  std::vector<std::string_view> names;  ///< of the operands in that text, in the order of `test.inputs`
  Case test;
};
std::vector<TailCase> tail_cases();

/// Every operation over special values, every input type; the output types rotate, by `turn` positions from the input
/// type.
std::vector<Case> special_value_cases(int transpose);
/// Every conversion between element types, at stores and as `cast`, over every code of 8 and 16 bits.
std::vector<Case> conversion_cases();
/// 500 operations; 30 operands.
std::vector<Case> long_cases();
/// Every vector width, alignment and length of a tail, flat and row by row.
std::vector<Case> alignment_cases();
/// Inner extents that no vector divides.
std::vector<Case> odd_extent_cases();
/// Inner extents that every vector divides.
std::vector<Case> divisible_row_cases();

/// Rank 8 with strides of 0, one element, prime extents.
std::vector<Case> odd_layout_cases();
/// Operands that run across the results: transposed and channels-last ones.
std::vector<Case> tiled_2d_cases();
/// All of them, so that results are transposed in shared memory.
std::vector<Case> transpose_cases();
/// Every operation of one tensor over all codes of the types of 8 and 16 bits, signalling NaN and denormals among them.
std::vector<Case> small_type_cases();

/// The tails over all values of the tensor, in f16 and bf16.
std::vector<Case> tails_over_all_values();

/// Truth values as numbers: operations that refuse truth values take what arithmetic makes of one.
std::vector<Case> truth_cases();

/// All of the above but small_type_cases() and tails_over_all_values(), and those of tests/regressions; `turns` of the
/// special values (up to one per element type).
std::vector<Case> fixed_cases(int transposes);

}  // namespace epifuse::test
