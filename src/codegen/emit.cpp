// The source of a kernel: who writes it, by what the class is, and what the kernel is called. Nothing in this folder decides anything: the plan
// did.
#include "codegen/emit.hpp"

#include <algorithm>

#include <spdlog/fmt/fmt.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/pointwise/pointwise.hpp"
#include "codegen/reduction/reduction.hpp"
#include "codegen/select.hpp"

namespace epifuse::codegen {
namespace {

// The same in every build.
std::uint32_t hash_of(std::string_view text, const ir::Fingerprint& chain) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(text.data(), text.size(), chain.low ^ chain.high) >> 40);
}

// What computes something: neither operands and numbers nor what only gives a value another shape.
bool is_operation(ir::Op op) { return op > ir::Op::count && !ir::is_movement(op); }

}  // namespace

std::string kernel_name(const ir::Program& program, const plan::KernelClass& kernel_class) {
  constexpr std::size_t kOperations = 3;
  std::string name = fmt::format("epifuse_{}", kernel_class.schedule());
  std::vector<ir::Op> named;
  for (const ir::Node& node : program.nodes()) {
    if (!is_operation(node.op) || named.size() == kOperations || std::ranges::find(named, node.op) != named.end())
      continue;
    named.push_back(node.op);
    name += fmt::format("_{}", ir::name_of(node.op));
  }
  if (!kernel_class.inputs.empty()) name += fmt::format("_{}", to_string(kernel_class.inputs[0].dtype));
  if (!kernel_class.outputs.empty()) name += fmt::format("_{}", to_string(kernel_class.outputs[0].dtype));
  return name + fmt::format("_{:06x}", hash_of(plan::to_text(kernel_class), program.code_fingerprint()));
}

std::string draft(const ir::Program& program, const plan::KernelClass& kernel_class,
                  const std::vector<ir::Kind>& input_kinds) {
  std::string source = kernel_class.reduction() != nullptr ? emit_reduction(program, kernel_class, input_kinds)
                                                           : emit_pointwise(program, kernel_class, input_kinds);
  source = selected(source);
  // The entry point stands last. An operand of that name stands in a comment before it.
  const std::string_view placeholder = kKernelName;
  return source.replace(source.rfind(placeholder), placeholder.size(), kernel_name(program, kernel_class));
}

std::string emit(const ir::Program& program, const plan::KernelClass& kernel_class,
                 const std::vector<ir::Kind>& input_kinds, Compilers compilers) {
  return made_lean(draft(program, kernel_class, input_kinds), kernel_name(program, kernel_class), compilers);
}

}  // namespace epifuse::codegen
