// Machine code of products that host a chain: NVRTC compiles every tile with chains from none to ten operations,
// without a spill.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/gemm_problem.hpp"

namespace epifuse {
namespace {

// Of both factors, of operands of the result's size, and of the result.
struct Types {
  DType factor, operand, result;
};
constexpr Types kTypes[] = {{DType::bf16, DType::bf16, DType::bf16},    {DType::f16, DType::f16, DType::f16},
                            {DType::bf16, DType::f32, DType::f32},      {DType::f8e4m3, DType::bf16, DType::bf16},
                            {DType::f8e5m2, DType::f16, DType::f8e5m2}, {DType::i8, DType::f32, DType::i8},
                            {DType::f32, DType::bf16, DType::f32}};

// A shape that each tile is chosen for. Its depth is enough that one kernel is the shorter way, of few rows with short
// chains alone.
struct Shape {
  std::int64_t rows, columns;
  const char* tile;
  std::int64_t depth = 4096;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.tile; }
constexpr Shape kShapes[] = {{16'896, 256, "128 x 256, shared"},
                             {16'896, 192, "128 x 192, warp groups take turns"},
                             {135'168, 128, "128 x 128, warp groups take turns", 1024},
                             {256, 8448, "128 x 128, shared by both warp groups of two blocks"},
                             {128, 16'896, "128 x 128, shared by both warp groups;"},
                             {256, 4096, "128 x 128, its depth shared by two blocks"},
                             {128, 2048, "128 x 128, its depth shared by four blocks"}};

// Operands go by their names: x is the left factor, w and v are right ones, b varies along columns, c along rows, r and
// s along both.
const std::vector<std::string> kChains = {
    "linear(x, w)",
    "relu(linear(x, w, b))",
    "gelu(linear(x, w, b)) + r",
    "(linear(x, w) * c + b) * r + s",
    "y = linear(x, w); sigmoid(tanh(silu(y + b) * 0.5) + exp(c)) * mish(r) - softplus(y * 2)",
};
const std::vector<std::string> kGatedChains = {
    "silu(linear(x, w)) * linear(x, v)",
    "gelu(linear(x, w, b)) * (linear(x, v) + c) * r + s",
};

class GemmCode : public testing::TestWithParam<std::tuple<Shape, std::string>> {};

TEST_P(GemmCode, HasNoSpill) {
  const auto& [shape, chain] = GetParam();
  for (const Types& types : kTypes) {
    for (const bool transposed : {false, true}) {
      // Tensor cores take numbers of 8 and of 32 bits along the depth alone.
      if (transposed && size_of(types.factor) != 2) continue;
      // Sums that are added need a tile that both warp groups share, f32 leaves less space, and boxes of 64 columns do
      // not divide half of 192.
      const bool is_usual = types.factor == types.result && size_of(types.factor) == 2 &&
                            !(transposed && std::string_view(shape.tile).find("x 192") != std::string_view::npos);
      const Epilogue tail = test::as_written(types.factor == DType::f32 ? test::in_tf32(chain) : chain);
      const auto factor = [&](std::int64_t rows) {
        return TensorView(nullptr, types.factor, {rows, shape.depth},
                          transposed ? Dims{1, rows} : Dims{shape.depth, 1});
      };
      std::vector<TensorView> inputs;
      for (const std::string& name : tail.inputs()) {
        const Dims extents = name == "b"   ? Dims{shape.columns}
                             : name == "c" ? Dims{shape.rows, 1}
                                           : Dims{shape.rows, shape.columns};
        inputs.push_back(name == "x"                  ? factor(shape.rows)
                         : name == "w" || name == "v" ? factor(shape.columns)
                                                      : TensorView(nullptr, types.operand, extents));
      }
      const OutputView out(nullptr, types.result, {shape.rows, shape.columns});
      const Inspection kernel(tail, std::span(&out, 1), inputs, {.architecture = 90});
      if (kernel.plan_text().find("computed before this kernel") != std::string::npos) {
        EXPECT_TRUE(!is_usual || chain == kChains.back() || shape.rows <= 256)
            << "few instructions are shorter than another kernel";
        continue;
      }
      EXPECT_NE(kernel.plan_text().find(is_usual ? shape.tile : "tile             128 x"), std::string::npos)
          << kernel.plan_text();
      const KernelResources used = kernel.resources(90);
      EXPECT_EQ(used.spilled_bytes, 0) << kernel.cuda();
      // 384 threads share 65,536 registers; setmaxnreg then moves them from the warp group that copies to those that
      // multiply.
      EXPECT_EQ(used.registers, 168) << kernel.cuda();
      EXPECT_EQ(used.shared_bytes, 0) << "all of it is dynamic";
    }
  }
}

// Two products share a tile: the result's part of it has half of the columns.
constexpr Shape kGatedShapes[] = {{16'896, 128, "128 x 256, shared"},
                                  {16'896, 96, "128 x 192, warp groups take turns"},
                                  {135'168, 64, "128 x 128, warp groups take turns", 1024},
                                  {256, 2048, "128 x 128, its depth shared by two blocks"}};
INSTANTIATE_TEST_SUITE_P(Gated, GemmCode,
                         testing::Combine(testing::ValuesIn(kGatedShapes), testing::ValuesIn(kGatedChains)));
INSTANTIATE_TEST_SUITE_P(Tiles, GemmCode, testing::Combine(testing::ValuesIn(kShapes), testing::ValuesIn(kChains)));

}  // namespace
}  // namespace epifuse
