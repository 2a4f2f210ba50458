// Normalisations as plain loops in double precision, over the elements of one group: what the examples with reductions
// are verified against. Nothing of EpiFuse is called here.
#pragma once

#include <span>
#include <vector>

namespace examples {

/// (v - mean) / sqrt(variance + eps) * weight + bias, weight and bias one per element: GroupNorm of one group.
std::vector<double> normalized(std::span<const double> values, std::span<const double> weight,
                               std::span<const double> bias, double eps);

/// v / sqrt(mean of the squares + eps) * weight: RMSNorm of one row.
std::vector<double> rms_normalized(std::span<const double> values, std::span<const double> weight, double eps);

/// exp(v) over the sum of all exp(v), without overflow: softmax of one row.
std::vector<double> softmax_of(std::span<const double> values);

}  // namespace examples
