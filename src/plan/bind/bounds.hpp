// Where views step outside a tensor: which elements of an operand exist, as masks that the chain reads. For lower.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// What elements taken of two values that stand one behind the other, of so many elements each, are of either: nothing
/// of a value that none is of. Of both where both are needed; of each of these some then do not exist.
std::array<std::optional<DimensionMap::Taken>, 2> sides_of_joined(const DimensionMap::Taken& taken, std::int64_t first,
                                                                  std::int64_t second);

/// Of the positions along a dimension, with so many dimensions behind it, those from `first` on. It lies nowhere.
Lowered::Operand mask_along(int behind, std::int64_t extent, std::int64_t first, std::int64_t count);

/// The same of all positions along a dimension of a value of that shape, and along the only one of a value.
Lowered::Operand positions_along(const Dims& shape, int dimension);
Lowered::Operand positions_mask(std::int64_t extent);

/// What says where elements of a value of that shape exist. It lies nowhere.
Lowered::Operand mask_of(const Dims& shape, const Lowered::Operand::Within& within);

/// An operand for each dimension of which some elements do not exist. It lies nowhere, and is true where they do.
std::vector<Lowered::Operand> masks_of(const Strided& strided);

/// An operand for each dimension that is rolled. It lies nowhere, and is true where its elements begin again.
std::vector<Lowered::Operand> wrap_masks_of(const Lowered::Operand& operand);

/// Whether an operand is read only where that mask is true.
bool is_bounded_by(const Lowered::Operand& operand, const Lowered::Operand& mask);

/// Which of the masks among the operands say where an operand's elements exist, and which operands are indices of
/// others. Empty where all exist where they lie. `names` are the operands'.
std::vector<ir::Bounds> bounds_of(const std::vector<Lowered::Operand>& operands, const std::vector<std::string>& names);

/// What cannot be read through a view, as errors that say so.
[[noreturn]] void refuse_outside(const std::string& text, const std::string& reduced);
[[noreturn]] void refuse_split(const std::string& of);
[[noreturn]] void refuse_random();
[[noreturn]] void refuse_merged(const std::string& text);
[[noreturn]] void refuse_joined(const std::string& text, const Dims& first, const Dims& second);
[[noreturn]] void refuse_behind_reduction(const std::string& text, const Dims& shape);
[[noreturn]] void refuse_slices(const std::string& result, std::size_t most);
[[noreturn]] void refuse_slice(const std::string& result, const Dims& shape, const Dims& other);
[[noreturn]] void refuse_shape(const std::string& result, const Dims& shape, const Dims& operands);
[[noreturn]] void refuse_repeated(const std::string& text, const Dims& shape);

}  // namespace epifuse::plan
