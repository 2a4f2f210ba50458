// How the vectors of operands move: the statements that load and store them, and the sections of
// templates/pointwise/access.cuh that these call. For pointwise.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "codegen/offsets.hpp"
#include "codegen/prelude.hpp"
#include "ir/program.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// Vectors belong to one row of the innermost dimension, whose last one may be cut short.
bool goes_by_row(const plan::KernelClass& kernel);
/// Of the flat schedule: no vector crosses into the next row.
bool has_divisible_rows(const plan::KernelClass& kernel);
/// There may be vectors that exist and are not full: what takes a vector has two ways, by `kFullVector`.
bool has_broken_vectors(const plan::KernelClass& kernel);

class AccessWriter {
 public:
  /// Both must outlive it.
  AccessWriter(const ir::Program& program, const plan::KernelClass& kernel) : program_(program), kernel_(kernel) {}

  /// The sections that the statements call.
  void require_sections(Prelude& prelude) const;
  /// Every vector of the flat schedule is read in one way, whether it crosses into the next row or not: where no
  /// operand gains by two.
  bool has_one_way() const;
  /// The function is_aligned(). Rows may begin at any address: in the by_row schedule, alignment is tested for each
  /// vector of what moves several elements at a time.
  std::string alignment() const;
  /// The statements that load the vector of an input, of any access but `uniform`, and that store an output's.
  std::string load(std::size_t input, std::string_view indent) const;
  std::string store(std::size_t output, std::string_view indent) const;

 private:
  bool has_wrapping() const { return has_broken_vectors(kernel_) && !goes_by_row(kernel_); }
  const char* full() const { return has_broken_vectors(kernel_) ? "kFullVector" : "true"; }
  bool is_transposed_input(const plan::OperandPlan& operand) const;
  bool is_read_by_runs(const plan::OperandPlan& operand) const;
  bool is_read_each(const plan::OperandPlan& operand) const;
  std::string strides(std::string_view name) const { return strides_of(program_, kernel_, name); }
  OffsetText offset_at(std::string_view at) const { return codegen::offset_at(program_, kernel_, at); }
  void require(const plan::OperandPlan& operand, const char* way, Prelude& prelude) const;
  const char* load_each() const;
  std::string access(std::string_view way, const plan::OperandPlan& operand, const std::string& name,
                     std::string_view indent, const std::string& base) const;
  std::string read_each(std::size_t i, const std::string& name, std::string_view indent) const;
  std::string read_by_runs(std::size_t i, const std::string& name, std::string_view indent) const;
  std::string read_rows(std::size_t i, const std::string& name, std::string_view indent) const;
  std::string draw(const plan::OperandPlan& operand, const std::string& name) const;

  const ir::Program& program_;
  const plan::KernelClass& kernel_;
};

}  // namespace epifuse::codegen
