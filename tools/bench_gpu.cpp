// Timing on a GPU: events around launches that rotate through enough memory that nothing is found in the L2 cache
// again, in turn with device copies of the same number of bytes. Short launches are replayed from a CUDA graph, where
// the host costs nothing.
#include <algorithm>
#include <cmath>
#include <utility>

#include "bench.hpp"
#include "cuda_timing.hpp"
#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

constexpr std::uint64_t kOperandAlignment = 256;
constexpr std::uint64_t kMostSets = 2048;
constexpr double kCacheMultiple = 3;     // rotate through this many times the L2 cache
constexpr double kMemoryShare = 0.9;     // of what is free
constexpr double kShortLaunch = 100e-6;  // below it the host's share of a launch would show
constexpr double kGraphSeconds = 1e-3;   // of one replay
constexpr double kBatchSeconds = 50e-3;  // queued at a time
constexpr std::size_t kFewestGpuSamples = 15;

std::uint64_t rounded(std::uint64_t bytes) {
  return (bytes + kOperandAlignment - 1) / kOperandAlignment * kOperandAlignment;
}

// Half of what a copy of the same bytes needs: source or target.
std::uint64_t half_of(const Traffic& traffic) { return rounded(std::max<std::uint64_t>(traffic.copied(), 1)); }

std::uint64_t available_memory(const GpuSession& session) {
  return static_cast<std::uint64_t>(kMemoryShare * static_cast<double>(session.free_memory()));
}

// One set holds every operand and result once; sets lie one after the other. The copies have memory of their own.
class Buffers {
 public:
  Buffers(GpuSession& session, const HostData& data, const Traffic& traffic, std::uint64_t l2_bytes)
      : session_(session), data_(data), half_(half_of(traffic)) {
    for (const auto* tensors : {&data.inputs, &data.outputs}) {
      for (const HostTensor& tensor : *tensors) {
        positions_.push_back(set_bytes_);
        set_bytes_ += rounded(tensor.storage().bytes);
      }
    }
    choose_sets(traffic, l2_bytes);
    memory_ = session.allocate(sets_ * set_bytes_);
    copies_ = session.allocate(sets_ * 2 * half_);
    fill();
  }

  std::uint64_t sets() const noexcept { return sets_; }
  std::uint64_t bytes() const noexcept { return sets_ * set_bytes_; }

  void launch(Engine& engine, const Task& task, std::uint64_t turn) const {
    std::byte* set = memory_ + turn % sets_ * set_bytes_;
    std::vector<TensorView> inputs;
    std::vector<OutputView> outputs;
    for (const HostTensor& tensor : data_.inputs) inputs.push_back(tensor.view_at(set + positions_[inputs.size()]));
    for (std::size_t i = 0; i < data_.outputs.size(); ++i) {
      const auto [tensor, at] = result(task, i);
      outputs.push_back(tensor->view_at(set + positions_[at]));
    }
    engine.launch(task.tail, session_.stream(), outputs, inputs, task.scalars);
  }
  void copy(std::uint64_t bytes, std::uint64_t turn) const {
    std::byte* pair = copies_ + turn % sets_ * 2 * half_;
    session_.copy_async(pair + half_, pair, bytes);
  }
  /// The results of the first set.
  void download(const Task& task) const {
    session_.synchronize();
    for (std::size_t i = 0; i < data_.outputs.size(); ++i) {
      const auto [tensor, at] = result(task, i);
      session_.download(tensor->memory(), memory_ + positions_[at], tensor->storage().bytes);
    }
  }

 private:
  // A result, and which tensor of the set it is: it may be an operand's memory.
  std::pair<const HostTensor*, std::size_t> result(const Task& task, std::size_t i) const {
    if (const auto under = task.input_under(i)) return {&data_.inputs[*under], *under};
    return {&data_.outputs[i], data_.inputs.size() + i};
  }
  void choose_sets(const Traffic& traffic, std::uint64_t l2_bytes) {
    const double wanted = kCacheMultiple * static_cast<double>(l2_bytes) /
                          static_cast<double>(std::max<std::uint64_t>(traffic.total(), 1));
    sets_ = static_cast<std::uint64_t>(std::clamp(std::ceil(wanted), 2.0, static_cast<double>(kMostSets)));
    const std::uint64_t per_set = set_bytes_ + 2 * half_;
    sets_ = std::clamp<std::uint64_t>(available_memory(session_) / per_set, 1, sets_);
  }
  void fill() const {
    std::size_t k = 0;
    for (const auto* tensors : {&data_.inputs, &data_.outputs}) {
      for (const HostTensor& tensor : *tensors) {
        session_.upload(memory_ + positions_[k++], tensor.memory(), tensor.storage().bytes);
      }
    }
    for (std::uint64_t i = 1; i < sets_; ++i) session_.copy_async(memory_ + i * set_bytes_, memory_, set_bytes_);
    for (std::uint64_t i = 0; i < sets_; ++i) copy(half_, i);
    session_.synchronize();
  }

  GpuSession& session_;
  const HostData& data_;
  std::uint64_t half_;
  std::uint64_t set_bytes_ = 0;
  std::uint64_t sets_ = 0;
  std::vector<std::uint64_t> positions_;
  std::byte* memory_ = nullptr;
  std::byte* copies_ = nullptr;
};

// Chain and copy in turn, in batches, until the time is up. Each batch's first pair waited for the host and is dropped.
void sample(GpuSession& session, Measurement& result, double seconds, double estimate,
            const std::function<void()>& chain, const std::function<void()>& copy) {
  const auto pairs = static_cast<int>(std::clamp(kBatchSeconds / estimate, 4.0, 24.0));
  double spent = 0;
  while (result.chain.size() < kFewestGpuSamples || spent < seconds) {
    const std::vector<double> times = session.time(2 * pairs, [&](int i) { i % 2 == 0 ? chain() : copy(); });
    for (std::size_t i = 0; i + 1 < times.size(); i += 2) {
      spent += times[i] + times[i + 1];
      if (i == 0) continue;
      result.chain.push_back(times[i] / static_cast<double>(result.launches_per_sample));
      result.copy.push_back(times[i + 1] / static_cast<double>(result.launches_per_sample));
    }
  }
}

}  // namespace

void require_gpu_memory(int device, const Task& task, const Traffic& traffic) {
  std::uint64_t needed = 2 * half_of(traffic);
  for (const Input& input : task.inputs) needed += rounded(storage_of(input.info).bytes);
  for (const TensorInfo& output : task.outputs) needed += rounded(storage_of(output).bytes);
  const GpuSession session(device);
  if (const std::uint64_t available = available_memory(session); available < needed) {
    fail(ErrorCode::out_of_memory,
         "timing needs {} of device memory (operands, results, and as much for the copy beside them), but {} can be "
         "had; "
         "use smaller tensors",
         format_bytes(static_cast<double>(needed)), format_bytes(static_cast<double>(available)));
  }
}

Measurement measure_on_gpu(Engine& engine, const Task& task, const HostData& data, const Traffic& traffic,
                           double seconds, std::uint64_t l2_bytes, const std::function<void()>& check) {
  GpuSession session(engine.device().index);
  const Buffers buffers(session, data, traffic, l2_bytes);
  buffers.launch(engine, task, 0);
  buffers.download(task);
  check();

  const std::vector<double> warm_up =
      session.time(8, [&](int i) { buffers.launch(engine, task, static_cast<std::uint64_t>(i)); });
  const double once = *std::ranges::min_element(warm_up);
  Measurement result;
  result.sets = buffers.sets();
  result.rotated_bytes = buffers.bytes();
  std::uint64_t turn = 0;
  if (once >= kShortLaunch) {
    result.method = "events";
    sample(
        session, result, seconds, 2 * once, [&] { buffers.launch(engine, task, turn); },
        [&] { buffers.copy(traffic.copied(), turn++); });
    return result;
  }
  result.method = "CUDA graph, events";
  const auto launches = std::max(buffers.sets(), static_cast<std::uint64_t>(kGraphSeconds / std::max(once, 1e-6)));
  result.launches_per_sample = static_cast<std::int64_t>(launches);
  const auto chain = session.record([&] {
    for (std::uint64_t i = 0; i < launches; ++i) buffers.launch(engine, task, i);
  });
  const auto copy = session.record([&] {
    for (std::uint64_t i = 0; i < launches; ++i) buffers.copy(traffic.copied(), i);
  });
  sample(session, result, seconds, 2 * once * static_cast<double>(launches), chain, copy);
  return result;
}

}  // namespace epifuse::tool
