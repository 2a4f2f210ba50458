// Functions that are chains of primitives: each expands in the Builder, exactly as one would write it by hand, so that a composite and
// its spelled-out form are the same Program. Both front ends call these. Names, definitions and defaults are PyTorch's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "ir/program.hpp"

namespace epifuse::ir {

// In each, kNone stands for a weight or a bias that is not there.
Value std_deviation(Builder& b, Value x, const Axes& axes, double correction, bool keepdim);
/// (sum |x| ** p) ** (1 / p); p may be 0 (how many are not 0) and ±infinity.
Value norm(Builder& b, Value x, double p, const Axes& axes, bool keepdim);
Value logsumexp(Builder& b, Value x, const Axes& axes, bool keepdim);
Value softmax(Builder& b, Value x, const Axes& axes);
Value log_softmax(Builder& b, Value x, const Axes& axes);
Value layer_norm(Builder& b, Value x, Value weight, Value bias, double eps, const Axes& axes);
Value rms_norm(Builder& b, Value x, Value weight, double eps, const Axes& axes);
/// Weight and bias are vectors of the channels (dimension 1), here and in instance_norm.
Value group_norm(Builder& b, Value x, std::int64_t groups, Value weight, Value bias, double eps);
Value instance_norm(Builder& b, Value x, Value weight, Value bias, double eps);
/// `x` where a random number is at least `p`, times 1 / (1 - p), else 0.
Value dropout(Builder& b, Value x, Value p, Value seed, Value offset);
Value normalize(Builder& b, Value x, double p, const Axes& axes, double eps);

}  // namespace epifuse::ir
