// What a profiler gets to see of an engine: names of kernels, and ranges of NVTX. On a stub driver, with the fake NVRTC
// and a fake NVTX.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/log.hpp>

#include "jit/temporary_directory.hpp"
#include "runtime/quiet_driver.hpp"
#include "support/as_written.hpp"

namespace epifuse {
namespace {

using runtime::QuietDriver;

void* at(std::size_t offset) { return QuietDriver::address(0, offset); }

// An engine's launches of one kernel, epifuse_flat_relu_f32_f32_…, on the driver of this process.
void launch_relu(int times) {
  Engine engine(Device::cuda(0), {.disk_cache = false});
  const TensorView x(at(0), DType::f32, {64, 64});
  const OutputView y(at(1 << 20), DType::f32, {64, 64});
  for (int i = 0; i < times; ++i) engine.launch(Epilogue::parse("relu(x)"), nullptr, y, {x});
}

std::string kernel_of(const std::string& chain, DType in, DType out, const Dims& shape) {
  const TensorView x(nullptr, in, shape);
  const OutputView y(nullptr, out, shape);
  const Inspection inspection(Epilogue::parse(chain), std::span(&y, 1), std::span(&x, 1));
  std::smatch found;
  const bool is_there = std::regex_search(inspection.cuda(), found, std::regex(R"((epifuse_\w+)\(const )"));
  return is_there ? found[1].str() : "";
}

TEST(Profiler, AKernelIsCalledWhatItIs) {
  const auto is_like = [](const std::string& name, const std::string& start) {
    return std::regex_match(name, std::regex(start + "_[0-9a-f]{6}"));
  };
  const std::string relu = kernel_of("relu(x) + 1", DType::f16, DType::f16, {8, 16});
  EXPECT_TRUE(is_like(relu, "epifuse_flat_relu_add_f16_f16")) << relu;
  const std::string softmax = kernel_of("softmax(x, -1)", DType::bf16, DType::f8e4m3, {8, 3000});
  EXPECT_TRUE(is_like(softmax, "epifuse_resident_softmax_bf16_f8e4m3")) << softmax;
  const std::vector<std::pair<std::string, std::string>> named = {
      {"rms_norm(x)", "rms_norm"},
      {"x * rsqrt(mean(square(x), -1, keepdim=true) + 1e-6)", "rms_norm"},
      {"silu(rms_norm(x + 1))", "add_rms_norm_silu"},
      {"layer_norm(x)", "layer_norm"},
      {"log_softmax(x, -1)", "log_softmax"},
      {"normalize(x)", "normalize"},
      {"relu(x) - amax(x, -1, keepdim=true)", "relu_amax_sub"}};
  for (const auto& [chain, name] : named) {
    const std::string kernel = kernel_of(chain, DType::bf16, DType::bf16, {8, 4096});
    EXPECT_TRUE(is_like(kernel, "epifuse_resident_" + name + "_bf16_bf16")) << chain << ": " << kernel;
  }
  EXPECT_TRUE(is_like(kernel_of("group_norm(x, 4)", DType::f32, DType::f32, {2, 8, 64}),
                      "epifuse_resident_group_norm_f32_f32"));
  EXPECT_TRUE(is_like(kernel_of("instance_norm(x)", DType::f32, DType::f32, {2, 8, 64}),
                      "epifuse_resident_instance_norm_f32_f32"));
  // The class counts, the shape does not; and neither does how the chain was written.
  EXPECT_EQ(kernel_of("relu(x) + 1", DType::f16, DType::f16, {80, 160}), relu);
  EXPECT_EQ(kernel_of("t = relu(x); return t + 1", DType::f16, DType::f16, {8, 16}), relu);
  const std::set<std::string> names = {relu, kernel_of("relu(x) + 2", DType::f16, DType::f16, {8, 16}),
                                       kernel_of("relu(x) + 1", DType::bf16, DType::f16, {8, 16}),
                                       kernel_of("relu(x) + 1", DType::f16, DType::f32, {8, 16})};
  EXPECT_EQ(names.size(), 4U);
  // An operand of the name that the entry point has before it gets its own.
  const TensorView x(nullptr, DType::f16, {8, 16});
  const OutputView y(nullptr, DType::f16, {8, 16});
  const std::string source =
      Inspection(Epilogue::parse("relu(epifuse_kernel)"), std::span(&y, 1), std::span(&x, 1)).cuda();
  EXPECT_NE(source.find("epifuse_flat_relu_f16_f16_"), std::string::npos);
}

// The log says for the name in a profile which chain it is, and how it was planned: in the words of `epifuse dump`,
// once for each kernel.
TEST(Profiler, TheLogSaysWhatANameStandsFor) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  std::vector<std::string> records;
  const auto take = [&](LogLevel, std::string_view record) {
    if (record.starts_with("epifuse_")) records.emplace_back(record);
  };
  struct Case {
    std::string chain;
    std::vector<Dims> shapes;
    Dims result;
    bool is_product = false;
  };
  const std::vector<Case> cases = {{"relu(x) + 1", {{64, 64}}, {64, 64}},
                                   {"softmax(x, -1) * b", {{64, 4096}, {4096}}, {64, 4096}},
                                   {"silu(x[..., :64]) * x[..., 64:]", {{32, 128}}, {32, 64}},
                                   {"y = softmax(x, -1); y + flip(y, -1)", {{64, 1024}}, {64, 1024}},
                                   {"relu(linear(x, w, b))", {{4096, 512}, {512, 512}, {512}}, {4096, 512}, true}};
  for (const Case& each : cases) {
    const Epilogue tail = test::as_written(each.chain);
    std::vector<TensorView> inputs;
    for (const Dims& shape : each.shapes) inputs.emplace_back(at(inputs.size() << 24), DType::f16, shape);
    const OutputView y(at(std::size_t{1} << 30), DType::f16, each.result);
    Engine engine(Device::cuda(0), {.disk_cache = false});
    records.clear();
    set_log(LogLevel::info, take);
    engine.launch(tail, nullptr, y, inputs);
    engine.launch(tail, nullptr, y, inputs);
    set_log(LogLevel::off);
    ASSERT_EQ(records.size(), 1U) << each.chain;

    ASSERT_EQ(engine.kernel_stats().size(), 1U) << each.chain;
    const KernelStats kernel = engine.kernel_stats()[0];
    const std::string head =
        kernel.name + ": \"" + kernel.chain + "\" as [" + kernel.kernel_class + "]; from compiled in";
    EXPECT_EQ(records[0].find(head), 0U) << records[0];
    // The stub has an H100's multiprocessors, and says 32 of each resource. A product's plan names none.
    const Inspection inspection(tail, std::span(&y, 1), inputs, {.architecture = 90, .multiprocessors = 132});
    const KernelResources used =
        each.is_product ? KernelResources{} : KernelResources{90, kernel.registers, 32, kernel.spilled_bytes};
    const std::string plan = inspection.plan_text(0, used);
    const std::string said = records[0].substr(records[0].find('\n') + 1) + "\n";
    EXPECT_EQ(said, std::regex_replace(plan, std::regex("(^|\n)(?=[^\n])"), "$1  ")) << records[0];
  }
  // Who asks for less gets no plan.
  set_log(LogLevel::warn, take);
  records.clear();
  launch_relu(1);
  set_log(LogLevel::off);
  EXPECT_TRUE(records.empty());
}

// The legacy default stream is none, and a thread's own has the driver's number.
TEST(Profiler, AStreamReachesTheDriverAsItIs) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  const TensorView x(at(0), DType::f32, {64, 64});
  const OutputView y(at(1 << 20), DType::f32, {64, 64});
  const Epilogue tail = Epilogue::parse("relu(x)");
  Engine engine(Device::cuda(0), {.disk_cache = false});
  engine.launch(tail, kPerThreadStream, y, {x});
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(QuietDriver::last_launch().stream), 2U);  // CU_STREAM_PER_THREAD
  engine.launch(tail, nullptr, y, {x});
  EXPECT_EQ(QuietDriver::last_launch().stream, nullptr);
}

TEST(Profiler, RangesOfNvtxWhereTheApplicationHasIt) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  launch_relu(1);
  void* const library = ::dlopen(EPIFUSE_FAKE_NVTX, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto written = reinterpret_cast<const char* (*)()>(::dlsym(library, "nvtx_written"));
  launch_relu(2);
  const std::string text = written();
  EXPECT_TRUE(std::regex_match(text, std::regex("<load (epifuse_flat_relu_f32_f32_[0-9a-f]{6})></><\\1></><\\1></>")))
      << text;
}

#ifdef EPIFUSE_NVTX3
// What a process with a profiler in it does: 0 if that got to see one load and two launches, as ranges of our domain.
int with_injected_profiler() {
  ::setenv("NVTX_INJECTION64_PATH", EPIFUSE_FAKE_NVTX, 1);
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  launch_relu(2);
  void* const library = ::dlopen(EPIFUSE_FAKE_NVTX, RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return 2;
  const std::string text = reinterpret_cast<const char* (*)()>(::dlsym(library, "nvtx_written"))();
  std::fprintf(stderr, "%s\n", text.c_str());
  const std::string load = "<EpiFuse: load (epifuse_flat_relu_f32_f32_[0-9a-f]{6})></EpiFuse>";
  const std::string launch = "<EpiFuse: \\1></EpiFuse>";
  return std::regex_match(text, std::regex(load + launch + launch)) ? 0 : 1;
}

// NVTX asks for a profiler once in a process: this one is a child that starts anew.
TEST(ProfilerDeathTest, RangesReachAProfilerThatInjectsItself) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(std::exit(with_injected_profiler()), testing::ExitedWithCode(0), "EpiFuse: load");
}
#endif

// What each kernel is, and what its launches moved: each element of each operand and result once, in any thread.
TEST(Profiler, CountsWhatTheLaunchesOfEachKernelMove) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  Engine engine(Device::cuda(0), {.disk_cache = false});
  EXPECT_TRUE(engine.kernel_stats().empty());
  const TensorView x(at(0), DType::f32, {64, 64});
  const TensorView wide(at(0), DType::f32, {128, 64});
  const TensorView b(at(1 << 19), DType::f32, {64});
  const OutputView y(at(1 << 20), DType::f32, {64, 64});
  const OutputView wide_y(at(1 << 20), DType::f32, {128, 64});
  const Epilogue relu = Epilogue::parse("relu(x)");
  const Epilogue biased = test::as_written("tanh(x + b)");
  engine.launch(biased, nullptr, y, {x, b});
  constexpr int kThreads = 40, kEach = 25;  // more threads than lanes
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int k = 0; k < kEach; ++k) {
        engine.launch(relu, nullptr, y, {x});
        engine.launch(relu, nullptr, wide_y, {wide});  // of one class with it
      }
    });
  }
  for (std::thread& thread : threads) thread.join();

  const std::vector<KernelStats> kernels = engine.kernel_stats();
  ASSERT_EQ(kernels.size(), 2U);
  EXPECT_TRUE(std::regex_match(kernels[0].name, std::regex("epifuse_flat_relu_f32_f32_[0-9a-f]{6}")))
      << kernels[0].name;
  EXPECT_EQ(kernels[0].chain, relu.str());
  EXPECT_EQ(kernels[0].origin, "compiled");
  EXPECT_NE(kernels[0].kernel_class.find("flat"), std::string::npos) << kernels[0].kernel_class;
  EXPECT_EQ(kernels[0].launches, 2U * kThreads * kEach);
  EXPECT_EQ(kernels[0].bytes, std::uint64_t{kThreads} * kEach * (64 + 128) * 64 * 4 * 2);
  EXPECT_EQ(kernels[1].chain, "tanh(x + b)");
  EXPECT_EQ(kernels[1].launches, 1U);
  EXPECT_EQ(kernels[1].bytes, (64U * 64 * 2 + 64) * 4);
  EXPECT_EQ(engine.stats().launches, 2U * kThreads * kEach + 1);
  EXPECT_TRUE(Engine(Device::cpu()).kernel_stats().empty());
}

// The sources stand where the lines say. A folder that cannot be written is told before anything is compiled.
TEST(Profiler, SourcesStandWhereTheLinesSay) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  const TemporaryDirectory folder;
  const TensorView x(at(0), DType::f32, {64, 64});
  const OutputView y(at(1 << 20), DType::f32, {64, 64});
  const auto sources = [](const std::filesystem::path& where) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(where))
      names.push_back(entry.path().filename().string());
    return names;
  };
  const auto launch = [&](const EngineOptions& options) {
    Engine engine(Device::cuda(0), options);
    engine.launch(Epilogue::parse("relu(x)"), nullptr, y, {x});
    return engine.kernel_stats().at(0).name;
  };
  const std::filesystem::path by_option = folder / "a" / "b";
  const std::string name = launch({.disk_cache = false, .line_info = by_option});
  ASSERT_EQ(sources(by_option).size(), 1U);
  EXPECT_EQ(sources(by_option)[0].find(name + "-"), 0U) << sources(by_option)[0];
  const std::filesystem::path by_variable = folder / "c";
  ::setenv("EPIFUSE_LINE_INFO", by_variable.c_str(), 1);
  launch({.disk_cache = false});
  EXPECT_EQ(sources(by_variable).size(), 1U);
  ::unsetenv("EPIFUSE_LINE_INFO");
  try {
    launch({.disk_cache = false, .line_info = "/dev/null/sources"});
    FAIL() << "a folder in a device";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_EQ(std::string(error.what()).find("'/dev/null/sources', where the sources of kernels are to be written"), 0U)
        << error.what();
  }
}

}  // namespace
}  // namespace epifuse
