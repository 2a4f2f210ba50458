// Timing on the CPU device: the wall clock, and memcpy beside it.
#include <chrono>
#include <cstring>

#include "bench.hpp"

namespace epifuse::tool {
namespace {

constexpr double kShortestSample = 1e-3;  // far above the clock's own cost
constexpr std::size_t kFewestCpuSamples = 5;

template <class Action>
double seconds_of(std::int64_t times, const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < times; ++i) action();
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / static_cast<double>(times);
}

HostTensor bytes_of(std::uint64_t count) {
  return HostTensor::filled({"copy", DType::u8, {static_cast<std::int64_t>(count)}, {1}, 0});
}

}  // namespace

Measurement measure_on_cpu(Engine& engine, const Task& task, const HostData& data, const Traffic& traffic,
                           double seconds) {
  execute(engine, task, data);  // the first launch is no sample
  const HostTensor from = bytes_of(traffic.copied());
  const HostTensor to = bytes_of(traffic.copied());
  const auto chain = [&] { execute(engine, task, data); };
  const auto copy = [&] { std::memcpy(to.memory(), from.memory(), traffic.copied()); };

  Measurement result;
  result.method = "wall clock";
  const double once = seconds_of(1, chain);
  const double copy_once = seconds_of(1, copy);
  result.launches_per_sample = 1 + static_cast<std::int64_t>(kShortestSample / std::max(once, 1e-9));
  const std::int64_t copies = 1 + static_cast<std::int64_t>(kShortestSample / std::max(copy_once, 1e-9));
  const auto start = std::chrono::steady_clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  while (result.chain.size() < kFewestCpuSamples || elapsed() < seconds) {
    result.chain.push_back(seconds_of(result.launches_per_sample, chain));
    result.copy.push_back(seconds_of(copies, copy));
  }
  for (const HostTensor& tensor : data.inputs) result.rotated_bytes += tensor.storage().bytes;
  for (const HostTensor& tensor : data.outputs) result.rotated_bytes += tensor.storage().bytes;
  return result;
}

}  // namespace epifuse::tool
