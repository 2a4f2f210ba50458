// Where operands lie: the text of an element's offset, of whether it exists, and of the element itself. For all
// emitters.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "ir/program.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

class Prelude;

/// Writes the offset of an operand's element, by the operand's name.
using OffsetText = std::function<std::string(std::string_view name)>;
/// The parameter that has the strides of the operand of that name: "p.strides_x", its own, or that of another one which
/// has the same.
std::string strides_of(const ir::Program& program, const plan::KernelClass& kernel, std::string_view name);
/// Offsets at the coordinates, or quotients, that `at` stands for: "offset_of(at, p.strides_x)", or only the terms that
/// the plan knows of. Program and class outlive it.
OffsetText offset_at(const ir::Program& program, const plan::KernelClass& kernel, std::string_view at);
/// The offset of an element that lies in memory.
std::string existing_offset(const ir::Program& program, std::size_t i, const OffsetText& offset);
/// Of an input that is bounded: its origin for an element of that `offset`, counting what is added where rolled
/// dimensions begin again.
std::string origin_at(const ir::Program& program, std::size_t i, const OffsetText& offset);
/// Whether an element exists; empty for one that always does. With " & " between conditions there is no branch. Only
/// masks are asked for which `counts` is true, if it is given.
std::string exists(const ir::Program& program, std::size_t i, const OffsetText& offset, std::string_view joint = " && ",
                   const std::function<bool(int mask)>& counts = {});
/// Of an input that is bounded: how much exists of a vector. `offset` is of its first element.
std::string covered_at(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                       const OffsetText& offset);
/// Of an input that is bounded: which elements of a vector exist, and where they lie. Of a mask: which are inside.
/// `offset` is of the vector's first element.
std::string run_at(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                   const OffsetText& offset);
/// Where the vector of a packed operand begins, counted in elements. `offset` is of the vector's first one.
std::string packed_offset(const plan::OperandPlan& operand, std::string_view name, std::string_view position,
                          const OffsetText& offset);
/// An element of input i as emitted text: a position is the offset itself, and what is bounded is 0 where masks say so.
std::string element_of(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                       const OffsetText& offset);
/// Of an input that is read at indices: where the row begins in which the element lies.
std::string row_of(const ir::Program& program, std::size_t i, const OffsetText& offset);
/// The lines that write output i, which do nothing where an index says where and is out of range, and which also write
/// what pads tiles of scales. `write` gives the statement, of the text of where the output's elements begin.
/// `exists`: a condition under which there is an index to read, empty for always.
std::string written_at(const ir::Program& program, const plan::KernelClass& kernel, std::size_t i,
                       const OffsetText& offset, std::string_view exists, std::string_view indent,
                       const std::function<std::string(const std::string& base)>& write);
/// What an input has where an index is out of range: NaN, or 0 if it is no float.
std::string out_of_range(const plan::OperandPlan& operand);
/// What written_at() calls.
void require_places(const ir::Program& program, Prelude& prelude);
/// Whether an operand is rolled.
bool rolls(const ir::Program& program);

}  // namespace epifuse::codegen
