// Softmax, norms and the like as chains of primitives, by PyTorch's definitions: for fixed cases and for the random
// generator.
#pragma once

#include "support/chain.hpp"

namespace epifuse::test {

inline constexpr int kNoOperand = -1;

int softmax(Chain& c, int x, const AxisList& axes);
int log_softmax(Chain& c, int x, const AxisList& axes);
int logsumexp(Chain& c, int x, const AxisList& axes, bool keepdim);
int layer_norm(Chain& c, int x, int weight, int bias, double eps, const AxisList& axes);
int rms_norm(Chain& c, int x, int weight, double eps, const AxisList& axes);
/// x / max(|x|, eps) of the Euclidean norm.
int normalize(Chain& c, int x, double eps, const AxisList& axes);
/// `weight` and `bias`: vectors of the channels, dimension 1.
int group_norm(Chain& c, int x, int groups, int weight, int bias, double eps);
int instance_norm(Chain& c, int x, int weight, int bias, double eps);

/// What the norms share: mean and 1 / deviation along axes, kept, and the normalised value.
struct Normalised {
  int mean = 0;
  int inverse_deviation = 0;
  int value = 0;
};
Normalised normalised(Chain& c, int x, double eps, const AxisList& axes);

}  // namespace epifuse::test
