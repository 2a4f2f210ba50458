// The launches that dispatch.cpp and driver_calls.cpp measure: chains with their tensors, and the driver's own launch
// of the same kernel.
#pragma once

#include <array>
#include <cstdint>
#include <ctime>
#include <functional>
#include <utility>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "runtime/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"

namespace bench {

namespace abi = epifuse::runtime::abi;

constexpr int kBurst = 100;  // launches between two looks at the clock: few enough never to fill the GPU's queue

struct Case {
  const char* name;
  const char* chain;
  std::vector<std::pair<epifuse::DType, epifuse::Dims>>
      inputs;  // as the chain mentions them; an extent of 0: the batch
  epifuse::DType output;
};

// Small tensors, so that a GPU keeps up with the launches.
inline const std::vector<Case>& cases() {
  using epifuse::DType;
  static const std::vector<Case> list = {
      {"relu(x + bias)", "relu(x + bias)", {{DType::f16, {0, 256}}, {DType::f32, {256}}}, DType::f16},
      {"sigmoid((x + bias) * scale), NCHW",
       "sigmoid((x + bias) * scale)",
       {{DType::f16, {0, 32, 7, 7}}, {DType::f32, {32, 1, 1}}, {DType::f32, {32, 1, 1}}},
       DType::f16},
      {"eight operands",
       "gelu((a + b) * c + d) * e + f - g * h",
       {{DType::bf16, {0, 256}},
        {DType::f32, {256}},
        {DType::bf16, {0, 256}},
        {DType::f32, {256}},
        {DType::bf16, {0, 256}},
        {DType::f32, {256}},
        {DType::bf16, {0, 256}},
        {DType::f32, {256}}},
       DType::bf16},
      {"softmax(x, -1)", "softmax(x, -1)", {{DType::f16, {0, 256}}}, DType::f16},
  };
  return list;
}

constexpr std::int64_t kBatch = 64;
constexpr std::int64_t kFirstNewBatch = 1000;
constexpr std::int64_t kNewBatches = 4000;  // more than the engine remembers

/// The driver's own launch, as seen through a table that notes it.
struct Raw {
  epifuse::runtime::FunctionHandle function = nullptr;
  unsigned grid = 0, block = 0, shared = 0;
  std::vector<std::byte> parameters;
};

/// What `launch` asks of the driver. No other thread may launch meanwhile.
inline Raw note(const std::function<void()>& launch) {
  using namespace epifuse::runtime;
  static Raw noted;
  static const DriverApi* real = nullptr;
  real = &driver();
  DriverApi noting = *real;
  noting.launch_kernel = [](FunctionHandle function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                            unsigned bz, unsigned shared, StreamHandle stream, void** p, void** extra) {
    const auto* const first = static_cast<const std::byte*>(extra[1]);
    noted = {function, gx, bx, shared, {first, first + *static_cast<const std::size_t*>(extra[3])}};
    return real->launch_kernel(function, gx, gy, gz, bx, by, bz, shared, stream, p, extra);
  };
  set_driver_for_testing(&noting);
  launch();
  set_driver_for_testing(real);
  return noted;
}

/// Again, with the same block of parameters, which the caller keeps.
inline void launch_raw(const Raw& raw, epifuse::Stream stream) {
  std::size_t size = raw.parameters.size();
  std::array<void*, 5> extra = {reinterpret_cast<void*>(abi::kLaunchParamBufferPointer),
                                const_cast<std::byte*>(raw.parameters.data()),
                                reinterpret_cast<void*>(abi::kLaunchParamBufferSize), &size, nullptr};
  epifuse::runtime::check(epifuse::runtime::driver().launch_kernel(raw.function, raw.grid, 1, 1, raw.block, 1, 1,
                                                                   raw.shared, stream, nullptr, extra.data()),
                          "launch");
}

/// A chain and its tensors on the device, for any batch up to the largest.
class Subject {
 public:
  Subject(const Case& c, epifuse::Engine& engine)
      : case_(c), engine_(engine), tail_(epifuse::Epilogue::parse(c.chain)) {
    tail_ = tail_.inputs(tail_.inputs());
    for (const auto& [dtype, shape] : c.inputs) {
      memory_.push_back(engine.empty(dtype, batched(shape, kFirstNewBatch + kNewBatches)));
    }
    memory_.push_back(engine.empty(c.output, batched(c.inputs[0].second, kFirstNewBatch + kNewBatches)));
  }

  struct Views {
    std::vector<epifuse::TensorView> inputs;
    epifuse::OutputView output;
  };
  Views views(std::int64_t batch) const {
    Views views;
    for (std::size_t i = 0; i < case_.inputs.size(); ++i) {
      views.inputs.emplace_back(memory_[i].view().data, case_.inputs[i].first, batched(case_.inputs[i].second, batch));
    }
    views.output =
        epifuse::OutputView(memory_.back().view().writable(), case_.output, batched(case_.inputs[0].second, batch));
    return views;
  }
  void launch(const Views& views, epifuse::Stream stream) {
    engine_.launch(tail_, stream, std::span(&views.output, 1), views.inputs);
  }
  const epifuse::Epilogue& tail() const noexcept { return tail_; }

 private:
  static epifuse::Dims batched(epifuse::Dims shape, std::int64_t batch) {
    if (!shape.empty() && shape[0] == 0) shape[0] = batch;
    return shape;
  }
  const Case& case_;
  epifuse::Engine& engine_;
  epifuse::Epilogue tail_;
  std::vector<epifuse::Array> memory_;
};

/// Of this thread's CPU time.
inline double now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// Nanoseconds of one of kBurst launches. `launch` is given their numbers.
template <class Launch>
double burst(const Launch& launch) {
  const double start = now_ns();
  for (int i = 0; i < kBurst; ++i) launch(i);
  return (now_ns() - start) / kBurst;
}

}  // namespace bench
