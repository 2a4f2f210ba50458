// Several devices of one machine: each engine keeps to its own, whatever the thread's current context is. Skips with
// one GPU.
#include <gtest/gtest.h>

#include <thread>

#include <epifuse/epifuse.hpp>

namespace epifuse {
namespace {

class Devices : public testing::Test {
 protected:
  void SetUp() override {
    const std::size_t count = system_report().devices.size();
    if (count < 2) GTEST_SKIP() << "needs two GPUs, found " << count;
  }
};

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = first + static_cast<float>(i % 1000);
  return values;
}

TEST_F(Devices, EachEngineRunsOnItsOwn) {
  Engine first(Device::cuda(0));
  Engine second(Device::cuda(1));
  const Epilogue tail = Epilogue::parse("relu(x) * 2 + 1");
  const auto run = [&](Engine& engine, float start) {
    const auto host = numbers(100'003, start);
    Array x = engine.array(DType::f32, {100'003}, host.data());
    engine.launch(tail, nullptr, x, {x});
    std::vector<float> found(host.size());
    x.download(found.data());
    for (std::size_t i = 0; i < host.size(); ++i) ASSERT_EQ(found[i], std::max(host[i], 0.0F) * 2 + 1) << i;
  };
  for (int round = 0; round < 3; ++round) {
    run(first, -500);
    run(second, -200);
  }
  std::thread other([&] { run(second, -100); });  // a thread that has no context yet
  run(first, -300);
  other.join();
  EXPECT_EQ(first.stats().kernels, 1U);
  EXPECT_EQ(second.stats().kernels, 1U);
}

TEST_F(Devices, APointerOfAnotherDeviceIsRefused) {
  Engine first(Device::cuda(0));
  Engine second(Device::cuda(1));
  const auto host = numbers(64, 0);
  Array here = first.array(DType::f32, {64}, host.data());
  Array there = second.array(DType::f32, {64}, host.data());
  try {
    first.launch(Epilogue::parse("x + 1"), nullptr, here, {there.view()});
    FAIL() << "a pointer of cuda:1 was taken by an engine of cuda:0";
  } catch (const Error& error) {
    EXPECT_TRUE(error.is_bad_input());
    EXPECT_STREQ(
        error.what(),
        "operand 'x' lies on cuda:1, but the engine runs on cuda:0: copy it there, or use an engine of that device");
  }
  std::vector<float> found(64);
  here.download(found.data());
  EXPECT_EQ(found, host) << "something was written";
}

TEST_F(Devices, EnginesDieInAnyOrder) {
  auto first = std::make_unique<Engine>(Device::cuda(0));
  auto second = std::make_unique<Engine>(Device::cuda(1));
  const float one = 1;
  Array a = first->array(DType::f32, {1}, &one);
  Array b = second->array(DType::f32, {1}, &one);
  const Epilogue tail = Epilogue::parse("x * 3");
  first->launch(tail, nullptr, a, {a});
  second->launch(tail, nullptr, b, {b});
  first.reset();
  second->launch(tail, nullptr, b, {b});
  float found = 0;
  b.download(&found);
  EXPECT_EQ(found, 9);
  a.download(&found);
  EXPECT_EQ(found, 3);
}

}  // namespace
}  // namespace epifuse
