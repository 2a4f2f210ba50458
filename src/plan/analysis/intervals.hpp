// Which values are possible: an interval for each value of a chain, of the types of its operands and of what operations
// do. For accuracy.cpp.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "ir/program.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::plan {

inline constexpr double kUnbounded = std::numeric_limits<double>::infinity();

struct Interval {
  double low = -kUnbounded;
  double high = kUnbounded;
  double size() const { return std::max(std::fabs(low), std::fabs(high)); }
  /// The least magnitude.
  double least() const { return std::max({low, -high, 0.0}); }
};

/// The product; 0 where either is 0, also beside infinity.
inline double times(double a, double b) { return a == 0 || b == 0 ? 0 : a * b; }

class Intervals {
 public:
  /// Both must outlive it.
  Intervals(const ir::Program& program, const KernelClass& kernel);

  const Interval& of(ir::Value value) const;
  /// sum(exp(x - amax(x)))
  bool is_softmax_sum(ir::Value value) const;

 private:
  Interval interval_of(const ir::Node& node) const;
  bool same(ir::Value a, ir::Value b) const;
  bool is_below_maximum(const ir::Node& below) const;
  bool is_softmax_sum(const ir::Node& total) const;

  const ir::Program& program_;
  const KernelClass& kernel_;
  std::vector<Interval> intervals_;  // by node
};

}  // namespace epifuse::plan
