// Sums in double precision, two passes where one would cancel.
#include "common/reference.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace examples {
namespace {

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double mean_square_of(std::span<const double> values, double center) {
  double sum = 0;
  for (const double v : values) sum += (v - center) * (v - center);
  return sum / static_cast<double>(values.size());
}

}  // namespace

std::vector<double> normalized(std::span<const double> values, std::span<const double> weight,
                               std::span<const double> bias, double eps) {
  const double mean = mean_of(values);
  const double deviation = std::sqrt(mean_square_of(values, mean) + eps);
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = (values[i] - mean) / deviation * weight[i] + bias[i];
  return out;
}

std::vector<double> rms_normalized(std::span<const double> values, std::span<const double> weight, double eps) {
  const double size = std::sqrt(mean_square_of(values, 0) + eps);
  std::vector<double> out(values.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = values[i] / size * weight[i];
  return out;
}

std::vector<double> softmax_of(std::span<const double> values) {
  const double top = *std::ranges::max_element(values);
  std::vector<double> out(values.size());
  std::ranges::transform(values, out.begin(), [top](double v) { return std::exp(v - top); });
  const double sum = std::accumulate(out.begin(), out.end(), 0.0);
  for (double& v : out) v /= sum;
  return out;
}

}  // namespace examples
