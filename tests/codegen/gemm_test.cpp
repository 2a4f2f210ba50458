// The source of a product that hosts a chain: it stands alone, depends on no shape, and its parameter is what the
// launch packs.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "codegen/gemm/gemm.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse {
namespace {

// What is emitted for a chain whose operand `x` is a product.
struct GemmKernel {
  Epilogue tail;
  plan::GemmPlan plan;

  std::string cuda() const { return codegen::emit_gemm(tail.program(), plan); }
  std::string name() const { return codegen::gemm_name(tail.program(), plan); }
  std::vector<std::byte> parameters(const std::vector<codegen::EncodedMap>& maps,
                                    const std::vector<double>& scalars) const {
    return codegen::pack_gemm(tail.program(), plan, maps, scalars);
  }
};

GemmKernel kernel_of(const std::string& chain, const std::vector<TensorView>& operands, std::int64_t rows = 256,
                     std::int64_t columns = 512, DType type = DType::bf16, bool transposed = false,
                     int architecture = 90) {
  const Epilogue tail = Epilogue::parse(chain, std::vector<std::string>{"alpha"});
  std::vector<TensorView> inputs = {TensorView{}};
  inputs.insert(inputs.end(), operands.begin(), operands.end());
  const TensorView right =
      transposed ? TensorView(nullptr, type, {columns, 128}, {1, columns}) : TensorView(nullptr, type, {columns, 128});
  return {tail, plan::plan_gemm(tail.program(), "x", {nullptr, type, {rows, 128}}, right,
                                OutputView(nullptr, type, {rows, columns}), inputs, plan::Machine(architecture))};
}

std::size_t count(const std::string& text, const std::string& wanted) {
  std::size_t found = 0;
  for (auto at = text.find(wanted); at != text.npos; at = text.find(wanted, at + 1)) ++found;
  return found;
}

TEST(GemmSource, StandsAlone) {
  const GemmKernel kernel = kernel_of("relu(x)", {});
  const std::string text = kernel.cuda();
  EXPECT_EQ(text.find("#include"), std::string::npos);
  EXPECT_EQ(text.find("//@"), std::string::npos) << "section markers stay behind";
  EXPECT_EQ(text.find("unpack"), std::string::npos) << "no operand is a tile";
  EXPECT_NE(text.find("__launch_bounds__(384, 1) " + kernel.name() + "("), std::string::npos);
}

TEST(GemmSource, NamesEverySum) {
  const std::string wide = kernel_of("x", {}, 16'896, 256).cuda();
  EXPECT_NE(wide.find("m64n256k16.f32.bf16.bf16"), std::string::npos);
  EXPECT_EQ(count(wide, "(sums[127])"), 1U);
  EXPECT_EQ(count(wide, "(sums[128])"), 0U);
  const std::string narrow = kernel_of("x", {}, 16'896, 128, DType::f16).cuda();
  EXPECT_NE(narrow.find("m64n128k16.f32.f16.f16"), std::string::npos);
  EXPECT_EQ(count(narrow, "(sums[63])"), 1U);
  EXPECT_EQ(count(narrow, "(sums[64])"), 0U);
}

TEST(GemmSource, DependsOnNoShape) {
  const TensorView bias(nullptr, DType::bf16, {256});
  EXPECT_EQ(kernel_of("gelu(x + b)", {bias}, 16'896, 256).cuda(), kernel_of("gelu(x + b)", {bias}, 33'792, 256).cuda());
  EXPECT_NE(kernel_of("x", {}).cuda(), kernel_of("x", {}, 256, 512, DType::bf16, true).cuda());
  EXPECT_NE(kernel_of("x", {}).cuda(), kernel_of("x", {}, 256, 512, DType::f16).cuda());
}

TEST(GemmSource, NamesOfUsersMeetNothing) {
  for (const std::string name : {"p", "in_tile", "product", "made", "chain", "vector", "tile", "Params"}) {
    const std::string text = kernel_of("x * " + name, {{nullptr, DType::bf16, {512}}}).cuda();
    EXPECT_NE(text.find("in_" + name), std::string::npos) << name;
  }
}

TEST(GemmParameters, AreMapsVectorsNumbersAndScalars) {
  const TensorView bias(nullptr, DType::bf16, {512});
  const TensorView full(nullptr, DType::bf16, {256, 512});
  const GemmKernel kernel = kernel_of("x * alpha + b + r", {bias, full});
  std::vector<codegen::EncodedMap> maps(kernel.plan.maps.size());
  ASSERT_EQ(maps.size(), 4U);
  const std::vector<double> scalars = {2.0};
  const std::vector<std::byte> bytes = kernel.parameters(maps, scalars);
  // Four maps of 128 bytes, a vector of 24, seven numbers and a scalar of four, up to the alignment of a map.
  EXPECT_EQ(bytes.size(), (4 * 128 + 24 + 8 * 4 + 63) / 64 * 64U);
  float alpha = 0;
  std::memcpy(&alpha, bytes.data() + 4 * 128 + 24 + 7 * 4, 4);
  EXPECT_EQ(alpha, 2.0F);
  EXPECT_THROW(kernel.parameters(maps, {}), Error);
}

// Where warps multiply: other instructions, and no tensor maps.
TEST(WarpGemmSource, HasTheInstructionsOfItsGpus) {
  const auto text = [](DType type, int architecture, bool transposed = false) {
    return kernel_of("relu(x)", {}, 256, 512, type, transposed, architecture).cuda();
  };
  EXPECT_NE(text(DType::bf16, 80).find("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"), std::string::npos);
  EXPECT_NE(text(DType::f16, 86).find("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"), std::string::npos);
  EXPECT_NE(text(DType::i8, 80).find("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"), std::string::npos);
  EXPECT_NE(text(DType::f8e5m2, 120).find("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32"), std::string::npos);
  EXPECT_NE(text(DType::bf16, 80), text(DType::bf16, 80, true));
  for (const std::string& source : {text(DType::bf16, 80), text(DType::i8, 89), text(DType::f8e4m3, 89)}) {
    EXPECT_EQ(source.find("#include"), std::string::npos);
    EXPECT_EQ(source.find("//@"), std::string::npos) << "section markers stay behind";
    for (const char* const foreign : {"wgmma", "stmatrix", "mbarrier", "TensorMap", "cluster"})
      EXPECT_EQ(source.find(foreign), std::string::npos) << foreign;
  }
}

TEST(WarpGemmSource, DependsOnNoShape) {
  const auto of = [](std::int64_t rows) {
    return kernel_of("gelu(x + b)", {{nullptr, DType::bf16, {4096}}}, rows, 4096, DType::bf16, false, 80).cuda();
  };
  EXPECT_EQ(of(8192), of(16'384));
}

TEST(WarpGemmParameters, AreMatricesVectorsNumbersAndScalars) {
  const TensorView bias(nullptr, DType::bf16, {512});
  const TensorView full(nullptr, DType::bf16, {256, 512});
  const GemmKernel kernel = kernel_of("x * alpha + b + r", {bias, full}, 256, 512, DType::bf16, false, 80);
  const std::vector<std::byte> bytes = kernel.parameters({}, {2.0});
  // Four matrices and a vector of 24 bytes each, six numbers and a scalar of four, up to the alignment of a pointer.
  ASSERT_EQ(bytes.size(), (5 * 24 + 7 * 4 + 7) / 8 * 8U);
  std::int64_t row_bytes = 0;
  std::memcpy(&row_bytes, bytes.data() + 8, 8);
  EXPECT_EQ(row_bytes, 128 * 2) << "of the left factor";
  float alpha = 0;
  std::memcpy(&alpha, bytes.data() + 5 * 24 + 6 * 4, 4);
  EXPECT_EQ(alpha, 2.0F);
}

}  // namespace
}  // namespace epifuse
