// Chains with products on a CUDA device: the product's kernel gets the tensors of each call, what the first launch
// would have refused is never accepted, and what runs apart says what it needs. On a stub driver, with the fake NVRTC.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "runtime/quiet_driver.hpp"
#include "support/as_written.hpp"
#include "support/refusal.hpp"

namespace epifuse::test {
namespace {

using runtime::QuietDriver;

constexpr std::size_t kMiB = 1 << 20;

class ProductDispatch : public testing::Test {
 protected:
  explicit ProductDispatch(int major = 9) : driver_(major), engine_(make_engine()) {}

  static Engine make_engine() {
    ::setenv("EPIFUSE_NVRTC", EPIFUSE_FAKE_NVRTC, 1);
    ::setenv("EPIFUSE_CUBLASLT", "/there/is/none", 1);
    return Engine(Device::cuda(0), {.disk_cache = false, .cache_directory = {}});
  }
  static TensorView tensor(std::size_t place, const Dims& shape, DType type = DType::bf16) {
    return {QuietDriver::address(0, place * kMiB), type, shape};
  }
  static OutputView result(std::size_t place, const Dims& shape, DType type = DType::bf16) {
    return {QuietDriver::address(0, place * kMiB), type, shape};
  }
  // Where the last launch's factors and result lie: what its maps describe, or its addresses.
  std::vector<void*> mapped() const {
    std::vector<void*> addresses(3);
    for (std::size_t i = 0; i < addresses.size(); ++i)
      std::memcpy(&addresses[i], QuietDriver::last_launch().parameters.data() + i * QuietDriver::bytes_of_tensor(),
                  sizeof(void*));
    return addresses;
  }
  static void* at(std::size_t place) { return QuietDriver::address(0, place * kMiB); }
  // A batch, and a factor that is transposed.
  void expect_that_prepare_loads_what_is_launched() {
    const Epilogue tail = as_written("silu(x @ w)");
    const std::vector<TensorView> inputs = {tensor(0, {3, 256, 64}), tensor(4, {64, 512})};
    engine_.prepare(tail, result(12, {3, 256, 512}), inputs);
    EXPECT_EQ(engine_.stats().kernels, 1U);
    EXPECT_EQ(engine_.stats().launches, 0U);
    engine_.launch(tail, nullptr, result(13, {3, 256, 512}), inputs);
    EXPECT_EQ(engine_.stats().kernels, 1U);
    EXPECT_EQ(mapped(), (std::vector<void*>{at(0), at(4), at(13)}));
  }

  QuietDriver driver_;
  Engine engine_;
};

// Where warps multiply by mma.sync.
class ProductDispatchOfWarps : public ProductDispatch {
 protected:
  ProductDispatchOfWarps() : ProductDispatch(8) {}
};

TEST_F(ProductDispatch, OneKernelGetsTheTensorsOfEachCall) {
  const Epilogue tail = as_written("relu(linear(x, w, b))");
  for (std::size_t i = 0; i < 3; ++i) {
    engine_.launch(tail, nullptr, result(12 + i, {256, 512}),
                   {tensor(i, {256, 64}), tensor(4 + i, {512, 64}), tensor(8, {512})});
    EXPECT_EQ(mapped(), (std::vector<void*>{at(i), at(4 + i), at(12 + i)}));
    EXPECT_EQ(QuietDriver::last_launch().block, 384U);
  }
  EXPECT_EQ(engine_.stats().launches, 3U);
  EXPECT_EQ(engine_.stats().kernels, 1U);
  const std::vector<KernelStats> kernels = engine_.kernel_stats();
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].launches, 3U);
  EXPECT_EQ(kernels[0].bytes, 3U * 2 * (256 * 64 + 512 * 64 + 512 + 256 * 512));
  EXPECT_EQ(kernels[0].kernel_class.substr(0, 5), "gemm ");
}

TEST_F(ProductDispatchOfWarps, OneKernelGetsTheTensorsOfEachCall) {
  const Epilogue tail = as_written("gelu(linear(x, w, b)) + r");
  for (std::size_t i = 0; i < 3; ++i) {
    engine_.launch(tail, nullptr, result(16 + i, {4096, 512}),
                   {tensor(i, {4096, 64}), tensor(4 + i, {512, 64}), tensor(8, {512}), tensor(9, {4096, 512})});
    EXPECT_EQ(mapped(), (std::vector<void*>{at(i), at(4 + i), at(16 + i)}));
    EXPECT_EQ(QuietDriver::last_launch().block, 128U);
    EXPECT_GT(QuietDriver::last_launch().shared, 48U << 10);
  }
  EXPECT_EQ(engine_.stats().launches, 3U);
  ASSERT_EQ(engine_.kernel_stats().size(), 1U);
  EXPECT_EQ(engine_.kernel_stats()[0].kernel_class.substr(0, 5), "gemm ");
}

TEST_F(ProductDispatchOfWarps, PrepareLoadsTheKernelThatALaunchTakes) { expect_that_prepare_loads_what_is_launched(); }

TEST_F(ProductDispatchOfWarps, OverlapAndHostMemoryAreRefused) {
  const Epilogue tail = as_written("relu(linear(x, w))");
  const std::vector<std::uint16_t> host(512 * 64);
  const auto launch = [&](const OutputView& out, const TensorView& w) {
    return refusal([&] { engine_.launch(tail, nullptr, out, {tensor(0, {256, 64}), w}); });
  };
  EXPECT_EQ(launch(result(12, {256, 512}), tensor(4, {512, 64})), "(accepted)");
  EXPECT_NE(launch(result(0, {256, 512}), tensor(4, {512, 64})).find("the result overlaps a factor"),
            std::string::npos);
  EXPECT_NE(launch(result(12, {256, 512}), {host.data(), DType::bf16, {512, 64}}).find("operand 'w'"),
            std::string::npos);
}

// The product's kernel leaves partial results in the workspace, and another kernel makes the sums of these.
TEST_F(ProductDispatch, ReductionsAreFinishedByAnotherKernel) {
  const Epilogue tail = as_written("y = linear(x, w); return y, sum(square(y), axis=-1, keepdim=true)");
  const std::vector<TensorView> inputs = {tensor(0, {8192, 64}), tensor(4, {4096, 64})};
  const std::vector<OutputView> outputs = {result(128, {8192, 4096}), result(8, {8192, 1}, DType::f32)};
  const std::size_t bytes = engine_.workspace_bytes(tail, outputs, inputs);
  EXPECT_EQ(bytes % (8192 * sizeof(float)), 0U) << "so many partial results of each row";
  EXPECT_GE(bytes, 16 * 8192 * sizeof(float)) << "tiles have 256 columns at most";
  engine_.prepare(tail, outputs, inputs);
  EXPECT_EQ(engine_.stats().kernels, 2U);
  for (int i = 0; i < 2; ++i) engine_.launch(tail, nullptr, outputs, inputs);
  EXPECT_EQ(engine_.stats().kernels, 2U);
  EXPECT_EQ(engine_.stats().launches, 4U);
  const Workspace enough{at(64), bytes};
  engine_.launch(tail, nullptr, outputs, inputs, {}, enough);
  EXPECT_NE(refusal([&] {
              engine_.launch(tail, nullptr, outputs, inputs, {}, Workspace{at(64), bytes - 1});
            }).find("workspace"),
            std::string::npos);
  const std::vector<OutputView> overlapping = {outputs[0], result(130, {8192, 1}, DType::f32)};
  EXPECT_NE(refusal([&] { engine_.launch(tail, nullptr, overlapping, inputs); }).find("overlap"), std::string::npos);
}

TEST_F(ProductDispatch, ShapesOfOneTileShareAKernel) {
  const Epilogue tail = as_written("gelu(linear(x, w))");
  for (const std::int64_t rows : {8192, 16'384})
    engine_.launch(tail, nullptr, result(12, {rows, 4096}), {tensor(0, {rows, 64}), tensor(4, {4096, 64})});
  EXPECT_EQ(engine_.stats().kernels, 1U);
}

TEST_F(ProductDispatch, RepeatedLaunchesRefuseOverlap) {
  const Epilogue tail = as_written("linear(x, w) + r");
  const auto launch = [&](const OutputView& out, const TensorView& r) {
    return refusal([&] { engine_.launch(tail, nullptr, out, {tensor(0, {256, 512}), tensor(4, {512, 512}), r}); });
  };
  const Dims shape = {256, 512};
  EXPECT_EQ(launch(result(12, shape), tensor(8, shape)), "(accepted)");
  EXPECT_EQ(launch(result(12, shape), tensor(12, shape)), "(accepted)") << "in place";
  EXPECT_NE(launch(result(0, shape), tensor(8, shape)).find("the result overlaps a factor"), std::string::npos);
  OutputView shifted = result(12, shape);
  shifted.data = static_cast<const std::byte*>(shifted.data) + 256;
  EXPECT_NE(launch(shifted, tensor(12, shape)).find("the result overlaps operand 'r'"), std::string::npos);
}

// In the product's kernel, and apart.
TEST_F(ProductDispatch, HostMemoryIsRefused) {
  const std::vector<std::uint16_t> host(512 * 64);
  const TensorView weight(host.data(), DType::bf16, {512, 64});
  const auto refused = [&](const char* chain) {
    return refusal([&] {
      engine_.launch(as_written(chain), nullptr, result(12, {256, 512}), {tensor(0, {256, 64}), weight});
    });
  };
  EXPECT_NE(refused("relu(linear(x, w))").find("operand 'w'"), std::string::npos);
  EXPECT_NE(refused("softmax(linear(x, w), axis=-1)").find("host memory, but the engine runs on cuda:0"),
            std::string::npos);
  EXPECT_EQ(engine_.stats().compiles, 0U) << "what is refused is refused before anything is compiled";
}

TEST_F(ProductDispatch, ApartNeedsAWorkspaceAndCublasLt) {
  const Epilogue tail = as_written("softmax(linear(x, w), axis=-1)");
  const OutputView out = result(12, {256, 512});
  const std::vector<TensorView> inputs = {tensor(0, {256, 64}), tensor(4, {512, 64})};
  EXPECT_EQ(engine_.workspace_bytes(tail, out, inputs), 256U * 512 * 2 + (32U << 20));
  EXPECT_EQ(engine_.workspace_bytes(as_written("relu(linear(x, w))"), out, inputs), 0U);
  try {
    engine_.launch(tail, nullptr, out, inputs);
    FAIL() << "there is no cuBLASLt";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("EPIFUSE_CUBLASLT names /there/is/none"), std::string::npos);
  }
}

TEST_F(ProductDispatch, PrepareLoadsTheKernelThatALaunchTakes) { expect_that_prepare_loads_what_is_launched(); }

}  // namespace
}  // namespace epifuse::test
