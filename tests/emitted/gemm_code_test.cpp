// Machine code of products that host a chain: NVRTC compiles every tile with chains from none to ten operations, without a spill.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/gemm.hpp>

namespace epifuse {
namespace {

// A shape that each tile is chosen for.
struct Shape {
  std::int64_t rows, columns;
  const char* tile;
};
constexpr Shape kShapes[] = {{16'896, 256, "128 x 256, shared"},
                             {16'896, 128, "128 x 128, warp groups take turns"},
                             {128, 16'896, "128 x 128, shared"}};

// Operands go by their names: b varies along columns, c along rows, r and s along both.
constexpr const char* kChains[] = {
    "x",
    "relu(x + b)",
    "gelu(x + b) + r",
    "(x * c + b) * r + s",
    "sigmoid(tanh(silu(x + b) * 0.5) + exp(c)) * mish(r) - softplus(x * 2)",
};

class GemmCode : public testing::TestWithParam<std::tuple<Shape, const char*>> {};

TEST_P(GemmCode, HasNoSpill) {
  const auto& [shape, chain] = GetParam();
  for (const DType type : {DType::bf16, DType::f16}) {
    for (const bool transposed : {false, true}) {
      const Epilogue tail = Epilogue::parse(chain);
      std::vector<TensorView> inputs;
      for (const std::string& name : tail.inputs()) {
        const Dims extents = name == "b"   ? Dims{shape.columns}
                             : name == "c" ? Dims{shape.rows, 1}
                                           : Dims{shape.rows, shape.columns};
        inputs.emplace_back(nullptr, type, extents);
      }
      const TensorView left(nullptr, type, {shape.rows, 256}, transposed ? Dims{1, shape.rows} : Dims{256, 1});
      const TensorView right(nullptr, type, {shape.columns, 256}, transposed ? Dims{1, shape.columns} : Dims{256, 1});
      const GemmKernel kernel(tail, "x", left, right, {nullptr, type, {shape.rows, shape.columns}}, inputs);
      EXPECT_NE(kernel.plan_text().find(shape.tile), std::string::npos) << kernel.plan_text();
      const KernelResources used = kernel.resources();
      EXPECT_EQ(used.spilled_bytes, 0) << kernel.cuda();
      // 384 threads share 65,536 registers; setmaxnreg then moves them from the warp group that copies to those that multiply.
      EXPECT_EQ(used.registers, 168) << kernel.cuda();
      EXPECT_EQ(used.shared_bytes, 0) << "all of it is dynamic";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, GemmCode, testing::Combine(testing::ValuesIn(kShapes), testing::ValuesIn(kChains)));

}  // namespace
}  // namespace epifuse
