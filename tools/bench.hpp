// What the two ways of timing share: the GPU's events (bench_gpu.cpp) and the CPU's clock (bench_cpu.cpp).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "execute.hpp"

namespace epifuse::tool {

struct Traffic {
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  std::uint64_t total() const noexcept { return read + written; }
  /// A copy of n bytes reads n and writes n.
  std::uint64_t copied() const noexcept { return (total() + 1) / 2; }
};

/// Seconds of one launch and of one copy of the same bytes, from samples that were taken in turn.
struct Measurement {
  std::string method;
  std::vector<double> chain;
  std::vector<double> copy;
  std::int64_t launches_per_sample = 1;
  std::uint64_t sets = 1;           ///< of buffers, used in turn
  std::uint64_t rotated_bytes = 0;  ///< all sets together
};

/// The sample below which that share of all lies.
double quantile(std::span<const double> samples, double share);
double median(std::span<const double> samples);

/// Error(out_of_memory) if the GPU cannot hold the task and a copy of its bytes: before the host prepares gigabytes for
/// it.
void require_gpu_memory(int device, const Task& task, const Traffic& traffic);

Measurement measure_on_cpu(Engine& engine, const Task& task, const HostData& data, const Traffic& traffic,
                           double seconds);
/// Leaves the results of one launch in `data` and calls `check` before it times anything.
Measurement measure_on_gpu(Engine& engine, const Task& task, const HostData& data, const Traffic& traffic,
                           double seconds, std::uint64_t l2_bytes, const std::function<void()>& check);

}  // namespace epifuse::tool
