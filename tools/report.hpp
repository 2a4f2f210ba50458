// Results for people and for programs: statistics of a tensor, JSON of the public structures.
#pragma once

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <nlohmann/json.hpp>

#include "host_tensor.hpp"

namespace epifuse::tool {

/// Keeps the order of insertion, so that output reads as it was written.
using Json = nlohmann::ordered_json;

std::string json_text(const Json& json);
void print_json(const Json& json);

/// JSON has no NaN and no infinities: these become "nan", "inf" and "-inf".
Json number(double value);
Json to_json(const Dims& dims);
Json to_json(const TensorInfo& info);
Json to_json(const ReductionSummary& rows);
Json to_json(const PlanSummary& plan);
Json to_json(const DeviceSummary& device);

/// Of a tensor's elements: NaN are counted and left out of the rest.
struct Statistics {
  std::int64_t elements = 0;
  std::int64_t nans = 0;
  double minimum = 0, maximum = 0, mean = 0;
  std::vector<std::string> first;  ///< the first elements, row-major
};
Statistics statistics_of(const TensorView& view);
Json to_json(const Statistics& statistics);
std::string to_string(const Statistics& statistics);

}  // namespace epifuse::tool
