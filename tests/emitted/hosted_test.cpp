// Chains with reductions that the kernel of a product hosts, of rows, columns and groups of columns; and what must be
// found in kernels that were broken on purpose. Norms of whole rows: whole_rows_test.cpp.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <vector>

#include "emitted/hosted_problem.hpp"

namespace epifuse::test {
namespace {

const std::vector<HostedChain>& hosted_chains() {
  using enum DType;
  static const std::vector<HostedChain> all = {
      {"y = relu(linear(x, w, b)) + r; ", {"y", "rsqrt(mean(square(y), axis=-1, keepdim=true) + 0.001)"}, {bf16, f32}},
      {"y = linear(x, w); ", {"y", "amax(abs(y))", "sum(y, axis=ROWS)"}, {f16, f32, f32}},
      {"y = linear(x, w) * c; ",
       {"sum(y, axis=-1, keepdim=true) * c", "y", "amin(y, axis=-1, keepdim=true) + 1", "amax(y, axis=ROWS)"},
       {f32, bf16, f16, f32}},
      {"y = linear(x, w) * linear(x, v); ", {"y", "mean(y)"}, {bf16, f32}},
      {"q, s = quantize(relu(linear(x, w, b)), f8e4m3, 128); ", {"q", "s"}, {f8e4m3, f32}, 128},
      {"q, s = quantize(linear(x, w) * c + r, f8e4m3, 32); ", {"s", "q"}, {f32, f8e4m3}, 32},
      {"q, s = quantize(linear(x, w) + r, i8, 64); ", {"q", "s"}, {i8, f32}, 64},
      {"q, s = quantize(linear(x, w) * linear(x, v), f8e5m2, 64); ", {"q", "s"}, {f8e5m2, f32}, 64},
      {"q, s = mx_quantize(linear(x, w) * c + r, f8e4m3); ", {"s", "q"}, {f8e8m0, f8e4m3}, 32},
      {"y = linear(x, w) + b; m = amax(abs(unflatten(y, -1, (-1, 128))), axis=-1, keepdim=true); ",
       {"flatten(unflatten(y, -1, (-1, 128)) / (m + 1), -2, -1)"},
       {bf16},
       128},
      {"y = matmul(x, transpose(u, -2, -1)) + r; ",
       {"y", "mean(abs(y), axis=-1)", "sum(y, axis=ROWS)"},
       {f16, f32, f32}},
      {"q, s = quantize(matmul(x, transpose(u, -2, -1)) * c, f8e4m3, 64); ", {"q", "s"}, {f8e4m3, f32}, 64},
      // Short: the largest tile of warps.
      {"y = linear(x, w) + b; m = amax(unflatten(y, -1, (-1, 64)), axis=-1, keepdim=true); ",
       {"flatten(unflatten(y, -1, (-1, 64)) - m, -2, -1)"},
       {bf16},
       64},
      // Long: loops over sub-tiles, of groups of one and of two.
      {"q, s = quantize(gelu(silu(linear(x, w))) * tanh(linear(x, v)), f8e4m3, 32); ", {"q", "s"}, {f8e4m3, f32}, 32},
      {"q, s = quantize(gelu(mish(linear(x, w, b))) + r, f8e4m3, 64); ", {"q", "s"}, {f8e4m3, f32}, 64},
  };
  return all;
}

TEST(GemmEmitted, HostsReductions) {
  std::mt19937 random(30);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::set<std::string_view> tiles;
  std::set<int> looped;  // columns of groups
  for (int number = 0; number < 60; ++number) {
    const HostedChain& chain = hosted_chains()[static_cast<std::size_t>(number) % hosted_chains().size()];
    const Dims rows = number % 4 == 3 ? Dims{3, draw(90)} : Dims{draw(number % 3 == 0 ? 600 : 280)};
    std::int64_t columns = 8 * draw(40);
    columns = (columns + chain.groups - 1) / chain.groups * chain.groups;
    if (chain.types[0] == DType::f8e4m3 || chain.groups > 1) columns = (columns + 15) / 16 * 16;
    const std::int64_t depth = 8 * draw(60);
    HostedProblem problem(chain, rows, columns, depth, static_cast<unsigned>(number));
    plan::Inside inside = problem.inside(plan::Machine(90, 2));
    tiles.insert(inside.plan.gemm_class.tile_name());
    if (!inside.plan.gemm_class.unrolls) looped.insert(inside.plan.gemm_class.group_columns());
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.values << chain.results[0] << ", rows " << to_string(rows) << ", " << columns
                          << " columns, depth " << depth << ", " << to_string(when) << ", case " << number << ", "
                          << inside.plan.gemm_class.tile_name();
    }
  }
  EXPECT_GE(tiles.size(), 3U);
  EXPECT_TRUE(looped.contains(32) && looped.contains(64)) << "loops over groups of one sub-tile, and of two";
}

// GPUs of which a product of few tiles has one or more for each multiprocessor.
plan::Machine warps_for(DType factor, int number) {
  static constexpr int kAll[] = {80, 86, 120, 89};
  return {factor == DType::f8e4m3 ? kAll[2 + number % 2] : kAll[number % 4], 1 + number % 7};
}

TEST(WarpGemmEmitted, HostsReductions) {
  static constexpr DType kFactors[] = {DType::bf16, DType::f16, DType::f8e4m3, DType::i8};
  std::mt19937 random(31);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::set<std::string> seen;
  for (int number = 0; number < 75; ++number) {
    const HostedChain& chain = hosted_chains()[static_cast<std::size_t>(number) % hosted_chains().size()];
    // Sums of i8 leave no partial results.
    DType factor = kFactors[number / 15 % 4];
    if (factor == DType::i8 && chain.groups == 1) factor = DType::bf16;
    const Dims rows = number % 4 == 3 ? Dims{3, draw(90)} : Dims{draw(number % 3 == 0 ? 300 : 150)};
    const std::int64_t unit = chain.groups > 1 ? chain.groups : 8;
    const std::int64_t columns = (8 * draw(number % 5 == 0 ? 60 : 30) + unit - 1) / unit * unit;
    const std::int64_t depth = 16 * draw(20);
    HostedProblem problem(chain, rows, columns, depth, static_cast<unsigned>(number), factor);
    plan::Inside inside = problem.inside(warps_for(factor, number));
    const plan::GemmClass& made = inside.plan.gemm_class;
    ASSERT_NE(made.warp_tile(), nullptr);
    seen.insert(std::string(made.tile_name()) + (made.joins_warps()          ? ", groups of two warps"
                                                 : made.group_columns() != 0 ? ", groups of a warp"
                                                                             : ", partial results"));
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.values << chain.results[0] << ", " << to_string(factor) << ", rows "
                          << to_string(rows) << ", " << columns << " columns, depth " << depth << ", "
                          << to_string(when) << ", case " << number << ", " << made.tile_name();
    }
  }
  EXPECT_EQ(seen.size(), 9U) << "each tile with all three, found " << testing::PrintToString(seen);
}

struct ReductionFault {
  const HostedChain& chain;
  Fault fault;
};

// Each in the kernel of a chain that it changes.
TEST(WarpGemmModel, FindsFaultsInReductions) {
  // Elements beyond the last row and column are 40.
  const HostedChain partials{
      "y = linear(x, w) + 40; ", {"y", "sum(y, axis=-1)", "sum(y, axis=ROWS)"}, {DType::f32, DType::f32, DType::f32}};
  const HostedChain& of_warp = hosted_chains()[6];
  const HostedChain& of_two_warps = hosted_chains()[4];
  const std::vector<ReductionFault> faults = {
      {partials, {"if (column < p.n) partial", "partial"}},
      {partials, {"row < p.m ? reduced", "true ? reduced"}},
      {partials, {"if (row + 8 < p.m) partial", "partial"}},
      {partials, {"block == 0 ? partial", "true ? partial"}},
      {of_warp, {"value, 1)", "value, 0)"}},
      {of_two_warps, {"    meet_beside(warp_row);\n", ""}},
      {of_two_warps, {"meet_beside(warp_row)", "__syncwarp()"}},
  };
  for (const auto& [chain, fault] : faults) {
    HostedProblem problem(chain, {90}, chain.groups > 1 ? 256 : 200, 80, 3);
    plan::Inside inside = problem.inside(plan::Machine(80, 2));
    expect_found(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both), std::span(&fault, 1),
                 [&](const CompiledText& text, When when) { return problem.run(inside, text, when); });
  }
}

}  // namespace
}  // namespace epifuse::test
