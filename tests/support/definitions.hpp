// What every operation means, from PyTorch's formulas: the tests' own table, which shares nothing with src/ir/ops.def
// but the names.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

namespace epifuse::test {

/// How the operation behaves between two arguments; the oracle bounds ranges with it.
enum class Shape {
  monotone,  ///< in each argument apart, between `turning` points and zeros
  equality,  ///< eq, ne
  wave,      ///< sin, cos
  power,     ///< pow
  modulo,    ///< fmod, remainder
  softplus,
  threshold,
  celu
};

struct Definition {
  std::string_view name;
  int arity = 1;
  std::string_view kinds;  ///< per parameter: r real, n real that is no truth value, b truth value
  bool truth = false;      ///< the result is a truth value
  Shape shape = Shape::monotone;

  /// One IEEE operation, or an exact selection: every correct kernel gives these very bits.
  float (*exact32)(float, float, float) = nullptr;
  double (*exact64)(double, double, double) = nullptr;
  /// Otherwise: the real function, to the accuracy of long double; kernels come within some ulps of it.
  long double (*real)(long double, long double, long double) = nullptr;
  double ulps64 = 4;                  ///< that bound in f64, where the library promises none: what its formulas reach
  double lowest = 0, highest = 0;     ///< of the real function: what no correct kernel leaves
  std::vector<double> turning = {};   ///< of the first argument: where a minimum, a jump or the end of its domain is
  bool either_zero = false;           ///< a zero result may have either sign (minimum(-0, 0))
  bool zero_operand = false;          ///< of relu, relu6: a hidden argument +0
  std::vector<double> defaults = {};  ///< of the trailing parameters

  bool is_exact() const noexcept { return real == nullptr; }
};

std::span<const Definition> definitions();
/// Ends the test program if there is none of that name: a new operation needs its definition here.
const Definition& definition(std::string_view name);

}  // namespace epifuse::test
