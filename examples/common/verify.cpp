// Sampling, references and tolerances of the examples.
#include "common/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "common/data.hpp"
#include "common/gpu.hpp"

namespace examples {
namespace {

/// How far a result may be from the exact value: `relative` of its size plus `absolute`. Results saturate at the
/// limits.
struct Tolerance {
  ef::DType dtype;
  double relative;
  double absolute;
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
};

/// f32: a few roundings among values of order one. f16: one unit in the last place besides. i8: half a unit, since the
/// reference is not rounded, and a little for f32 next to a tie.
constexpr Tolerance kTailTolerances[] = {
    {ef::DType::f32, 2e-6, 2e-6}, {ef::DType::f16, 0x1p-10, 2e-6}, {ef::DType::i8, 0, 0.5 + 1e-3, -128, 127}};

/// f32: sums of thousands of products in any order; TF32 would be off by some 3e-4. f16: inputs are exact, the sum is
/// f32, the result is rounded (twice where a bias is added in f16). i32: exact.
constexpr Tolerance kProducerTolerances[] = {
    {ef::DType::f32, 5e-5, 5e-5}, {ef::DType::f16, 0x1p-10, 2e-3}, {ef::DType::i32, 0, 0}};

const Tolerance& tolerance_of(ef::DType dtype, std::span<const Tolerance> table) {
  const auto row = std::ranges::find(table, dtype, &Tolerance::dtype);
  if (row != table.end()) return *row;
  throw Failure("the examples have no tolerance for results of type " + std::string(ef::to_string(dtype)));
}

std::string complaint(const ef::Dims& at, double got, double want, double allowed) {
  char text[200];
  std::snprintf(text, sizeof text, "at %s found %.9g, expected %.9g within %.3g", ef::to_string(at).c_str(), got, want,
                allowed);
  return text;
}

Verdict compare(const std::vector<ef::Dims>& at, std::span<const double> got, std::span<const double> want,
                const Tolerance& tolerance) {
  Verdict verdict;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const double expected = std::clamp(want[i], tolerance.lowest, tolerance.highest);
    const double error = std::abs(got[i] - expected);
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected);
    // Written so that a NaN is a failure.
    if (!(error <= allowed) && verdict.failure.empty()) verdict.failure = complaint(at[i], got[i], expected, allowed);
    verdict.max_error = std::max(verdict.max_error, error);
    ++verdict.samples;
  }
  return verdict;
}

/// Coordinates of the element at `offset` in the memory of a dense tensor, whatever the order of its dimensions.
ef::Dims coordinates_of(const ef::TensorView& tensor, std::int64_t offset) {
  ef::Dims at;
  for (int d = 0; d < tensor.shape.size(); ++d) at.push_back(offset / tensor.strides[d] % tensor.shape[d]);
  return at;
}

}  // namespace

std::vector<ef::Dims> sample_positions(const ef::TensorView& tensor, std::int64_t edge, std::int64_t random) {
  const std::int64_t count = count_of(tensor.shape);
  edge = std::min(edge, count);
  std::vector<ef::Dims> at;
  for (std::int64_t i = 0; i < edge; ++i) at.push_back(coordinates_of(tensor, i));
  for (std::int64_t i = count - edge; i < count; ++i) at.push_back(coordinates_of(tensor, i));
  std::mt19937_64 generator(20);
  for (std::int64_t i = 0; i < random; ++i) {
    at.push_back(coordinates_of(tensor, static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(count))));
  }
  return at;
}

Verdict verify_tail(const ef::Epilogue& tail, const ef::TensorView& output, std::span<const ef::TensorView> inputs) {
  const std::vector<ef::Dims> at = sample_positions(output, 512, 4096);
  const ef::Dims shape{static_cast<std::int64_t>(at.size())};
  std::vector<std::vector<double>> values;
  std::vector<ef::TensorView> views;
  values.reserve(inputs.size());
  for (const ef::TensorView& input : inputs) {
    values.push_back(gather(input, at));
    views.emplace_back(values.back().data(), ef::DType::f64, shape);
  }
  std::vector<double> want(at.size());
  const ef::OutputView result(want.data(), ef::DType::f64, shape);
  ef::Engine(ef::Device::cpu()).launch(tail, nullptr, std::span(&result, 1), views);
  return compare(at, gather(output, at), want, tolerance_of(output.dtype, kTailTolerances));
}

Verdict verify_producer(const ef::TensorView& y, const std::function<double(const ef::Dims& at)>& expected) {
  const std::vector<ef::Dims> at = sample_positions(y, 1, 30);
  std::vector<double> want;
  for (const ef::Dims& position : at) want.push_back(expected(position));
  Verdict verdict = compare(at, gather(y, at), want, tolerance_of(y.dtype, kProducerTolerances));
  const auto [low, high] = std::ranges::minmax(want);
  if (verdict.failure.empty() && !(low < 0 && high > 0)) verdict.failure = "its sampled results have but one sign";
  return verdict;
}

}  // namespace examples
