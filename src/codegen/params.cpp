// The list of fields, and their values as bytes.
#include "codegen/params.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "base/text.hpp"
#include "codegen/emit.hpp"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;
using plan::Schedule;

constexpr std::string_view kDivisor = "_divisor";

// Appends values as a C compiler lays out a struct: each at a multiple of its size.
class Packer {
 public:
  template <class T>
  void add(T value) {
    bytes_.resize((bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T));
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    bytes_.insert(bytes_.end(), first, first + sizeof(T));
    alignment_ = std::max(alignment_, sizeof(T));
  }
  std::vector<std::byte> take() {
    bytes_.resize((bytes_.size() + alignment_ - 1) / alignment_ * alignment_);
    return std::move(bytes_);
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t alignment_ = 1;
};

// The numbers of templates/index.cuh's Divisor: l = ceil(log2 d), m = ceil(2^(bits-1+l) / d).
template <class Word, class Double>
void add_divisor(Packer& packer, std::int64_t divisor) {
  const auto d = static_cast<Word>(divisor);
  const auto shift = static_cast<Word>(std::bit_width(static_cast<Word>(d - 1)));
  const Double numerator = Double{1} << (sizeof(Word) * 8 - 1 + shift);
  packer.add(static_cast<Word>((numerator + d - 1) / d));
  packer.add(shift);
}

__extension__ using Wide = unsigned __int128;

class ParameterPacker {
 public:
  ParameterPacker(const plan::Plan& plan, std::span<const double> scalars, const void* workspace)
      : plan_(plan), scalars_(scalars), workspace_(workspace) {}

  void add(const Field& field) {
    const auto& space = plan_.space;
    switch (field.kind) {
      case FieldKind::input_pointer:
        return packer_.add(space.inputs[field.operand].data);
      case FieldKind::output_pointer:
        return packer_.add(space.outputs[field.operand].data);
      case FieldKind::strides:
        for (int d = 0; d < plan_.kernel_class.coordinates; ++d) {
          index((field.of_output ? space.outputs : space.inputs)[field.operand].strides[static_cast<std::size_t>(d)]);
        }
        return;
      case FieldKind::workspace:
        return packer_.add(static_cast<const void*>(static_cast<const std::byte*>(workspace_) + offset_of(field.name)));
      case FieldKind::scalar:
        return plan_.kernel_class.f64 ? packer_.add(scalars_[field.operand])
                                      : packer_.add(static_cast<float>(scalars_[field.operand]));
      case FieldKind::index:
        return index(index_value(field.name));
      case FieldKind::divisor:
        return divisor(index_value(std::string_view(field.name).substr(0, field.name.size() - kDivisor.size())));
      case FieldKind::extents_and_divisors:
        for (const std::int64_t extent : space.extents) index(extent);
        for (const std::int64_t extent : space.extents) divisor(extent);
        return;
    }
  }

  std::vector<std::byte> take() { return packer_.take(); }

 private:
  std::int64_t index_value(std::string_view name) const {
    const std::array<std::pair<std::string_view, std::int64_t>, 13> values = {
        {{kTilesField, plan_.tiles},
         {kElementsField, plan_.space.elements},
         {kGroupsField, plan_.groups},
         {kGroupsPerRowField, plan_.groups_per_row},
         {kRowsField, plan_.rows},
         {kRowLengthField, plan_.row_length},
         {kRowColumnsField, plan_.row_columns},
         {kColumnTilesField, plan_.column_tiles},
         {kChunksField, plan_.chunks},
         {kRoundsField, plan_.rounds},
         {kLagField, plan_.lag},
         {kRowsPerGroupField, plan_.rows_per_group},
         {kPartsField, plan_.parts}}};
    return std::ranges::find(values, name, &std::pair<std::string_view, std::int64_t>::first)->second;
  }
  std::size_t offset_of(std::string_view name) const {
    return std::ranges::find(plan_.workspace.parts, name, &plan::Workspace::Part::name)->offset;
  }
  void index(std::int64_t value) {
    plan_.kernel_class.wide_index ? packer_.add(value) : packer_.add(static_cast<std::int32_t>(value));
  }
  void divisor(std::int64_t value) {
    value = std::max<std::int64_t>(value, 1);  // of an empty row nothing is located
    plan_.kernel_class.wide_index ? add_divisor<std::uint64_t, Wide>(packer_, value)
                                  : add_divisor<std::uint32_t, std::uint64_t>(packer_, value);
  }

  const plan::Plan& plan_;
  std::span<const double> scalars_;
  const void* workspace_;
  Packer packer_;
};

void add_operand(std::vector<Field>& fields, const OperandPlan& operand, const std::string& name, std::size_t i,
                 bool is_output, int coordinates) {
  if (operand.access == Access::unused) return;
  fields.push_back({is_output ? FieldKind::output_pointer : FieldKind::input_pointer,
                    fmt::format("{}{}*", is_output ? "" : "const ",
                                operand.dtype == DType::boolean ? "boolean" : to_string(operand.dtype)),
                    name, std::string(to_string(operand.access)), i, is_output});
  if (operand.is_gathered()) {
    // A prefix, not a suffix: operands may be named x and x_strides.
    fields.push_back({FieldKind::strides, "Index", fmt::format("strides_{}[{}]", name, coordinates), "", i, is_output});
  }
}

}  // namespace

std::string input_name(const ir::Program& program, std::size_t i) { return "in_" + program.inputs()[i]; }

std::string output_name(const ir::Program& program, std::size_t i) {
  const std::string& name = program.results()[i].name;
  // "out0" cannot collide with "out_…".
  return !name.empty() ? "out_" + name : program.results().size() == 1 ? "out" : fmt::format("out{}", i);
}

std::string scalar_name(const ir::Program& program, std::size_t i) { return "scalar_" + program.scalars()[i]; }

std::vector<Field> parameter_fields(const ir::Program& program, const KernelClass& kernel) {
  std::vector<Field> fields;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    add_operand(fields, kernel.inputs[i], input_name(program, i), i, false, kernel.coordinates);
  }
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    add_operand(fields, kernel.outputs[i], output_name(program, i), i, true, kernel.coordinates);
  }
  for (std::size_t i = 0; i < program.scalars().size(); ++i) {
    fields.push_back({FieldKind::scalar, "Real", scalar_name(program, i), "run-time scalar", i, false});
  }
  if (kernel.coordinates > 0) {
    fields.push_back({FieldKind::extents_and_divisors, "Space", "space", "extents of the iteration space", 0, false});
  }
  const auto index = [&](const char* name, const char* comment) {
    fields.push_back({FieldKind::index, "Index", name, comment, 0, false});
  };
  if (kernel.rows) {
    index(kRowsField, "kept elements outside of rows");
    index(kRowLengthField, "elements of a row");
    if (!kernel.rows->along) {
      fields.push_back({FieldKind::divisor, "Divisor", "column_tiles_divisor", "", 0, false});
      index(kColumnTilesField, "blocks side by side");
      index(kRowColumnsField, "rows side by side");
    }
    const auto workspace = [&](const std::string& name, const char* type, const char* comment) {
      fields.push_back({FieldKind::workspace, type, name, comment, 0, false});
    };
    if (kernel.schedule == Schedule::loop) index(kChunksField, "rounds of a walk");
    if (kernel.schedule == Schedule::split) {
      index(kTilesField, "blocks' worth of rows");
      index(kChunksField, "blocks that share a row");
      index(kRoundsField, "of a block over its chunk");
      index(kLagField, "tiles between one walk and the next");
      workspace("signals", "unsigned*", "ticket; arrivals and flag of each tile and walk");
      for (int level = 1; level <= kernel.rows->structure.levels; ++level) {
        workspace(fmt::format("partials_{}", level), "Real*", "of each chunk");
        workspace(fmt::format("finals_{}", level), "Real*", "of each row");
      }
    }
    if (kernel.rows->structure.across != 0) {
      index(kRowsPerGroupField, "rows that a result across rows combines");
      index(kPartsField, "blocks that contribute to it");
      if (kernel.rows->shares_across) {
        workspace("across_arrivals", "unsigned*", "");
        workspace("across_parts", "Real*", "");
      }
    }
    return fields;
  }
  if (kernel.schedule == Schedule::rows) {
    fields.push_back({FieldKind::divisor, "Divisor", "groups_per_row_divisor", "", 0, false});
    fields.push_back({FieldKind::index, "Index", kGroupsPerRowField, "groups of kElements in one row", 0, false});
    fields.push_back({FieldKind::index, "Index", kGroupsField, "in all rows", 0, false});
  } else {
    fields.push_back({FieldKind::index, "Index", kElementsField, "in all", 0, false});
  }
  fields.push_back({FieldKind::index, "Index", kTilesField, "blocks' worth of work", 0, false});
  return fields;
}

std::vector<std::byte> pack(const ir::Program& program, const plan::Plan& plan, std::span<const double> scalars,
                            const void* workspace) {
  ParameterPacker packer(plan, scalars, workspace);
  for (const Field& field : parameter_fields(program, plan.kernel_class)) packer.add(field);
  return packer.take();
}

}  // namespace epifuse::codegen
