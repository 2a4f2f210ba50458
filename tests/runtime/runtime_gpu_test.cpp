// runtime/ on a real GPU: the declared interface is the driver's, launches work and can be captured first thing,
// contexts of the application are used. Skipped where there is no GPU. The kernel is PTX written by hand, so that no
// NVRTC is needed.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <epifuse/error.hpp>

#include "runtime/context.hpp"
#include "runtime/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"

namespace epifuse::runtime {
namespace {

// x[i] = x[i] + addend, for one struct parameter { float* x; float addend; unsigned count; }.
const std::string kPtx = R"(
.version 6.4
.target sm_75
.address_size 64
.visible .entry add(.param .align 8 .b8 p[16])
{
  .reg .pred %q;
  .reg .b32 %r<6>;
  .reg .f32 %f<3>;
  .reg .b64 %d<4>;
  ld.param.u64 %d1, [p];
  ld.param.f32 %f1, [p+8];
  ld.param.u32 %r1, [p+12];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %q, %r5, %r1;
  @%q ret;
  cvta.to.global.u64 %d1, %d1;
  mul.wide.u32 %d2, %r5, 4;
  add.s64 %d3, %d1, %d2;
  ld.global.f32 %f2, [%d3];
  add.f32 %f2, %f2, %f1;
  st.global.f32 [%d3], %f2;
  ret;
}
)";

struct AddParameters {
  void* x;
  float addend;
  unsigned count;
};

class GpuTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      if (device_count() == 0) GTEST_SKIP() << "no GPU";
    } catch (const Error& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
    context = std::make_shared<const Context>(0);
  }
  std::shared_ptr<const Context> context;
  static constexpr unsigned kCount = 1000;

  static void add(const Kernel& kernel, const DeviceBuffer& x, float addend, StreamHandle stream) {
    const AddParameters parameters{x.data(), addend, kCount};
    launch(kernel, (kCount + 255) / 256, 256, 0, stream, &parameters, sizeof parameters);
  }
  static std::vector<float> read(const DeviceBuffer& x, const Stream& stream) {
    std::vector<float> host(kCount);
    x.copy_to_host(host.data(), kCount * sizeof(float), stream.handle());
    stream.synchronize();
    return host;
  }
};

TEST_F(GpuTest, DevicesAreDescribed) {
  for (const DeviceInfo& device : devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_GE(device.architecture, 50);
    EXPECT_GT(device.multiprocessors, 0);
    EXPECT_GT(device.memory_bytes, 1LL << 28);
    EXPECT_GT(device.l2_bytes, 0);
    EXPECT_GE(device.max_threads_per_block, 1024);
    EXPECT_GE(device.driver_version, kOldestDriver);
    RecordProperty("gpu", device.name);
    std::printf("%s sm_%d, %d SMs, L2 %lld, %.0f GB/s, driver %d, %s\n", device.name.c_str(), device.architecture,
                device.multiprocessors, static_cast<long long>(device.l2_bytes), device.peak_bandwidth() / 1e9,
                device.driver_version, device.pci_bus_id.c_str());
  }
}

TEST_F(GpuTest, AKernelRunsAlsoWhenItsFirstLaunchIsCaptured) {
  const Module module(context, kPtx);
  const Kernel kernel = module.kernel("add");
  EXPECT_GT(kernel.registers, 0);
  EXPECT_GE(kernel.max_threads, 256);
  const ContextGuard guard(*context);
  EXPECT_GT(kernel.blocks_per_multiprocessor(256), 0);
  const Stream stream(context);
  DeviceBuffer x(context, kCount * sizeof(float));
  x.fill(0, stream.handle());
  const Graph graph(stream, [&](StreamHandle captured) { add(kernel, x, 1.5F, captured); });
  EXPECT_EQ(read(x, stream), std::vector<float>(kCount, 0.0F)) << "nothing ran yet";
  graph.launch(stream.handle());
  graph.launch(stream.handle());
  EXPECT_EQ(read(x, stream), std::vector<float>(kCount, 3.0F));
  Event start(context);
  Event stop(context);
  start.record(stream.handle());
  add(kernel, x, 0.25F, stream.handle());
  stop.record(stream.handle());
  stop.synchronize();
  EXPECT_GT(stop.milliseconds_since(start), 0);
  EXPECT_EQ(read(x, stream), std::vector<float>(kCount, 3.25F));
}

TEST_F(GpuTest, ALaunchThatCannotBeIsRefusedAndHarmsNothing) {
  const Module module(context, kPtx);
  const Kernel kernel = module.kernel("add");
  const ContextGuard guard(*context);
  const AddParameters parameters{nullptr, 0, 0};
  EXPECT_THROW(launch(kernel, 0, 1, 0, nullptr, &parameters, sizeof parameters), Error);
  EXPECT_THROW(launch(kernel, 1, 100000, 0, nullptr, &parameters, sizeof parameters), Error);
  EXPECT_THROW(launch(kernel, 1, 1, 100 << 20, nullptr, &parameters, sizeof parameters), Error);
  EXPECT_NO_THROW(launch(kernel, 1, 1, 0, nullptr, &parameters, sizeof parameters));
}

TEST_F(GpuTest, PointersAreClassifiedWithoutACurrentContext) {
  const DeviceBuffer buffer(context, 4096);
  std::vector<char> host(16);
  int on_stack = 0;
  std::thread([&] {
    EXPECT_EQ(Context::current_ordinal(), -1);
    EXPECT_EQ(query_pointer(buffer.data()).kind, PointerKind::device);
    EXPECT_EQ(query_pointer(static_cast<char*>(buffer.data()) + 100).ordinal, 0);
    for (const void* unknown : {static_cast<const void*>(host.data()), static_cast<const void*>(&on_stack),
                                static_cast<const void*>(nullptr)}) {
      EXPECT_EQ(query_pointer(unknown).kind, PointerKind::unregistered_host);
      EXPECT_EQ(query_pointer(unknown).ordinal, -1);
    }
  }).join();
}

TEST_F(GpuTest, RejectedImagesSayWhy) {
  try {
    const Module module(context, ".version 6.4\n.target sm_75\nrubbish");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::device_failed);
    EXPECT_NE(std::string(error.what()).find("log"), std::string::npos);
    std::printf("%s\n", error.what());
  }
  EXPECT_THROW(Module(context, "not an image"), Error);
  EXPECT_THROW(Module(context, kPtx).kernel("missing"), Error);
}

TEST_F(GpuTest, ThePrimaryContextIsKeptOnlyAsLongAsItIsUsed) {
  const DeviceHandle device = context->device();
  const auto is_active = [&] {
    unsigned flags = 0;
    int active = 0;
    check(driver().device_primary_ctx_get_state(device, &flags, &active), "ask");
    return active != 0;
  };
  EXPECT_TRUE(is_active());
  check(driver().ctx_set_current(context->handle()), "set");
  std::optional<Context> second(std::in_place, 0);
  EXPECT_TRUE(second->is_primary());
  context.reset();
  EXPECT_TRUE(is_active()) << "the second one adopted it as the current context";
  second.reset();
  EXPECT_FALSE(is_active());
  check(driver().ctx_set_current(nullptr), "set");
}

TEST_F(GpuTest, MoreMemoryThanThereIsIsReported) {
  try {
    const DeviceBuffer buffer(context, std::size_t{1} << 46);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::out_of_memory);
  }
}

// Destroyed after main(): the driver may be gone by then, and nothing must crash.
std::optional<Module> at_exit;

TEST_F(GpuTest, StaticObjectsMayOutliveTheDriver) { at_exit.emplace(context, kPtx); }

}  // namespace
}  // namespace epifuse::runtime
