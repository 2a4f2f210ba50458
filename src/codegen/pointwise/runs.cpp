// A run is an array of what stands side by side. Numbers are made of it once, in an array that begins with what stands
// before the run and ends with what stands behind it; each view takes every so-manieth of them.
#include "codegen/pointwise/runs.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#include "codegen/chain.hpp"
#include "codegen/params.hpp"

namespace epifuse::codegen {
namespace {

using plan::BesideRun;
using plan::KernelClass;

int before(const std::vector<BesideRun>& beside) {
  int first = 0;
  for (const BesideRun& one : beside) first = std::min(first, one.at);
  return -first;
}

int behind(const std::vector<BesideRun>& beside, int length) {
  int end = length;
  for (const BesideRun& one : beside) end = std::max(end, one.at + 1);
  return end - length;
}

int length_of(const KernelClass& kernel, std::size_t reader) {
  return kernel.inputs[reader].run->step * kernel.elements;
}

bool is_along_rows(const KernelClass& kernel, int mask) {
  return kernel.inputs[static_cast<std::size_t>(mask)].moves_along(kernel.coordinates - 1);
}

// Without those masks that only say where rows end: elements of the run are inside.
std::string row_exists(const ir::Program& program, const KernelClass& kernel, std::size_t input,
                       const OffsetText& offset) {
  return exists(program, input, offset, " & ", [&](int mask) { return !is_along_rows(kernel, mask); });
}

// Whether a mask says where its rows end.
bool ends_with_rows(const ir::Program& program, const KernelClass& kernel, std::size_t input) {
  const auto is_along = [&](int mask) { return is_along_rows(kernel, mask); };
  return !program.bounds().empty() && std::ranges::any_of(program.bounds()[input].by, is_along);
}

// Whether what stands beside a run exists. Along rows that is asked of the vector: all but the first have something
// before them, and all but the last something behind, where a mask says so at all.
std::string beside_exists(const ir::Program& program, const KernelClass& kernel, const BesideRun& beside,
                          const OffsetText& offset) {
  const auto input = static_cast<std::size_t>(beside.input);
  const std::string row = row_exists(program, kernel, input, offset);
  if (!ends_with_rows(program, kernel, input)) return row;
  return (row.empty() ? "" : row + " & ") + (beside.at < 0 ? "!is_first(position, p)" : "!is_last(position, p)");
}

// Whether another run's address is a distance from this one's.
bool is_base(const KernelClass& kernel, std::size_t reader) {
  const auto has_it = [&](const plan::OperandPlan& other) {
    return other.access == plan::Access::run && other.run->base == static_cast<int>(reader) &&
           other.run->reader != other.run->base;
  };
  return std::ranges::any_of(kernel.inputs, has_it);
}

// Where a vector's run begins.
std::string address_of_run(const ir::Program& program, const KernelClass& kernel, std::size_t reader,
                           const OffsetText& offset, std::string_view indent) {
  const auto base = static_cast<std::size_t>(kernel.inputs[reader].run->base);
  const std::string name = input_name(program, reader);
  const std::string at = base == reader ? fmt::format("p.{} + ({})", name, existing_offset(program, reader, offset))
                                        : fmt::format("from_{} + p.distance_{}", input_name(program, base), name);
  return fmt::format("{}const {}* const from_{} = {};\n", indent, storage_type(kernel.inputs[reader].dtype), name, at);
}

}  // namespace

void require_run(const ir::Program& program, const KernelClass& kernel, std::size_t reader, Prelude& prelude) {
  const bool may_lack = !row_exists(program, kernel, reader, offset_at(program, kernel, "")).empty();
  prelude.require(may_lack ? "load_run_if" : "load_run");
  if (!beside_run(kernel, reader).empty()) prelude.require("beside");
}

bool asks_column(const ir::Program& program, const KernelClass& kernel) {
  for (std::size_t reader = 0; reader < kernel.inputs.size(); ++reader) {
    if (kernel.inputs[reader].access != plan::Access::run) continue;
    const auto asks = [&](const BesideRun& one) {
      return ends_with_rows(program, kernel, static_cast<std::size_t>(one.input));
    };
    if (std::ranges::any_of(beside_run(kernel, reader), asks)) return true;
  }
  return false;
}

std::string addresses_of_bases(const ir::Program& program, const KernelClass& kernel, const OffsetText& offset,
                               std::string_view indent) {
  std::string out;
  for (std::size_t base = 0; base < kernel.inputs.size(); ++base) {
    if (is_base(kernel, base)) out += address_of_run(program, kernel, base, offset, indent);
  }
  return out;
}

std::string held_run(const ir::Program& program, const KernelClass& kernel, std::size_t reader) {
  const std::string name = input_name(program, reader);
  const std::string_view type = storage_type(kernel.inputs[reader].dtype);
  const auto beside = beside_run(kernel, reader);
  std::string out = fmt::format("  alignas(16) {} run_{}[{}];\n", type, name, length_of(kernel, reader));
  if (!beside.empty()) out += fmt::format("  {} beside_{}[{}];\n", type, name, beside.size());
  return out;
}

std::string load_run(const ir::Program& program, const KernelClass& kernel, std::size_t reader,
                     const OffsetText& offset, std::string_view indent) {
  const plan::OperandPlan& operand = kernel.inputs[reader];
  const std::string name = input_name(program, reader);
  const std::string run_exists = row_exists(program, kernel, reader, offset);
  std::string out = is_base(kernel, reader) ? "" : address_of_run(program, kernel, reader, offset, indent);
  out += fmt::format("{}load_run{}<{}>(run_{}, from_{}{});\n", indent, run_exists.empty() ? "" : "_if", operand.width,
                     name, name, run_exists.empty() ? "" : ", " + run_exists);
  const auto beside = beside_run(kernel, reader);
  for (std::size_t k = 0; k < beside.size(); ++k) {
    const std::string one_exists = beside_exists(program, kernel, beside[k], offset);
    out += one_exists.empty() ? fmt::format("{0}beside_{1}[{2}] = from_{1}[{3}];\n", indent, name, k, beside[k].at)
                              : fmt::format("{0}beside_{1}[{2}] = read_if({4}, from_{1}, {3});\n", indent, name, k,
                                            beside[k].at, one_exists);
  }
  return out;
}

std::string numbers_of_run(const ir::Program& program, const KernelClass& kernel, std::size_t reader,
                           std::string_view type, std::string_view indent) {
  const std::string name = input_name(program, reader);
  const auto beside = beside_run(kernel, reader);
  const int length = length_of(kernel, reader);
  const int first = before(beside);
  std::string out = fmt::format("{}{} numbers_{}[{}];\n", indent, type, name, first + length + behind(beside, length));
  if (has_bytes(kernel)) {
    out += fmt::format(
        "#pragma unroll\n{0}for (int i = 0; i < {1}; i += 2) to_reals<2>(run_{2} + i, numbers_{2} + i + {3});\n",
        indent, length, name, first);
  } else {
    out += fmt::format(
        "#pragma unroll\n{0}for (int i = 0; i < {1}; ++i) numbers_{2}[i + {3}] = to_real<{4}>(run_{2}[i]);\n", indent,
        length, name, first, type);
  }
  for (std::size_t k = 0; k < beside.size(); ++k)
    out += fmt::format("{0}numbers_{1}[{2}] = to_real<{3}>(beside_{1}[{4}]);\n", indent, name, first + beside[k].at,
                       type, k);
  return out;
}

std::string written_run(const ir::Program& program, const KernelClass& kernel, std::size_t output) {
  const plan::OperandPlan& operand = kernel.outputs[output];
  return fmt::format("  alignas(16) {} run_{}[{}];\n", storage_type(operand.dtype), output_name(program, output),
                     operand.run->step * kernel.elements);
}

std::string place_of_result(const ir::Program& program, const KernelClass& kernel, std::size_t output,
                            std::string_view e) {
  const auto& run = kernel.outputs[output].run;
  if (!run) return fmt::format("{}[{}]", output_name(program, output), e);
  const std::string name = output_name(program, static_cast<std::size_t>(run->reader));
  return run->first == 0 ? fmt::format("run_{}[{} * {}]", name, run->step, e)
                         : fmt::format("run_{}[{} * {} + {}]", name, run->step, e, run->first);
}

std::string store_run(const ir::Program& program, const KernelClass& kernel, std::size_t output,
                      const OffsetText& offset, std::string_view indent) {
  const plan::OperandPlan& operand = kernel.outputs[output];
  const std::string name = output_name(program, output);
  return fmt::format("{0}store_run<{1}>(run_{2}, p.{2} + {3});\n", indent, operand.width, name, offset(name));
}

std::string number_in_run(const ir::Program& program, const KernelClass& kernel, std::size_t input,
                          std::string_view e) {
  const plan::RunOfViews& run = *kernel.inputs[input].run;
  const auto reader = static_cast<std::size_t>(run.reader);
  const int from = before(beside_run(kernel, reader)) + run.first;
  const std::string place = run.step == 1 ? std::string(e) : fmt::format("{} * ({})", run.step, e);
  return fmt::format("numbers_{}[{}{}]", input_name(program, reader), place,
                     from == 0 ? "" : fmt::format(" + {}", from));
}

}  // namespace epifuse::codegen
