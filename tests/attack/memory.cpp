// Many launches, engines and chains: memory of host and devices must end where it began. Prints its figures as JSON.
//   memory LAUNCHES ENGINES CHAINS      attack.py calls it (ctest's attack.memory; tests/attack/report.sh)
// EPIFUSE_NVRTC names the fake NVRTC.
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>

#include <epifuse/epifuse.hpp>
#include <nlohmann/json.hpp>

#include "fake_driver.hpp"
#include "meters.hpp"

namespace attack {
namespace {

using epifuse::DType;
using epifuse::Engine;
using epifuse::Epilogue;
using Json = nlohmann::json;

// Not a leak, if it does not grow with the count: blocks that malloc keeps for the thread.
constexpr std::int64_t kTolerance = 64 * 1024;

Engine make_engine() { return Engine(epifuse::Device::cuda(0), {.disk_cache = false, .cache_directory = {}}); }

// Runs `action` before measuring, for what is made once per process; then says what `count` more of it leave.
Json measure(const FakeDriver& driver, std::uint64_t count, const std::function<void(std::uint64_t)>& action) {
  action(4);
  const std::int64_t heap = heap_bytes();
  const std::int64_t resident = resident_bytes();
  const std::int64_t modules = driver.account().modules;
  const std::int64_t device = driver.account().bytes;
  const auto start = std::chrono::steady_clock::now();
  action(count);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  Json figures = {{"count", count},
                  {"seconds", spent.count()},
                  {"heap_bytes_before", heap},
                  {"heap_bytes_after", heap_bytes()},
                  {"resident_bytes_before", resident},
                  {"resident_bytes_after", resident_bytes()},
                  {"device_bytes_left", driver.account().bytes - device},
                  {"modules_left", driver.account().modules - modules}};
  if (heap_bytes() - heap > kTolerance || driver.account().bytes != device || driver.account().modules != modules ||
      driver.account().misuses != 0)
    throw std::runtime_error("memory did not end where it began: " + figures.dump());
  return figures;
}

// Pointwise, in place, with a pooled workspace and with rows in turn.
Json launches(const FakeDriver& driver, std::uint64_t count) {
  Engine engine = make_engine();
  const epifuse::Array x = engine.empty(DType::f32, {1024, 4096});
  const epifuse::Array bias = engine.empty(DType::f32, {4096});
  const epifuse::Array total = engine.empty(DType::f32, {});
  const Epilogue pointwise = Epilogue::parse("input x, bias; gelu(x + bias)");
  const Epilogue sum = Epilogue::parse("sum(x)");
  const Epilogue rows = Epilogue::parse("softmax(x, -1)");
  return measure(driver, count, [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      if (i % 4 == 1) {
        engine.launch(sum, nullptr, total, {x});
      } else if (i % 4 == 3) {
        engine.launch(rows, nullptr, x, {x});
      } else {
        engine.launch(pointwise, nullptr, x, {x, bias});
      }
    }
  });
}

Json engines(const FakeDriver& driver, std::uint64_t count) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  return measure(driver, count, [&](std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      Engine engine = make_engine();
      const epifuse::Array x = engine.empty(DType::f32, {4096});
      engine.launch(tail, nullptr, x, {x});
    }
  });
}

// All in one engine, which keeps its kernels for its life; then it goes.
Json chains(const FakeDriver& driver, std::uint64_t count) {
  std::int64_t held = 0;
  Json figures = measure(driver, count, [&](std::uint64_t n) {
    const std::int64_t before = heap_bytes();
    Engine engine = make_engine();
    const epifuse::Array x = engine.empty(DType::f32, {4096});
    for (std::uint64_t i = 0; i < n; ++i)
      engine.launch(Epilogue::parse("relu(x * " + std::to_string(i + 2) + ")"), nullptr, x, {x});
    if (engine.stats().compiles != n) throw std::runtime_error("chains were not compiled each");
    held = heap_bytes() - before;
  });
  figures["heap_bytes_held_per_kernel"] = held / static_cast<std::int64_t>(count);
  return figures;
}

}  // namespace
}  // namespace attack

int main(int argc, char** argv) {
  try {
    if (argc != 4) throw std::runtime_error("memory LAUNCHES ENGINES CHAINS");
    attack::Json figures;
    {
      const attack::FakeDriver driver;
      figures["launches"] = attack::launches(driver, std::strtoull(argv[1], nullptr, 10));
      figures["engines"] = attack::engines(driver, std::strtoull(argv[2], nullptr, 10));
      figures["chains"] = attack::chains(driver, std::strtoull(argv[3], nullptr, 10));
    }
    std::cout << figures.dump() << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
