// Emitted products whose factors have scales of blocks, run on the CPU by the models of both families against sums in
// f64; and faults in their scales that must be found.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emitted/scaled_problem.hpp"

namespace epifuse::test {
namespace {

using enum ScaledLines;

// All ways in which both scales vary, with ragged extents. Each is run with asynchronous work done early, late and at
// random; the tiles that they had.
template <class MachineOf>
std::set<std::string_view> run_cases(int cases, const MachineOf& machine_of) {
  static constexpr ScaledLines kLines[] = {each, blocks, all};
  static constexpr std::int64_t kDepths[] = {700, 129, 64, 384, 520, 256};
  std::mt19937 random(29);
  std::map<std::string, CompiledText> compiled;
  std::set<std::string_view> tiles;
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  for (int number = 0; number < cases; ++number) {
    const ScaledChain& chain = scaled_chains()[static_cast<std::size_t>(number / 9 + number) % scaled_chains().size()];
    ScaledExtents extents{.rows = number == 11 ? 1 : draw(number % 4 == 0 ? 260 : 130),
                          .columns = number == 13 ? 1 : draw(number % 4 == 1 ? 300 : 130),
                          .depth = kDepths[number % 6],
                          .left = kLines[number % 3],
                          .right = kLines[number / 3 % 3],
                          .factor = number % 5 == 4 ? DType::f8e5m2 : DType::f8e4m3,
                          .padding = number % 2 == 0 ? 0 : 32,
                          .lines_are_neighbours = number % 4 < 2};
    const plan::Machine machine = machine_of(number, extents);
    ScaledProblem problem(chain, extents, number % 2 == 0 ? DType::f32 : DType::bf16, static_cast<unsigned>(number));
    const plan::Inside inside = problem.inside(machine);
    tiles.insert(inside.plan.gemm_class.tile_name());
    const std::string source = codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, text, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.text << ", " << extents.rows << " x " << extents.columns << " x " << extents.depth
                          << ", scales " << static_cast<int>(extents.left) << " and " << static_cast<int>(extents.right)
                          << ", " << inside.plan.gemm_class.tile_name() << ", " << to_string(when) << ", case "
                          << number;
    }
  }
  return tiles;
}

TEST(GemmEmitted, MultipliesByScalesOfBlocks) {
  const auto machine = [](int number, ScaledExtents& extents) {
    if (number % 5 != 2) return plan::Machine(90, 2);
    // Few tiles, and depth enough that two or four blocks share it.
    extents.rows = 70 + number, extents.columns = number % 10 == 2 ? 100 : 200, extents.depth = 128 * 13 - 50;
    return plan::Machine(90, 8);
  };
  EXPECT_EQ(run_cases(36, machine).size(), 5U) << "every tile that both warp groups share was drawn";
}

TEST(WarpGemmEmitted, MultipliesByScalesOfBlocks) {
  const auto machine = [](int number, ScaledExtents&) {
    return plan::Machine(number % 2 == 0 ? 89 : 120, 1 + number % 7);
  };
  EXPECT_EQ(run_cases(27, machine).size(), 2U) << "every tile but the largest was drawn";
}

// Of warp groups, one more: a tile that both share has 192 columns where rows are whole.
TEST(GemmEmitted, NormalisesRowsOfScaledProducts) {
  const ScaledChain chain{"rms_norm(scaled_mm(x, transpose(w, 0, 1), sx, sw), eps=1e-6)",
                          [](double p, double, double, double, double) { return p; }, false, true};
  for (const std::int64_t columns : {100, 250, 600}) {
    ScaledProblem problem(chain, {.rows = 150, .columns = columns, .depth = 300}, DType::f32, 3);
    const plan::Inside inside = problem.inside(plan::Machine(90, 8));
    const CompiledText text(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, text, when);
      EXPECT_FALSE(wrong) << *wrong << ", " << columns << " columns";
    }
  }
}

void expect_found(ScaledProblem& problem, const plan::Inside& inside, std::span<const Fault> faults) {
  expect_found(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both), faults,
               [&](const CompiledText& text, When when) { return problem.run(inside, text, when); });
}

constexpr Fault kFaultsOfLoads[] = {
    {"row + i / 2 * kScaledRows + i % 2 * 8;", "row + i / 2 * kScaledRows;"},
    {"scale_at(p.left_scales, at, block)", "scale_at(p.left_scales, at, 0)"},
    {"first % 32 + static_cast<int>(threadIdx.x) % 4 * 2 + e", "static_cast<int>(threadIdx.x) % 4 * 2 + e"},
    {"const int row = tile.row +", "const int row = 8 + tile.row +"},
};

TEST(GemmModel, FindsFaultsInScales) {
  const ScaledExtents extents{.rows = 150, .columns = 200, .depth = 700, .right = each, .lines_are_neighbours = true};
  ScaledProblem problem(scaled_chains()[1], extents, DType::f32, 7);
  const plan::Inside inside = problem.inside(plan::Machine(90, 2));
  expect_found(problem, inside, kFaultsOfLoads);
  const Fault faults[] = {
      {"      scales = next;\n", ""},  // of the stage before
      {"load_scales(p, next, row, column, block + 1)", "load_scales(p, next, row, column, block)"},
      {"sum = begins ? stage[i + e] * scale", "sum = begins ? stage[i + e]"},
  };
  expect_found(problem, inside, faults);
}

// Of 256 columns: those of an instruction are read while it runs.
TEST(GemmModel, FindsFaultsInScalesOfTwoProducts) {
  ScaledProblem problem(scaled_chains()[2], {.rows = 100, .columns = 150, .depth = 300, .right = each}, DType::f32, 7);
  const plan::Inside inside = problem.inside(plan::Machine(90, 2));
  ASSERT_EQ(inside.plan.gemm_class.tile_columns(), 256);
  const Fault faults[] = {
      {"first_column, depth_block, column / 32", "first_column, 0, column / 32"},
      {"load_row_scales(p, scales, row, block);", "load_row_scales(p, scales, row, 0);"},
      {"p.right_scales[of_products / kScaledColumns]", "p.right_scales[0]"},
  };
  expect_found(problem, inside, faults);
}

TEST(GemmModel, FindsFaultsInScalesWhereBlocksShareTheDepth) {
  ScaledProblem problem(scaled_chains()[1], {.rows = 100, .columns = 250, .depth = 128 * 14, .right = each}, DType::f32,
                        7);
  const plan::Inside inside = problem.inside(plan::Machine(90, 8));
  ASSERT_GT(inside.plan.gemm_class.split(), 1);
  const Fault faults[] = {
      {"const int first = first_block;", "const int first = 0;"},
      {"const int column = tile.column - static_cast<int>(share) * kChainN;", "const int column = tile.column;"},
  };
  expect_found(problem, inside, faults);
}

TEST(WarpGemmModel, FindsFaultsInScales) {
  const ScaledExtents extents{.rows = 90, .columns = 100, .depth = 700, .right = each, .lines_are_neighbours = true};
  ScaledProblem problem(scaled_chains()[1], extents, DType::f32, 7);
  const plan::Inside inside = problem.inside(plan::Machine(89, 2));
  expect_found(problem, inside, kFaultsOfLoads);
  const Fault faults[] = {
      {"        scales = next;\n", ""},
      {"if (block % kScaledStages == 0) {", "if (block % kScaledStages == 1) {"},
      {"if (block % kScaledStages == 0) {", "{"},
      {"const int further = block / kScaledStages + 1;", "const int further = block / kScaledStages;"},
      {"of_columns[half][i % 2]", "of_columns[0][i % 2]"},
  };
  expect_found(problem, inside, faults);
}

}  // namespace
}  // namespace epifuse::test
