// Machine code of products whose factors have scales of blocks: NVRTC compiles the tiles of both families with them,
// without a spill.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

// A GPU and a shape that a tile is chosen for there.
struct ScaledShape {
  int architecture, multiprocessors;
  std::int64_t rows, columns;
  const char* tile;
};
void PrintTo(const ScaledShape& shape, std::ostream* out) { *out << "sm_" << shape.architecture << ", " << shape.tile; }
constexpr ScaledShape kScaledShapes[] = {
    {90, 132, 16'896, 256, "128 x 256, shared"},
    {90, 132, 256, 8448, "128 x 128, shared by both warp groups of two blocks"},
    {90, 132, 256, 4096, "128 x 128, its depth shared by two blocks"},
    {89, 100, 64, 12'800, "64 x 128"},
    {89, 100, 64, 6400, "64 x 64"},
    {120, 100, 64, 12'800, "64 x 128"},
    {120, 100, 64, 6400, "64 x 64"},
};
constexpr std::int64_t kDepth = 4096, kDepthBlocks = kDepth / 128;

// Lines of the left factor and of right ones that share a scale.
struct Lines {
  std::int64_t left, right;
};
void PrintTo(const Lines& lines, std::ostream* out) { *out << lines.left << " and " << lines.right << " lines"; }
constexpr Lines kLines[] = {{1, 128}, {1, 1}, {128, 1}};

// x is the left factor, w and v are right ones, sx, sw and sv their scales; b varies along columns, c along rows, r
// along both.
const std::vector<std::string> kScaledChains = {
    "scaled_mm(x, transpose(w, 0, 1), sx, sw)",
    "gelu(scaled_mm(x, transpose(w, 0, 1), sx, sw) + b) * c + r",
    "silu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) * scaled_mm(x, transpose(v, 0, 1), sx, sv) + r",
    "gelu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) * (scaled_mm(x, transpose(v, 0, 1), sx, sv) + c) * r",
    "gelu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) * (scaled_mm(x, transpose(v, 0, 1), sx, sv) + b) * r",
    "gelu(scaled_mm(x, transpose(w, 0, 1), sx, sw) + b) * (scaled_mm(x, transpose(v, 0, 1), sx, sv) + c) * r",
    "y = scaled_mm(x, transpose(w, 0, 1), sx, sw) + r; return y, sum(square(y), axis=-1)",
    "y = silu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) * scaled_mm(x, transpose(v, 0, 1), sx, sv); "
    "q, s = quantize(y, f8e4m3, 64); return q, s",
};

class ScaledGemmCode : public testing::TestWithParam<std::tuple<ScaledShape, Lines, std::string>> {};

TEST_P(ScaledGemmCode, HasNoSpill) {
  const auto& [shape, lines, chain] = GetParam();
  const Epilogue tail = test::as_written(chain);
  const bool has_two = chain.find("v, 0, 1") != chain.npos;
  const bool has_groups = chain.find("quantize") != chain.npos;
  const std::int64_t rows = shape.rows, columns = shape.columns / (has_two ? 2 : 1);
  std::vector<TensorView> inputs;
  for (const std::string& name : tail.inputs()) {
    const bool is_factor = name == "x" || name == "w" || name == "v";
    const Dims extents = name == "x"    ? Dims{rows, kDepth}
                         : is_factor    ? Dims{columns, kDepth}
                         : name == "sx" ? Dims{(rows + lines.left - 1) / lines.left, kDepthBlocks}
                         : name == "b"  ? Dims{columns}
                         : name == "c"  ? Dims{rows, 1}
                         : name == "r"  ? Dims{rows, columns}
                                        : Dims{kDepthBlocks, (columns + lines.right - 1) / lines.right};
    const bool is_scale = name[0] == 's';
    inputs.emplace_back(nullptr, is_factor ? DType::f8e4m3 : is_scale ? DType::f32 : DType::bf16, extents);
  }
  std::vector<OutputView> outputs;
  for (const Dims& extents : tail.result_shapes(inputs))
    outputs.emplace_back(nullptr, !outputs.empty() ? DType::f32 : has_groups ? DType::f8e4m3 : DType::bf16, extents);
  const Inspection kernel(tail, outputs, inputs,
                          {.architecture = shape.architecture, .multiprocessors = shape.multiprocessors});
  const std::string text = kernel.plan_text();
  const bool is_hosted = text.find("computed before this kernel") == text.npos;
  // Tiles of 64 x 64 have no groups of 64 columns of two products. On sm_90 two products with scales for each column
  // leave registers for few vectors.
  const bool has_rows = chain.find("+ b") != chain.npos, has_columns = chain.find("+ c") != chain.npos;
  const bool has_vectors = has_two && has_columns && (has_rows || lines.left == 1);
  ASSERT_TRUE(is_hosted || (shape.architecture == 90 ? has_vectors && lines.right == 1 : has_groups)) << text;
  if (!is_hosted) return;
  // Of one product 256 columns have no scales of their own.
  const bool is_narrower = lines.right == 1 && std::string_view(shape.tile).starts_with("128 x 256");
  EXPECT_TRUE(has_groups || has_two || is_narrower || text.find(shape.tile) != text.npos) << text;
  EXPECT_NE(text.find("by which sums of 128 numbers are multiplied"), text.npos) << text;
  const KernelResources used = kernel.resources(shape.architecture);
  EXPECT_EQ(used.spilled_bytes, 0) << kernel.cuda();
  // 384 threads share 65,536 registers, and 256 threads of two blocks likewise.
  if (shape.architecture == 90) {
    EXPECT_EQ(used.registers, 168) << kernel.cuda();
  } else {
    EXPECT_LE(used.registers, 255) << kernel.cuda();
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, ScaledGemmCode,
                         testing::Combine(testing::ValuesIn(kScaledShapes), testing::ValuesIn(kLines),
                                          testing::ValuesIn(kScaledChains)));

}  // namespace
}  // namespace epifuse
