// Kernels ahead of time, from a recorded launch to a process that compiles nothing. On a stub driver, with the fake
// NVRTC. What a process has found out about NVRTC stays, so each step is a process of its own.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "jit/temporary_directory.hpp"
#include "runtime/quiet_driver.hpp"
#include "support/as_written.hpp"

namespace epifuse {
namespace {

using runtime::QuietDriver;

constexpr std::size_t kMiB = 1 << 20;

void* at(std::size_t offset) { return QuietDriver::address(0, offset); }

// Its output is the test's, and so are its failures.
void in_a_process(const std::function<void()>& work) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv("EPIFUSE_CACHE", "off", 1);
    try {
      work();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(2);
    }
    std::fflush(nullptr);
    std::_Exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

struct Launch {
  std::string chain;
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  std::vector<double> scalars = {};
  Math math = Math::standard;
};

// Layouts, alignments, types, scalars and settings: all that a line must tell.
std::vector<Launch> launches() {
  const TensorView x(at(0), DType::f32, {64, 64});
  const OutputView y(at(kMiB), DType::f32, {64, 64});
  return {
      {"relu(x + bias)", {x, {at(2 * kMiB), DType::f32, {64}}}, {y}},
      {"relu(x + bias)", {{at(4), DType::f32, {64, 64}}, {at(2 * kMiB), DType::f32, {64}}}, {y}},
      {"-x", {x}, {{at(kMiB + 2), DType::f16, {64, 64}}}},
      {"scalar a; t = x * a; return t, t > 0", {x}, {y, {at(3 * kMiB), DType::boolean, {64, 64}}}, {2.5}},
      {"x + y", {x, {at(2 * kMiB), DType::bf16, {64, 64}, {1, 64}}}, {{at(kMiB), DType::f32, {64, 64}, {1, 64}}}},
      {"x * 2", {{at(kMiB), DType::f32, {64, 64}, {-64, 1}}}, {{at(3 * kMiB), DType::f32, {64, 64}, {80, 1}}}},
      {"x + s", {x, {at(2 * kMiB), DType::f32, {}}}, {y}},
      {"x + 1", {x}, {{at(0), DType::f32, {64, 64}}}},  // in place
      {"gelu(x)", {x}, {{at(kMiB), DType::f16, {64, 64}}}, {}, Math::precise},
      {"gelu(x)", {x}, {{at(kMiB), DType::f16, {64, 64}}}},
      {"softmax(x, -1)", {{at(0), DType::f16, {8, 3000}}}, {{at(kMiB), DType::f16, {8, 3000}}}},
      {"sum(x, axis=0)", {{at(0), DType::f32, {5000, 77}}}, {{at(4 * kMiB), DType::f32, {77}}}},
  };
}

void launch_all(Engine& engine) {
  for (const Launch& launch : launches()) {
    engine.launch(test::as_written(launch.chain).with(launch.math), nullptr, launch.outputs, launch.inputs,
                  launch.scalars);
  }
}

class Bundles : public testing::Test {
 protected:
  static void SetUpTestSuite() { ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1); }
  // In a process that has looked for NVRTC not yet: there is none.
  static void without_nvrtc() { ::setenv("EPIFUSE_NVRTC", "/nonexistent/libnvrtc.so", 1); }
  std::string path(const char* name) const { return (directory_ / name).string(); }
  std::string content(const char* name) const {
    std::ifstream file(directory_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  int tool(const std::string& arguments) const {
    return std::system(
        ("EPIFUSE_CACHE=off EPIFUSE_NVRTC=" EPIFUSE_FAKE_NVRTC " " EPIFUSE_TOOL " " + arguments).c_str());
  }
  void record() const {
    in_a_process([&] {
      ::setenv("EPIFUSE_RECORD", path("launches.txt").c_str(), 1);
      const QuietDriver driver;
      Engine engine(Device::cuda(0));
      launch_all(engine);
      launch_all(engine);
    });
  }
  TemporaryDirectory directory_;
};

TEST_F(Bundles, RecordedLaunchesNeedNoCompilerNoDiskAndNoPermission) {
  record();
  const std::string recorded = content("launches.txt");
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(recorded, '\n')), launches().size()) << recorded;
  ASSERT_EQ(tool("bundle " + path("launches.txt") + " -o " + path("kernels.epifuse") + " > /dev/null"), 0);
  for (const bool by_environment : {false, true}) {
    in_a_process([&] {
      without_nvrtc();
      ::setenv("EPIFUSE_CACHE", "on", 1);
      ::setenv("EPIFUSE_CACHE_DIR", path("cache").c_str(), 1);
      EngineOptions options;
      if (by_environment) {
        ::setenv("EPIFUSE_BUNDLE", (":" + path("kernels.epifuse")).c_str(), 1);
        ::setenv("EPIFUSE_COMPILE", "never", 1);
      } else {
        options.bundles = {path("kernels.epifuse")};
        options.compile = Compile::never;
      }
      const QuietDriver driver;
      Engine engine(Device::cuda(0), options);
      launch_all(engine);
      EXPECT_EQ(engine.stats().bundle_hits, engine.stats().kernels);
      EXPECT_EQ(engine.stats().compiles, 0U);
      EXPECT_EQ(engine.stats().launches, launches().size());
      EXPECT_FALSE(std::filesystem::exists(path("cache")));
    });
  }
}

TEST_F(Bundles, WhatIsNotInOneFailsAtOnceWithTheLineToAdd) {
  in_a_process([&] {
    without_nvrtc();
    const QuietDriver driver;
    Engine engine(Device::cuda(0), {.disk_cache = false, .compile = Compile::never});
    std::ofstream lines(path("launches.txt"));
    for (const Launch& launch : launches()) {
      try {
        engine.launch(test::as_written(launch.chain).with(launch.math), nullptr, launch.outputs, launch.inputs,
                      launch.scalars);
        ADD_FAILURE() << launch.chain << " was launched";
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::no_compiler);
        const std::string text = error.what();
        EXPECT_NE(text.find("no bundle is given"), std::string::npos) << text;
        lines << text.substr(text.rfind('\n') + 1) << '\n';
      }
    }
    EXPECT_EQ(engine.stats().launches, 0U);
  });
  ASSERT_EQ(tool("bundle " + path("launches.txt") + " -o " + path("kernels.epifuse") + " > /dev/null"), 0);
  in_a_process([&] {
    without_nvrtc();
    const QuietDriver driver;
    Engine engine(Device::cuda(0), {.bundles = {path("kernels.epifuse")}, .compile = Compile::never});
    launch_all(engine);
  });
}

TEST_F(Bundles, InMemoryIsLikeAFile) {
  record();
  ASSERT_EQ(tool("bundle " + path("launches.txt") + " -o " + path("kernels.epifuse") + " > /dev/null"), 0);
  in_a_process([&] {
    without_nvrtc();
    const std::string bytes = content("kernels.epifuse");
    const QuietDriver driver;
    Engine engine(Device::cuda(0),
                  {.bundles = {{std::as_bytes(std::span(bytes)), "kernels"}}, .compile = Compile::never});
    launch_all(engine);
    EXPECT_EQ(engine.stats().bundle_hits, engine.stats().kernels);
    EXPECT_FALSE(list_bundle({std::as_bytes(std::span(bytes)), "kernels"}).empty());
  });
}

TEST_F(Bundles, WhatIsNotInOneCompilesAsUsual) {
  in_a_process([&] {
    const std::vector<PrecompiledLaunch> list = {{{Epilogue::parse("x + 1"),
                                                   {OutputView(nullptr, DType::f32, {64, 64})},
                                                   {TensorView(nullptr, DType::f32, {64, 64})}},
                                                  {.architecture = 90}}};
    Precompiler precompiler({.disk_cache = false});
    precompiler.prepare(list);
    precompiler.prepare(list);
    EXPECT_EQ(precompiler.stats().kernels, 1U);
    EXPECT_EQ(precompiler.stats().compiles, 1U);
    const std::string bytes = precompiler.bundle();
    const QuietDriver driver;
    Engine engine(Device::cuda(0), {.bundles = {{std::as_bytes(std::span(bytes)), "one"}}});
    launch_all(engine);
    EXPECT_EQ(engine.stats().bundle_hits, 1U);
    EXPECT_EQ(engine.stats().compiles + 1, engine.stats().kernels);
  });
}

TEST_F(Bundles, WhatCannotBeUsedIsRefusedWhenTheEngineIsMade) {
  std::ofstream(directory_ / "foreign")
      << "not a bundle, but long enough to have a header of one, which it has not got";
  in_a_process([&] {
    const QuietDriver driver;
    for (const char* name : {"foreign", "missing"}) {
      try {
        const Engine engine(Device::cuda(0), {.bundles = {path(name)}});
        ADD_FAILURE() << name;
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::io);
        EXPECT_NE(std::string(error.what()).find(path(name)), std::string::npos) << error.what();
      }
    }
    ::setenv("EPIFUSE_COMPILE", "sometimes", 1);
    EXPECT_THROW(const Engine engine(Device::cuda(0)), Error);
    const Engine engine(Device::cuda(0), {.compile = Compile::on_need});
  });
}

TEST_F(Bundles, AnUnknownArchitectureIsASentence) {
  in_a_process([&] {
    const std::vector<PrecompiledLaunch> list = {{{Epilogue::parse("x + 1"),
                                                   {OutputView(nullptr, DType::f32, {64, 64})},
                                                   {TensorView(nullptr, DType::f32, {64, 64})}},
                                                  {.architecture = 120}}};
    Precompiler precompiler({.disk_cache = false});
    try {
      precompiler.prepare(list);
      ADD_FAILURE() << "the fake NVRTC knows 80 and 90";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported);
      EXPECT_NE(std::string(error.what()).find("sm_120; it compiles for sm_80, sm_90"), std::string::npos);
    }
    EXPECT_EQ(precompiler.stats().kernels, 0U);
  });
}

}  // namespace
}  // namespace epifuse
