// One statement for each operand: of what lies side by side a wide access, of what does not a function of the templates
// that asks where each element lies.
#include "codegen/pointwise/accesses.hpp"

#include <algorithm>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "codegen/params.hpp"
#include "codegen/pointwise/runs.hpp"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;

// Whether all of its vectors move without a test.
bool is_always_wide(std::string_view way, const OperandPlan& operand) {
  return operand.moves != 0 && operand.access == Access::contiguous && (operand.aligned || way == "store");
}

}  // namespace

bool goes_by_row(const KernelClass& kernel) { return kernel.map<plan::Flat>() == nullptr; }

bool has_divisible_rows(const KernelClass& kernel) {
  return !goes_by_row(kernel) && kernel.map<plan::Flat>()->divisible_rows;
}

bool has_broken_vectors(const KernelClass& kernel) {
  return kernel.coordinates > 0 && kernel.elements > 1 && !has_divisible_rows(kernel) &&
         kernel.map<plan::Transpose>() == nullptr;
}

bool AccessWriter::has_one_way() const {
  const auto has_one = [&](const OperandPlan& operand) {
    return !plan::is_value(operand.access) || operand.access == Access::linear || operand.access == Access::uniform ||
           operand.access == Access::random_linear || is_read_by_runs(operand);
  };
  return has_wrapping() && std::ranges::all_of(kernel_.inputs, has_one);
}

// One whose vectors a block reads for a tile of results, which it transposes.
bool AccessWriter::is_transposed_input(const OperandPlan& operand) const {
  return kernel_.map<plan::Transpose>() != nullptr && operand.access == Access::contiguous;
}

// A vector by what exists of it: masks that step by 1, and what lies side by side.
bool AccessWriter::is_read_by_runs(const OperandPlan& operand) const {
  const auto steps_by_one = [&] {
    return !program_.bounds()[static_cast<std::size_t>(&operand - kernel_.inputs.begin())].is_of_windows;
  };
  return kernel_.elements > 1 && ((operand.access == Access::inside && steps_by_one()) ||
                                  (operand.access == Access::bounded && operand.width > 1));
}

bool AccessWriter::is_read_each(const OperandPlan& operand) const {
  return !is_read_by_runs(operand) &&
         (operand.access == Access::inside ||
          (operand.width == 1 && (operand.access == Access::bounded || operand.access == Access::gathered)));
}

// ---- sections

void AccessWriter::require_sections(Prelude& prelude) const {
  if (has_broken_vectors(kernel_)) prelude.require(goes_by_row(kernel_) ? "gather_by_row" : "gather_flat");
  for (const OperandPlan& operand : kernel_.inputs) require(operand, "load", prelude);
  for (const OperandPlan& operand : kernel_.outputs) require(operand, "store", prelude);
  require_places(program_, prelude);
}

void AccessWriter::require(const OperandPlan& operand, const char* way, Prelude& prelude) const {
  if (!plan::is_value(operand.access) || operand.access == Access::uniform) return;
  if (operand.access == Access::gathered) {
    prelude.require("bits");
    prelude.require("gathered");
    if (!is_read_each(operand) && has_broken_vectors(kernel_)) prelude.require(load_each());
  }
  if (operand.run && way == std::string_view("store")) {
    if (operand.access == Access::run) prelude.require("store_run");
    return;
  }
  if (operand.run) {
    const auto i = static_cast<std::size_t>(&operand - kernel_.inputs.begin());
    if (operand.access == Access::run) require_run(program_, kernel_, i, prelude);
    return;
  }
  if (is_read_by_runs(operand) || is_read_each(operand)) prelude.require("bounded");
  if (is_read_each(operand)) return prelude.require(load_each());
  if (operand.access == Access::random_strided && has_wrapping()) return prelude.require("load_random_wrapping");
  if (is_packed(operand.dtype)) return prelude.require("packed");
  if (operand.access == Access::linear || is_always_wide(way, operand)) return prelude.require("wide");
  if (operand.access == Access::row && !goes_by_row(kernel_)) return;  // the statement that loads it is generated
  prelude.require(
      fmt::format("{}_{}", way, is_transposed_input(operand) ? "transposed" : plan::to_string(operand.access)));
}

const char* AccessWriter::load_each() const {
  return goes_by_row(kernel_) && kernel_.map<plan::Transpose>() == nullptr ? "load_each_by_row" : "load_each";
}

// ---- text

std::string AccessWriter::alignment() const {
  std::vector<std::string> conditions;
  const auto add = [&](const OperandPlan& operand, const std::string& name) {
    if (operand.access != Access::contiguous || operand.width == 1) return;
    conditions.push_back(fmt::format("is_aligned<{}>(p.{} + {})", operand.width, name, offset_at("position.at")(name)));
  };
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) add(kernel_.inputs[i], input_name(program_, i));
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) add(kernel_.outputs[i], output_name(program_, i));
  const bool any = !conditions.empty();
  return fmt::format(
      "// Whether every wide access of the vector is aligned.\n__device__ __forceinline__ bool is_aligned(const "
      "Params&{}, const Position&{}) {{\n"
      "  return {};\n}}\n\n",
      any ? " p" : "", any ? " position" : "",
      any ? fmt::format("{}", fmt::join(conditions, " &&\n         ")) : "true");
}

std::string AccessWriter::load(std::size_t i, std::string_view indent) const {
  const OperandPlan& operand = kernel_.inputs[i];
  const std::string name = input_name(program_, i);
  if (operand.access == Access::run) return load_run(program_, kernel_, i, offset_at("position.at"), indent);
  if (is_read_by_runs(operand)) return read_by_runs(i, name, indent);
  if (is_read_each(operand)) return read_each(i, name, indent);
  if (operand.access == Access::gathered) return read_rows(i, name, indent);
  return access("load", operand, name, indent, "p." + name);
}

std::string AccessWriter::store(std::size_t i, std::string_view indent) const {
  if (kernel_.outputs[i].run) return store_run(program_, kernel_, i, offset_at("position.at"), indent);
  return written_at(program_, kernel_, i, offset_at("position.at"), "", indent, [&](const std::string& base) {
    return access("store", kernel_.outputs[i], output_name(program_, i), "", base);
  });
}

// The statement that loads or stores an operand's vector.
std::string AccessWriter::access(std::string_view way, const OperandPlan& operand, const std::string& name,
                                 std::string_view indent, const std::string& base) const {
  const bool hoisted = operand.access == Access::hoisted;
  if (plan::is_random(operand.access)) return std::string(indent) + draw(operand, name);
  if (operand.access == Access::position)
    return fmt::format("{}load_position<{}>({}, {}, position, p.space);\n", indent, full(), name, strides(name));
  if (is_transposed_input(operand))
    return fmt::format("{0}load_transposed<{1}>({2}, p.{2}, {3}, position);\n", indent, operand.width, name,
                       strides(name));
  if (is_packed(operand.dtype))
    return fmt::format("{0}{1}_packed({2}, p.{2} + {3} / 2);\n", indent, way, name,
                       packed_offset(operand, name, "position", offset_at("position.at")));
  if (operand.access == Access::linear || is_always_wide(way, operand)) {
    const char* const pattern = has_bytes(kernel_) ? "{0}{1}_wide<{2}>({3}, {4} + {5});\n"
                                : way == "load"    ? "{0}copy_wide<{2}>({3}, {4} + {5});\n"
                                                   : "{0}copy_wide<{2}>({4} + {5}, {3});\n";
    return fmt::format(fmt::runtime(pattern), indent, way, operand.width, name, base,
                       operand.access == Access::linear ? "position.linear" : offset_at("position.at")(name));
  }
  if (operand.access == Access::row && !goes_by_row(kernel_)) {
    // One value for all of a full vector: what the chain makes of it alone is computed once.
    const std::string one = fmt::format("{0}[0] = p.{0}[{1}];\n", name, offset_at("position.at")(name));
    if (!has_broken_vectors(kernel_)) return std::string(indent) + one;
    return fmt::format(
        "{0}if constexpr (kFullVector) {{\n{0}  {1}{0}}} else {{\n"
        "{0}  each_element(position, {3}, p.space, [&](int e, Index offset) {{ {2}[e] = p.{2}[offset]; "
        "}});\n{0}}}\n",
        indent, one, name, strides(name));
  }
  std::string parameters;
  if (plan::is_streamed(operand.access) || hoisted) parameters = fmt::format("{}", operand.width);
  if (operand.access == Access::contiguous) parameters += ", ";
  if (!hoisted) parameters += full();
  if (way == "load" && operand.access == Access::contiguous)
    parameters += goes_by_row(kernel_) || operand.aligned ? ", true" : ", false";
  std::string out =
      fmt::format("{}{}_{}<{}>({}, {}", indent, way, plan::to_string(operand.access), parameters, name, base);
  if (operand.is_gathered()) out += ", " + strides(name);
  out += ", position";
  if (operand.is_gathered() && way == "load" && !hoisted) out += ", p.space";
  return out + ");\n";
}

// What need not exist, at the coordinates of each element.
std::string AccessWriter::read_each(std::size_t i, const std::string& name, std::string_view indent) const {
  return fmt::format("{}load_each<{}>({}, position, p.space, [&](const Index (&at)[kCoordinates]) {{ return {}; }});\n",
                     indent, full(), name, element_of(program_, kernel_, i, offset_at("at")));
}

// Which elements of a vector exist; or what need not exist, or is rolled, and is contiguous otherwise.
std::string AccessWriter::read_by_runs(std::size_t i, const std::string& name, std::string_view indent) const {
  const std::string load =
      kernel_.inputs[i].access == Access::inside
          ? fmt::format("load_inside<{}>({}", full(), name)
          : fmt::format("load_bounded<{0}, {1}>({2}, p.{2}", kernel_.inputs[i].width, full(), name);
  return fmt::format("{}{}, position, p.space, [&](const Index (&at)[kCoordinates]) {{ return {}; }});\n", indent, load,
                     run_at(program_, kernel_, i, offset_at("at")));
}

// What has one index for all of a vector.
std::string AccessWriter::read_rows(std::size_t i, const std::string& name, std::string_view indent) const {
  const OperandPlan& operand = kernel_.inputs[i];
  return fmt::format(
      "{0}load_gathered<{1}, {2}>({3}, {6}, position, p.space, {4}, [&](const Index (&at)[kCoordinates]) {{ "
      "return {5}; }});\n",
      indent, operand.width, full(), name, codegen::out_of_range(operand), row_of(program_, i, offset_at("at")),
      strides(name));
}

// Only vectors of the flat schedule may cross into the next row.
std::string AccessWriter::draw(const OperandPlan& operand, const std::string& name) const {
  if (operand.access == Access::random_linear)
    return fmt::format("load_random_linear<{0}>({1}, p.{1}, position);\n", operand.width, name);
  return fmt::format("load_random_{0}<{1}{2}>({3}, p.{3}, {5}, position{4});\n",
                     has_wrapping() ? "wrapping" : "strided", operand.width, has_wrapping() ? ", kFullVector" : "",
                     name, has_wrapping() ? ", p.space" : "", strides(name));
}

}  // namespace epifuse::codegen
