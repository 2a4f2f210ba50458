// Offsets are sums over coordinates, or what the kernel's offset_of() makes of these. Masks, rolled dimensions and
// indices of other operands add to them.
#include "codegen/offsets.hpp"

#include <algorithm>
#include <cstdlib>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "codegen/chain.hpp"
#include "codegen/params.hpp"
#include "codegen/prelude.hpp"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;

// Of that name.
const OperandPlan& operand_named(const ir::Program& program, const KernelClass& kernel, std::string_view name) {
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i)
    if (input_name(program, i) == name) return kernel.inputs[i];
  std::size_t i = 0;
  while (output_name(program, i) != name) ++i;
  return kernel.outputs[i];
}

// The offset as a sum over some dimensions, the innermost first.
template <class Counts>
std::string sum_over(const KernelClass& kernel, const OperandPlan& operand, std::string_view at,
                     const std::string& strides, const Counts& counts) {
  const bool has_unit_steps = operand.access == Access::contiguous ||
                              (operand.access == Access::run && operand.run->step == 1) ||
                              (operand.access == Access::gathered && operand.width > 1);
  std::vector<std::string> terms;
  for (int d = kernel.coordinates - 1; d >= 0; --d) {
    if (!counts(d)) continue;
    const bool is_unit = (has_unit_steps && d == kernel.coordinates - 1) || (operand.unit_step && terms.empty());
    terms.push_back(is_unit ? fmt::format("{}[{}]", at, d) : fmt::format("{0}[{1}] * {2}[{1}]", at, d, strides));
  }
  if (terms.empty()) return "0";
  return terms.size() == 1 ? terms[0] : fmt::format("({})", fmt::join(terms, " + "));
}

std::string is_inside(const ir::Program& program, std::size_t mask, const OffsetText& offset) {
  const std::string of = input_name(program, mask);
  return fmt::format("is_inside({}, p.inside_{})", offset(of), of);
}

// But for what is added where a rolled dimension begins again.
std::string unrolled_offset(const ir::Program& program, std::size_t i, const OffsetText& offset) {
  const std::string name = input_name(program, i);
  const bool has_origin =
      !program.bounds().empty() && (!program.bounds()[i].by.empty() || !program.bounds()[i].wraps.empty());
  return has_origin ? fmt::format("{} - p.origin_{}", offset(name), name) : offset(name);
}

// What is added, or with '-' taken away, where rolled dimensions begin again.
std::string rolled_terms(const ir::Program& program, std::size_t i, const OffsetText& offset, char sign) {
  std::string terms;
  const auto& wraps = program.bounds()[i].wraps;
  for (std::size_t k = 0; k < wraps.size(); ++k) {
    const std::string behind = is_inside(program, static_cast<std::size_t>(wraps[k].behind), offset);
    terms += fmt::format(" {} ({} ? p.wraps_{}[{}] : 0)", sign, behind, input_name(program, i), k);
  }
  return terms;
}

// Of a position that exists, so that nothing is negative.
std::string computed_index(const ir::Bounds::Repeat& repeat, const std::string& position) {
  std::string text = repeat.factor == 1 ? position : fmt::format("{} * {}", repeat.factor, position);
  if (repeat.shift != 0) text += fmt::format(" {} {}", repeat.shift < 0 ? '-' : '+', std::abs(repeat.shift));
  return fmt::format("({}) / {}", text, repeat.times);
}

}  // namespace

bool rolls(const ir::Program& program) {
  return std::ranges::any_of(program.bounds(), [](const ir::Bounds& bounds) { return !bounds.wraps.empty(); });
}

std::string strides_of(const ir::Program& program, const KernelClass& kernel, std::string_view name) {
  const OperandPlan& operand = operand_named(program, kernel, name);
  if (operand.strides_of == OperandPlan::kOwn) return fmt::format("p.strides_{}", name);
  const auto of = static_cast<std::size_t>(operand.strides_of);
  const std::size_t inputs = kernel.inputs.size();
  return "p.strides_" + (of < inputs ? input_name(program, of) : output_name(program, of - inputs));
}

OffsetText offset_at(const ir::Program& program, const KernelClass& kernel, std::string_view at) {
  return [&program, &kernel, at = std::string(at)](std::string_view name) {
    const OperandPlan& operand = operand_named(program, kernel, name);
    const std::string strides = strides_of(program, kernel, name);
    if (operand.per_row)
      return sum_over(kernel, operand, at, strides, [&](int d) { return d < kernel.reduction()->layout.outer; });
    if (operand.moves != 0)
      return sum_over(kernel, operand, at, strides, [&](int d) { return operand.moves_along(d); });
    return fmt::format("offset_of({}, {})", at, strides);
  };
}

std::string existing_offset(const ir::Program& program, std::size_t i, const OffsetText& offset) {
  const std::string text = unrolled_offset(program, i, offset);
  return program.bounds().empty() ? text : text + rolled_terms(program, i, offset, '+');
}

std::string origin_at(const ir::Program& program, std::size_t i, const OffsetText& offset) {
  return "p.origin_" + input_name(program, i) + rolled_terms(program, i, offset, '-');
}

std::string exists(const ir::Program& program, std::size_t i, const OffsetText& offset, std::string_view joint,
                   const std::function<bool(int mask)>& counts) {
  std::vector<std::string> conditions;
  if (program.bounds().empty()) return "";
  for (const int mask : program.bounds()[i].by)
    if (!counts || counts(mask)) conditions.push_back(is_inside(program, static_cast<std::size_t>(mask), offset));
  return fmt::format("{}", fmt::join(conditions, joint));
}

std::string covered_at(const ir::Program& program, const KernelClass& kernel, std::size_t i, const OffsetText& offset) {
  std::string all;
  const auto add = [&](int mask, std::string_view pattern) {
    const std::string name = input_name(program, static_cast<std::size_t>(mask));
    const std::string one = fmt::format("covered_by({}, (kElements - 1) * {}[kCoordinates - 1], p.inside_{})",
                                        offset(name), strides_of(program, kernel, name), name);
    const std::string whole = pattern.empty() ? one : fmt::format("{}({})", pattern, one);
    all = all.empty() ? whole : fmt::format("both({}, {})", all, whole);
  };
  for (const int by : program.bounds()[i].by) add(by, "");
  for (const ir::Bounds::Wrap& wrap : program.bounds()[i].wraps) add(wrap.behind, "uncut");
  return all;
}

std::string run_at(const ir::Program& program, const KernelClass& kernel, std::size_t i, const OffsetText& offset) {
  const std::string name = input_name(program, i);
  // Where the coordinates stand along the dimension of a mask, how far the next element is, and what is inside.
  const auto position = [&](std::size_t mask) {
    const std::string of = input_name(program, mask);
    return fmt::format("{}, {}[kCoordinates - 1], p.inside_{}", offset(of), strides_of(program, kernel, of), of);
  };
  if (program.bounds()[i].kind == ir::Bounds::Kind::inside) return fmt::format("within(run_from(0), {})", position(i));
  std::string run = fmt::format("run_from({})", unrolled_offset(program, i, offset));
  for (const int by : program.bounds()[i].by)
    run = fmt::format("within({}, {})", run, position(static_cast<std::size_t>(by)));
  const auto& wraps = program.bounds()[i].wraps;
  for (std::size_t k = 0; k < wraps.size(); ++k) {
    run = fmt::format("rolled({}, {}, p.wraps_{}[{}])", run, position(static_cast<std::size_t>(wraps[k].behind)), name,
                      k);
  }
  return run;
}

std::string packed_offset(const OperandPlan& operand, std::string_view name, std::string_view position,
                          const OffsetText& offset) {
  return operand.access == Access::linear ? fmt::format("{}.linear", position) : offset(name);
}

std::string row_of(const ir::Program& program, std::size_t i, const OffsetText& offset) {
  const std::string name = input_name(program, i);
  const ir::Bounds& bounds = program.bounds()[i];
  std::string row = "p." + name;
  for (std::size_t k = 0; k < bounds.gathers.size(); ++k) {
    const auto index = static_cast<std::size_t>(bounds.gathers[k].index);
    const ir::Bounds::Repeat& computed = bounds.gathers[k].computed;
    const std::string at = computed.exists() ? computed_index(computed, offset(input_name(program, index)))
                                             : fmt::format("p.{}[{}]", input_name(program, index),
                                                           existing_offset(program, index, offset));
    row = fmt::format("{}({}, {}, p.gathers_{}[{}])", k == 0 ? "row_at" : "row_within", row, at, name, k);
  }
  return bounds.by.empty() ? row : fmt::format("{} ? {} : nullptr", exists(program, i, offset), row);
}

namespace {

// A result whose places positions name: its element, and behind it what pads the tiles.
std::string written_in_tiles(const ir::Program& program, const OperandPlan& output, std::size_t i,
                             const OffsetText& offset, std::string_view exists, std::string_view indent,
                             const std::function<std::string(const std::string& base)>& write) {
  const ir::Scatter& scatter = *program.scatter_of(i);
  const std::string name = output_name(program, i);
  const std::string row = input_name(program, static_cast<std::size_t>(scatter.along.front().index));
  const std::string block = input_name(program, static_cast<std::size_t>(scatter.along.back().index));
  const std::string at = fmt::format("p.{}, {}, {}", name, offset(row), offset(block));
  std::string out = fmt::format("{0}{1}* const row_{2} = in_tiles({3}, p.gathers_{2});\n{0}{4}", indent,
                                storage_type(output.dtype), name, at, write("row_" + name));
  if (!output.pads) return out;
  out += fmt::format("{}{}pad_tiles({}, p.inside_{}[1], p.inside_{}[1], p.gathers_{});\n", indent,
                     exists.empty() ? "" : fmt::format("if ({}) ", exists), at, row, block, name);
  return out;
}

}  // namespace

std::string written_at(const ir::Program& program, const KernelClass& kernel, std::size_t i, const OffsetText& offset,
                       std::string_view exists, std::string_view indent,
                       const std::function<std::string(const std::string& base)>& write) {
  const std::string name = output_name(program, i);
  const ir::Scatter* const scatter = program.scatter_of(i);
  if (scatter == nullptr) return std::string(indent) + write("p." + name);
  const std::string_view type = storage_type(kernel.outputs[i].dtype);
  if (scatter->is_computed()) return written_in_tiles(program, kernel.outputs[i], i, offset, exists, indent, write);
  const auto index = static_cast<std::size_t>(scatter->along[0].index);
  const std::string row = fmt::format("row_at(p.{0}, p.{1}[{2}], p.gathers_{0}[0])", name, input_name(program, index),
                                      existing_offset(program, index, offset));
  const std::string base = "row_" + name;
  return fmt::format("{0}{1}* const {2} = {3};\n{0}if ({2} != nullptr) {4}", indent, type, base,
                     exists.empty() ? row : fmt::format("{} ? {} : nullptr", exists, row), write(base));
}

void require_places(const ir::Program& program, Prelude& prelude) {
  for (const ir::Scatter& scatter : program.scatters())
    if (scatter.exists()) prelude.require(scatter.is_computed() ? "scale_tiles" : "gathered");
}

std::string out_of_range(const OperandPlan& operand) {
  const std::string nan = "detail::from_bits(0x7fc00000u)";
  switch (operand.dtype) {
    case DType::f32:
      return nan;
    case DType::f64:
      return fmt::format("static_cast<double>({})", nan);
    default:
      return is_floating(operand.dtype) ? fmt::format("from_real<{}>({})", to_string(operand.dtype), nan)
                                        : fmt::format("{}{{}}", storage_type(operand.dtype));
  }
}

std::string element_of(const ir::Program& program, const KernelClass& kernel, std::size_t i, const OffsetText& offset) {
  const std::string name = input_name(program, i);
  switch (kernel.inputs[i].access) {
    case Access::position:
      return fmt::format("static_cast<i32>({})", offset(name));
    case Access::inside:
      return fmt::format("from_real<boolean>({})", is_inside(program, i, offset));
    case Access::bounded:
      if (program.bounds()[i].by.empty()) return fmt::format("p.{}[{}]", name, existing_offset(program, i, offset));
      return fmt::format("read_if({}, p.{}, {})", exists(program, i, offset), name,
                         existing_offset(program, i, offset));
    case Access::gathered:
      return fmt::format("read_at({}, {}, {})", row_of(program, i, offset), existing_offset(program, i, offset),
                         out_of_range(kernel.inputs[i]));
    default:
      return fmt::format("p.{}[{}]", name, offset(name));
  }
}

}  // namespace epifuse::codegen
