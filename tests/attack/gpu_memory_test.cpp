// Many launches, engines and chains on a real GPU: memory of host and device ends where it began, and the results are
// right.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <thread>
#include <vector>

#include "gpu.hpp"
#include "gpu/shards.hpp"

namespace attack {
namespace {

namespace fs = std::filesystem;
using epifuse::test::Shard;

// The driver takes device memory in pieces of 2 MiB, and keeps some of it for what comes next.
constexpr std::int64_t kTolerance = 4 << 20;

struct Reading {
  std::int64_t heap = heap_bytes();
  std::int64_t resident = resident_bytes();
  std::int64_t device = device_bytes();
};

void record(const std::string& when, const Reading& reading) {
  testing::Test::RecordProperty("heap_bytes_" + when, std::to_string(reading.heap));
  testing::Test::RecordProperty("resident_bytes_" + when, std::to_string(reading.resident));
  testing::Test::RecordProperty("device_bytes_" + when, std::to_string(reading.device));
}

// Does it a few times for what is made once per process, then in two halves. What either leaves for good, the second
// half leaves too, and by that it is judged: driver and compiler fill tables of their own while the first one runs.
void measure(std::uint64_t count, std::uint64_t warm_up, const std::function<void(std::uint64_t)>& action) {
  action(warm_up);
  const Reading before;
  const auto start = std::chrono::steady_clock::now();
  action(count / 2);
  const Reading halfway;
  action(count - count / 2);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  const Reading after;
  testing::Test::RecordProperty("count", std::to_string(count));
  testing::Test::RecordProperty("seconds", std::to_string(spent.count()));
  record("before", before);
  record("halfway", halfway);
  record("after", after);
  EXPECT_LE(after.heap - halfway.heap, kTolerance);
  EXPECT_LE(after.resident - halfway.resident, kTolerance);
  EXPECT_LE(after.device - halfway.device, kTolerance);
}

std::uint64_t counted(std::uint64_t in_full, std::uint64_t slice) { return is_long() ? in_full : slice; }

using GpuMemory = OnAGpu;

// Pointwise in place, with a pooled workspace, and with rows in turn, on two streams.
TEST_F(GpuMemory, OfLaunches) {
  const std::uint64_t count = counted(1'000'000, 40'000);
  Engine engine = make_gpu_engine();
  const auto context = std::make_shared<runtime::Context>(0);
  const runtime::Stream stream(context);
  constexpr std::int64_t kElements = std::int64_t{256} * 1024;
  const std::vector<float> zeros(kElements, 0.0F);
  const epifuse::Array x = engine.array(DType::f32, {256, 1024}, zeros.data());
  const epifuse::Array y = engine.empty(DType::f32, {256, 1024});
  const epifuse::Array one = engine.array(DType::f32, {1024}, std::vector<float>(1024, 1.0F).data());
  Sum sum(engine);
  const Epilogue add = Epilogue::parse("input x, one; x + one");
  const Epilogue rows = Epilogue::parse("softmax(x, -1)");
  std::uint64_t added = 0;
  measure(count, 4000, [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      if (i % 4 == 1) {
        sum.launch(engine);
      } else if (i % 4 == 3) {
        engine.launch(rows, nullptr, y, {y});
      } else {
        engine.launch(add, stream.handle(), x, {x, one});
        ++added;
      }
      if (i % 4096 == 0) engine.synchronize();
    }
    engine.synchronize();
    stream.synchronize();
  });
  std::vector<float> found(kElements);
  x.download(found.data());
  EXPECT_EQ(std::ranges::count(found, static_cast<float>(added)), kElements) << "additions were lost";
  EXPECT_LT(added, 1U << 24) << "more than f32 counts";
  EXPECT_EQ(engine.stats().launches, count + 4000);
}

// One engine after the other, while another one keeps the device's context alive.
TEST_F(GpuMemory, OfEngines) {
  const Folder cache;
  const Epilogue tail = Epilogue::parse("x * 2 + 1");
  const Engine keeper = make_gpu_engine();
  measure(counted(10'000, 300), 50, [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      Engine engine = make_gpu_engine(cache.path());
      float value = 3;
      epifuse::Array x = engine.array(DType::f32, {1}, &value);
      engine.launch(tail, nullptr, x, {x});
      x.download(&value);
      ASSERT_EQ(value, 7);
    }
  });
}

// Each engine makes the device's primary context and ends it.
TEST_F(GpuMemory, OfContexts) {
  const Folder cache;
  const Epilogue tail = Epilogue::parse("x * 2 + 1");
  measure(counted(20, 6), 2, [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      Engine engine = make_gpu_engine(cache.path());
      float value = 3;
      epifuse::Array x = engine.array(DType::f32, {1}, &value);
      engine.launch(tail, nullptr, x, {x});
      x.download(&value);
      ASSERT_EQ(value, 7);
    }
  });
}

Epilogue chain(std::uint64_t number) { return Epilogue::parse("relu(x * " + std::to_string(number + 2) + ") + 1"); }

// Launches chains [from, to) in one engine, which keeps its kernels for its life; then it goes.
epifuse::EngineStats launch_chains(const fs::path& cache, std::uint64_t from, std::uint64_t to) {
  Engine engine = make_gpu_engine(cache);
  const float two = 2;
  float found = 0;
  const epifuse::Array x = engine.array(DType::f32, {1}, &two);
  const epifuse::Array y = engine.empty(DType::f32, {1});
  for (std::uint64_t i = from; i < to; ++i) {
    engine.launch(chain(i), nullptr, y, {x});
    y.download(&found);
    if (found != static_cast<float>(2 * (i + 2) + 1)) throw std::runtime_error("a wrong result");
  }
  return engine.stats();
}

constexpr const char* kChainsFolder = "ATTACK_CHAINS";

// NVRTC compiles one chain at a time, so that processes share the work; each looks at its own memory.
void compile_part(const Shard& shard, std::uint64_t count) {
  const fs::path folder = std::getenv(kChainsFolder);
  const std::uint64_t part = count / static_cast<std::uint64_t>(shard.count);
  std::uint64_t next = part * static_cast<std::uint64_t>(shard.index);
  const std::uint64_t end = shard.index + 1 == shard.count ? count : next + part;
  const Engine keeper = make_gpu_engine();
  std::uint64_t compiles = 0;
  const auto compile = [&](std::uint64_t n) {
    compiles += launch_chains(folder / "cache", next, next + n).compiles, next += n;
  };
  compile(4);
  const Reading before;
  compile((end - next) / 2);
  const Reading halfway;
  compile(end - next);
  const Reading after;
  std::ofstream(folder / std::to_string(shard.index))
      << compiles << ' ' << halfway.resident - before.resident << ' ' << after.resident - halfway.resident << '\n';
}

// Compiles all of them in many processes; then one process loads each of them.
TEST_F(GpuMemory, OfChains) {
  const std::uint64_t count = counted(10'000, 320);
  if (const Shard shard = Shard::current(); !shard.is_parent()) return compile_part(shard, count);
  const Folder folder;
  ::setenv(kChainsFolder, folder.path().c_str(), 1);
  const int processes = std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 16);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(epifuse::test::run_shards("GpuMemory.OfChains", processes), 0);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  std::uint64_t compiles = 0;
  std::int64_t most[2] = {0, 0};
  for (int i = 0; i < processes; ++i) {
    std::uint64_t done = 0;
    std::int64_t left[2] = {0, 0};
    std::ifstream(folder.path() / std::to_string(i)) >> done >> left[0] >> left[1];
    compiles += done;
    for (int half = 0; half < 2; ++half) most[half] = std::max(most[half], left[half]);
  }
  RecordProperty("compiling_processes", std::to_string(processes));
  RecordProperty("compiles", std::to_string(compiles));
  RecordProperty("compiling_seconds", std::to_string(spent.count()));
  RecordProperty("most_resident_bytes_left_by_compiling_first_half", std::to_string(most[0]));
  RecordProperty("most_resident_bytes_left_by_compiling_second_half", std::to_string(most[1]));
  EXPECT_EQ(compiles, count);
  EXPECT_LE(most[1], kTolerance);

  const Engine keeper = make_gpu_engine();
  std::uint64_t next = 0;
  std::uint64_t hits = 0;
  measure(count - 100, 100, [&](std::uint64_t n) {
    hits += launch_chains(folder.path() / "cache", next, next + n).disk_hits;
    next += n;
  });
  EXPECT_EQ(hits, count);
}

}  // namespace
}  // namespace attack
