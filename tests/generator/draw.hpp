// The parts of draw_program(): tensors (operands.cpp) and calls (draw.cpp).
#pragma once

#include "generator/program.hpp"
#include "support/random.hpp"

namespace epifuse::test {

/// The extents that a program's operands are made of.
Dims draw_frame(Random& random, Size size);
/// An operand's shape: all of the frame, a row, a column, one dimension, some of them, one element, no dimension.
Dims draw_operand_shape(Random& random, const Dims& frame);
/// Element type, any as likely as the next.
DType draw_any_type(Random& random);
/// Everything of the case but its chain: layouts, outputs, aliases, contents.
void draw_tensors(Random& random, Program& program, const std::vector<DType>& types, const std::vector<Dims>& shapes);

}  // namespace epifuse::test
