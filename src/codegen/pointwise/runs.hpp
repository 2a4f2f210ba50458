// The text of runs: memory that is read once for several views of a tensor (plan/pointwise/shared_views.cpp). For
// pointwise.cpp.
#pragma once

#include <string>

#include "codegen/offsets.hpp"
#include "codegen/prelude.hpp"

namespace epifuse::codegen {

/// What `reader` needs of the templates.
void require_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t reader, Prelude& prelude);
/// The variables that hold a run of a vector, and what of its views stands beside it.
std::string held_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t reader);
/// Whether some run asks where in its row a vector begins.
bool asks_column(const ir::Program& program, const plan::KernelClass& kernel);
/// Where runs of a vector begin from which others are a distance away. These statements come first.
std::string addresses_of_bases(const ir::Program& program, const plan::KernelClass& kernel, const OffsetText& offset,
                               std::string_view indent);
/// The statements that read them. `offset` is of the vector's first element.
std::string load_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t reader,
                     const OffsetText& offset, std::string_view indent);
/// The statements that make numbers of that type of them: once of what several views have.
std::string numbers_of_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t reader,
                           std::string_view type, std::string_view indent);
/// What a run of slices of a result is held in.
std::string written_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t output);
/// Where element `e`, as text, of a result's vector is held: in its run, or in an array of its own.
std::string place_of_result(const ir::Program& program, const plan::KernelClass& kernel, std::size_t output,
                            std::string_view e);
/// The statement that writes a run.
std::string store_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t output,
                      const OffsetText& offset, std::string_view indent);
/// Of a view that a run serves: its number in element `e` of the vector.
std::string number_in_run(const ir::Program& program, const plan::KernelClass& kernel, std::size_t input,
                          std::string_view e);

}  // namespace epifuse::codegen
