// The operands of a chain without views, under their names: those of the chain with views where they are read as they
// lie. For lower.cpp.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "plan/bind/path.hpp"

namespace epifuse::plan {

/// An operand of the chain with views, read through a path.
struct Reading {
  Lowered::Operand operand;  ///< without what indices say
  Strided strided;
};
/// Throws Error(unsupported) where no strides describe it.
Reading read_through(const ir::Program& program, std::span<const TensorView> inputs, std::size_t ordinal,
                     const Steps& steps);

class OperandTable {
 public:
  OperandTable(const ir::Program& program, std::span<const TensorView> inputs) : program_(program), inputs_(inputs) {}

  /// The name by which the chain reads it: that of an operand that lies so already.
  std::string name_of(const Lowered::Operand& read);
  /// Whether an operand or a result has that name.
  bool is_taken(const std::string& name) const;
  /// Null where no operand has that name.
  const Lowered::Operand* find(const std::string& name) const;
  /// The masks of all operands of which some elements do not exist. One is missing where what asked for it turned out
  /// to be a number.
  std::vector<std::string> masks();
  /// The shape to which all broadcast.
  Dims broadcast() const;

 private:
  // The tensor of the chain with views as it lies.
  bool is_unchanged(const Lowered::Operand& read) const;

  const ir::Program& program_;
  std::span<const TensorView> inputs_;
  std::vector<std::pair<std::string, Lowered::Operand>> operands_;
};

}  // namespace epifuse::plan
