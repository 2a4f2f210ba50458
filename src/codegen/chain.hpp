// Values as C++ text: what an operation, a constant or a cast looks like in the emitted source. Shared by the emitters
// of pointwise/, reduction/ and gemm/.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "codegen/prelude.hpp"
#include "ir/program.hpp"
#include "plan/analysis/accuracy.hpp"

namespace epifuse::codegen {

/// The name of a storage type in templates/prelude/types.cuh.
std::string_view storage_type(DType type);
inline std::string_view type_of(ir::Kind kind) { return kind == ir::Kind::real ? "Real" : "bool"; }

class ChainWriter {
 public:
  /// Sections that operations need are required from `prelude`, which must outlive the writer, as must the others.
  ChainWriter(const ir::Program& program, const plan::KernelClass& kernel, const std::vector<ir::Kind>& input_kinds,
              Prelude& prelude)
      : program_(program),
        input_kinds_(input_kinds),
        f64_(kernel.f64),
        arithmetic_(plan::choose_arithmetic(program, kernel)),
        prelude_(prelude) {}
  virtual ~ChainWriter() = default;

  const plan::Arithmetic& arithmetic() const { return arithmetic_; }

  ir::Kind kind(ir::Value value) const { return program_.kind(value, input_kinds_); }
  /// The node whose elements `value` has: shape operations change none.
  ir::Value unshaped(ir::Value value) const;
  /// How a value is written where it is used.
  std::string reference(ir::Value value) const;
  /// A use where an operation wants a real or a truth value.
  std::string argument(ir::Value value, ir::Kind wanted) const;
  /// The right-hand side that computes a value: an operation, a cast, or a reduction of one element. `is_term`: nothing
  /// but sums uses it, whose own rounding hides the error of a cheaper formula. `arguments`: what such a formula takes
  /// in place of the operands.
  std::string computation(ir::Value value, bool is_term = false, std::string_view arguments = {});
  /// The function of templates/prelude/fast.cuh that computes a value well enough here, or empty.
  std::string_view cheaper(ir::Value value, bool is_term) const;

 protected:
  /// The variable that holds a computed value.
  virtual std::string variable(ir::Value value) const;
  virtual std::string input(std::size_t i) const;
  virtual std::string scalar(std::size_t i) const;
  virtual std::string count(ir::Value value) const;

  const ir::Program& program_;
  const std::vector<ir::Kind>& input_kinds_;
  const bool f64_;
  const plan::Arithmetic arithmetic_;
  Prelude& prelude_;

 private:
  std::string literal(double value) const;
  /// Another way to write an operation here, or empty.
  virtual std::string special_form(const ir::Node&, const std::array<std::string, ir::kMaxArity>&) { return {}; }
  std::string operation(ir::Value value, bool is_term, std::string_view arguments);
  std::string cast(const ir::Node& node);
  std::string of_one_element(const ir::Node& node);
};

/// `chain()`, or a function of another name: the chain for one element, of operands that the kernel reads, scalars and
/// counts; its results are references, or the only one is returned. Requires the sections of its operations.
std::string write_chain(const ir::Program& program, const plan::KernelClass& kernel,
                        const std::vector<ir::Kind>& input_kinds, ChainWriter& writer, bool returns_result = false,
                        std::string_view name = "chain");

}  // namespace epifuse::codegen
