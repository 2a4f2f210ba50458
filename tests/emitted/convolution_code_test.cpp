// Machine code of convolutions that host a chain: NVRTC compiles every tile with chains from none to ten operations,
// without a spill.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

struct Types {
  DType factor, operand, result;
};
constexpr Types kTypes[] = {{DType::bf16, DType::bf16, DType::bf16},
                            {DType::f16, DType::f16, DType::f16},
                            {DType::bf16, DType::f32, DType::f32},
                            {DType::f8e4m3, DType::bf16, DType::bf16}};

// Channels of both sides, and images, for which each tile is chosen.
struct Shape {
  std::int64_t images, filters;
  const char* tile;
  std::int64_t channels = 1024;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.tile; }
constexpr Shape kShapes[] = {{66, 256, "128 x 256, shared"},
                             {66, 192, "128 x 192, warp groups take turns"},
                             {528, 128, "128 x 128, warp groups take turns", 128},
                             {1, 8448, "128 x 128, shared"}};

// x are images, w filters, b has a value for each channel, r and s for each element.
const std::vector<std::string> kChains = {
    "conv2d(x, w, padding=1)",
    "relu(conv2d(x, w, b, padding=1) + r)",
    "(conv2d(x, w, padding=1) * b[:, None, None]) * r + s",
    "y = conv2d(x, w, padding=1); sigmoid(tanh(silu(y + b[:, None, None]) * 0.5)) * mish(r) - softplus(y * 2)",
};

class ConvolutionCode : public testing::TestWithParam<std::tuple<Shape, std::string>> {};

TEST_P(ConvolutionCode, HasNoSpill) {
  const auto& [shape, chain] = GetParam();
  constexpr std::int64_t kPixels = 16;
  for (const Types& types : kTypes) {
    const Epilogue tail = test::as_written(chain);
    const auto tensor = [](DType type, const Dims& extents) {
      return OutputView(nullptr, type, extents, channels_last(extents));
    };
    const OutputView out = tensor(types.result, {shape.images, shape.filters, kPixels, kPixels});
    std::vector<TensorView> inputs;
    for (const std::string& name : tail.inputs()) {
      inputs.push_back(name == "x"   ? tensor(types.factor, {shape.images, shape.channels, kPixels, kPixels})
                       : name == "w" ? tensor(types.factor, {shape.filters, shape.channels, 3, 3})
                       : name == "b" ? TensorView(nullptr, types.operand, {shape.filters})
                                     : tensor(types.operand, out.shape));
    }
    const Inspection kernel(tail, std::span(&out, 1), inputs, {.architecture = 90});
    ASSERT_EQ(kernel.plan().schedule, "gemm") << kernel.plan_text();
    const bool is_usual = types.factor == types.result;
    EXPECT_NE(kernel.plan_text().find(is_usual ? shape.tile : "tile             128 x"), std::string::npos)
        << kernel.plan_text();
    const KernelResources used = kernel.resources(90);
    EXPECT_EQ(used.spilled_bytes, 0) << kernel.cuda();
    EXPECT_EQ(used.registers, 168) << kernel.cuda();
    EXPECT_EQ(used.shared_bytes, 0) << "all of it is dynamic";
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, ConvolutionCode,
                         testing::Combine(testing::ValuesIn(kShapes), testing::ValuesIn(kChains)));

}  // namespace
}  // namespace epifuse
