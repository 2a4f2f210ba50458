// The types that values have by default: PyTorch's promotion, by the rules of the tables of operations. For the API,
// which tells all front ends, and for the plan, which computes integers exactly.
#pragma once

#include <span>
#include <vector>

#include <epifuse/dtype.hpp>

#include "ir/program.hpp"

namespace epifuse::ir {

/// Of an operand. One without dimensions raises only the category of what it meets.
struct OperandType {
  DType dtype = DType::f32;
  int rank = 0;
};

Category category_of(DType type) noexcept;
/// bool, i64, f32: the type of a number of that category.
DType default_type(Category category) noexcept;
/// The type that two tensors' elements meet in: of types of two categories the higher one's; of two types of one the
/// smallest that holds both. PyTorch has no such type for float8 types; here they count as the other floats.
DType promoted(DType a, DType b) noexcept;

/// Of a product of matrices of these types: the promotion, but f32 of 8-bit floats and i32 of integers, in which sums
/// of so many terms fit.
DType type_of_product(DType left, DType right) noexcept;

/// By value.
std::vector<DType> value_types(const Program& program, std::span<const OperandType> operands);
/// By result.
std::vector<DType> result_types(const Program& program, std::span<const OperandType> operands);

}  // namespace epifuse::ir
