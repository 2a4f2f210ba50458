// Values that are read at indices: what of the table and of the index is read where such a value is read through a
// path. For lower.cpp.
#pragma once

#include <optional>
#include <string>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// Of an operation that reads at indices, the shapes of its arguments and of its value.
struct IndexedShapes {
  const Dims& table;
  const Dims& index;
  const Dims& result;
};

/// What the table is read through where the value is read through `then`. `text` is the index, as people write it.
Steps table_steps(const ir::Program& program, ir::Value value, const IndexedShapes& shapes, const std::string& text,
                  const Steps& then);

/// The same of the index, whose other dimensions broadcast.
Steps index_steps(const ir::Node& node, const IndexedShapes& shapes, const Steps& then);

/// Of an argument of that shape that broadcasts to the shape `all`, which is read through `steps`: where these only
/// read a dimension at indices in which the argument has one element, what it is read through. Its other dimensions
/// stay where they are, so that a reduction may stand before it.
std::optional<Steps> beside_index(const Steps& steps, const Dims& own, const Dims& all);

/// The shape of the result, of what is repeated too. Throws Error(invalid_argument) naming the operation.
Dims indexed_shape(const ir::Node& node, const Dims& table, const Dims& index);

/// The operand that an index of `reader` is, perhaps through views. Error(unsupported) where it is none.
ir::Value source_of_index(const ir::Program& program, const ir::Node& reader, ir::Value index);

/// The dimension of a value of so many along which an operation reads or writes at indices. Throws
/// Error(invalid_argument) where there is none.
int indexed_dimension(const ir::Node& node, int rank);
/// Throws Error(invalid_argument) unless an 'index_copy' of these shapes puts a source in the place of a destination's
/// elements.
void check_copied(const ir::Node& node, const Dims& destination, const Dims& index, const Dims& source);
/// Of what says where a result lies, where something computes with it, as an error that says so.
[[noreturn]] void refuse_written(ir::Op op);

/// Error(invalid_argument) unless indices have that type.
void check_index_type(const ir::Node& node, const std::string& name, DType dtype);

/// The same of the classes that 'one_hot' takes, wherever they come from.
void check_classes(const ir::Program& program, std::span<const TensorView> inputs);

/// What cannot be read at indices, as errors that say so.
[[noreturn]] void refuse_index(const ir::Node& node, const std::string& found);
[[noreturn]] void refuse_gathers(const std::string& text);

}  // namespace epifuse::plan
