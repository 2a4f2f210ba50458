// Launches that are like earlier ones: what is remembered of those is right for these, from any thread, and nothing is
// accepted that the first launch would have refused. On a stub driver, with the fake NVRTC.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "runtime/quiet_driver.hpp"
#include "support/as_written.hpp"

namespace epifuse {
namespace {

using runtime::QuietDriver;

constexpr std::size_t kMiB = 1 << 20;

class Dispatch : public testing::Test {
 protected:
  Dispatch() : engine_(make_engine()) {}

  static Engine make_engine() {
    ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
    return Engine(Device::cuda(0), {.disk_cache = false, .cache_directory = {}});
  }
  static void* at(std::size_t offset) { return QuietDriver::address(0, offset); }
  // The pointer or number that the last launch passed there.
  template <class T>
  static T parameter(std::size_t offset) {
    T value{};
    std::memcpy(&value, QuietDriver::last_launch().parameters.data() + offset, sizeof value);
    return value;
  }
  // Whether the last launch passed that address anywhere.
  static bool passes(const void* address) {
    for (std::size_t offset = 0; offset + 8 <= QuietDriver::last_launch().bytes; offset += 8) {
      if (parameter<const void*>(offset) == address) return true;
    }
    return false;
  }
  std::string refused(const Epilogue& tail, const OutputView& out, std::initializer_list<TensorView> in) {
    try {
      engine_.launch(tail, nullptr, out, in);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
      return error.what();
    }
    return "(accepted)";
  }

  QuietDriver driver_;
  Engine engine_;
};

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << part << "\nin: " << text;
}

TEST_F(Dispatch, ARepeatedLaunchAsksTheDriverNothing) {
  const Epilogue tail = test::as_written("relu(x + bias)");
  const OutputView y(at(2 * kMiB), DType::f32, {64, 64});
  const TensorView x(at(0), DType::f32, {64, 64});
  const TensorView bias(at(kMiB), DType::f32, {64});
  engine_.launch(tail, nullptr, y, {x, bias});
  std::size_t queries = QuietDriver::pointer_queries();
  const OutputView elsewhere(at(3 * kMiB), DType::f32, {64, 64});
  for (int i = 0; i < 100; ++i) engine_.launch(tail, nullptr, elsewhere, {x, bias});
  EXPECT_EQ(QuietDriver::pointer_queries(), queries + 1) << "for the address that is new";
  queries = QuietDriver::pointer_queries();
  for (int i = 0; i < 100; ++i) engine_.launch(tail, nullptr, y, {x, bias});
  EXPECT_EQ(QuietDriver::pointer_queries(), queries);
  EXPECT_EQ(engine_.stats().launches, 201U);
  EXPECT_EQ(engine_.stats().kernels, 1U);
}

TEST_F(Dispatch, AddressesScalarsAndStreamAreThoseOfTheCall) {
  const Epilogue tail = Epilogue::parse("scalar a; x * a");
  for (std::size_t i = 0; i < 4; ++i) {
    const auto stream = reinterpret_cast<Stream>(i * 0x1000);
    engine_.launch(tail, stream, OutputView(at((8 + i) * kMiB), DType::f32, {1000}),
                   {TensorView(at(i * kMiB), DType::f32, {1000})}, {static_cast<double>(i) + 0.5});
    EXPECT_EQ(parameter<void*>(0), at(i * kMiB));
    EXPECT_EQ(parameter<void*>(8), at((8 + i) * kMiB));
    EXPECT_EQ(parameter<float>(16), static_cast<float>(i) + 0.5F);
    EXPECT_EQ(parameter<std::int32_t>(20), 1000);
    EXPECT_EQ(QuietDriver::last_launch().stream, stream);
  }
  EXPECT_EQ(engine_.stats().kernels, 1U);
}

TEST_F(Dispatch, ANewShapeOfTheClassCompilesNothing) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  // More shapes than an engine remembers, twice: what was replaced is planned again.
  for (int round = 0; round < 2; ++round) {
    for (std::int64_t n = 1; n <= 1500; ++n) {
      engine_.launch(tail, nullptr, OutputView(at(64 * kMiB), DType::f32, {n, 64}),
                     {TensorView(at(0), DType::f32, {n, 64})});
      EXPECT_EQ(parameter<void*>(0), at(0));
      EXPECT_EQ(parameter<void*>(8), at(64 * kMiB));
      EXPECT_EQ(parameter<std::int32_t>(16), n * 64);
    }
  }
  EXPECT_EQ(engine_.stats().kernels, 1U);
  EXPECT_EQ(engine_.stats().launches, 3000U);
}

TEST_F(Dispatch, OverlapsAreRefusedWhateverWasLaunchedBefore) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  const TensorView x(at(kMiB), DType::f32, {64, 64});
  const auto out = [&](std::size_t offset) { return OutputView(at(offset), DType::f32, {64, 64}); };
  constexpr std::size_t kBytes = 64 * 64 * 4;
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(refused(tail, out(4 * kMiB), {x}), "(accepted)");
    EXPECT_EQ(refused(tail, out(kMiB), {x}), "(accepted)") << "in place";
    EXPECT_EQ(refused(tail, out(kMiB + kBytes), {x}), "(accepted)") << "just behind";
    EXPECT_EQ(refused(tail, out(kMiB - kBytes), {x}), "(accepted)") << "just before";
    for (const std::size_t offset : {kMiB + kBytes - 256, kMiB + 256, kMiB - 256, kMiB - kBytes + 256})
      expect_says(refused(tail, out(offset), {x}), "output 'out' overlaps operand 'x' without being the same view");
  }
}

TEST_F(Dispatch, ViewsThatInterleaveAreCheckedForTheirAddresses) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  const Dims shape = {64, 32};
  const Dims strides = {64, 1};
  const TensorView left(at(kMiB), DType::f32, shape, strides);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(refused(tail, OutputView(at(kMiB + 128), DType::f32, shape, strides), {left}), "(accepted)");
    expect_says(refused(tail, OutputView(at(kMiB + 96), DType::f32, shape, strides), {left}), "overlaps operand 'x'");
    EXPECT_EQ(refused(tail, OutputView(at(kMiB - 128), DType::f32, shape, strides), {left}), "(accepted)");
  }
}

TEST_F(Dispatch, OutputsMustNotMeetEachOther) {
  const Epilogue tail = Epilogue::parse("return relu(x), x > 0");
  const TensorView x(at(0), DType::f32, {256});
  const auto launch = [&](std::size_t a, std::size_t b) {
    engine_.launch(tail, nullptr, {OutputView(at(a), DType::f32, {256}), OutputView(at(b), DType::boolean, {256})},
                   {x});
  };
  launch(kMiB, 2 * kMiB);
  launch(kMiB, kMiB + 1024);
  EXPECT_THROW(launch(kMiB, kMiB + 992), Error);
  EXPECT_THROW(launch(kMiB, kMiB - 224), Error);
  launch(kMiB, kMiB - 256);
}

TEST_F(Dispatch, ForeignMemoryIsRefusedAfterAnyLaunch) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  const OutputView y(at(2 * kMiB), DType::f32, {16});
  alignas(32) static float host[16];
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(refused(tail, y, {TensorView(at(0), DType::f32, {16})}), "(accepted)");
    expect_says(refused(tail, y, {TensorView(host, DType::f32, {16})}), "operand 'x' (");
    expect_says(refused(tail, y, {TensorView(host, DType::f32, {16})}), "is host memory");
    expect_says(refused(tail, y, {TensorView(QuietDriver::address(1, 0), DType::f32, {16})}), "lies on cuda:1");
    expect_says(refused(tail, OutputView(host, DType::f32, {16}), {TensorView(at(0), DType::f32, {16})}),
                "output 'out' (");
    expect_says(refused(tail, y, {TensorView(nullptr, DType::f32, {16})}), "operand 'x' has a null pointer");
    expect_says(refused(tail, y, {TensorView(static_cast<std::byte*>(at(0)) + 2, DType::f32, {16})}),
                "not a multiple of its element's 4 bytes");
  }
}

TEST_F(Dispatch, AnAddressIsNotBelievedForEver) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  const OutputView y(at(2 * kMiB), DType::f32, {16});
  const TensorView x(at(0), DType::f32, {16});
  engine_.launch(tail, nullptr, y, {x});
  { const Array freed = engine_.empty(DType::f32, {16}); }
  std::size_t queries = QuietDriver::pointer_queries();
  engine_.launch(tail, nullptr, y, {x});
  EXPECT_EQ(QuietDriver::pointer_queries(), queries + 3) << "after memory was given back; for the context too";
  queries = QuietDriver::pointer_queries();
  for (int i = 0; i < 1024; ++i) engine_.launch(tail, nullptr, y, {x});
  EXPECT_EQ(QuietDriver::pointer_queries(), queries + 3) << "within 1024 launches";
}

TEST_F(Dispatch, ChainsAreToldApartByWhatTheyAre) {
  // Made at the same place after one another: an identity by address would take one for the other.
  std::vector<runtime::FunctionHandle> kernels;
  for (int round = 0; round < 2; ++round) {
    for (const char* text : {"x + 1", "x + 2", "x - 1", "1 - x"}) {
      const Epilogue tail = Epilogue::parse(text);
      engine_.launch(tail, nullptr, OutputView(at(kMiB), DType::f32, {64}), {TensorView(at(0), DType::f32, {64})});
      kernels.push_back(QuietDriver::last_launch().function);
    }
  }
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(kernels[i], kernels[i + 4]);
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(kernels[i], kernels[k]);
  }
}

TEST_F(Dispatch, TypesStridesAndAlignmentDecide) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  const OutputView y(at(4 * kMiB), DType::f32, {64, 64});
  const auto kernel_of = [&](const TensorView& x) {
    engine_.launch(tail, nullptr, y, {x});
    return QuietDriver::last_launch().function;
  };
  const Dims shape = {64, 64};
  const std::vector<TensorView> views = {TensorView(at(0), DType::f32, shape), TensorView(at(0), DType::i32, shape),
                                         TensorView(at(4), DType::f32, shape), TensorView(at(8), DType::f32, shape),
                                         TensorView(at(0), DType::f32, shape, {1, 64})};
  std::vector<runtime::FunctionHandle> kernels;
  for (const TensorView& view : views) kernels.push_back(kernel_of(view));
  for (std::size_t i = 0; i < views.size(); ++i) {
    EXPECT_EQ(kernel_of(views[i]), kernels[i]) << i;
    for (std::size_t k = 0; k < i; ++k) EXPECT_NE(kernels[i], kernels[k]) << i << " and " << k;
  }
}

TEST_F(Dispatch, LaunchesTooLargeToRememberAreRight) {
  std::string text = "x0";
  for (int i = 1; i < 40; ++i) text += " + x" + std::to_string(i);
  const Epilogue tail = test::as_written(text);
  for (std::size_t round = 0; round < 3; ++round) {
    std::vector<TensorView> inputs;
    for (std::size_t i = 0; i < 40; ++i) inputs.emplace_back(at((round * 64 + i) * kMiB), DType::f32, Dims{128, 64});
    const OutputView y(at(512 * kMiB), DType::f32, {128, 64});
    engine_.launch(tail, nullptr, std::span(&y, 1), inputs);
    for (std::size_t i = 0; i < 40; ++i) EXPECT_EQ(parameter<void*>(8 * i), inputs[i].data);
  }
  EXPECT_EQ(engine_.stats().kernels, 1U);
}

TEST_F(Dispatch, AWorkspaceIsCheckedAndUsedEachTime) {
  const Epilogue tail = Epilogue::parse("sum(x)");
  const OutputView y(at(64 * kMiB), DType::f32, {});
  const TensorView x(at(0), DType::f32, {1 << 22});
  const std::size_t bytes = engine_.workspace_bytes(tail, std::span(&y, 1), std::span(&x, 1));
  ASSERT_GT(bytes, 0U);
  const auto launch = [&](const Workspace& workspace) {
    engine_.launch(tail, nullptr, std::span(&y, 1), std::span(&x, 1), {}, workspace);
  };
  for (std::size_t i = 1; i < 4; ++i) {
    launch({at(128 * i * kMiB), bytes});
    EXPECT_TRUE(passes(at(128 * i * kMiB)));
    EXPECT_THROW(launch({at(128 * kMiB), bytes - 1}), Error);
    EXPECT_THROW(launch({static_cast<std::byte*>(at(128 * kMiB)) + 64, bytes}), Error);
  }
  engine_.launch(tail, nullptr, y, {x});  // one of the pool
  EXPECT_EQ(engine_.stats().launches, 4U);
}

TEST_F(Dispatch, NothingToLaunchIsNothing) {
  const Epilogue tail = Epilogue::parse("relu(x)");
  for (int i = 0; i < 3; ++i) {
    engine_.launch(tail, nullptr, OutputView(nullptr, DType::f32, {0, 4}), {TensorView(nullptr, DType::f32, {0, 4})});
  }
  EXPECT_EQ(engine_.stats().launches, 0U);
  EXPECT_EQ(engine_.stats().kernels, 0U);
}

// Eight threads launch what is the same, what is new and what replaces others' calls; each sees its own addresses and
// shapes arrive.
TEST_F(Dispatch, ThreadsDoNotMixTheirLaunches) {
  const Epilogue tail = Epilogue::parse("scalar a; x * a");
  constexpr std::size_t kThreads = 8;
  constexpr std::size_t kLaunches = 4000;
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto stream = reinterpret_cast<Stream>((t + 1) * 0x1000);
      for (std::size_t i = 0; i < kLaunches; ++i) {
        const auto n = static_cast<std::int64_t>(1000 + (i % 3 == 0 ? i * 7 % 997 : i % 5));
        engine_.launch(tail, stream, OutputView(at((8 + t) * kMiB), DType::f32, {n}),
                       {TensorView(at(t * kMiB), DType::f32, {n})}, {static_cast<double>(i)});
        const bool right = parameter<void*>(0) == at(t * kMiB) && parameter<void*>(8) == at((8 + t) * kMiB) &&
                           parameter<float>(16) == static_cast<float>(i) && parameter<std::int32_t>(20) == n &&
                           QuietDriver::last_launch().stream == stream;
        if (!right) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(engine_.stats().launches, kThreads * kLaunches);
  EXPECT_EQ(engine_.stats().kernels, 1U);
}

// ---- preparing a list

class Preparing : public Dispatch {
 protected:
  static Preparation preparation(const std::string& chain, const Dims& x, const Dims& y) {
    return {Epilogue::parse(chain), {OutputView(at(kMiB), DType::f32, y)}, {TensorView(at(0), DType::f32, x)}};
  }
  static std::vector<Preparation> chains(int count) {
    std::vector<Preparation> list;
    for (int i = 0; i < count; ++i) list.push_back(preparation("x * " + std::to_string(i + 2), {64}, {64}));
    return list;
  }
};

TEST_F(Preparing, ChainsAreCompiledAtOnce) {
  constexpr int kChains = 8;
  ::setenv("ATTACK_COMPILE_MS", "100", 1);  // asleep: the fake NVRTC needs no core
  const auto start = std::chrono::steady_clock::now();
  engine_.prepare(chains(kChains), {}, kChains);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  ::unsetenv("ATTACK_COMPILE_MS");
  EXPECT_LT(took.count(), 100 * kChains / 2);
  EXPECT_EQ(engine_.stats().compiles, static_cast<std::uint64_t>(kChains));
}

TEST_F(Preparing, ProgressTellsEachEntryOnce) {
  const std::vector<Preparation> list = chains(20);
  std::vector<int> told(list.size(), 0);
  std::size_t done = 0;
  engine_.prepare(list, [&](const PreparationProgress& at) {
    EXPECT_EQ(at.done, ++done);
    EXPECT_EQ(at.total, list.size());
    EXPECT_EQ(at.error, nullptr);
    ++told[at.index];
  });
  EXPECT_EQ(told, std::vector<int>(list.size(), 1));
  EXPECT_EQ(engine_.stats().kernels, list.size());
  EXPECT_EQ(engine_.stats().launches, 0U);
}

TEST_F(Preparing, AFailureLeavesTheOthersAlone) {
  std::vector<Preparation> list = chains(5);
  list[1] = preparation("relu(x)", {64}, {63});
  list[3] = preparation("relu(x)", {64}, {62});
  std::size_t failed = 0;
  try {
    engine_.prepare(list, [&](const PreparationProgress& at) { failed += at.error != nullptr; });
    FAIL();
  } catch (const Error& error) {
    expect_says(error.what(), "output 'out' has shape [63]");
  }
  EXPECT_EQ(failed, 2U);
  EXPECT_EQ(engine_.stats().kernels, 3U);
}

TEST_F(Preparing, ProgressMayEndTheWork) {
  EXPECT_THROW(engine_.prepare(
                   chains(50), [](const PreparationProgress&) { throw std::runtime_error("enough"); }, 2),
               std::runtime_error);
  EXPECT_LT(engine_.stats().kernels, 10U);
  engine_.prepare(std::span<const Preparation>());
}

}  // namespace
}  // namespace epifuse
