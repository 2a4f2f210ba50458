// Events around every piece of work, read when all of it is done.
#include "common/timing.hpp"

#include <algorithm>

#include "common/gpu.hpp"

namespace examples {
namespace {

constexpr int kWarmUpRounds = 3;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace

std::vector<double> measure(cudaStream_t stream, int rounds, const std::vector<std::function<void()>>& pieces) {
  for (int round = 0; round < kWarmUpRounds; ++round) {
    for (const auto& piece : pieces) piece();
  }
  std::vector<EventOwner> events;
  const auto mark = [&] {
    events.push_back(create<EventOwner, cudaError_t>(cudaEventCreate, check, "creating an event"));
    check(cudaEventRecord(events.back().get(), stream), "recording an event");
  };
  for (int round = 0; round < rounds; ++round) {
    mark();
    for (const auto& piece : pieces) {
      piece();
      mark();
    }
  }
  check(cudaStreamSynchronize(stream), "the measured work");

  std::vector<std::vector<double>> times(pieces.size());
  for (std::size_t round = 0; round < static_cast<std::size_t>(rounds); ++round) {
    const std::size_t first = round * (pieces.size() + 1);
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, events[first + i].get(), events[first + i + 1].get()),
            "reading an event");
      times[i].push_back(static_cast<double>(milliseconds));
    }
  }
  std::vector<double> medians;
  for (auto& piece : times) medians.push_back(median(std::move(piece)));
  return medians;
}

}  // namespace examples
