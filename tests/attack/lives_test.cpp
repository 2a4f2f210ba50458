// How processes begin and end around an engine: forks (fork_test.cpp has those beside threads), exits with static
// objects in every order, drivers that do not open.
#include <algorithm>
#include <array>
#include <cstdio>
#include <sstream>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include "process.hpp"
#include "runtime/context.hpp"

namespace attack {
namespace {

namespace runtime = epifuse::runtime;

// --- forks

TEST(Fork, TheChildIsToldAndTouchesNoDriver) {
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Engine cpu(Device::cpu());
    auto sum = std::make_unique<Sum>(engine);
    sum->launch(engine);
    EXPECT_EQ(in_a_fork([&] {
                const std::uint64_t calls = driver.account().calls;
                std::string wrong = refuses_all(engine, *sum, [] { make_engine(); }) + cpu_works(cpu);
                Engine fresh(Device::cpu());
                wrong += cpu_works(fresh);
                if (Device::automatic() != Device::cpu()) wrong += "automatic() does not give the CPU\n";
                sum.reset();
                { const Engine ended = std::move(engine); }
                if (driver.account().calls != calls) wrong += "the driver was called\n";
                return wrong;
              }),
              "");
    EXPECT_NO_THROW(sum->launch(engine)) << "the parent goes on";
  }
  expect_clean(driver);
}

TEST(Fork, AForkBeforeTheFirstUseIsFree) {
  // A process of its own: in this one the driver may have been used by another test.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto before = [] {
    const std::string wrong = in_a_fork([]() -> std::string {
      FakeDriver driver;
      Engine engine = make_engine();
      Sum(engine).launch(engine);
      return driver.account().launches == 1 ? "" : "no launch";
    });
    std::fputs(wrong.c_str(), stderr);
    std::_Exit(wrong.empty() ? 0 : 1);
  };
  EXPECT_EXIT(before(), testing::ExitedWithCode(0), "");
}

// --- exits

// The driver shuts down and spdlog forgets its loggers, as both do among other static objects.
struct TheEnd {
  // An application that shuts spdlog down has used it: its registry outlives this, and dies after it.
  explicit TheEnd(FakeDriver& driver) : driver_(driver) { spdlog::get("the application's"); }
  ~TheEnd() {
    driver_.shut_down();
    spdlog::shutdown();
  }
  TheEnd(const TheEnd&) = delete;
  TheEnd& operator=(const TheEnd&) = delete;

 private:
  FakeDriver& driver_;
};

// Static objects, each made at its first mention, destroyed in the opposite order.
FakeDriver& driver_for_good() {
  static FakeDriver& driver = *new FakeDriver;  // as libcuda, which is never unloaded
  return driver;
}
Engine& static_engine() {
  static Engine engine = make_engine();
  return engine;
}
Engine& static_cpu_engine() {
  static Engine engine(Device::cpu());
  return engine;
}
Epilogue& static_epilogue() {
  static Epilogue tail = Epilogue::parse("x + 1");
  return tail;
}
runtime::Context& static_context() {
  static runtime::Context context(1);
  return context;
}
void static_end() { static const TheEnd end(driver_for_good()); }

// What a static object does that launches in its destructor.
struct LastLaunch {
  ~LastLaunch() {
    const std::string wrong = cpu_works(*engine);
    std::fputs(wrong.empty() ? "the last launch was right\n" : wrong.c_str(), stderr);
  }
  std::unique_ptr<Engine> engine = std::make_unique<Engine>(Device::cpu());
};

[[noreturn]] void exit_with_statics(const std::array<int, 5>& order) {
  driver_for_good();
  static const LastLaunch last;
  for (const int which : order) {
    if (which == 0) static_engine();
    if (which == 1) static_epilogue();
    if (which == 2) static_context();
    if (which == 3) static_end();
    if (which == 4) static_cpu_engine();
  }
  const auto& memory = *new epifuse::Array(static_engine().empty(DType::f32, {4}));
  static_engine().launch(static_epilogue(), nullptr, memory, {memory});
  std::exit(0);
}

TEST(StaticObjects, DieInAnyOrder) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("EPIFUSE_LOG", "info", 1);
  std::array<int, 5> order = {0, 1, 2, 3, 4};
  // Engine, epilogue, context and the end in all orders; the CPU's engine is the first to go.
  do {
    EXPECT_EXIT(exit_with_statics(order), testing::ExitedWithCode(0),
                "closed: 1 launches(.|\n)*the last launch was right");
  } while (std::next_permutation(order.begin(), order.end() - 1));
  ::unsetenv("EPIFUSE_LOG");
}

// Asked as the last of all static objects.
struct Misuses {
  ~Misuses() {
    if (driver_for_good().account().misuses != 0) std::_Exit(1);
  }
};

// Static objects in a context of the application's that ends before main() does; `reused`: another one has its handle
// by then.
[[noreturn]] void exit_after_the_context(bool reused) {
  static const Misuses last;
  FakeDriver& driver = driver_for_good();
  const auto context = driver.make_context(0);
  static_epilogue();
  static const epifuse::Array memory = static_engine().empty(DType::f32, {4});
  static const runtime::Context adopted(0);
  static_engine().launch(static_epilogue(), nullptr, memory, {memory});
  driver.destroy_context(context);
  if (reused && driver.make_context(0) != context) std::_Exit(2);
  std::exit(0);
}

TEST(StaticObjects, DieAfterTheApplicationsContext) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(exit_after_the_context(false), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(exit_after_the_context(true), testing::ExitedWithCode(0), "");
}

// --- engines that die after their context

TEST(Engines, OfALostContextDieInSilence) {
  FakeDriver driver;
  std::ostringstream logged;
  {
    Engine engine = make_engine();
    const auto logger = spdlog::get("epifuse");
    logger->sinks().push_back(std::make_shared<spdlog::sinks::ostream_sink_st>(logged));
    logger->set_level(spdlog::level::warn);
    Sum sum(engine);
    sum.launch(engine);
    driver.fault(0, runtime::abi::kIllegalAddress);
  }
  spdlog::get("epifuse")->set_level(spdlog::level::off);
  spdlog::get("epifuse")->sinks().pop_back();
  EXPECT_EQ(logged.str(), "");
  EXPECT_EQ(driver.account().misuses, 0U);
  EXPECT_EQ(driver.account().contexts, 0);
  EXPECT_EQ(FakeDriver::depth(), 0U);
}

// --- drivers that do not open

// Ends the process with 0 if no engine can be made, twice, for that reason.
[[noreturn]] void open_or_exit(const char* version, const char* init, ErrorCode code, const char* part) {
  ::setenv("EPIFUSE_LIBCUDA", EPIFUSE_FAKE_LIBCUDA, 1);
  ::setenv("ATTACK_CUDA_VERSION", version, 1);
  ::setenv("ATTACK_CUDA_INIT", init, 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    const auto found = says(error_of([] { make_engine(); }), code, part);
    if (!found) {
      std::fputs(found.message(), stderr);
      std::_Exit(1);
    }
  }
  std::_Exit(cpu_works(static_cpu_engine()).empty() ? 0 : 2);
}

TEST(Opening, ADriverThatCannotWorkHereSaysWhy) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto ended_well = testing::ExitedWithCode(0);
  EXPECT_EXIT(open_or_exit("11080", "0", ErrorCode::driver_too_old, "supports CUDA 11.8, and EpiFuse needs 12.0"),
              ended_well, "");
  EXPECT_EXIT(open_or_exit("12080", "803", ErrorCode::driver_too_old, "does not fit the kernel driver"), ended_well,
              "");
  EXPECT_EXIT(open_or_exit("12080", "100", ErrorCode::no_device, "finds no GPU"), ended_well, "");
  EXPECT_EXIT(open_or_exit("12080", "2", ErrorCode::out_of_memory, "initialise the driver"), ended_well, "");
  // The application had used CUDA, not through EpiFuse, and then forked.
  EXPECT_EXIT(open_or_exit("12080", "3", ErrorCode::device_failed, "forked after CUDA had been initialised"),
              ended_well, "");
}

}  // namespace
}  // namespace attack
