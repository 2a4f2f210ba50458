// runtime/ against a stub of the driver: which context is used, that everything is given back, what errors say.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>

#include <epifuse/error.hpp>

#include "runtime/context.hpp"
#include "runtime/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"
#include "stub_driver.hpp"

namespace epifuse::runtime {
namespace {

class RuntimeTest : public testing::Test {
 protected:
  StubDriver stub;
  const std::string image = "image";

  static std::shared_ptr<const Context> context(int ordinal) { return std::make_shared<const Context>(ordinal); }
};

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::io, "nothing was thrown"};
}

bool mentions(const Error& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

// --- errors

TEST_F(RuntimeTest, ErrorsCarryTheDriversNameAndTextAndWhatWasTried) {
  const Error error = error_of([] { check(1, "do something"); });
  EXPECT_EQ(error.code(), ErrorCode::device_failed);
  for (const char* part : {"could not do something", "CUDA_ERROR_OF_THE_STUB", "text of the stub", "(1)"})
    EXPECT_TRUE(mentions(error, part)) << error.what();
  EXPECT_NO_THROW(check(0, "do something"));
}

TEST_F(RuntimeTest, ErrorsHaveTheCodeOfTheirKind) {
  EXPECT_EQ(error_of([] { check(2, "x"); }).code(), ErrorCode::out_of_memory);
  EXPECT_EQ(error_of([] { check(100, "x"); }).code(), ErrorCode::no_device);
  EXPECT_EQ(error_of([] { check(101, "x"); }).code(), ErrorCode::no_device);
  EXPECT_EQ(error_of([] { check(999, "x"); }).code(), ErrorCode::device_failed);
}

TEST_F(RuntimeTest, StickyErrorsSayThatTheFaultMayBeEarlier) {
  for (const int sticky : {700, 702, 710, 714, 715, 716, 717, 718, 719}) {
    EXPECT_TRUE(is_sticky(sticky));
    EXPECT_TRUE(mentions(error_of([&] { check(sticky, "x"); }), "earlier")) << sticky;
  }
  for (const int other : {0, 1, 2, 201, 701, 704, 705, 709, 712}) EXPECT_FALSE(is_sticky(other)) << other;
  EXPECT_TRUE(mentions(error_of([] { check(222, "x"); }), "EPIFUSE_NVRTC"));
  EXPECT_TRUE(mentions(error_of([] { check(906, "x"); }), "captured"));
  EXPECT_TRUE(mentions(error_of([] { check(709, "x"); }), "destroyed"));
}

// --- devices

TEST_F(RuntimeTest, DevicesAreDescribed) {
  const auto all = devices();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].ordinal, 1);
  EXPECT_EQ(all[1].handle, 101);
  EXPECT_EQ(all[1].name, "Stub");
  EXPECT_EQ(all[1].architecture, 90);
  EXPECT_EQ(all[1].multiprocessors, 1016);
  EXPECT_EQ(all[1].l2_bytes, 1038);
  EXPECT_EQ(all[1].memory_bytes, 1LL << 36);
  EXPECT_EQ(all[1].driver_version, 12080);
  EXPECT_NEAR(all[1].peak_bandwidth() / 1e12, 3.352, 0.001);
  EXPECT_EQ(format_driver_version(12080), "12.8");
  EXPECT_EQ(format_driver_version(13000), "13.0");
}

TEST_F(RuntimeTest, ADeviceThatIsNotThereIsAnError) {
  for (const int ordinal : {-1, 2}) {
    EXPECT_EQ(error_of([&] { device_info(ordinal); }).code(), ErrorCode::no_device);
    EXPECT_EQ(error_of([&] { Context context(ordinal); }).code(), ErrorCode::no_device);
  }
}

// --- contexts

TEST_F(RuntimeTest, WithoutACurrentContextThePrimaryOneIsRetainedAndReleased) {
  {
    const Context context(1);
    EXPECT_TRUE(context.is_primary());
    EXPECT_EQ(context.handle(), stub.primary.at(1));
    EXPECT_EQ(stub.retained[1], 1);
    EXPECT_EQ(stub.current(), nullptr) << "making one does not make it current";
  }
  EXPECT_EQ(stub.retained[1], 0);
}

TEST_F(RuntimeTest, AContextThatTheApplicationMadeIsUsedAndNotOwned) {
  stub.stack = {stub.make_context(1)};
  {
    const Context context(1);
    EXPECT_FALSE(context.is_primary());
    EXPECT_EQ(context.handle(), stub.current());
  }
  EXPECT_EQ(stub.count("retain"), 0U) << "a primary context that nobody has must not come into being";
  EXPECT_EQ(Context::current_ordinal(), 1);
}

TEST_F(RuntimeTest, AnApplicationsContextIsUsedThoughThePrimaryOneIsActive) {
  stub.primary[1] = stub.make_context(1);
  stub.retained[1] = 1;  // by somebody else
  stub.stack = {stub.make_context(1)};
  {
    const Context context(1);
    EXPECT_EQ(context.handle(), stub.current());
    EXPECT_FALSE(context.is_primary());
    EXPECT_EQ(stub.retained[1], 1);
  }
  EXPECT_EQ(stub.retained[1], 1);
}

TEST_F(RuntimeTest, TheCurrentPrimaryContextIsKeptAlive) {
  stub.primary[0] = stub.make_context(0);
  stub.retained[0] = 1;
  stub.stack = {stub.primary[0]};
  {
    const Context context(0);
    EXPECT_TRUE(context.is_primary());
    EXPECT_EQ(stub.retained[0], 2);
  }
  EXPECT_EQ(stub.retained[0], 1);
}

TEST_F(RuntimeTest, ACurrentContextOfAnotherDeviceIsLeftAlone) {
  const ContextHandle other = stub.make_context(0);
  stub.stack = {other};
  const Context context(1);
  EXPECT_EQ(context.handle(), stub.primary.at(1));
  EXPECT_EQ(stub.current(), other);
}

TEST_F(RuntimeTest, NoCurrentContextHasNoOrdinal) { EXPECT_EQ(Context::current_ordinal(), -1); }

TEST_F(RuntimeTest, AContextSurvivesADriverThatHasShutDown) {
  auto context = std::make_unique<Context>(0);
  stub.fail["release"] = abi::kDeinitialized;
  EXPECT_NO_THROW(context.reset());
}

TEST_F(RuntimeTest, AContextsWitnessIsGivenBackAndDisturbsNoCapture) {
  for (const bool own : {false, true}) {
    stub.stack.clear();
    if (own) stub.stack = {stub.make_context(1)};
    const auto depth = stub.stack.size();
    {
      const Context context(1);
      EXPECT_EQ(stub.allocations.size(), 1U);
      EXPECT_EQ(stub.modes_of_allocation, std::vector<int>{abi::kCaptureModeRelaxed});
      EXPECT_EQ(stub.capture_mode, 0) << "the thread's mode was not put back";
      EXPECT_EQ(context.life(stub.api), abi::kSuccess);
    }
    EXPECT_TRUE(stub.allocations.empty());
    EXPECT_EQ(stub.stack.size(), depth);
    stub.modes_of_allocation.clear();
  }
}

// As some drivers answer of an address that is not in use; what they answer when they fail otherwise says nothing of
// the context.
TEST_F(RuntimeTest, AnInvalidWitnessIsAContextThatEnded) {
  const Context context(1);
  stub.fail["pointer"] = abi::kDeinitialized;
  EXPECT_EQ(context.life(stub.api), abi::kDeinitialized);
  EXPECT_FALSE(context.has_ended());
  stub.fail["pointer"] = abi::kInvalidValue;
  stub.numbers_memory = false;
  EXPECT_EQ(context.life(stub.api), abi::kContextIsDestroyed);
  EXPECT_TRUE(context.has_ended());
}

TEST_F(RuntimeTest, GuardsPushOnlyWhenNeededAndPopWhatTheyPushed) {
  const Context context(1);
  const ContextHandle other = stub.make_context(0);
  stub.stack = {other};
  stub.calls.clear();
  {
    const ContextGuard outer(context);
    EXPECT_EQ(stub.current(), context.handle());
    const ContextGuard inner(context);
    EXPECT_EQ(stub.count("push"), 1U);
  }
  EXPECT_EQ(stub.count("pop"), 1U);
  EXPECT_EQ(stub.stack, std::vector<ContextHandle>{other});
}

TEST_F(RuntimeTest, AGuardPopsWhenAnExceptionPasses) {
  const Context context(1);
  EXPECT_THROW(
      {
        const ContextGuard guard(context);
        throw std::runtime_error("x");
      },
      std::runtime_error);
  EXPECT_TRUE(stub.stack.empty());
}

TEST_F(RuntimeTest, AGuardOfADestroyedContextThrowsAndPopsNothing) {
  const ContextHandle own = stub.make_context(1);
  stub.stack = {own};
  const Context context(1);
  stub.stack.clear();
  stub.devices.erase(own);
  EXPECT_TRUE(mentions(error_of([&] { ContextGuard guard(context); }), "the CUDA context was destroyed or reset"));
  EXPECT_EQ(stub.count("push"), 0U) << "the dead handle was given to the driver";
  EXPECT_EQ(stub.count("pop"), 0U);
}

// --- modules and launches

TEST_F(RuntimeTest, AModuleIsLoadedAndUnloadedInItsContext) {
  {
    const Module module(context(1), image);
    EXPECT_EQ(stub.modules.size(), 1U);
    EXPECT_EQ(stub.modules.begin()->second, stub.primary.at(1));
    EXPECT_TRUE(stub.stack.empty());
  }
  EXPECT_TRUE(stub.modules.empty()) << "with the context current, or the stub refuses";
  EXPECT_EQ(stub.retained[1], 0) << "the module held the context until then";
  EXPECT_EQ(stub.calls.back(), "release");
}

TEST_F(RuntimeTest, MovedModulesAreUnloadedOnce) {
  Module first(context(0), image);
  Module second = std::move(first);
  first = Module(context(0), image);
  first = std::move(second);
  EXPECT_EQ(stub.count("module_load"), 2U);
  second = Module(context(0), image);
  { const Module sink = std::move(first); }
  { const Module sink = std::move(second); }
  EXPECT_TRUE(stub.modules.empty());
  EXPECT_EQ(stub.count("module_unload"), 3U);
}

TEST_F(RuntimeTest, UnloadingToleratesADestroyedContextAndADeadDriver) {
  const ContextHandle own = stub.make_context(1);
  stub.stack = {own};
  auto destroyed = std::make_unique<Module>(context(1), image);
  stub.stack.clear();
  stub.devices.erase(own);
  stub.calls.clear();
  EXPECT_NO_THROW(destroyed.reset());
  EXPECT_TRUE(stub.calls.empty()) << stub.calls.front();

  auto late = std::make_unique<Module>(context(0), image);
  stub.fail["ctx_get_current"] = abi::kDeinitialized;
  stub.fail["release"] = abi::kDeinitialized;
  EXPECT_NO_THROW(late.reset());
}

TEST_F(RuntimeTest, ALoadThatFailsCarriesTheDriversLogAndLeavesNothing) {
  stub.fail["module_load"] = abi::kInvalidPtx;
  const Error error = error_of([&] { Module module(context(1), image); });
  EXPECT_EQ(error.code(), ErrorCode::device_failed);
  EXPECT_TRUE(mentions(error, "log of the stub")) << error.what();
  EXPECT_EQ(stub.count("module_unload"), 0U);
  EXPECT_TRUE(stub.stack.empty());
  EXPECT_EQ(stub.retained[1], 0);
}

TEST_F(RuntimeTest, AKernelTellsWhatItNeeds) {
  const Module module(context(0), image);
  const Kernel kernel = module.kernel("kernel");
  EXPECT_EQ(kernel.max_threads, 10);
  EXPECT_EQ(kernel.shared_bytes, 11);
  EXPECT_EQ(kernel.local_bytes, 13);
  EXPECT_EQ(kernel.registers, 14);
  EXPECT_EQ(kernel.blocks_per_multiprocessor(256), 8);
  kernel.allow_dynamic_shared(100000);
  EXPECT_EQ(stub.count("func_set_attribute"), 1U);
  EXPECT_TRUE(mentions(error_of([&] { module.kernel("missing"); }), "missing"));
}

TEST_F(RuntimeTest, ALaunchPassesOneStructAndDoesNothingElse) {
  struct {
    std::int64_t a = 0x1122334455667788;
    float b[3] = {1, 2, 3};
  } parameters;
  const Module module(context(0), image);
  const Kernel kernel = module.kernel("kernel");
  const auto stream = stub.new_handle<StreamHandle>();
  stub.calls.clear();
  launch(kernel, 132, 256, 1024, stream, &parameters, sizeof parameters);
  EXPECT_EQ(stub.calls, std::vector<std::string>{"launch"});
  const char* const bytes = reinterpret_cast<const char*>(&parameters);
  EXPECT_EQ(stub.launched, std::vector<char>(bytes, bytes + sizeof parameters));
  EXPECT_EQ(stub.grid, 132U);
  EXPECT_EQ(stub.block, 256U);
  EXPECT_EQ(stub.shared, 1024U);
  EXPECT_EQ(stub.stream, stream);
  stub.fail["launch"] = abi::kLaunchOutOfResources;
  EXPECT_TRUE(mentions(error_of([&] { launch(kernel, 1, 1, 0, nullptr, &parameters, sizeof parameters); }),
                       "launch the kernel"));
}

// --- memory, streams, graphs

TEST_F(RuntimeTest, BuffersAreFreedOnceAndCheckTheirBounds) {
  const auto shared = context(0);
  {
    DeviceBuffer first(shared, 100);
    DeviceBuffer second = std::move(first);
    DeviceBuffer empty(shared, 0);
    EXPECT_EQ(first.data(), nullptr);  // NOLINT(bugprone-use-after-move): that it is empty is the promise
    EXPECT_EQ(empty.data(), nullptr);
    EXPECT_EQ(second.size(), 100U);
    char host[200] = {};
    second.copy_from_host(host, 100, nullptr);
    second.copy_to_host(host, 100, nullptr);
    second.copy_from(second, 100, nullptr);
    second.fill(0, nullptr);
    empty.fill(0, nullptr);
    EXPECT_EQ(error_of([&] { second.copy_from_host(host, 101, nullptr); }).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error_of([&] { second.copy_to_host(host, 101, nullptr); }).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(error_of([&] { second.copy_from(empty, 1, nullptr); }).code(), ErrorCode::invalid_argument);
    EXPECT_EQ(stub.count("htod") + stub.count("dtoh") + stub.count("dtod") + stub.count("memset"), 4U);
  }
  EXPECT_EQ(stub.allocations.size(), 1U) << "the context's witness alone is left";
  EXPECT_EQ(stub.count("mem_free"), 1U);
  EXPECT_TRUE(stub.stack.empty());
  stub.fail["mem_alloc"] = abi::kOutOfMemory;
  const Error error = error_of([&] { DeviceBuffer buffer(shared, 12345); });
  EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  EXPECT_TRUE(mentions(error, "12345 bytes")) << error.what();
}

TEST_F(RuntimeTest, StreamsEventsAndGraphsAreGivenBack) {
  {
    Stream stream(context(0));
    Event start(stream.context());
    Event stop(stream.context());
    start.record(stream.handle());
    const Graph graph(stream, [&](StreamHandle) { EXPECT_TRUE(stub.capturing); });
    graph.launch(stream.handle());
    stop.record(stream.handle());
    stop.synchronize();
    stream.synchronize();
    EXPECT_EQ(stop.milliseconds_since(start), 1.5);
  }
  EXPECT_EQ(stub.count("stream_destroy"), 1U);
  EXPECT_EQ(stub.count("event_destroy"), 2U);
  EXPECT_EQ(stub.count("graph_exec_destroy"), 1U);
  EXPECT_EQ(stub.count("graph_destroy"), 1U);
  EXPECT_TRUE(stub.stack.empty());
}

TEST_F(RuntimeTest, AFailureDuringCaptureEndsTheCapture) {
  Stream stream(context(0));
  const Error error =
      error_of([&] { Graph graph(stream, [](StreamHandle) { throw Error(ErrorCode::invalid_argument, "mine"); }); });
  EXPECT_STREQ(error.what(), "mine");
  EXPECT_FALSE(stub.capturing);
  EXPECT_EQ(stub.count("graph_destroy"), 1U);
  EXPECT_EQ(stub.count("graph_instantiate"), 0U);
}

TEST_F(RuntimeTest, PointersAreClassified) {
  const auto at = [](std::uintptr_t address) { return query_pointer(reinterpret_cast<const void*>(address)); };
  EXPECT_EQ(at(0xd000).kind, PointerKind::device);
  EXPECT_EQ(at(0xd000).ordinal, 1);
  EXPECT_EQ(at(0xa000).kind, PointerKind::managed);
  EXPECT_EQ(at(0xc000).kind, PointerKind::host);
  EXPECT_EQ(at(0x1000).kind, PointerKind::unregistered_host);
  EXPECT_EQ(at(0x1000).ordinal, -1);
  stub.fail["pointer"] = abi::kInvalidValue;
  EXPECT_EQ(at(0xd000).kind, PointerKind::unregistered_host) << "older drivers refuse what they do not know";
  stub.fail["pointer"] = abi::kDeinitialized;
  EXPECT_THROW(at(0xd000), Error);
}

// --- loading

// Ends the process with 0 if opening that library twice fails twice, with that code. In a process of its own: elsewhere
// the real driver may be open already.
[[noreturn]] void open_or_exit(const char* library, ErrorCode expected) {
  ::setenv("EPIFUSE_LIBCUDA", library, 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    if (error_of([] { driver(); }).code() != expected) std::_Exit(1);
  }
  std::_Exit(0);
}

TEST(DriverLoadingDeathTest, AMissingOrForeignLibraryIsAnErrorEachTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_or_exit("/nonexistent/libcuda.so.1", ErrorCode::no_driver), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(open_or_exit("libm.so.6", ErrorCode::driver_too_old), testing::ExitedWithCode(0), "");
}

TEST(DriverLoadingDeathTest, TheToolkitsStubIsNoDriver) {
  const char* const stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (::access(stub, R_OK) != 0) GTEST_SKIP() << "the toolkit's stub is not installed";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_or_exit(stub, ErrorCode::no_driver), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace epifuse::runtime
