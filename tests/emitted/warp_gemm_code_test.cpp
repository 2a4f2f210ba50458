// Machine code of products that host a chain where warps multiply (sm_80 to sm_89, sm_120): NVRTC compiles every tile
// with chains from none to ten operations for each of these GPUs, without a spill, and with as many products in the
// main loop as a stage has.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/gemm_problem.hpp"

namespace epifuse {
namespace {

// Of both factors, of operands of the result's size, and of the result.
struct WarpTypes {
  DType factor, operand, result;
};
constexpr WarpTypes kWarpTypes[] = {{DType::bf16, DType::bf16, DType::bf16},
                                    {DType::f16, DType::f32, DType::f32},
                                    {DType::f8e4m3, DType::bf16, DType::bf16},
                                    {DType::i8, DType::f32, DType::i8},
                                    {DType::f32, DType::f32, DType::bf16}};

// A shape of which each multiprocessor gets one tile.
struct WarpShape {
  int tile_rows, tile_columns;
};
void PrintTo(const WarpShape& shape, std::ostream* out) { *out << shape.tile_rows << " x " << shape.tile_columns; }
constexpr WarpShape kWarpShapes[] = {{128, 128}, {64, 128}, {64, 64}};
constexpr std::int64_t kDepthOfWarps = 1024;
constexpr int kTilesOfWarps = 100;

// x is the left factor, w and v are right ones, b varies along columns, c along rows, r along both.
const std::vector<std::string> kChainsOfWarps = {
    "linear(x, w)",
    "gelu(linear(x, w, b)) + r",
    "silu(linear(x, w)) * linear(x, v)",
    "y = linear(x, w); sigmoid(tanh(silu(y + b) * 0.5) + exp(c)) * mish(r) - softplus(y * 2)",
};

std::size_t count(const std::string& text, const std::string& wanted) {
  std::size_t found = 0;
  for (auto at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

class WarpGemmCode : public testing::TestWithParam<std::tuple<int, WarpShape, std::string>> {};

TEST_P(WarpGemmCode, HasNoSpill) {
  const auto& [architecture, shape, chain] = GetParam();
  const bool has_float8 = architecture >= 89;
  for (const WarpTypes& types : kWarpTypes) {
    if (types.factor == DType::f8e4m3 && !has_float8) continue;
    for (const bool transposed : {false, true}) {
      // Tensor cores take numbers of 8 and of 32 bits along the depth alone.
      if (transposed && size_of(types.factor) != 2) continue;
      const Epilogue tail = test::as_written(types.factor == DType::f32 ? test::in_tf32(chain) : chain);
      const bool has_two = chain.find(", v)") != chain.npos;
      const std::int64_t rows = shape.tile_rows;
      const std::int64_t columns = std::int64_t{kTilesOfWarps} * shape.tile_columns / (has_two ? 2 : 1);
      const auto factor = [&, transposed = transposed](std::int64_t lines) {
        return TensorView(nullptr, types.factor, {lines, kDepthOfWarps},
                          transposed ? Dims{1, lines} : Dims{kDepthOfWarps, 1});
      };
      std::vector<TensorView> inputs;
      for (const std::string& name : tail.inputs()) {
        const Dims extents = name == "b" ? Dims{columns} : name == "c" ? Dims{rows, 1} : Dims{rows, columns};
        inputs.push_back(name == "x"                  ? factor(rows)
                         : name == "w" || name == "v" ? factor(columns)
                                                      : TensorView(nullptr, types.operand, extents));
      }
      const OutputView out(nullptr, types.result, {rows, columns});
      const Inspection kernel(tail, std::span(&out, 1), inputs,
                              {.architecture = architecture, .multiprocessors = kTilesOfWarps});
      // Beside the sums of the largest tile no registers are left for a loop over sub-tiles, which long chains are, and
      // for two products whose sums are taken out: these get the next one.
      const std::string text = kernel.plan_text();
      const bool is_largest = shape.tile_rows == 128;
      const bool is_shorter = is_largest && text.find("tile             64 x 128") != text.npos;
      const bool promotes = types.factor == DType::f8e4m3;
      const bool needs_registers = kernel.plan().instructions > (promotes ? 40 : 42) || (promotes && has_two);
      EXPECT_EQ(is_shorter, is_largest && needs_registers) << text;
      const int tile_rows = is_shorter ? 64 : shape.tile_rows;
      ASSERT_NE(text.find(fmt::format("tile             {} x {},", tile_rows, shape.tile_columns)), text.npos) << text;
      EXPECT_EQ(kernel.resources(architecture).spilled_bytes, 0) << kernel.cuda();
      // The text is that of the least architecture which has the type: one look at each is enough.
      if (architecture != (types.factor == DType::f8e4m3 ? 89 : 80)) continue;
      // 16 rows, 8 columns and 32 bytes each, for a warp that has half of the tile's rows and half of its columns. A
      // stage has two steps of 32 bytes; where sums are taken out, these are a loop.
      const int steps = types.factor == DType::f8e4m3 ? 1 : 2;
      const int products = tile_rows / 32 * (shape.tile_columns / 16) * steps;
      EXPECT_EQ(count(kernel.ptx(architecture), "mma.sync.aligned"), static_cast<std::size_t>(products));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, WarpGemmCode,
                         testing::Combine(testing::Values(80, 86, 89, 120), testing::ValuesIn(kWarpShapes),
                                          testing::ValuesIn(kChainsOfWarps)));

}  // namespace
}  // namespace epifuse
