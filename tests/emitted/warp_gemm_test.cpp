// Emitted products that host a chain where warps multiply (sm_80 to sm_89, sm_120), run on the CPU by a model of
// cp.async, ldmatrix and mma.sync, against sums in f64; and what the model must find in kernels that were broken on
// purpose.
#include <gtest/gtest.h>

#include <cmath>
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

// GPUs of which a product of few tiles has one or more for each multiprocessor.
plan::Machine machine_for(DType factor, int number) {
  const bool is_float8 = factor == DType::f8e4m3 || factor == DType::f8e5m2;
  static constexpr int kAll[] = {80, 86, 120, 89};
  plan::Machine machine(is_float8 ? kAll[2 + number % 2] : kAll[number % 4], 1 + number % 7);
  // The same kernels on a GPU whose warp groups would multiply.
  if (number % 11 == 10) machine = plan::Machine(90, 4);
  machine.tensor_cores = plan::TensorCores::warps;
  return machine;
}

// What was drawn.
struct Drawn {
  std::set<std::string_view> tiles;
  int loops = 0;  // kernels whose chain stands once
};

// Draws problems of these chains and runs each with copies that arrive early, late and at random.
Drawn run_cases(const std::vector<GemmChain>& chains, int cases) {
  std::mt19937 random(29);
  std::map<std::string, CompiledText> compiled;
  Drawn drawn;
  for (int number = 0; number < cases; ++number) {
    const GemmChain& chain = chains[static_cast<std::size_t>(number) % chains.size()];
    const GemmTypes types = kGemmTypes[static_cast<std::size_t>(number / 2) % std::size(kGemmTypes)];
    const GemmExtents shape = drawn_extents(random, number, types.factor, 260);
    GemmProblem problem(chain, shape, types, static_cast<unsigned>(number), machine_for(types.factor, number));
    EXPECT_NE(problem.plan().gemm_class.warp_tile(), nullptr);
    drawn.tiles.insert(problem.plan().gemm_class.tile_name());
    drawn.loops += problem.plan().gemm_class.unrolls ? 0 : 1;
    const std::string source = source_of(problem);
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const When when : kAllTimes) {
      const auto wrong = run(problem, text, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.text << ", " << to_string(types.factor) << ", " << to_string(types.operand) << ", "
                          << to_string(types.result) << ", " << shape.rows << " x " << shape.columns << " x "
                          << shape.depth << ", " << problem.plan().gemm_class.tile_name() << ", " << to_string(when)
                          << ", case " << number;
    }
  }
  return drawn;
}

TEST(WarpGemmEmitted, IsTheChainOfTheProduct) {
  EXPECT_EQ(run_cases(gemm_chains(), 42).tiles.size(), 3U) << "every tile was drawn";
}

// Of every row and every column, over the columns and rows that a warp has of it.
TEST(WarpGemmEmitted, LeavesPartialResults) {
  EXPECT_EQ(run_cases(reducing_gemm_chains(), 36).tiles.size(), 3U) << "every tile was drawn";
}

// Over the blocks of 16 rows that a warp has: the sums of the next one move to the front.
TEST(WarpGemmEmitted, LoopsOverLongChains) {
  std::string text = "x + b";
  for (int i = 0; i < 16; ++i) text = "tanh(" + text + ") * 1.25";
  text += " + r";
  const auto value = [](double x, double, const double* o) {
    double v = x + o[0];
    for (int i = 0; i < 16; ++i) v = std::tanh(v) * 1.25;
    return v + o[1];
  };
  EXPECT_GE(run_cases({{text.c_str(), {{1, 1, 0}, {0, 0, 0}}, value}}, 9).loops, 3);
}

TEST(WarpGemmModel, FindsPlantedFaults) {
  const Fault faults[] = {
      {"          wait_copies<kStages - 2>();\n          __syncthreads();\n", "          __syncthreads();\n",
       "found nan"},
      {"          wait_copies<kStages - 2>();\n          __syncthreads();\n", "          wait_copies<kStages - 2>();\n",
       "found nan"},
      {"    wait_copies<kStages - 2>();\n    __syncthreads();\n",
       "    wait_copies<kStages - 1>();\n    __syncthreads();\n", "found nan"},
      {"copy_stage(before, block + kStages - 1)", "copy_stage(stage, block + kStages - 1)", "", When::early},
      {"    wait_copies<kSlots - 1>();\n", "", "found nan"},
      {"    __syncwarp();\n    store_rows_of_result", "    store_rows_of_result", ""},
      {"    end_copies();\n  }\n\n  // Each vector", "  }\n\n  // Each vector", ""},
      {"  return at ^ ((at >> 7 & 3) << 4);", "  return at;", "in the same banks"},
      {"const int bytes = bytes_inside((kTransposed ? extent : depth) - number, kFactorBytes);",
       "const int bytes = 16;", "found inf"},
  };
  const GemmChain& chain = gemm_chains()[3];
  const GemmExtents shape{.rows = 90, .columns = 100, .depth = 316};
  GemmProblem problem(chain, shape, {DType::bf16, DType::bf16, DType::bf16}, 7, plan::Machine(80, 2));
  expect_found(problem, faults);
}

}  // namespace
}  // namespace epifuse::test
