// Machine code of convolutions that host a chain where warps multiply (sm_80 to sm_89, sm_120): NVRTC compiles every
// tile with chains from none to ten operations for each of these GPUs, without a spill, and with as many products in
// the main loop as a stage has.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

struct FactorTypes {
  DType factor, operand, result;
};
constexpr FactorTypes kFactorTypes[] = {{DType::bf16, DType::bf16, DType::bf16},
                                        {DType::f16, DType::f32, DType::f32},
                                        {DType::f8e4m3, DType::bf16, DType::bf16},
                                        {DType::i8, DType::f32, DType::i8}};

// Of which each multiprocessor gets one: so many pixels of 8 rows, and so many channels.
struct ConvolutionTile {
  int rows, columns;
};
void PrintTo(const ConvolutionTile& tile, std::ostream* out) { *out << tile.rows << " x " << tile.columns; }
constexpr ConvolutionTile kConvolutionTiles[] = {{128, 128}, {64, 128}, {64, 64}};
constexpr int kTiles = 100;

// x are images, w and v filters, b has a value for each channel, r and s for each element.
const std::vector<std::string> kChainsOfPixels = {
    "conv2d(x, w, padding=1)",
    "relu(conv2d(x, w, b, padding=1) + r)",
    "gelu(conv2d(x, w, b, padding=1)) + r",
    "silu(conv2d(x, w, padding=1)) * conv2d(x, v, padding=1)",
    "y = conv2d(x, w, padding=1); sigmoid(tanh(silu(y + b[:, None, None]) * 0.5)) * mish(r) - softplus(y * 2) + s",
};

std::size_t times_in(const std::string& text, const std::string& wanted) {
  std::size_t found = 0;
  for (auto at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

class WarpConvolutionCode : public testing::TestWithParam<std::tuple<int, ConvolutionTile, std::string>> {};

TEST_P(WarpConvolutionCode, HasNoSpill) {
  const auto& [architecture, tile, chain] = GetParam();
  for (const FactorTypes& types : kFactorTypes) {
    const bool promotes = types.factor == DType::f8e4m3;
    if (promotes && architecture < 89) continue;
    const Epilogue tail = test::as_written(chain);
    const bool has_two = chain.find("(x, v") != chain.npos;
    const auto tensor = [](DType type, const Dims& extents) {
      return OutputView(nullptr, type, extents, channels_last(extents));
    };
    const std::int64_t channels = 256;
    const std::int64_t filters = std::int64_t{kTiles} * tile.columns / (has_two ? 2 : 1);
    const OutputView out = tensor(types.result, {1, filters, 8, tile.rows / 8});
    std::vector<TensorView> inputs;
    for (const std::string& name : tail.inputs()) {
      inputs.push_back(name == "x"                  ? tensor(types.factor, {1, channels, 8, tile.rows / 8})
                       : name == "w" || name == "v" ? tensor(types.factor, {filters, channels, 3, 3})
                       : name == "b"                ? TensorView(nullptr, types.operand, {filters})
                                                    : tensor(types.operand, out.shape));
    }
    const Inspection kernel(tail, std::span(&out, 1), inputs,
                            {.architecture = architecture, .multiprocessors = kTiles});
    ASSERT_EQ(kernel.plan().schedule, "gemm") << kernel.plan_text();
    // Windows leave fewer registers than in warp_gemm_code_test.cpp.
    const std::string text = kernel.plan_text();
    const bool is_largest = tile.rows == 128;
    const bool is_shorter = is_largest && text.find("tile             64 x 128") != text.npos;
    const bool needs_registers = kernel.plan().instructions > 42 || promotes || has_two;
    EXPECT_EQ(is_shorter, is_largest && needs_registers) << text;
    const int tile_rows = is_shorter ? 64 : tile.rows;
    ASSERT_NE(text.find(fmt::format("tile             {} x {},", tile_rows, tile.columns)), text.npos) << text;
    const KernelResources used = kernel.resources(architecture);
    EXPECT_EQ(used.spilled_bytes, 0) << to_string(types.factor) << "\n" << kernel.cuda();
    if (architecture != (promotes ? 89 : 80)) continue;
    const int steps = promotes ? 1 : 2;
    const int products = tile_rows / 32 * (tile.columns / 16) * steps;
    EXPECT_EQ(times_in(kernel.ptx(architecture), "mma.sync.aligned"), static_cast<std::size_t>(products));
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, WarpConvolutionCode,
                         testing::Combine(testing::Values(80, 86, 89, 120), testing::ValuesIn(kConvolutionTiles),
                                          testing::ValuesIn(kChainsOfPixels)));

}  // namespace
}  // namespace epifuse
