// A row for each name.
#include "ir/foreign.hpp"

#include <algorithm>
#include <array>

namespace epifuse::ir {
namespace {

struct ForeignRow {
  std::string_view name;
  std::string_view advice;
  std::string_view of_two = {};  ///< instead, where the call has two arguments and no axis
};

constexpr std::array kForeign = {
    ForeignRow{
        "max", "write 'amax(x, axis=-1)' for the largest element along an axis",
        "write 'maximum(a, b)' or 'clamp(x, min=b)' for the larger of two; 'amax(x, axis=-1)' is the largest along an "
        "axis"},
    ForeignRow{
        "min", "write 'amin(x, axis=-1)' for the smallest element along an axis",
        "write 'minimum(a, b)' or 'clamp(x, max=b)' for the smaller of two; 'amin(x, axis=-1)' is the smallest along "
        "an axis"},
    ForeignRow{"fmax", "write 'maximum(a, b)', which gives NaN where one is NaN"},
    ForeignRow{"fmin", "write 'minimum(a, b)', which gives NaN where one is NaN"},
    ForeignRow{"mm", "write 'matmul(a, b)' or 'a @ b'"},
    ForeignRow{"bmm", "write 'matmul(a, b)' or 'a @ b'"},
    ForeignRow{"addmm", "write 'a @ b + c'"},
    ForeignRow{"baddbmm", "write 'a @ b + c'"},
    ForeignRow{"dot", "write 'sum(a * b)'"},
    ForeignRow{"conv1d", "write 'conv2d' of images of one row: 'conv2d(x[:, :, None], w[:, :, None])'"},
    ForeignRow{"einsum", "write 'matmul(a, b)' of permuted operands"},
    ForeignRow{"median", "chains do not order elements: 'mean' is their average"},
    ForeignRow{"sort", "chains do not order elements"},
    ForeignRow{"concat", "write 'cat((a, b), 1)'"},
    ForeignRow{"hstack", "write 'cat((a, b), 1)'"},
    ForeignRow{"vstack", "write 'cat((a, b), 0)'"},
    ForeignRow{"arange", "write 'iota(x, dim)' for the places of x's elements along a dimension"},
    ForeignRow{"interpolate", "write 'upsample_nearest2d(x, 2)'"},
    ForeignRow{"glu", "write 'a * sigmoid(b)' of both halves, the first of which is 'chunk(x, 2, -1)[0]'"},
    ForeignRow{"prelu", "write 'where(x > 0, x, weight * x)', with 'along(weight, x, 1)' for a weight of each channel"},
    ForeignRow{"rrelu", "write 'leaky_relu(x, lower + (upper - lower) * rand_like(x, 42, 0))'"},
    ForeignRow{"normal", "chains draw uniform numbers alone: 'rand_like(x, 42, 0)'. Pass others as an operand"},
    ForeignRow{"softmin", "write 'softmax(-x, axis=-1)'"},
    ForeignRow{"logaddexp", "write 'maximum(a, b) + log1p(exp(-abs(a - b)))', for finite a and b"},
    ForeignRow{"tan", "write 'sin(x) / cos(x)'"},
    ForeignRow{"sinc", "write 'where(x == 0, 1, sin(pi * x) / (pi * x))' with the number for pi"},
    ForeignRow{"asin", "chains have no inverse of 'sin'"},
    ForeignRow{"acos", "chains have no inverse of 'cos'"},
    ForeignRow{"atan", "chains have no inverse tangent"},
    ForeignRow{"atanh", "write '0.5 * (log1p(x) - log1p(-x))'"},
    ForeignRow{"sinh", "write '0.5 * (exp(x) - exp(-x))'"},
    ForeignRow{"cosh", "write '0.5 * (exp(x) + exp(-x))'"},
    ForeignRow{"erfc", "write '1 - erf(x)'"},
    ForeignRow{"log10", "write 'log2(x) * 0.3010299956639812'"},
};

}  // namespace

std::optional<std::string_view> advice_for(std::string_view name, const ForeignCall& call) {
  const auto row = std::ranges::find(kForeign, name, &ForeignRow::name);
  if (row == kForeign.end()) return std::nullopt;
  return !row->of_two.empty() && call.arguments >= 2 && !call.has_axis ? row->of_two : row->advice;
}

}  // namespace epifuse::ir
