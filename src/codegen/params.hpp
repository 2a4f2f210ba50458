// The kernel's parameter struct, described once: the same list of fields is printed into the source and packed at launch, so that the
// two cannot disagree.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// What a field holds; who fills it in knows its size from here.
enum class FieldKind {
  input_pointer,
  output_pointer,
  strides,
  scalar,
  index,
  divisor,
  extents_and_divisors,
  workspace
};

struct Field {
  FieldKind kind;
  std::string type;  ///< as in C, for example "const f16*"
  std::string name;  ///< with array bounds, for example "strides_in_x[3]"
  std::string comment;
  std::size_t operand = 0;  ///< which input, output or scalar
  bool of_output = false;   ///< of strides
};

/// Names of operands in the source. User names get a prefix: whatever they are, they meet no keyword, macro or name of the prelude.
std::string input_name(const ir::Program& program, std::size_t i);
std::string output_name(const ir::Program& program, std::size_t i);
std::string scalar_name(const ir::Program& program, std::size_t i);

/// Fields in the order of the struct. The names kElementsField … tell the plain index fields apart.
std::vector<Field> parameter_fields(const ir::Program& program, const plan::KernelClass& kernel_class);

inline constexpr const char* kTilesField = "tiles";
inline constexpr const char* kElementsField = "elements";
inline constexpr const char* kGroupsField = "groups";
inline constexpr const char* kGroupsPerRowField = "groups_per_row";
inline constexpr const char* kRowsField = "rows";
inline constexpr const char* kRowLengthField = "row_length";
inline constexpr const char* kRowColumnsField = "row_columns";
inline constexpr const char* kColumnTilesField = "column_tiles";
inline constexpr const char* kChunksField = "chunks";
inline constexpr const char* kRoundsField = "rounds";
inline constexpr const char* kLagField = "lag";
inline constexpr const char* kRowsPerGroupField = "rows_per_group";
inline constexpr const char* kPartsField = "parts";

}  // namespace epifuse::codegen
