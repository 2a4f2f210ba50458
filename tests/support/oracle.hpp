// Expected values, independent of the code under test. Every value of a chain is a Range: one number where all
// operations before it are exact, an interval once a function with an error bound is among them. A correct kernel's
// result always lies within; a wrong index, conversion or tail practically never does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "support/chain.hpp"
#include "support/range.hpp"

namespace epifuse::test {

/// How far a kernel may be from the real function, in units of the last place of the compute type.
inline double ulps(const Definition& definition, Compute compute) noexcept {
  return compute == Compute::f32 ? 2 : definition.ulps64;
}

/// What a function may be off besides, where rounding the result hides it: kernels may then use cheaper formulas
/// (docs/guide/accuracy.md).
struct Slack {
  double relative = 0;
  double floor = 0;  ///< results below may be off by `relative` of this

  friend bool operator==(const Slack&, const Slack&) = default;
};
/// Of a result that is stored as that type and computed in f32: a quarter of the distance of its numbers.
Slack slack_of(DType result, Compute compute) noexcept;

/// A function that such a formula may stand for: any that is not exact, and the quotients and roots that otherwise are.
bool has_cheaper_form(const Definition& definition);

/// f64 when an operand or a cast is, or when a 32- or 64-bit integer goes in and one comes out: f32 would lose its
/// digits.
Compute compute_type(const Chain& chain, std::span<const DType> inputs, std::span<const DType> outputs) noexcept;

/// The stored element as a number of the compute type.
double load(DType type, const void* element, Compute compute) noexcept;

/// What the operation may give for these arguments.
Range apply(const Definition& definition, std::span<const Range> args, Compute compute, const Slack& slack = {});

/// A constant where the operation takes a truth value: computed from a constant alone, so exactly.
Range truth_of_constant(const Range& value);

/// `value` rounded to that storage type and back.
Range cast_to(DType dtype, const Range& value, Compute compute);

/// Evaluates one chain without reductions and shape operations element by element. Constants are folded once, in f64,
/// as the chain's author was promised.
class Oracle {
 public:
  Oracle(const Chain& chain, Compute compute, std::span<const double> scalars, const Slack& slack = {});

  /// The chain's results for these inputs, which are numbers of the compute type. Valid until the next call.
  std::span<const Range> evaluate(std::span<const double> inputs);
  /// Whether a function of which there are cheaper formulas gave less than that for the same inputs, but not 0.
  bool has_function_below(double size) const;

 private:
  Range step_value(const Step& step, std::span<const double> inputs, Compute compute) const;
  Range value_as(int step, Compute compute) const;

  const Chain& chain_;
  Compute compute_;
  Slack slack_;
  std::vector<double> scalars_;
  std::vector<char> is_constant_;
  std::vector<Range> values_;
  std::vector<Range> results_;
};

/// Whether the stored element may come from that range: within it once its ends are stored, too, or at most `ulps` of
/// the type beside it.
bool accepts(const Range& range, DType type, const void* element, int ulps = 0) noexcept;
/// For messages: "[0.5, 0.50001]" or "0.5", as stored in that type.
std::string describe(const Range& range, DType type);
std::string describe_element(DType type, const void* element);

}  // namespace epifuse::test
