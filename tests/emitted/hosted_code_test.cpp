// Machine code of products whose chain has reductions: NVRTC compiles every tile with them, without a spill.
#include <gtest/gtest.h>

#include <ostream>
#include <string>
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

// Operands by their names: w and v are right factors, b varies along columns, c along rows, r along both.
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

class HostedCode : public testing::TestWithParam<Shape> {};

TEST_P(HostedCode, HasNoSpill) {
  const auto& [rows, columns] = GetParam();
  constexpr std::int64_t kDepth = 4096;
  const jit::Target target{90, jit::ImageKind::cubin};
  for (const Reducing& each : reducing()) {
    for (const Types& types : each.types) {
      const Epilogue tail = as_written(each.chain);
      std::vector<TensorView> inputs;
      for (const std::string& name : tail.inputs()) {
        const bool is_factor = name == "x" || name == "w" || name == "v";
        const Dims shape = name == "x"   ? Dims{rows, kDepth}
                           : is_factor   ? Dims{columns, kDepth}
                           : name == "b" ? Dims{columns}
                           : name == "c" ? Dims{rows, 1}
                                         : Dims{rows, columns};
        inputs.emplace_back(nullptr, is_factor ? types.factor : DType::bf16, shape);
      }
      const std::vector<Dims> shapes = tail.result_shapes(inputs);
      std::vector<OutputView> outputs = {OutputView(nullptr, types.tensor, shapes[0])};
      for (std::size_t i = 0; i < each.others.size(); ++i) outputs.emplace_back(nullptr, each.others[i], shapes[1 + i]);
      const plan::WithoutProducts split = plan::split_products(tail.program(), inputs, plan::Views::abstract);
      const auto planned = plan::plan_one_kernel(split, outputs, inputs, plan::Machine(90));
      const auto* const inside = std::get_if<plan::Inside>(&planned);
      ASSERT_NE(inside, nullptr) << each.chain << ": " << std::get<std::string>(planned);
      const std::string source = codegen::emit_gemm(inside->chain(), inside->plan);
      const jit::Compiled compiled =
          jit::compile_with_few_spills(jit::Nvrtc::get(), source, "hosted", target, jit::compile_options(target, true));
      EXPECT_EQ(compiled.resources.spilled_bytes, 0)
          << each.chain << ", " << to_string(types.factor) << ", " << inside->plan.gemm_class.tile_name();
      EXPECT_EQ(compiled.resources.registers, 168) << each.chain;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiles, HostedCode, testing::ValuesIn(kShapes));

}  // namespace
}  // namespace epifuse::test
