// The order of operations is the library's, so that a chain of text and the chain built here can be compared.
#include "support/composites.hpp"

namespace epifuse::test {
namespace {

constexpr bool kKeep = true;

int scaled_and_shifted(Chain& c, int value, int weight, int bias) {
  if (weight != kNoOperand) value = c.op("mul", {value, weight});
  if (bias != kNoOperand) value = c.op("add", {value, bias});
  return value;
}

// A vector of the channels against `x`.
int per_channel(Chain& c, int vector, int x) { return vector == kNoOperand ? kNoOperand : c.along(vector, x, 1); }

}  // namespace

int softmax(Chain& c, int x, const AxisList& axes) {
  const int e = c.op("exp", {c.op("sub", {x, c.reduce(Reduction::amax, x, axes, kKeep)})});
  return c.op("div", {e, c.reduce(Reduction::sum, e, axes, kKeep)});
}

int log_softmax(Chain& c, int x, const AxisList& axes) {
  const int d = c.op("sub", {x, c.reduce(Reduction::amax, x, axes, kKeep)});
  return c.op("sub", {d, c.op("log", {c.reduce(Reduction::sum, c.op("exp", {d}), axes, kKeep)})});
}

int logsumexp(Chain& c, int x, const AxisList& axes, bool keepdim) {
  const auto finite_maximum = [&](bool keep) {
    const int m = c.reduce(Reduction::amax, x, axes, keep);
    return c.op("where", {c.op("isinf", {m}), c.constant(0), m});
  };
  const int z = finite_maximum(true);
  const int sum = c.reduce(Reduction::sum, c.op("exp", {c.op("sub", {x, z})}), axes, keepdim);
  return c.op("add", {c.op("log", {sum}), keepdim ? z : finite_maximum(false)});
}

Normalised normalised(Chain& c, int x, double eps, const AxisList& axes) {
  Normalised out;
  out.mean = c.reduce(Reduction::mean, x, axes, kKeep);
  const int variance = c.reduce(Reduction::var, x, axes, kKeep, 0);
  out.inverse_deviation = c.op("rsqrt", {c.op("add", {variance, c.constant(eps)})});
  out.value = c.op("mul", {c.op("sub", {x, out.mean}), out.inverse_deviation});
  return out;
}

int layer_norm(Chain& c, int x, int weight, int bias, double eps, const AxisList& axes) {
  return scaled_and_shifted(c, normalised(c, x, eps, axes).value, weight, bias);
}

int rms_norm(Chain& c, int x, int weight, double eps, const AxisList& axes) {
  const int squares = c.reduce(Reduction::mean, c.op("square", {x}), axes, kKeep);
  const int value = c.op("mul", {x, c.op("rsqrt", {c.op("add", {squares, c.constant(eps)})})});
  return scaled_and_shifted(c, value, weight, kNoOperand);
}

int normalize(Chain& c, int x, double eps, const AxisList& axes) {
  const int norm = c.op("sqrt", {c.reduce(Reduction::sum, c.op("square", {x}), axes, kKeep)});
  return c.op("div", {x, c.op("maximum", {norm, c.constant(eps)})});
}

int group_norm(Chain& c, int x, int groups, int weight, int bias, double eps) {
  const int value = c.flatten(normalised(c, c.unflatten(x, 1, {groups, -1}), eps, {{2}, true}).value, 1, 2);
  const int w = per_channel(c, weight, x);
  return scaled_and_shifted(c, value, w, per_channel(c, bias, x));
}

int instance_norm(Chain& c, int x, int weight, int bias, double eps) {
  const int value = normalised(c, x, eps, {{2}, true}).value;
  const int w = per_channel(c, weight, x);
  return scaled_and_shifted(c, value, w, per_channel(c, bias, x));
}

}  // namespace epifuse::test
