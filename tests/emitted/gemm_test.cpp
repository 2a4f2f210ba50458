// Emitted products that host a chain, run on the CPU by the model of what sm_90a does asynchronously, against sums in
// f64; and what the model must find in kernels that were broken on purpose.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "emitted/gemm_run.hpp"

namespace epifuse::test {
namespace {

// Two multiprocessors: one cluster, or two blocks, take all tiles one after the other.
plan::Machine small_machine() { return plan::Machine(90, 2); }

struct Drawn {
  GemmExtents shape;
  GemmTypes types;
  plan::Machine machine = small_machine();
};

// Extents that all tiles are chosen for, each of them several times in 56 cases.
Drawn drawn_case(int number, std::mt19937& random) {
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  Drawn drawn{.shape = {.rows = draw(300),
                        .columns = 8 * draw(40),
                        .depth = 8 * draw(24),
                        .batches = number % 7 == 0 ? 2 : 1,
                        .padding = 8 * (number % 2)},
              .types = kGemmTypes[static_cast<std::size_t>(number / 2) % std::size(kGemmTypes)]};
  GemmExtents& shape = drawn.shape;
  // More tiles along the depth than there are stages, and a third tile for the first warp group.
  if (number % 9 == 4) shape.rows = 200, shape.columns = 264, shape.depth = 64 * 7 + 8 * draw(16), shape.batches = 1;
  // Enough tiles of few columns that warp groups take turns with them.
  if (number % 6 == 1)
    shape.rows = 2500 + draw(100), shape.columns = 120, shape.depth = 8 * (16 + draw(8)), shape.batches = 1;
  if (number % 6 == 2) shape.rows = 128 + draw(128), shape.columns = 248;
  if (number % 12 == 8)
    shape.rows = 1300 + draw(100), shape.columns = 184, shape.depth = 8 * (16 + draw(8)), shape.batches = 1;
  // Few tiles, and depth enough that two or four blocks share it.
  if (number % 5 == 2) {
    drawn.machine = plan::Machine(90, 8);
    shape.rows = draw(number % 3 == 0 ? 256 : 128), shape.columns = 8 * draw(number % 3 == 1 ? 32 : 16);
    shape.depth = 64 * 12 + 8 * draw(24), shape.batches = 1;
  }
  if (number % 5 == 3) shape.left_transposed = true, shape.rows = (shape.rows + 7) / 8 * 8;
  shape.right_transposed = number % 4 == 2;
  if (size_of(drawn.types.factor) == 1) shape.depth *= 2, shape.padding *= 2;
  if (size_of(drawn.types.factor) != 2) shape.left_transposed = shape.right_transposed = false;
  if (size_of(drawn.types.result) == 1 || size_of(drawn.types.operand) == 1)
    shape.columns = (shape.columns + 15) / 16 * 16, shape.padding = (shape.padding + 15) / 16 * 16;
  return drawn;
}

// Draws problems of these chains and runs each with asynchronous work done early, late and at random. The tiles that
// they had.
std::set<std::string_view> run_cases(const std::vector<GemmChain>& chains, int cases) {
  std::mt19937 random(29);
  std::map<std::string, CompiledText> compiled;
  std::set<std::string_view> tiles;
  for (int number = 0; number < cases; ++number) {
    const GemmChain& chain = chains[static_cast<std::size_t>(number) % chains.size()];
    const auto [shape, types, machine] = drawn_case(number, random);
    GemmProblem problem(chain, shape, types, static_cast<unsigned>(number), machine);
    tiles.insert(problem.plan().gemm_class.tile_name());
    const std::string source = source_of(problem);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const When when : kAllTimes) {
      const auto wrong = run(problem, text, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.text << ", " << to_string(types.factor) << ", " << to_string(types.operand) << ", "
                          << to_string(types.result) << ", " << shape.rows << " x " << shape.columns << " x "
                          << shape.depth << ", " << to_string(when) << ", case " << number;
    }
  }
  return tiles;
}

TEST(GemmEmitted, IsTheChainOfTheProduct) {
  EXPECT_EQ(run_cases(gemm_chains(), 56).size(), 7U) << "every tile was drawn";
}

TEST(GemmEmitted, LeavesPartialResults) {
  EXPECT_EQ(run_cases(reducing_gemm_chains(), 56).size(), 7U) << "every tile was drawn";
}

constexpr GemmTypes kBf16 = {DType::bf16, DType::bf16, DType::bf16};

TEST(GemmModel, FindsPlantedFaults) {
  const GemmExtents shape{.rows = 200, .columns = 264, .depth = 400};
  GemmProblem problem(gemm_chains()[1], shape, kBf16, 7, small_machine());
  const Fault faults[] = {
      {"    show_to_copies();\n    meet(group);\n", "    meet(group);\n", "did not show to copies"},
      {"    wait_products<0>();\n    release(before);\n", "    release(before);\n",
       "before their products were waited for"},
      {"      expect_bytes(full, kStageBytes);\n", "      expect_bytes(full, kStageBytes - 64);\n", ""},
      {"    wait_barrier(barriers.full(ring.at), ring.parity);\n", "", ""},
      {"init_barrier(barriers.full(stage), 1);", "init_barrier(barriers.full(stage), 2);", "never passes parity"},
      {"init_barrier(barriers.empty(stage), kCluster * 4", "init_barrier(barriers.empty(stage), kCluster * 2", ""},
      {"((at >> 7 & (", "((at >> 6 & (", ""},
      {"    if (kTakesTurns) wait_for_turn(group);\n", "", "more arrivals"},
  };
  expect_found(problem, faults);
}

TEST(GemmModel, FindsPlantedFaultsWhereBlocksShareTheDepth) {
  const GemmExtents shape{.rows = 100, .columns = 120, .depth = 64 * 30};
  GemmProblem problem(gemm_chains()[1], shape, kBf16, 7, plan::Machine(90, 8));
  ASSERT_EQ(problem.plan().gemm_class.split(), 4);
  const Fault faults[] = {
      {"    meet_cluster();\n#pragma unroll\n    for (int i = 0; i < kTileN / 2; i += 4) {",
       "#pragma unroll\n    for (int i = 0; i < kTileN / 2; i += 4) {", "wait"},
      {"arrive_at(barriers.empty(stage), share)", "arrive_at(barriers.empty(stage), 0u)", ""},
      {"give_sums(place_of_sums(share,", "give_sums(place_of_sums(0,", ""},
      {"for (unsigned other = 1; other < kSplit", "for (unsigned other = 2; other < kSplit", ""},
      {"(static_cast<int>(share) + 1) / kSplit", "(static_cast<int>(share) + 1) / kSplit - 1", ""},
  };
  expect_found(problem, faults);
}

}  // namespace
}  // namespace epifuse::test
