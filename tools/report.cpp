// JSON and statistics.
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include <spdlog/fmt/ranges.h>

#include "convert.hpp"
#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

constexpr std::int64_t kFirst = 8;
constexpr std::int64_t kFirstPacked = 16;  // no less is a tensor of such elements
constexpr std::int64_t kChunk = 1 << 20;

// Text of one element; as precise as its type, and no more. Not of i64, which an f64 does not hold.
std::string element_text(double value, DType type) {
  switch (type) {
    case DType::f64:
      return fmt::format("{}", value);
    case DType::f32:
      return fmt::format("{}", static_cast<float>(value));
    case DType::boolean:
      return value == 0 ? "false" : "true";
    default:
      return is_floating(type) ? fmt::format("{:.5g}", value) : fmt::format("{:.0f}", value);
  }
}

// A piece of a dense tensor, as one dimension.
TensorView piece_of(const TensorView& dense, std::int64_t first, std::int64_t count) {
  const auto* data = static_cast<const std::byte*>(dense.data) + size_of(dense.dtype, first);
  return {data, dense.dtype, {count}};
}

std::vector<std::string> element_texts(const TensorView& dense) {
  std::vector<std::string> texts;
  if (dense.dtype == DType::i64) {
    std::vector<std::int64_t> values(static_cast<std::size_t>(element_count(dense.shape)));
    if (!values.empty()) std::memcpy(values.data(), dense.data, values.size() * sizeof(std::int64_t));
    for (const std::int64_t value : values) texts.push_back(fmt::format("{}", value));
    return texts;
  }
  for (const double value : to_doubles(dense)) texts.push_back(element_text(value, dense.dtype));
  return texts;
}

// The same as JSON: a number or a truth value, and a text where JSON has no number.
Json element_json(const std::string& text) {
  const auto number = parse_number(text);
  return number && !std::isfinite(*number) ? Json(tool::number(*number)) : Json::parse(text);
}

}  // namespace

// What came from the command line need not be UTF-8.
std::string json_text(const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + '\n'; }
void print_json(const Json& json) { write_output(json_text(json)); }

Json number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  return value;
}

Json to_json(const Dims& dims) {
  Json list = Json::array();
  for (const std::int64_t value : dims) list.push_back(value);
  return list;
}

Json to_json(const TensorInfo& info) {
  return {{"name", info.name},
          {"dtype", to_string(info.dtype)},
          {"shape", to_json(info.shape)},
          {"strides", to_json(info.strides)},
          {"offset", info.offset}};
}

Json to_json(const ReductionSummary& reduction) {
  Json passes = Json::array();
  for (const PassSummary& pass : reduction.passes)
    passes.push_back({{"accumulates", pass.accumulates}, {"reads", pass.reads}, {"writes", pass.writes}});
  return {{"rows", reduction.rows},
          {"row_length", reduction.row_length},
          {"inner_reduction", reduction.inner_reduction},
          {"rows_side_by_side", reduction.rows_side_by_side},
          {"segments_per_row", reduction.segments_per_row},
          {"segment_length", reduction.segment_length},
          {"segment_lanes", reduction.segment_lanes},
          {"lane_segments", reduction.lane_segments},
          {"shared_by", reduction.shared_by},
          {"group_threads", reduction.group_threads},
          {"cluster_blocks", reduction.cluster_blocks},
          {"blocks_per_row", reduction.blocks_per_row},
          {"rows_per_block", reduction.rows_per_block},
          {"rounds", reduction.rounds},
          {"lag", reduction.lag},
          {"prefetch_distance", reduction.prefetch_distance},
          {"prefetch_bytes", reduction.prefetch_bytes},
          {"next_rows_bytes", reduction.next_rows_bytes},
          {"bytes_under_way", reduction.bytes_under_way},
          {"passes", std::move(passes)},
          {"held", reduction.held},
          {"saved", reduction.saved},
          {"held_in", reduction.held_in},
          {"staged_bytes", reduction.staged_bytes}};
}

Json to_json(const PlanSummary& plan) {
  Json operands = Json::array();
  for (const OperandSummary& operand : plan.operands) {
    operands.push_back({{"name", operand.name},
                        {"dtype", to_string(operand.dtype)},
                        {"shape", to_json(operand.shape)},
                        {"strides", to_json(operand.strides)},
                        {"access", operand.access},
                        {"bytes_per_access", operand.bytes_per_access},
                        {"bytes", operand.bytes},
                        {"reads", operand.reads},
                        {"why", operand.why}});
  }
  return {{"schedule", plan.schedule},
          {"why", plan.why},
          {"compute_type", plan.compute_type},
          {"space", to_json(plan.space)},
          {"coordinates", plan.coordinates},
          {"index_bits", plan.index_bits},
          {"elements_per_access", plan.elements_per_access},
          {"steps", plan.steps},
          {"steps_of", plan.steps_of},
          {"threads", plan.threads},
          {"blocks", plan.blocks},
          {"reverse_order", plan.reverse_order},
          {"elements", plan.elements},
          {"bytes_read", plan.bytes_read},
          {"bytes_written", plan.bytes_written},
          {"bytes_read_again", plan.bytes_read_again},
          {"bytes_from_caches", plan.bytes_from_caches},
          {"workspace_bytes", plan.workspace_bytes},
          {"bytes_per_thread", plan.bytes_per_thread},
          {"reduction", plan.reduction ? to_json(*plan.reduction) : Json(nullptr)},
          {"instructions", plan.instructions},
          {"formulas", plan.formulas},
          {"added_ulps", plan.added_ulps},
          {"operands", std::move(operands)},
          {"kernel_class", plan.kernel_class},
          {"products", plan.products}};
}

Json to_json(const DeviceSummary& device) {
  return {{"index", device.index},
          {"name", device.name},
          {"architecture", device.architecture},
          {"multiprocessors", device.multiprocessors},
          {"memory_bytes", device.memory_bytes},
          {"l2_bytes", device.l2_bytes},
          {"peak_bandwidth", device.peak_bandwidth}};
}

Statistics statistics_of(const TensorView& view) {
  if (!is_row_major(view)) return statistics_of(densified(view).view());
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  Statistics result{element_count(view.shape), 0, kInfinity, -kInfinity, 0, {}};
  double sum = 0;
  for (std::int64_t at = 0; at < result.elements; at += kChunk) {
    for (const double value : to_doubles(piece_of(view, at, std::min(kChunk, result.elements - at)))) {
      if (std::isnan(value)) {
        ++result.nans;
        continue;
      }
      result.minimum = std::min(result.minimum, value);
      result.maximum = std::max(result.maximum, value);
      sum += value;
    }
  }
  const bool any = result.nans < result.elements;
  result.mean = any ? sum / static_cast<double>(result.elements - result.nans) : NAN;
  if (!any) result.minimum = result.maximum = NAN;
  result.first =
      element_texts(piece_of(view, 0, std::min(is_packed(view.dtype) ? kFirstPacked : kFirst, result.elements)));
  return result;
}

Json to_json(const Statistics& statistics) {
  Json first = Json::array();
  for (const std::string& text : statistics.first) first.push_back(element_json(text));
  return {{"elements", statistics.elements},   {"nans", statistics.nans},         {"min", number(statistics.minimum)},
          {"max", number(statistics.maximum)}, {"mean", number(statistics.mean)}, {"first", std::move(first)}};
}

std::string to_string(const Statistics& statistics) {
  if (statistics.elements == 0) return "empty";
  const std::string nans = statistics.nans == 0 ? "" : fmt::format("  {} NaN", statistics.nans);
  const bool more = statistics.elements > static_cast<std::int64_t>(statistics.first.size());
  return fmt::format("min {:.6g}  max {:.6g}  mean {:.6g}{}\n  {}{}", statistics.minimum, statistics.maximum,
                     statistics.mean, nans, fmt::join(statistics.first, " "), more ? " …" : "");
}

}  // namespace epifuse::tool
