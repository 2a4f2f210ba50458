// The source of a kernel: who writes it, by what the class is. Nothing in this folder decides anything: the plan
// did.
#include "codegen/emit.hpp"

#include "codegen/pointwise/pointwise.hpp"
#include "codegen/reduction/reduction.hpp"
#include "codegen/select.hpp"

namespace epifuse::codegen {

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
