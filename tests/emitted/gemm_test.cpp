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

// Draws problems of these chains and runs each with late and with early asynchronous work. The tiles that they had.
std::set<std::string_view> run_cases(const std::vector<GemmChain>& chains, int cases) {
  std::mt19937 random(29);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::map<std::string, CompiledText> compiled;
  std::set<std::string_view> tiles;
  for (int number = 0; number < cases; ++number) {
    const GemmChain& chain = chains[static_cast<std::size_t>(number) % chains.size()];
    GemmExtents shape{.rows = draw(300),
                      .columns = 8 * draw(40),
                      .depth = 8 * draw(24),
                      .batches = number % 7 == 0 ? 2 : 1,
                      .padding = 8 * (number % 2)};
    // More tiles along the depth than there are stages, and a third tile for the first warp group.
    if (number % 9 == 4) shape.rows = 200, shape.columns = 264, shape.depth = 64 * 7 + 8 * draw(16), shape.batches = 1;
    // Enough tiles of few columns that warp groups take turns with them.
    if (number % 6 == 1)
      shape.rows = 900 + draw(124), shape.columns = 120, shape.depth = 8 * (16 + draw(8)), shape.batches = 1;
    if (number % 6 == 2) shape.rows = 128 + draw(128), shape.columns = 248;
    if (number % 5 == 3) shape.left_transposed = true, shape.rows = (shape.rows + 7) / 8 * 8;
    shape.right_transposed = number % 4 == 2;
    const GemmTypes types = kGemmTypes[static_cast<std::size_t>(number / 2) % std::size(kGemmTypes)];
    if (size_of(types.factor) == 1)
      shape.depth *= 2, shape.padding *= 2, shape.left_transposed = shape.right_transposed = false;
    if (size_of(types.result) == 1 || size_of(types.operand) == 1)
      shape.columns = (shape.columns + 15) / 16 * 16, shape.padding = (shape.padding + 15) / 16 * 16;
    GemmProblem problem(chain, shape, types, static_cast<unsigned>(number), small_machine());
    tiles.insert(problem.plan().gemm_class.tile_name());
    const std::string source = source_of(problem);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const bool late : {false, true}) {
      const auto wrong = run(problem, text, late);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.text << ", " << to_string(types.factor) << ", " << to_string(types.operand) << ", "
                          << to_string(types.result) << ", " << shape.rows << " x " << shape.columns << " x "
                          << shape.depth << ", " << (late ? "late" : "early") << ", case " << number;
    }
  }
  return tiles;
}

TEST(GemmEmitted, IsTheChainOfTheProduct) {
  EXPECT_EQ(run_cases(gemm_chains(), 56).size(), 4U) << "every tile was drawn";
}

TEST(GemmEmitted, LeavesPartialResults) {
  EXPECT_EQ(run_cases(reducing_gemm_chains(), 56).size(), 4U) << "every tile was drawn";
}

// What the model finds in kernels that lack something.
struct Fault {
  const char* from;
  const char* to;
  const char* says;  ///< part of the report; empty: a wrong result
};

TEST(GemmModel, FindsPlantedFaults) {
  const std::vector<Fault> faults = {
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
  const GemmChain& chain = gemm_chains()[1];
  const GemmExtents shape{.rows = 200, .columns = 264, .depth = 400};
  GemmProblem problem(chain, shape, {DType::bf16, DType::bf16, DType::bf16}, 7, small_machine());
  const std::string source = source_of(problem);
  const auto sound = run(problem, CompiledText(source), true);
  ASSERT_FALSE(sound) << *sound;
  for (const Fault& fault : faults) {
    std::string broken = source;
    const auto at = broken.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    broken.replace(at, std::strlen(fault.from), fault.to);
    const auto wrong = run(problem, CompiledText(broken), true);
    ASSERT_TRUE(wrong) << fault.from;
    EXPECT_NE(wrong->find(fault.says), std::string::npos) << *wrong << "\n" << fault.from;
  }
}

}  // namespace
}  // namespace epifuse::test
