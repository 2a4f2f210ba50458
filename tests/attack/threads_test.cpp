// Threads × devices × streams × engines in any interleaving. For the thread sanitizer (`cmake --preset tsan`), and with
// the address sanitizer in CI. ATTACK_SECONDS makes it longer.
#include <chrono>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "process.hpp"

namespace attack {
namespace {

constexpr int kThreads = 8;
constexpr int kShared = 4;  // engines that all threads use: two of each device
constexpr int kChains = 40;

// An engine and tensors on its device, alive as long as somebody uses them.
struct Place {
  explicit Place(int device) : engine(make_engine(device)), sum(engine) {}
  Engine engine;
  Sum sum;
};

class Interleaving {
 public:
  Interleaving() {
    for (int i = 0; i < kShared; ++i) slots_.push_back(std::make_shared<Place>(i % FakeDriver::kDevices));
    for (int i = 0; i < kChains; ++i)
      chains_.push_back(Epilogue::parse("input x, a; relu(x * " + std::to_string(i + 2) + ") + a"));
  }

  // One of everything that the documentation allows, again and again.
  void run(unsigned seed, std::chrono::steady_clock::time_point end) {
    std::minstd_rand generator(seed + 1);
    const auto random = [&] { return static_cast<unsigned>(generator() >> 4); };
    while (std::chrono::steady_clock::now() < end) {
      const std::size_t slot = random() % kShared;
      const std::shared_ptr<Place> place = at(slot);
      const unsigned what = random() % 64;
      if (what == 0) {
        replace(slot);
      } else if (what == 1) {
        Place own(static_cast<int>(random() % FakeDriver::kDevices));
        own.sum.launch(own.engine);
        ++launches;
      } else if (what < 6) {
        prepare(*place, random());
      } else if (what < 10) {
        use_memory(place->engine);
      } else if (what < 14) {
        stats_ += place->engine.stats().launches;
        place->engine.synchronize(stream(random()));
      } else if (what < 22) {
        place->engine.launch(place->sum.tail, stream(random()), place->sum.out, {place->sum.in});
        ++launches;
      } else {
        place->engine.launch(chains_[random() % kChains], stream(random()), place->sum.in,
                             {place->sum.in, place->sum.out});
        ++launches;
      }
      if (FakeDriver::depth() != 0) ADD_FAILURE() << "a context was left current";
    }
  }

  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> replaced{0};

 private:
  std::shared_ptr<Place> at(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    return slots_[slot];
  }

  // The last of those who use the old one destroys it, in their thread.
  void replace(std::size_t slot) {
    auto fresh = std::make_shared<Place>(static_cast<int>(slot) % FakeDriver::kDevices);
    const std::lock_guard lock(mutex_);
    slots_[slot].swap(fresh);
    ++replaced;
  }

  void prepare(Place& place, unsigned which) {
    const epifuse::TensorView inputs[] = {place.sum.in.view(), place.sum.out.view()};
    const epifuse::OutputView output = place.sum.in;
    place.engine.prepare(chains_[which % kChains], std::span(&output, 1), inputs);
    stats_ += place.engine.workspace_bytes(chains_[which % kChains], std::span(&output, 1), inputs);
  }

  static void use_memory(Engine& engine) {
    float host[16] = {};
    epifuse::Array array = engine.array(DType::f32, {16}, host);
    array.download(host);
  }

  static epifuse::Stream stream(unsigned which) {
    return reinterpret_cast<epifuse::Stream>(static_cast<std::uintptr_t>(which % 3) * 0x1000);
  }

  std::mutex mutex_;
  std::vector<std::shared_ptr<Place>> slots_;
  std::vector<Epilogue> chains_;
  std::atomic<std::uint64_t> stats_{0};
};

TEST(Threads, AnyInterleavingIsLegal) {
  const char* const given = std::getenv("ATTACK_SECONDS");
  const std::chrono::seconds seconds(given == nullptr ? 2 : std::atoi(given));
  FakeDriver driver;
  {
    Interleaving all;
    std::vector<std::thread> threads;
    const auto end = std::chrono::steady_clock::now() + seconds;
    for (unsigned seed = 0; seed < kThreads; ++seed) threads.emplace_back([&all, seed, end] { all.run(seed, end); });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(driver.account().launches, all.launches);
    EXPECT_GT(all.replaced, 0U);
    RecordProperty("threads", kThreads);
    RecordProperty("devices", FakeDriver::kDevices);
    RecordProperty("shared_engines", kShared);
    RecordProperty("launches", std::to_string(all.launches));
    RecordProperty("engines_replaced", std::to_string(all.replaced));
  }
  expect_clean(driver);
}

}  // namespace
}  // namespace attack
