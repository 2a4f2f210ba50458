// How processes live and end on a real GPU: threads with several engines, forks, kernels of the application that fault,
// memory that runs out, contexts that end before their engine, static objects.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "gpu.hpp"
#include "runtime/module.hpp"

namespace attack {
namespace {

using epifuse::Array;

// --- threads

constexpr unsigned kThreads = 8;
constexpr std::size_t kShared = 4;  // engines that all threads use
constexpr unsigned kChains = 12;
constexpr std::int64_t kElements = 5000;

// A stream and a tensor of one thread on one device, and what the tensor should hold.
struct Own {
  explicit Own(int device)
      : context(std::make_shared<runtime::Context>(device)),
        stream(context),
        engine(make_gpu_engine({}, device)),
        x(engine.array(DType::f32, {kElements}, std::vector<float>(kElements, 0.0F).data())) {}

  // The device is asked, and starts again from 0.
  bool is_right() {
    std::vector<float> found(kElements);
    stream.synchronize();
    x.download(found.data());
    const bool right = std::ranges::count(found, static_cast<float>(expected)) == kElements;
    x.upload(std::vector<float>(kElements, 0.0F).data());
    expected = 0;
    return right;
  }

  runtime::SharedContext context;
  runtime::Stream stream;
  Engine engine;
  Array x;
  unsigned expected = 0;
};

// An engine, alive as long as somebody uses it; its kernels must have ended before it goes.
struct Place {
  Place(int on, const std::filesystem::path& cache, const std::vector<std::unique_ptr<Own>>& all)
      : device(on), engine(make_gpu_engine(cache, on)), owns(all) {}
  ~Place() {
    for (const auto& own : owns) {
      if (own->context->ordinal() == device) own->stream.synchronize();
    }
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;

  int device;
  Engine engine;
  const std::vector<std::unique_ptr<Own>>& owns;
};

class Interleaving {
 public:
  explicit Interleaving(int devices) : devices_(devices) {
    for (unsigned thread = 0; thread < kThreads; ++thread) {
      for (int device = 0; device < devices; ++device) owns_.push_back(std::make_unique<Own>(device));
    }
    for (std::size_t i = 0; i < kShared; ++i) slots_.push_back(make_place(i));
    for (unsigned i = 0; i < kChains; ++i) chains_.push_back(Epilogue::parse("x + " + std::to_string(i)));
  }

  // One of everything that the documentation allows, again and again.
  void run(unsigned thread, std::chrono::steady_clock::time_point end) {
    std::minstd_rand generator(thread + 1);
    const auto random = [&] { return static_cast<unsigned>(generator() >> 4); };
    while (std::chrono::steady_clock::now() < end) {
      const std::size_t slot = random() % kShared;
      const std::shared_ptr<Place> place = at(slot);
      Own& own = *owns_[thread * static_cast<unsigned>(devices_) + static_cast<unsigned>(place->device)];
      const unsigned what = random() % 1024;
      if (what == 0) {
        replace(slot);
      } else if (what < 8) {
        if (!own.is_right()) ++wrong;
      } else if (what < 16) {
        const epifuse::TensorView input = own.x.view();
        const epifuse::OutputView output = own.x;
        place->engine.prepare(chains_[random() % kChains], std::span(&output, 1), std::span(&input, 1));
      } else if (what < 24) {
        place->engine.synchronize(own.stream.handle());
      } else {
        const unsigned addend = random() % kChains;
        place->engine.launch(chains_[addend], own.stream.handle(), own.x, {own.x});
        own.expected += addend;
        ++launches;
      }
    }
    for (int device = 0; device < devices_; ++device) {
      if (!owns_[thread * static_cast<unsigned>(devices_) + static_cast<unsigned>(device)]->is_right()) ++wrong;
    }
  }

  std::atomic<std::uint64_t> launches{0};
  std::atomic<std::uint64_t> replaced{0};
  std::atomic<std::uint64_t> wrong{0};

 private:
  std::shared_ptr<Place> make_place(std::size_t slot) const {
    return std::make_shared<Place>(static_cast<int>(slot) % devices_, cache_.path(), owns_);
  }

  std::shared_ptr<Place> at(std::size_t slot) {
    const std::lock_guard lock(mutex_);
    return slots_[slot];
  }

  // The last of those who use the old one destroys it, in their thread.
  void replace(std::size_t slot) {
    auto fresh = make_place(slot);
    const std::lock_guard lock(mutex_);
    slots_[slot].swap(fresh);
    ++replaced;
  }

  int devices_;
  Folder cache_;  // so that a new engine need not compile
  std::vector<std::unique_ptr<Own>> owns_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Place>> slots_;
  std::vector<Epilogue> chains_;
};

using GpuLives = OnAGpu;

TEST_F(GpuLives, ThreadsStreamsAndEnginesInAnyInterleaving) {
  const std::chrono::seconds seconds(is_long() ? 10 : 2);
  const int devices = gpu_count();
  Interleaving all(devices);
  std::vector<std::thread> threads;
  const auto end = std::chrono::steady_clock::now() + seconds;
  for (unsigned thread = 0; thread < kThreads; ++thread)
    threads.emplace_back([&all, thread, end] { all.run(thread, end); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.wrong, 0U);
  EXPECT_GT(all.replaced, 0U);
  RecordProperty("threads", std::to_string(kThreads));
  RecordProperty("devices", std::to_string(devices));
  RecordProperty("shared_engines", std::to_string(kShared));
  RecordProperty("launches", std::to_string(all.launches));
  RecordProperty("engines_replaced", std::to_string(all.replaced));
  RecordProperty("wrong", std::to_string(all.wrong));
}

// --- forks

TEST_F(GpuLives, AForkAfterUseIsToldAndTheParentGoesOn) {
  const int forks = is_long() ? 100 : 10;
  Engine engine = make_gpu_engine();
  Engine cpu(Device::cpu());
  Sum sum(engine);
  sum.launch(engine);
  engine.synchronize();
  // Threads that launch meanwhile hold the engine's locks at that moment, and do not exist in the child.
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) sum.launch(engine);
    });
  }
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < forks; ++i) {
    EXPECT_EQ(in_a_fork([&] {
                std::string wrong = refuses_all(engine, sum, [] { make_gpu_engine(); }) + cpu_works(cpu);
                { const Engine ended = std::move(engine); }
                return wrong;
              }),
              "");
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_NO_THROW(sum.launch(engine));
  EXPECT_NO_THROW(engine.synchronize());
  RecordProperty("forks", std::to_string(forks));
  RecordProperty("seconds_of_all_forks", std::to_string(spent.count()));
}

// --- processes that end badly, each of its own: what they find wrong goes to stderr, and they leave with 1

[[noreturn]] void leave(bool good) { std::exit(good ? 0 : 1); }

bool expect(const testing::AssertionResult& result) {
  if (!result) std::fprintf(stderr, "%s\n", result.message());
  return static_cast<bool>(result);
}

// Whether all that an engine and an array can be asked, but for a launch of a kernel that is loaded, is refused in
// those words.
bool all_refused(Engine& engine, Sum& sum, const std::string& words) {
  const epifuse::TensorView input = sum.in.view();
  const epifuse::OutputView output = sum.in;
  float host = 0;
  const std::vector<std::function<void()>> actions = {
      [&] { engine.launch(Epilogue::parse("x + 1"), nullptr, sum.in, {sum.in}); },
      [&] { engine.prepare(Epilogue::parse("x + 2"), std::span(&output, 1), std::span(&input, 1)); },
      [&] { engine.synchronize(); },
      [&] { engine.empty(DType::f32, {4}); },
      [&] { engine.array(DType::f32, {}, &host); },
      [&] { sum.out.download(&host); },
      [&] { sum.out.upload(&host); },
  };
  bool good = true;
  for (const auto& action : actions) good &= expect(says(error_of(action), ErrorCode::device_failed, words));
  return good;
}

bool launch_refused(Engine& engine, Sum& sum, const std::string& words) {
  return expect(says(error_of([&] { sum.launch(engine); }), ErrorCode::device_failed, words));
}

// A kernel of the application's: it writes where nothing is.
const std::string kFaultyPtx = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry fault(.param .align 8 .b8 p[8])
{
  .reg .b64 %d;
  ld.param.u64 %d, [p];
  st.global.u64 [%d], %d;
  ret;
}
)";

[[noreturn]] void fault_and_exit() {
  bool good = true;
  {
    Engine engine = make_gpu_engine();
    Sum sum(engine);
    sum.launch(engine);
    engine.synchronize();
    const auto context = std::make_shared<runtime::Context>(0);
    const runtime::Module module(context, kFaultyPtx);
    const runtime::Kernel kernel = module.kernel("fault");
    const std::uint64_t nowhere = 8;
    {
      const runtime::ContextGuard guard(*context);
      runtime::launch(kernel, 1, 1, 0, nullptr, &nowhere, sizeof nowhere);
    }
    // The first to be told is whichever call comes after the fault: this one waits for it.
    const std::string words = "an earlier kernel or copy on this CUDA context failed";
    good &= expect(says(error_of([&] { engine.synchronize(); }), ErrorCode::device_failed, words));
    good &= all_refused(engine, sum, words) && launch_refused(engine, sum, words);
    Engine cpu(Device::cpu());
    good &= cpu_works(cpu).empty();
  }
  leave(good);
}

TEST_F(GpuLives, AnEarlierKernelsFaultIsNotTheLaunchs) {
  EXPECT_EXIT(fault_and_exit(), testing::ExitedWithCode(0), "");
}

// Contexts that end under an engine.
const std::string kContextEnded = "the CUDA context was destroyed or reset";

runtime::DeviceHandle device_handle() {
  runtime::DeviceHandle device = 0;
  runtime::check(runtime::driver().device_get(&device, 0), "get the GPU");
  return device;
}

runtime::ContextHandle make_context() {
  runtime::ContextHandle own = nullptr;
  runtime::check(driver_function<int (*)(runtime::ContextHandle*, unsigned, runtime::DeviceHandle)>("cuCtxCreate_v2")(
                     &own, 0, device_handle()),
                 "make a context");
  return own;
}
void destroy(runtime::ContextHandle own) {
  runtime::check(driver_function<int (*)(runtime::ContextHandle)>("cuCtxDestroy_v2")(own), "destroy the context");
}

// Whether an engine works: its sum is right.
bool sums(Engine& engine, Sum& sum) {
  const std::vector<float> ones(Sum::kElements, 1.0F);
  float found = 0;
  sum.in.upload(ones.data());
  sum.launch(engine);
  sum.out.download(&found);
  return found == static_cast<float>(Sum::kElements);
}

// An application that makes a context, works in it and ends it, `rounds` times; the driver uses handles and addresses
// again as it likes. Every engine is asked after its context's end, with no context current and with later ones, and
// dies in a later round.
[[noreturn]] void outlive_own_contexts_and_exit(int rounds) {
  struct Left {
    Engine engine;
    Sum sum;
    runtime::ContextHandle context;
  };
  constexpr std::size_t kKept = 3;
  bool good = true;
  int reused = 0;
  std::vector<std::unique_ptr<Left>> left;
  for (int round = 0; round < rounds; ++round) {
    const runtime::ContextHandle own = make_context();
    Engine engine = make_gpu_engine();
    Sum sum(engine);
    good &= sums(engine, sum);
    for (const auto& old : left) {
      reused += old->context == own;
      good &= all_refused(old->engine, old->sum, kContextEnded) && launch_refused(old->engine, old->sum, kContextEnded);
    }
    if (left.size() == kKept) left.erase(left.begin());
    good &= sums(engine, sum);
    left.push_back(std::make_unique<Left>(Left{std::move(engine), std::move(sum), own}));
    destroy(own);
    Left& last = *left.back();
    good &= all_refused(last.engine, last.sum, kContextEnded) && launch_refused(last.engine, last.sum, kContextEnded);
  }
  {
    Engine next = make_gpu_engine();  // in the primary context
    Sum again(next);
    for (const auto& old : left) good &= launch_refused(old->engine, old->sum, kContextEnded);
    left.clear();
    good &= sums(next, again);
  }
  std::fprintf(stderr, "a handle was used again %d times in %d rounds\n", reused, rounds);
  leave(good);
}

// The same with the primary context, which is reset, and begun anew by the next engine.
[[noreturn]] void outlive_a_reset_and_exit() {
  bool good = true;
  {
    auto engine = std::make_unique<Engine>(make_gpu_engine());
    auto sum = std::make_unique<Sum>(*engine);
    constexpr int kBelieved = 1024;  // launches between two looks at a primary context
    for (int i = 0; i < kBelieved; ++i) sum->launch(*engine);
    engine->synchronize();
    runtime::check(driver_function<int (*)(runtime::DeviceHandle)>("cuDevicePrimaryCtxReset_v2")(device_handle()),
                   "reset the primary context");
    good &= all_refused(*engine, *sum, kContextEnded) && launch_refused(*engine, *sum, kContextEnded);
    Engine next = make_gpu_engine();
    Sum again(next);
    good &= sums(next, again);
    good &= all_refused(*engine, *sum, kContextEnded) && launch_refused(*engine, *sum, kContextEnded);
    sum.reset();
    engine.reset();
    good &= sums(next, again);
  }
  leave(good);
}

Engine& static_engine();
Array& static_array();

// Static objects in a context that ends before main() does.
[[noreturn]] void exit_after_the_context() {
  const runtime::ContextHandle own = make_context();
  static_engine().launch(Epilogue::parse("x + 1"), nullptr, static_array(), {static_array()});
  static_engine().synchronize();
  destroy(own);
  make_context();
  std::exit(0);
}

TEST_F(GpuLives, AnEngineOutlivesTheApplicationsContext) {
  const int rounds = is_long() ? 30 : 8;
  EXPECT_EXIT(outlive_own_contexts_and_exit(rounds), testing::ExitedWithCode(0), "");
  RecordProperty("rounds", std::to_string(rounds));
}

TEST_F(GpuLives, AnEngineOutlivesAResetOfThePrimaryContext) {
  EXPECT_EXIT(outlive_a_reset_and_exit(), testing::ExitedWithCode(0), "");
}

TEST_F(GpuLives, StaticObjectsOutliveTheApplicationsContext) {
  EXPECT_EXIT(exit_after_the_context(), testing::ExitedWithCode(0), "");
}

// --- memory that runs out

// All of the device's memory, down to pieces of 4 KiB.
std::vector<Array> take_all(Engine& engine) {
  std::vector<Array> taken;
  for (std::int64_t bytes = std::int64_t{1} << 36; bytes >= 4096;) {
    const Error error = error_of([&] { taken.push_back(engine.empty(DType::u8, {bytes})); });
    if (error.code() == ErrorCode::io) continue;
    EXPECT_TRUE(says(error, ErrorCode::out_of_memory, "allocate " + std::to_string(bytes) + " bytes on GPU 0"));
    bytes /= 2;
  }
  return taken;
}

TEST_F(GpuLives, OutOfDeviceMemoryIsSaidAndGoesOnAfterwards) {
  Engine engine = make_gpu_engine();
  const std::vector<float> ones(Sum::kElements, 1.0F);
  Sum sum(engine);
  sum.in.upload(ones.data());
  std::uint64_t refusals = 0;
  for (int round = 0; round < 3; ++round) {
    const std::vector<Array> taken = take_all(engine);
    EXPECT_GT(taken.size(), 1U);
    // A workspace, and the code of a new kernel: there may be just enough for them where the driver has kept some.
    Epilogue fresh = Epilogue::parse("prod(x * 0 + " + std::to_string(round + 1) + ")");
    for (const Epilogue* tail : {&sum.tail, &fresh}) {
      const Error error = error_of([&] {
        engine.launch(*tail, nullptr, sum.out, {sum.in});
        engine.synchronize();
      });
      refusals += error.code() == ErrorCode::out_of_memory;
      EXPECT_TRUE(error.code() == ErrorCode::out_of_memory || error.code() == ErrorCode::io) << error.what();
    }
  }
  sum.launch(engine);
  float found = 0;
  sum.out.download(&found);
  EXPECT_EQ(found, static_cast<float>(Sum::kElements));
  RecordProperty("launches_refused_of_6", std::to_string(refusals));
}

// --- static objects

Engine& static_engine() {
  static Engine engine = make_gpu_engine();
  return engine;
}
Epilogue& static_epilogue() {
  static Epilogue tail = Epilogue::parse("x + 1");
  return tail;
}
Array& static_array() {
  const float one = 1;
  static Array array = make_gpu_engine().array(DType::f32, {1}, &one);
  return array;
}
runtime::Context& static_context() {
  static runtime::Context context(0);
  return context;
}

// Each is made at its first mention, and destroyed in the opposite order; the driver shuts down among them.
[[noreturn]] void exit_with_statics(const std::array<int, 4>& order) {
  for (const int which : order) {
    if (which == 0) static_engine();
    if (which == 1) static_epilogue();
    if (which == 2) static_array();
    if (which == 3) static_context();
  }
  static_engine().launch(static_epilogue(), nullptr, static_array(), {static_array()});
  std::exit(0);
}

TEST_F(GpuLives, StaticObjectsDieInAnyOrder) {
  std::array<int, 4> order = {0, 1, 2, 3};
  int orders = 0;
  do {
    EXPECT_EXIT(exit_with_statics(order), testing::ExitedWithCode(0), "");
    ++orders;
  } while (std::next_permutation(order.begin(), order.end()) && (is_long() || orders < 4));
  RecordProperty("orders", std::to_string(orders));
}

}  // namespace
}  // namespace attack
