// Launching: streams, graphs, threads, engines, contexts, and pointers that are refused.
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "gpu/device.hpp"
#include "support/as_written.hpp"

namespace epifuse::test {
namespace {

using Launching = OnGpu;

std::vector<float> ramp(std::size_t count, float start) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

TEST_F(Launching, StreamsAreIndependentAndEachKeepsItsOrder) {
  constexpr std::size_t kL2EvictFirst = 6;
  constexpr std::int64_t kCount = 100'003;
  const Epilogue tail = Epilogue::parse("x * 2 + 1");
  std::vector<std::unique_ptr<runtime::Stream>> streams;
  std::vector<Array> arrays;
  for (std::size_t i = 0; i < kL2EvictFirst; ++i) {
    streams.push_back(std::make_unique<runtime::Stream>(context()));
    const std::vector<float> start(kCount, static_cast<float>(i));
    arrays.push_back(engine().array(DType::f32, {kCount}, start.data()));
  }
  engine().synchronize();
  // In place, ten times on each stream, interleaved: x becomes 1024 x + 1023.
  for (int transpose = 0; transpose < 10; ++transpose) {
    for (std::size_t i = 0; i < kL2EvictFirst; ++i)
      engine().launch(tail, streams[i]->handle(), arrays[i], {arrays[i].view()});
  }
  for (std::size_t i = 0; i < kL2EvictFirst; ++i) {
    engine().synchronize(streams[i]->handle());
    const float expected = 1024 * static_cast<float>(i) + 1023;
    const std::vector<float> found = contents<float>(arrays[i]);
    EXPECT_EQ(std::ranges::count(found, expected), kCount) << "stream " << i;
  }
}

// Blocks have space for more rows than there are. Groups without one took the first, and wrote over it (ptxas 13.0;
// found by ./dev soak).
TEST_F(Launching, GroupsWithoutARowWriteNothing) {
  const Epilogue tail = as_written("t = unflatten(x, 3, (2, -1)); t * sum(t, 4, true) - y");
  for (const std::int64_t rows : {1, 5, 7, 15}) {
    const std::vector<float> values = ramp(static_cast<std::size_t>(rows), 1);
    const Array x = engine().array(DType::f32, {rows}, values.data());
    const float two = 2;
    const Array y = engine().array(DType::f32, {1}, &two);
    const Array result = engine().empty(DType::f32, {1, 1, rows, 2, 3});
    const TensorView repeated(x.view().data, DType::f32, {1, 1, rows, 6}, {0, 0, 1, 0});
    engine().launch(tail, nullptr, result, {repeated, y.view()});
    engine().synchronize();
    const std::vector<float> found = contents<float>(result);
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_EQ(found[i], 3 * values[i / 6] * values[i / 6] - two) << "element " << i << " of " << rows << " rows";
  }
}

TEST_F(Launching, IsCapturedInAGraphAndReplayed) {
  constexpr std::int64_t kCount = 50'001;
  const Epilogue tail = as_written("relu(x) * s + bias", std::array<std::string, 1>{"s"});
  const std::vector<float> first = ramp(kCount, -25'000);
  Array x = engine().array(DType::f32, {kCount}, first.data());
  const std::vector<float> bias(1, 0.5f);
  Array b = engine().array(DType::f32, {1}, bias.data());
  Array y = engine().empty(DType::f32, {kCount});
  const std::array<TensorView, 2> inputs = {x.view(), b.view()};
  const std::array<OutputView, 1> outputs = {y.view()};
  engine().prepare(tail, outputs, inputs);
  const runtime::Stream stream(context());
  // A driver refuses allocations and synchronisation while a stream is captured, so that a launch which did either
  // would throw.
  const runtime::Graph graph(stream, [&](runtime::StreamHandle handle) {
    engine().launch(tail, handle, y, {x.view(), b.view()}, {3.0});
    engine().launch(tail, handle, y, {y.view(), b.view()}, {1.0});
  });
  const EngineStats before = engine().stats();
  for (const float start : {-25'000.0f, 10.0f}) {
    const std::vector<float> values = ramp(kCount, start);
    x.upload(values.data());
    graph.launch(stream.handle());
    stream.synchronize();
    const std::vector<float> found = contents<float>(y);
    for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(found[i], std::max(values[i], 0.0f) * 3 + 1) << i;
  }
  EXPECT_EQ(engine().stats().compiles, before.compiles);
}

TEST_F(Launching, ANewShapeOfTheClassCompilesNothing) {
  const Epilogue tail = as_written("sigmoid((x + bias) * scale)");
  for (std::int64_t batch = 1; batch <= 64; ++batch) {
    const Dims shape = {batch, 5, 7, 9};
    Array x = engine().empty(DType::f16, shape);
    Array bias = engine().empty(DType::f32, {5, 1, 1});
    Array scale = engine().empty(DType::f32, {5, 1, 1});
    Array y = engine().empty(DType::f16, shape);
    engine().launch(tail, nullptr, y, {x.view(), bias.view(), scale.view()});
    engine().synchronize();
  }
  EXPECT_LE(engine().stats().compiles, 2u);
  EXPECT_EQ(engine().stats().launches, 64u);
}

TEST_F(Launching, ManyThreadsAtOnceCompileOnce) {
  constexpr int kThreads = 16;
  constexpr std::int64_t kCount = 4096;
  const Epilogue tail = Epilogue::parse("tanh(x) - x * 0.25");
  const std::vector<float> values(kCount, 0.0f);
  std::vector<Array> arrays;
  for (int i = 0; i < 2 * kThreads; ++i) arrays.push_back(engine().array(DType::f32, {kCount}, values.data()));
  std::atomic<int> ready = 0;
  std::atomic<int> good = 0;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        for (++ready; ready < kThreads;) std::this_thread::yield();
        for (int transpose = 0; transpose < 50; ++transpose)
          engine().launch(tail, nullptr, arrays[2 * i + 1], {arrays[2 * i].view()});
        engine().synchronize();
        if (std::ranges::count(contents<float>(arrays[2 * i + 1]), 0.0f) == kCount) ++good;
      });
    }
  }
  EXPECT_EQ(good, kThreads);
  EXPECT_EQ(engine().stats().compiles, 1u);
  EXPECT_EQ(engine().stats().launches, 50u * kThreads);
}

TEST_F(Launching, TwoEnginesOfOneDeviceDoNotDisturbEachOther) {
  const Epilogue tail = Epilogue::parse("x + 1");
  const std::vector<float> zeros(1000, 0.0f);
  Array x = engine().array(DType::f32, {1000}, zeros.data());
  {
    Engine other(Device::cuda(0), EngineOptions{.disk_cache = false, .cache_directory = std::nullopt});
    other.launch(tail, nullptr, x, {x.view()});
    engine().launch(tail, nullptr, x, {x.view()});
    other.synchronize();
  }
  engine().launch(tail, nullptr, x, {x.view()});
  engine().synchronize();
  EXPECT_EQ(std::ranges::count(contents<float>(x), 3.0f), 1000);
}

TEST_F(Launching, WorksInAContextOfTheApplication) {
  // cuCtxCreate is not among what the library calls; its second version is in every driver.
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  ASSERT_NE(library, nullptr);
  using Create = int (*)(runtime::ContextHandle*, unsigned, runtime::DeviceHandle);
  using Destroy = int (*)(runtime::ContextHandle);
  const auto create = reinterpret_cast<Create>(dlsym(library, "cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<Destroy>(dlsym(library, "cuCtxDestroy_v2"));
  ASSERT_TRUE(create != nullptr && destroy != nullptr);
  std::thread([&] {
    runtime::ContextHandle own = nullptr;
    ASSERT_EQ(create(&own, 0, context()->device()), 0);  // also makes it current
    {
      Engine local(Device::cuda(0), EngineOptions{.disk_cache = false, .cache_directory = std::nullopt});
      const std::vector<float> ones(777, 1.0f);
      Array x = local.array(DType::f32, {777}, ones.data());
      local.launch(Epilogue::parse("x * 5"), nullptr, x, {x.view()});
      local.synchronize();
      EXPECT_EQ(std::ranges::count(contents<float>(x), 5.0f), 777);
      runtime::ContextHandle current = nullptr;
      runtime::driver().ctx_get_current(&current);
      EXPECT_EQ(current, own) << "the thread's context was not put back";
      // From a thread that has no context at all.
      std::thread([&] {
        local.launch(Epilogue::parse("x * 5"), nullptr, x, {x.view()});
        local.synchronize();
        EXPECT_EQ(std::ranges::count(contents<float>(x), 25.0f), 777);
      }).join();
    }
    destroy(own);
  }).join();
  dlclose(library);
}

TEST_F(Launching, HostMemoryIsRefusedAndNothingIsWritten) {
  std::vector<float> host(64, 2.0f);
  Array device = engine().array(DType::f32, {64}, host.data());
  const Epilogue tail = Epilogue::parse("x + 1");
  const TensorView host_view(host.data(), DType::f32, {64});
  const auto refusal = [&](const OutputView& out, const TensorView& in) -> std::string {
    try {
      engine().launch(tail, nullptr, out, {in});
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "";
  };
  EXPECT_NE(refusal(device, host_view).find("operand 'x'"), std::string::npos);
  EXPECT_NE(refusal(OutputView(host.data(), DType::f32, {64}), device.view()).find("output 'out'"), std::string::npos);
  engine().synchronize();
  EXPECT_EQ(std::ranges::count(host, 2.0f), 64);
  EXPECT_EQ(std::ranges::count(contents<float>(device), 2.0f), 64);
}

TEST_F(Launching, EmptyTensorsLaunchNothing) {
  const Epilogue tail = as_written("x + y");
  const Dims shape = {0, 5};
  const Array bias = engine().empty(DType::f32, {5});
  engine().launch(tail, nullptr, OutputView(nullptr, DType::f32, shape),
                  {TensorView(nullptr, DType::f32, shape), bias.view()});
  EXPECT_EQ(engine().stats().launches, 0u);
}

}  // namespace
}  // namespace epifuse::test
