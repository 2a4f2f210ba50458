// How exact each value of a chain must be computed, given what its results are stored as: where rounding them hides the
// error of a cheaper formula, that formula will do. A pure function of the chain and the kernel's class. For codegen,
// and for the plan's explanation.
#pragma once

#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace epifuse::plan {

/// |found - exact| <= relative * |exact| + absolute. A sum's relative error counts from its largest term: where terms
/// nearly cancel, it shows. Rounding of f32 operations is not counted: it is what results are compared with.
struct Error {
  double relative = 0;
  double absolute = 0;
  double total = 0;  ///< the same as one number, whatever the value

  bool is_exact() const noexcept { return relative == 0 && absolute == 0; }
};

/// A row of formulas.def.
struct Formula {
  ir::Op op;
  std::string_view name;  ///< in templates/prelude/fast.cuh
  double relative;        ///< error beside the result, but for results below
  double floor;
  double total;  ///< the largest error
  int cost;
};

/// What is stored of a result: the argument of a cast to the type that it is stored as, where its last operation is
/// one. Storing rounds to that type anyway.
ir::Value stored_value(const ir::Program& program, std::size_t result, DType stored) noexcept;

/// What a chain computes its values with.
struct Arithmetic {
  std::vector<const Formula*> formulas;  ///< by node; null: the operation's own
  std::vector<Error> errors;             ///< by result: what the formulas add to its own rounding

  /// Quotients by a row's number and the exponentials that softmax sums may be cheap too.
  bool cheap_rows = false;
};
Arithmetic choose_arithmetic(const ir::Program& program, const KernelClass& kernel_class);
/// Instructions per element, roughly, with these formulas.
int instructions_of(const ir::Program& program, const Arithmetic& arithmetic);

/// The cheaper formula for a term of a long sum in f32, or empty; `coarse`: where results round to few bits, of a value
/// for which a formula of formulas.def is good enough.
std::string_view term_formula(ir::Op op, bool coarse) noexcept;

/// The distance of neighbouring numbers of a storage type: at least `relative` times the number, and never below
/// `absolute`. Of integers of 8 bits it is 1; 0 where results are to be right to the last bit.
struct Spacing {
  double relative;
  double absolute;
};
Spacing spacing_of(DType type) noexcept;

}  // namespace epifuse::plan
