// What a profiler gets to see of an engine: names of kernels, and ranges of NVTX. On a stub driver, with the fake NVRTC and a fake NVTX.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <cstdlib>
#include <regex>
#include <set>
#include <string>

#include <epifuse/epifuse.hpp>

#include "runtime/quiet_driver.hpp"

namespace epifuse {
namespace {

using runtime::QuietDriver;

void* at(std::size_t offset) { return QuietDriver::address(0, offset); }

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
  EXPECT_TRUE(is_like(softmax, "epifuse_resident_amax_sub_exp_bf16_f8e4m3")) << softmax;
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

TEST(Profiler, RangesOfNvtxWhereTheApplicationHasIt) {
  ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
  const QuietDriver driver;
  const TensorView x(at(0), DType::f32, {64, 64});
  const OutputView y(at(1 << 20), DType::f32, {64, 64});
  const Epilogue tail = Epilogue::parse("relu(x)");
  {
    Engine before(Device::cuda(0), {.disk_cache = false});
    before.launch(tail, nullptr, y, {x});
  }
  void* const library = ::dlopen(EPIFUSE_FAKE_NVTX, RTLD_LAZY | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << ::dlerror();
  const auto written = reinterpret_cast<const char* (*)()>(::dlsym(library, "nvtx_written"));
  Engine engine(Device::cuda(0), {.disk_cache = false});
  engine.launch(tail, nullptr, y, {x});
  engine.launch(tail, nullptr, y, {x});
  const std::string text = written();
  EXPECT_TRUE(std::regex_match(text, std::regex("<load (epifuse_flat_relu_f32_f32_[0-9a-f]{6})></><\\1></><\\1></>")))
      << text;
}

}  // namespace
}  // namespace epifuse
