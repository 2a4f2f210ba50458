// Faults of the driver, of NVRTC and of the application: each is told as what it is, and what can go on goes on.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "process.hpp"
#include "runtime/context.hpp"

namespace attack {
namespace {

namespace runtime = epifuse::runtime;
namespace abi = epifuse::runtime::abi;
using epifuse::Workspace;

// --- what fails once

struct Once {
  const char* name;
  Call call;
  int result;
  ErrorCode code;
  const char* says;
};

std::ostream& operator<<(std::ostream& out, const Once& once) { return out << once.name; }

class FailsOnce : public testing::TestWithParam<Once> {};

// Whatever the engine does at that moment: the error says what failed, nothing is left over, and the same call works
// when it is made again.
TEST_P(FailsOnce, AndTheNextCallWorks) {
  const Once& once = GetParam();
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Sum sum(engine);
    const std::int64_t allocations = driver.account().allocations;
    const std::function<void()> action = once.call == Call::alloc         ? [&] { engine.empty(DType::f32, {1024}); }
                                         : once.call == Call::copy        ? [&] { sum.in.upload(&engine); }
                                         : once.call == Call::synchronize ? [&] { engine.synchronize(); }
                                                                          : std::function([&] { sum.launch(engine); });
    driver.fail_next(once.call, once.result);
    EXPECT_TRUE(says(error_of(action), once.code, once.says));
    EXPECT_EQ(driver.account().launches, 0U);
    EXPECT_EQ(driver.account().allocations, allocations) << "a workspace was kept";
    EXPECT_EQ(FakeDriver::depth(), 0U);
    EXPECT_NO_THROW(action());
    sum.launch(engine);
    EXPECT_EQ(driver.account().launches, engine.stats().launches);
    EXPECT_EQ(driver.account().modules, 1) << "a module that was not used was kept";
  }
  expect_clean(driver);
}

constexpr ErrorCode kMemory = ErrorCode::out_of_memory;
constexpr ErrorCode kFailed = ErrorCode::device_failed;
constexpr const char* kOld = "the driver is older than the NVRTC that compiled this";

INSTANTIATE_TEST_SUITE_P(
    Driver, FailsOnce,
    testing::Values(Once{"MemoryOfAnArray", Call::alloc, abi::kOutOfMemory, kMemory, "allocate 4096 bytes on GPU 0"},
                    Once{"MemoryOfAWorkspace", Call::alloc_async, abi::kOutOfMemory, kMemory, "take a workspace of"},
                    Once{"ClearingAWorkspace", Call::fill, abi::kOutOfMemory, kMemory, "clear the workspace"},
                    Once{"MemoryOfAModule", Call::load, abi::kOutOfMemory, kMemory, "load the kernel"},
                    Once{"AnImageForAnotherGpu", Call::load, abi::kNoBinaryForGpu, kFailed, kOld},
                    Once{"AnImageOfAnotherFormat", Call::load, abi::kInvalidImage, kFailed, kOld},
                    Once{"PtxNewerThanTheDriver", Call::load, abi::kUnsupportedPtxVersion, kFailed, kOld},
                    Once{"PtxThatIsRejected", Call::load, abi::kInvalidPtx, kFailed, "the driver rejects the PTX"},
                    Once{"NoPtxCompiler", Call::load, abi::kJitCompilerNotFound, kFailed, "libnvidia-ptxjitcompiler"},
                    Once{"AModuleWithoutTheKernel", Call::get_function, abi::kNotFound, kFailed, "find the kernel"},
                    Once{"RegistersOfALaunch", Call::launch, abi::kLaunchOutOfResources, kFailed, "launch the kernel"},
                    Once{"MemoryOfALaunch", Call::launch, abi::kOutOfMemory, kMemory, "launch the kernel"},
                    Once{"AStreamOfAnotherContext", Call::launch, abi::kInvalidHandle, kFailed, "another context"},
                    Once{"Copying", Call::copy, abi::kInvalidValue, kFailed, "copy to the GPU"},
                    Once{"Waiting", Call::synchronize, abi::kInvalidValue, kFailed, "wait for the stream"}),
    testing::PrintToStringParamName());

TEST(Faults, AnEngineThatCannotBeMadeLeavesNothing) {
  FakeDriver driver;
  driver.fail_next(Call::retain, abi::kOutOfMemory);
  EXPECT_TRUE(says(error_of([] { make_engine(); }), ErrorCode::out_of_memory, "retain the GPU's primary context"));
  EXPECT_NO_THROW(make_engine());
  expect_clean(driver);
}

// --- NVRTC

TEST(Faults, NvrtcThatFailsIsAskedAgain) {
  struct Failure {
    const char* result;
    ErrorCode code;
  };
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Sum sum(engine);
    // NVRTC_ERROR_OUT_OF_MEMORY, _INTERNAL_ERROR
    for (const Failure& failure : {Failure{"1", ErrorCode::out_of_memory}, Failure{"11", ErrorCode::compile_failed}}) {
      ::setenv("ATTACK_NVRTC_RESULT", failure.result, 1);
      EXPECT_TRUE(says(error_of([&] { sum.launch(engine); }), failure.code, "an error of the fake NVRTC"));
      EXPECT_TRUE(says(error_of([&] { sum.launch(engine); }), failure.code, "an error of the fake NVRTC"));
    }
    ::unsetenv("ATTACK_NVRTC_RESULT");
    EXPECT_EQ(engine.stats().compiles, 0U);
    EXPECT_NO_THROW(sum.launch(engine));
    EXPECT_EQ(engine.stats().compiles, 1U);
    EXPECT_EQ(driver.account().launches, 1U);
  }
  expect_clean(driver);
}

// --- the application's faults

TEST(Faults, AnEarlierKernelsFaultIsNotTheLaunchs) {
  for (const int fault :
       {abi::kIllegalAddress, abi::kMisalignedAddress, abi::kAssert, abi::kLaunchTimeout, abi::kLaunchFailed}) {
    FakeDriver driver;
    Engine engine = make_engine();
    Engine other = make_engine(1);
    Sum sum(engine);
    Sum elsewhere(other);
    sum.launch(engine);
    driver.fault(0, fault);
    const std::vector<std::function<void()>> actions = {
        [&] { sum.launch(engine); },        [&] { engine.launch(Epilogue::parse("x + 1"), nullptr, sum.in, {sum.in}); },
        [&] { engine.synchronize(); },      [&] { engine.empty(DType::f32, {4}); },
        [&] { sum.out.download(&engine); },
    };
    for (const auto& action : actions) {
      const Error error = error_of(action);
      EXPECT_TRUE(says(error, ErrorCode::device_failed, "an earlier kernel or copy on this CUDA context failed"));
      EXPECT_TRUE(says(error, ErrorCode::device_failed, "CUDA_ERROR_INJECTED"));
      EXPECT_EQ(std::string(error.what()).find("could not"), std::string::npos) << error.what();
    }
    EXPECT_EQ(FakeDriver::depth(), 0U);
    EXPECT_NO_THROW(elsewhere.launch(other)) << "the other device is well";
    driver.heal(0);
    EXPECT_NO_THROW(sum.launch(engine));
    EXPECT_EQ(driver.account().misuses, 0U);
  }
}

// --- contexts that end before their engine

// All that an engine and an array can be asked, but for launches of kernels that are loaded.
void expect_refusals(Engine& engine, Sum& sum) {
  const epifuse::TensorView input = sum.in.view();
  const epifuse::OutputView output = sum.out;
  float host = 0;
  for (const auto& action :
       {std::function([&] { engine.launch(Epilogue::parse("x + 1"), nullptr, sum.in, {sum.in}); }),
        std::function([&] { engine.prepare(sum.tail, std::span(&output, 1), std::span(&input, 1)); }),
        std::function([&] { engine.synchronize(); }), std::function([&] { engine.empty(DType::f32, {4}); }),
        std::function([&] { engine.array(DType::f32, {}, &host); }), std::function([&] { sum.in.upload(&engine); }),
        std::function([&] { sum.out.download(&host); })}) {
    EXPECT_TRUE(says(error_of(action), ErrorCode::device_failed, "the CUDA context was destroyed or reset"));
  }
}

TEST(Faults, AnEngineOutlivesItsContext) {
  FakeDriver driver;
  const auto context = driver.make_context(0);
  {
    Engine engine = make_engine();
    Sum sum(engine);
    sum.launch(engine);
    EXPECT_EQ(driver.account().contexts, 0) << "the primary context was retained";
    const auto expect_all_refused = [&] {
      expect_refusals(engine, sum);
      EXPECT_TRUE(says(error_of([&] { sum.launch(engine); }), ErrorCode::device_failed,
                       "the CUDA context was destroyed or reset, and took along"));
    };
    // In a thread where it stays current after its end.
    std::atomic<bool> ready{false};
    std::atomic<bool> ended{false};
    std::thread holder([&] {
      const runtime::Context mine(0);
      const runtime::ContextGuard guard(mine);
      EXPECT_NO_THROW(runtime::driver().ctx_push_current(context));
      sum.launch(engine);
      ready = true;
      while (!ended) std::this_thread::yield();
      expect_all_refused();
      runtime::ContextHandle popped = nullptr;
      runtime::driver().ctx_pop_current(&popped);
    });
    while (!ready) std::this_thread::yield();
    driver.destroy_context(context);
    ended = true;
    holder.join();
    expect_all_refused();  // without a current context
    EXPECT_EQ(driver.make_context(0), context) << "the handle is not used again: this test tests nothing";
    expect_all_refused();  // with the handle current, which is another context's now
    driver.pop_context();
    expect_all_refused();
    Engine next = make_engine();
    Sum again(next);
    EXPECT_NO_THROW(again.launch(next));
    EXPECT_EQ(driver.account().contexts, 1);
  }
  expect_clean(driver);
}

// What is left of an engine whose context has ended goes beside one that has the same handle and the same addresses,
// and harms nothing.
TEST(Faults, WhatOutlivesItsContextDiesBesideTheNextOne) {
  FakeDriver driver;
  const auto context = driver.make_context(0);
  {
    auto engine = std::make_unique<Engine>(make_engine());
    auto sum = std::make_unique<Sum>(*engine);
    sum->launch(*engine);
    driver.destroy_context(context);
    EXPECT_EQ(driver.account().allocations, 0);
    ASSERT_EQ(driver.make_context(0), context);
    Engine next = make_engine();
    Sum again(next);
    EXPECT_EQ(again.in.view().data, sum->in.view().data) << "the address is not used again: this test tests nothing";
    again.launch(next);
    const std::int64_t modules = driver.account().modules;
    const std::int64_t allocations = driver.account().allocations;
    sum.reset();
    engine.reset();
    EXPECT_EQ(driver.account().modules, modules);
    EXPECT_EQ(driver.account().allocations, allocations);
    EXPECT_NO_THROW(again.launch(next));
  }
  driver.pop_context();
  expect_clean(driver);
}

TEST(Faults, AnEngineOutlivesAResetOfThePrimaryContext) {
  FakeDriver driver;
  {
    auto engine = std::make_unique<Engine>(make_engine());
    auto sum = std::make_unique<Sum>(*engine);
    const Epilogue tail = Epilogue::parse("x * 2");
    const auto launch = [&](Engine& on, Sum& with) { on.launch(tail, nullptr, with.in, {with.in}); };
    constexpr int kBelieved = 1024;  // launches between two looks at the context
    for (int i = 0; i < kBelieved; ++i) launch(*engine, *sum);
    driver.reset(0);
    Engine next = make_engine();  // somebody begins it anew
    Sum again(next);
    launch(next, again);
    const auto expect_refused = [&](Engine& on, Sum& with) {
      EXPECT_TRUE(says(error_of([&] { launch(on, with); }), ErrorCode::device_failed, "destroyed or reset"));
    };
    expect_refused(*engine, *sum);
    expect_refusals(*engine, *sum);
    expect_refused(*engine, *sum);
    const std::int64_t modules = driver.account().modules;
    const std::int64_t allocations = driver.account().allocations;
    sum.reset();
    engine.reset();
    EXPECT_EQ(driver.account().contexts, 1) << "a reference that was not its own was given back";
    EXPECT_EQ(driver.account().modules, modules);
    EXPECT_EQ(driver.account().allocations, allocations);
    EXPECT_NO_THROW(launch(next, again));
    driver.reset(0);  // and nobody begins it anew: the driver itself refuses
    expect_refused(next, again);
    expect_refusals(next, again);
  }
  expect_clean(driver);
}

// A GPU whose memory is full: in the primary context an engine can still be made, as far as it is concerned.
TEST(Faults, AContextWithoutMemoryForAWitness) {
  FakeDriver driver;
  {
    driver.fail_next(Call::alloc, abi::kOutOfMemory);
    Engine engine = make_engine();
    Sum sum(engine);
    EXPECT_NO_THROW(sum.launch(engine));
  }
  driver.make_context(0);
  driver.fail_next(Call::alloc, abi::kOutOfMemory);
  EXPECT_TRUE(says(error_of([] { make_engine(); }), ErrorCode::out_of_memory, "in the application's CUDA context"));
  EXPECT_NO_THROW(make_engine());
  driver.pop_context();
  expect_clean(driver);
}

// --- pointers

TEST(Faults, PointersOfTheHostAndOfAnotherDeviceAreRefused) {
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Engine other = make_engine(1);
    const epifuse::Array here = engine.empty(DType::f32, {64});
    const epifuse::Array there = other.empty(DType::f32, {64});
    std::vector<float> host(64, 2.0F);
    const epifuse::OutputView on_host(host.data(), DType::f32, {64});
    const Epilogue tail = Epilogue::parse("y = x + 1; y");
    const auto refused = [&](const epifuse::OutputView& out, const epifuse::TensorView& in, const std::string& part) {
      EXPECT_TRUE(says(error_of([&] { engine.launch(tail, nullptr, out, {in}); }), ErrorCode::invalid_argument, part));
    };
    refused(here, there.view(), "operand 'x' lies on cuda:1, but the engine runs on cuda:0: copy it there");
    refused(there, here.view(), "output 'y' lies on cuda:1, but the engine runs on cuda:0");
    refused(here, on_host, "is host memory, but the engine runs on cuda:0: copy it to the device");
    refused(on_host, here.view(), "output 'y' (");
    EXPECT_EQ(driver.account().launches, 0U);
    EXPECT_EQ(host, std::vector<float>(64, 2.0F));
  }
  expect_clean(driver);
}

// --- workspaces of the caller

TEST(Faults, AWorkspaceThatDoesNotDoIsRefused) {
  FakeDriver driver;
  {
    Engine engine = make_engine();
    Sum sum(engine);
    const epifuse::TensorView input = sum.in.view();
    const epifuse::OutputView output = sum.out;
    const std::size_t needed = engine.workspace_bytes(sum.tail, std::span(&output, 1), std::span(&input, 1));
    ASSERT_GT(needed, 0U);
    const epifuse::Array memory = engine.empty(DType::u8, {static_cast<std::int64_t>(needed) + 256});
    auto* const bytes = static_cast<std::byte*>(memory.view().writable());
    const auto launch = [&](const Workspace& workspace) {
      engine.launch(sum.tail, nullptr, std::span(&output, 1), std::span(&input, 1), {}, workspace);
    };
    const auto refused = [&](const Workspace& workspace, const std::string& part) {
      EXPECT_TRUE(says(error_of([&] { launch(workspace); }), ErrorCode::invalid_argument, part));
    };
    refused({bytes, needed - 1}, "the workspace has " + std::to_string(needed - 1) + " bytes; this launch needs");
    refused({}, "the workspace has 0 bytes");
    refused({nullptr, needed}, "the workspace is a null pointer");
    refused({bytes + 8, needed}, "is not a multiple of 256");
    alignas(256) static std::byte host[256];
    refused({host, needed}, "the workspace (");
    EXPECT_EQ(driver.account().launches, 0U);
    const std::int64_t allocations = driver.account().allocations;
    const std::int64_t bytes_before = driver.account().bytes;
    launch({bytes, needed});
    EXPECT_EQ(driver.account().launches, 1U);
    EXPECT_EQ(driver.account().allocations, allocations);
    EXPECT_EQ(driver.account().bytes, bytes_before);
  }
  expect_clean(driver);
}

}  // namespace
}  // namespace attack
