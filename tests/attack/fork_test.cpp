// Forks beside threads that launch. An executable of its own, without the address sanitizer: GCC's lets a fork leave
// its allocator locked (seen with GCC 12: the child waited in operator new), and what is asked here is whether we leave
// a lock behind.
#include <atomic>
#include <thread>
#include <vector>

#include "process.hpp"

namespace attack {
namespace {

// The other threads hold the engine's locks at that moment, and do not exist in the child.
TEST(Fork, ThreadsThatLaunchMeanwhileLeaveNoLockBehind) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP()
      << "the address sanitizer's own allocator may be locked at a fork, by a thread that the child does not have";
#endif
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Sum sum(engine);
    std::atomic<bool> stop{false};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        // New kernels all the time, but not more than the driver holds, however slow the forks are.
        for (int n = 0; !stop; n = (n + 1) % 10'000) {
          engine.launch(Epilogue::parse("x + " + std::to_string(3 * n + t)), nullptr, sum.in, {sum.in});
        }
      });
    }
    for (int forks = 0; forks < 20; ++forks)
      EXPECT_EQ(in_a_fork([&] { return refuses_all(engine, sum, [] { make_engine(); }); }), "");
    stop = true;
    for (std::thread& thread : threads) thread.join();
  }
  expect_clean(driver);
}

}  // namespace
}  // namespace attack
