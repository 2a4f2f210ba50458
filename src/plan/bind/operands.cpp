// Names of operands: what is read in the same way is one operand.
#include "plan/bind/operands.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "plan/bind/bounds.hpp"
#include "plan/bind/shapes.hpp"

namespace epifuse::plan {
namespace {

// Of one element any stride will do.
bool has_strides(const Lowered::Operand& read, const Dims& strides) {
  for (int d = 0; d < read.shape.size(); ++d) {
    if (read.shape[d] != 1 && read.strides[d] != strides[d]) return false;
  }
  return true;
}

// What is read through `steps`, for an error of a reshape: the reshape as the chain has it, if it stands there.
std::string reshape_text(const ir::Program& program, const std::string& own, const Dims& shape, const Steps& steps) {
  for (const ir::Node& node : program.nodes()) {
    const ir::View* const view = program.view_of(node);
    if (view == nullptr || view->kind != ir::View::Kind::reshape) continue;
    const auto is_size = [](std::int64_t extent, std::int64_t size) { return size == -1 || size == extent; };
    const bool is_step = std::ranges::any_of(steps, [&](const ViewStep& step) {
      const auto* const made = std::get_if<Dims>(&step);
      return made != nullptr && std::ranges::equal(*made, view->numbers, is_size);
    });
    if (is_step) return plan::text_of(program, node);
  }
  return plan::text_of(own, shape, steps);
}

}  // namespace

Reading read_through(const ir::Program& program, std::span<const TensorView> inputs, std::size_t ordinal,
                     const Steps& steps) {
  const TensorView& input = inputs[ordinal];
  const std::string& own = program.inputs()[ordinal];
  Strided strided;
  for (int d = 0; d < input.shape.size(); ++d) strided.dimensions.push_back({input.shape[d], input.strides[d], false});
  if (!follow(strided, steps)) {
    if (!std::ranges::all_of(strided.dimensions, &Strided::Dimension::is_plain)) refuse_split(own);
    if (!strided.gathers.empty()) refuse_merged(text_of(own, input.shape, steps));
    base::fail(ErrorCode::unsupported,
               "'{}' would copy: operand '{}' has the shape {} and the strides {}, which no strides in the new shape "
               "describe. Reshape a contiguous tensor, or pass it reshaped",
               reshape_text(program, own, input.shape, steps), own, to_string(input.shape), to_string(input.strides));
  }
  Lowered::Operand read{ordinal, 0, {}, {}, {}};
  for (const Strided::Dimension& d : strided.dimensions) {
    // Of what an index says where it is read, the index is bounded. The one element of a dimension that broadcasts may
    // be read wherever the view stands, if it exists.
    // In windows that step outside, what else bounds an element is asked where the view stands.
    const bool is_of_windows = d.windows != Strided::Dimension::kNone;
    const bool is_bounded = d.bounded && !d.indexed && (!d.broadcast || d.count == 0) && !is_of_windows;
    if (is_bounded) strided.offset += d.first * d.stride;
    if (is_bounded) read.within.push_back({read.shape.size(), d.first, d.count});
    if (d.period != 0 && !d.broadcast) {
      strided.offset -= d.before * d.stride;
      read.wraps.push_back({read.shape.size(), d.period, d.before, d.wraps_at()});
    }
    read.shape.push_back(d.broadcast || d.indexed ? 1 : d.extent);
    read.strides.push_back(d.stride);
  }
  for (const auto& [within, are_all, windows] : strided.within_windows()) {
    const Strided::Dimension& outer = strided.dimensions[static_cast<std::size_t>(within.dimension)];
    if (outer.broadcast || outer.indexed) continue;
    strided.offset += within.first * (read.strides[within.inner] / within.inner_step);
    read.within.push_back(within);
  }
  read.text = text_of(own, input.shape, steps);
  const bool is_elsewhere =
      !strided.gathers.empty() || !std::ranges::all_of(strided.dimensions, &Strided::Dimension::is_plain);
  if (is_packed(input.dtype) && (is_elsewhere || strided.offset % 2 != 0)) {
    base::fail(
        ErrorCode::unsupported,
        "'{}' reads single elements of operand '{}', but a byte holds two of the type {}. Rows can be taken of it, "
        "and it can be reshaped; convert it in a launch of its own for anything else",
        read.text, own, to_string(input.dtype));
  }
  if (!strided.is_all_outside) read.offset = size_of(input.dtype, strided.offset);
  return {std::move(read), std::move(strided)};
}

bool OperandTable::is_unchanged(const Lowered::Operand& read) const {
  const TensorView& input = inputs_[read.input];
  return read.within.empty() && read.wraps.empty() && read.gathers.empty() && read.offset == 0 &&
         read.shape == input.shape && has_strides(read, input.strides);
}

std::string OperandTable::name_of(const Lowered::Operand& read) {
  static const std::string kMask = "inside";
  for (const auto& [name, known] : operands_) {
    if (known.input == read.input && known.offset == read.offset && known.shape == read.shape &&
        has_strides(read, known.strides) && known.within == read.within && known.wraps == read.wraps &&
        known.is_mask == read.is_mask && known.gathers == read.gathers && known.is_index == read.is_index)
      return name;
  }
  const std::string& own = read.is_mask ? kMask : program_.inputs()[read.input];
  if (is_unchanged(read) && find(own) == nullptr) {
    Lowered::Operand unchanged = read;
    unchanged.strides = inputs_[read.input].strides;
    unchanged.text = own;
    operands_.emplace_back(own, unchanged);
    return own;
  }
  std::string name;
  int next = 0;
  do name = fmt::format("{}_{}", own.substr(0, ir::kMaxNameLength - 8), next++);
  while (is_taken(name));
  operands_.emplace_back(name, read);
  return name;
}

bool OperandTable::is_taken(const std::string& name) const {
  return std::ranges::find(program_.inputs(), name) != program_.inputs().end() ||
         std::ranges::find(program_.scalars(), name) != program_.scalars().end() ||
         std::ranges::find(program_.results(), name, &ir::Result::name) != program_.results().end() ||
         find(name) != nullptr;
}

const Lowered::Operand* OperandTable::find(const std::string& name) const {
  const auto it = std::ranges::find_if(operands_, [&](const auto& entry) { return entry.first == name; });
  return it == operands_.end() ? nullptr : &it->second;
}

std::vector<std::string> OperandTable::masks() {
  std::vector<Lowered::Operand> masks;
  for (const auto& [name, operand] : operands_) {
    if (operand.is_mask) continue;
    for (const Lowered::Operand::Within& within : operand.within) {
      masks.push_back(mask_of(operand.shape, within));
    }
  }
  std::vector<std::string> names;
  for (const Lowered::Operand& mask : masks) names.push_back(name_of(mask));
  return names;
}

Dims OperandTable::broadcast() const {
  Dims all;
  for (const auto& [name, operand] : operands_) join(all, operand.shape);
  return all;
}

}  // namespace epifuse::plan
