// Machine code of products whose chain has reductions: NVRTC compiles every tile of both families with them, without a
// spill; of warps for each GPU where these multiply.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include "codegen/gemm/gemm.hpp"
#include "jit/nvrtc.hpp"
#include "jit/spills.hpp"
#include "plan/gemm/inside.hpp"
#include "support/as_written.hpp"

namespace epifuse::test {
namespace {

struct Types {
  DType factor, tensor;
};

// Operands by their names: w and v are right factors, b, g and h vary along columns, c along rows, r and s along both.
struct Reducing {
  const char* chain;
  std::vector<Types> types;
  std::vector<DType> others;  ///< types of the results behind the tensor
};
const std::vector<Reducing>& reducing() {
  using enum DType;
  static const std::vector<Reducing> all = {
      {"y = gelu(linear(x, w, b)) + r; return y, sum(square(y), axis=-1, keepdim=true)",
       {{bf16, bf16}, {f16, f16}, {f8e4m3, bf16}},
       {f32}},
      {"y = gelu(linear(x, w, b)) + r; return y, sum(y, axis=0)", {{bf16, bf16}, {f8e4m3, bf16}}, {f32}},
      {"y = linear(x, w, b) * c; return y, amax(abs(y))", {{bf16, f8e4m3}}, {f32}},
      {"y = gelu(linear(x, w, b)) * c + r; return y, sum(y, axis=-1), amax(abs(y), axis=-1), sum(y, axis=0), "
       "amax(abs(y), axis=0)",
       {{bf16, bf16}, {f8e4m3, f16}},
       {f32, f32, f32, f32}},
      {"y = silu(linear(x, w) * c + b); return y, amax(abs(y), axis=-1), sum(y, axis=0), sum(y, axis=-1), amin(y, "
       "axis=0)",
       {{f16, bf16}, {f8e4m3, bf16}},
       {f32, f32, f32, f32}},
      {"y = gelu(linear(x, w, b) * s) * sigmoid(r) + c; return y, sum(square(y), axis=-1), amax(abs(y), axis=0)",
       {{bf16, f16}},
       {f32, f32}},
      {"q, s = quantize(relu(linear(x, w) * c + b) + r, f8e4m3, 32); return q, s", {{f8e4m3, f8e4m3}}, {f32}},
      {"q, s = quantize(gelu(linear(x, w, b)), f8e4m3, 32); return q, s", {{bf16, f8e4m3}, {f8e4m3, f8e4m3}}, {f32}},
      {"q, s = quantize(gelu(linear(x, w, b)) + r, f8e4m3, 64); return q, s", {{bf16, f8e4m3}}, {f32}},
      {"q, s = quantize(linear(x, w) * c * b, i8, 128); return q, s", {{i8, i8}}, {f32}},
      {"q, s = quantize(silu(linear(x, w)) * linear(x, v), f8e4m3, 32); return q, s", {{bf16, f8e4m3}}, {f32}},
      {"q, s = quantize(silu(linear(x, w)) * linear(x, v), f8e4m3, 128); return q, s",
       {{bf16, f8e4m3}, {f8e4m3, f8e4m3}},
       {f32}},
  };
  return all;
}

// A shape that each tile is chosen for, where groups of columns let it be.
struct Shape {
  std::int64_t rows, columns;
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.rows << " x " << shape.columns; }
constexpr Shape kShapes[] = {{16'896, 256}, {16'896, 384}, {33'792, 128}, {128, 16'896}};

std::variant<plan::Inside, std::string> planned(const Reducing& each, const Types& types, const Shape& of,
                                                const plan::Machine& machine) {
  constexpr std::int64_t kDepth = 4096;
  const Epilogue tail = as_written(each.chain);
  std::vector<TensorView> inputs;
  for (const std::string& name : tail.inputs()) {
    const bool is_factor = name == "x" || name == "w" || name == "v";
    const Dims shape = name == "x"                                 ? Dims{of.rows, kDepth}
                       : is_factor                                 ? Dims{of.columns, kDepth}
                       : name == "b" || name == "g" || name == "h" ? Dims{of.columns}
                       : name == "c"                               ? Dims{of.rows, 1}
                                                                   : Dims{of.rows, of.columns};
    inputs.emplace_back(nullptr, is_factor ? types.factor : DType::bf16, shape);
  }
  const std::vector<Dims> shapes = tail.result_shapes(inputs);
  std::vector<OutputView> outputs = {OutputView(nullptr, types.tensor, shapes[0])};
  for (std::size_t i = 0; i < each.others.size(); ++i) outputs.emplace_back(nullptr, each.others[i], shapes[1 + i]);
  const plan::WithoutProducts split = plan::split_products(tail.program(), inputs, plan::Views::abstract);
  return plan::plan_one_kernel(split, outputs, inputs, machine);
}

// For as many blocks of a multiprocessor as the plan says.
jit::Resources resources_of(const plan::Inside& inside, int architecture) {
  const jit::Target target{architecture, jit::ImageKind::cubin};
  const jit::Compiled compiled =
      jit::compile_with_few_spills(jit::Nvrtc::get(), codegen::emit_gemm(inside.chain(), inside.plan), "hosted", target,
                                   jit::compile_options(target, inside.plan.gemm_class.warp_group_tile() != nullptr));
  EXPECT_EQ(compiled.resident_blocks, 0);
  return compiled.resources;
}

// On sm_90: 384 threads share 65,536 registers, 168 for each.
void expect_no_spill(const Reducing& each, const Types& types, const Shape& shape) {
  const auto made = planned(each, types, shape, plan::Machine(90));
  const auto* const inside = std::get_if<plan::Inside>(&made);
  ASSERT_NE(inside, nullptr) << each.chain << ": " << std::get<std::string>(made);
  const jit::Resources found = resources_of(*inside, 90);
  EXPECT_EQ(found.spilled_bytes, 0) << each.chain << ", " << to_string(types.factor) << ", "
                                    << inside->plan.gemm_class.tile_name();
  EXPECT_EQ(found.registers, 168) << each.chain;
}

class HostedCode : public testing::TestWithParam<Shape> {};

TEST_P(HostedCode, HasNoSpill) {
  for (const Reducing& each : reducing()) {
    for (const Types& types : each.types) {
      ASSERT_NO_FATAL_FAILURE(expect_no_spill(each, types, GetParam()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, HostedCode, testing::ValuesIn(kShapes));

// Rows that lie in a cluster: g and h vary along columns, too.
const std::vector<Reducing>& of_whole_rows() {
  using enum DType;
  static const std::vector<Reducing> all = {
      {"rms_norm(linear(x, w) + r, g)", {{bf16, bf16}, {f8e4m3, bf16}}, {}},
      {"layer_norm(linear(x, w, b) + r, g, h)", {{bf16, bf16}, {f16, f16}, {f8e4m3, bf16}}, {}},
      {"softmax(linear(x, w) * c + r + s, axis=-1)", {{bf16, bf16}, {f8e4m3, f16}}, {}},
      {"y = gelu(linear(x, w, b)) * c + r; return layer_norm(y, g, h), rsqrt(var(y, axis=-1, correction=0) + 1e-5)",
       {{bf16, bf16}, {f8e4m3, bf16}},
       {f32}},
      {"rms_norm(silu(linear(x, w)) * linear(x, v) + r, g)", {{bf16, bf16}, {f8e4m3, bf16}}, {}},
      {"y = linear(x, w) * c * b; s = amax(abs(y), axis=-1, keepdim=true) / 127; return y / s, s", {{i8, i8}}, {f32}},
  };
  return all;
}
// Columns that one, three and eight blocks of each tile have.
constexpr Shape kRows[] = {{4096, 128}, {4096, 192},  {4096, 256},  {4096, 384}, {4096, 576},
                           {4096, 768}, {4096, 1024}, {4096, 1536}, {4096, 2048}};

class WholeRowsCode : public testing::TestWithParam<Shape> {};

TEST_P(WholeRowsCode, HasNoSpill) {
  for (const Reducing& each : of_whole_rows()) {
    for (const Types& types : each.types) {
      const bool has_two = std::string_view(each.chain).find(", v)") != std::string_view::npos;
      if (has_two && GetParam().columns > 1024) continue;
      ASSERT_NO_FATAL_FAILURE(expect_no_spill(each, types, GetParam()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Rows, WholeRowsCode, testing::ValuesIn(kRows));

// A shape of which each multiprocessor gets one tile.
constexpr int kTilesOfWarps = 100;
constexpr Shape kTilesOfShapes[] = {{128, 128}, {64, 128}, {64, 64}};

class WarpHostedCode : public testing::TestWithParam<std::tuple<int, Shape>> {};

TEST_P(WarpHostedCode, HasNoSpill) {
  const auto& [architecture, tile] = GetParam();
  for (const Reducing& each : reducing()) {
    for (const Types& types : each.types) {
      if (types.factor == DType::f8e4m3 && architecture < 89) continue;
      const bool has_two = std::string_view(each.chain).find(", v)") != std::string_view::npos;
      const Shape of{tile.rows, tile.columns * kTilesOfWarps / (has_two ? 2 : 1)};
      const auto made = planned(each, types, of, plan::Machine(architecture, kTilesOfWarps));
      const auto* const inside = std::get_if<plan::Inside>(&made);
      // Two products share a tile's columns.
      const bool is_too_wide = has_two && std::string_view(each.chain).find("128)") != std::string_view::npos;
      ASSERT_EQ(inside == nullptr, is_too_wide) << each.chain;
      if (inside == nullptr) continue;
      const jit::Resources found = resources_of(*inside, architecture);
      EXPECT_EQ(found.spilled_bytes, 0) << each.chain << ", " << to_string(types.factor) << ", "
                                        << inside->plan.gemm_class.tile_name() << ", sm_" << architecture << " "
                                        << found.registers << " registers";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, WarpHostedCode,
                         testing::Combine(testing::Values(80, 86, 89, 120), testing::ValuesIn(kTilesOfShapes)));

}  // namespace
}  // namespace epifuse::test
