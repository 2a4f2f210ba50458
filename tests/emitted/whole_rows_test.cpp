// Chains that go on with what whole rows of a product are reduced to, as norms and softmax do: the blocks of a cluster
// have the tiles of a row. The emitted text runs on the CPU by the model of sm_90a; and what must be found in kernels
// that were broken on purpose.
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emitted/hosted_problem.hpp"

namespace epifuse::test {
namespace {

const std::vector<HostedChain>& chains_of_rows() {
  using enum DType;
  static const std::vector<HostedChain> all = {
      {"", {"rms_norm(linear(x, w) + r, g)"}, {bf16}},
      {"", {"layer_norm(linear(x, w, b), g, h)"}, {f16}},
      {"", {"softmax(linear(x, w), axis=-1)"}, {f32}},
      {"", {"softmax(linear(x, w) * c + r, axis=-1)"}, {bf16}},
      {"y = linear(x, w) * c + r; ",
       {"rms_norm(y, g)", "rsqrt(mean(square(y), axis=-1, keepdim=true) + 0.001)"},
       {bf16, f32}},
      {"", {"log_softmax(linear(x, w, b), axis=-1)"}, {f32}},
      {"y = linear(x, w, b) + r; ",
       {"mean(y, axis=-1)", "layer_norm(y, g, h)", "rsqrt(var(y, axis=-1, correction=0) + 0.001)"},
       {f32, f16, f32}},
      {"", {"rms_norm(silu(linear(x, w)) * linear(x, v), g)"}, {bf16}},
      {"y = gelu(gelu(linear(x, w) + r)); s = amax(abs(y), axis=-1, keepdim=true) / 448; ",
       {"s", "y / (s + 0.001)"},
       {f32, f8e4m3}},
      {"y = linear(x, w) + r; ",
       {"(y - mean(y, axis=-1, keepdim=true)) / (std(y, axis=-1, keepdim=true) + 0.01) * c + h"},
       {bf16}},
      {"", {"layer_norm(matmul(x, transpose(u, -2, -1)) + r, g, h)"}, {bf16}},
      {"y = linear(x, w); ", {"y - amax(y, axis=-1, keepdim=true) * sum(g * y, axis=-1, keepdim=true)"}, {f32}},
  };
  return all;
}

// A GPU of which a cluster for such rows, or little more, fits at a time: clusters work on several bands of rows.
plan::Machine few_clusters(std::int64_t columns, int more) {
  return {90, static_cast<int>((columns + 255) / 256) + more};
}

TEST(WholeRows, AreHosted) {
  static constexpr DType kFactors[] = {DType::bf16, DType::f16, DType::f8e4m3, DType::i8};
  static constexpr std::int64_t kMost[] = {256, 512, 1024, 2048};
  std::mt19937 random(32);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::set<int> blocks;
  int loops = 0;
  std::set<std::string_view> tiles;
  for (int number = 0; number < 36; ++number) {
    const HostedChain& chain = chains_of_rows()[static_cast<std::size_t>(number) % chains_of_rows().size()];
    const DType factor = kFactors[number / 5 % 4];
    const bool has_two = std::string_view(chain.results[0]).find(", v)") != std::string_view::npos;
    const int turn = number + number / 12;  // so that each chain gets several widths
    const std::int64_t most = kMost[turn % 4] / (has_two ? 2 : 1);
    const std::int64_t columns = most - 16 * (number % 5 == 4 ? 0 : draw(static_cast<int>(most) / 32) - 1);
    const Dims rows = turn % 4 == 3 ? Dims{2, draw(90)} : Dims{draw(number % 3 == 0 ? 260 : 120)};
    const std::int64_t depth = 16 * draw(6);
    HostedProblem problem(chain, rows, columns, depth, static_cast<unsigned>(number), factor);
    plan::Inside inside = problem.inside(few_clusters(columns * (has_two ? 2 : 1), draw(6)));
    const plan::GemmClass& made = inside.plan.gemm_class;
    ASSERT_TRUE(made.has_whole_rows());
    blocks.insert(made.row_blocks());
    tiles.insert(made.tile_name());
    loops += made.unrolls ? 0 : 1;
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.values << chain.results[0] << ", " << to_string(factor) << ", rows "
                          << to_string(rows) << ", " << columns << " columns, depth " << depth << ", "
                          << to_string(when) << ", case " << number << ", " << made.tile_name() << ", "
                          << made.row_blocks() << " blocks";
    }
  }
  EXPECT_EQ(tiles.size(), 3U);
  EXPECT_GE(blocks.size(), 6U);
  EXPECT_GE(loops, 3) << "chains whose sub-tiles are a loop";
}

// Blocks copy 64 rows of the left tile at a time for each other.
TEST(WholeRows, AreHostedOfTransposedFactors) {
  const HostedChain chain{"", {"layer_norm(matmul(transpose(t, -2, -1), m) + r, g, h)"}, {DType::bf16}};
  for (const std::int64_t columns : {200, 400, 720, 1304}) {
    HostedProblem problem(chain, {200}, columns, 136, static_cast<unsigned>(columns));
    plan::Inside inside = problem.inside(few_clusters(columns, 3));
    const plan::GemmClass& made = inside.plan.gemm_class;
    ASSERT_TRUE(made.has_whole_rows() && made.left_transposed && made.right_transposed);
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n" << columns << " columns, " << to_string(when);
    }
  }
}

// The kernel's plan or why there is none: x is [rows, depth] and w [columns, depth], in no memory.
std::variant<plan::Inside, std::string> decided(const char* chain, std::int64_t rows, std::int64_t columns,
                                                std::int64_t depth, const plan::Machine& machine) {
  const Epilogue tail = as_written(chain);
  std::vector<TensorView> inputs;
  for (const std::string& name : tail.inputs()) {
    const Dims shape = name == "x"                  ? Dims{rows, depth}
                       : name == "w"                ? Dims{columns, depth}
                       : name == "r" || name == "s" ? Dims{rows, columns}
                                                    : Dims{columns};
    inputs.emplace_back(nullptr, DType::bf16, shape);
  }
  std::vector<OutputView> outputs;
  for (const Dims& shape : tail.result_shapes(inputs)) outputs.emplace_back(nullptr, DType::bf16, shape);
  const plan::WithoutProducts split = plan::split_products(tail.program(), inputs, plan::Views::abstract);
  return plan::plan_inside(split, outputs, inputs, machine);
}

std::string why_apart(const char* chain, std::int64_t columns, int architecture = 90) {
  const auto made = decided(chain, 8192, columns, 512, plan::Machine(architecture));
  const std::string* const why = std::get_if<std::string>(&made);
  return why == nullptr ? std::string() : *why;
}

TEST(WholeRows, AreOneKernelWhereThatPays) {
  const auto made = decided("rms_norm(linear(x, w) + r, g)", 32'768, 1024, 512, plan::Machine(90));
  const auto* const inside = std::get_if<plan::Inside>(&made);
  ASSERT_NE(inside, nullptr) << std::get<std::string>(made);
  EXPECT_EQ(inside->plan.gemm_class.row_blocks(), 4);
  EXPECT_LT(inside->times.inside, inside->times.apart);
  const std::string text = plan::to_text(inside->plan, inside->times, inside->chain(), plan::Machine(90));
  EXPECT_NE(text.find("a row lies in the tiles of 4 blocks of a cluster"), text.npos) << text;
  EXPECT_NE(text.find("to once"), text.npos) << text;
  const std::string why = why_apart("softmax(linear(x, w), axis=-1)", 1024);
  EXPECT_TRUE(why.starts_with("one kernel would take about")) << why;
}

TEST(WholeRows, AreRefusedInASentence) {
  const auto says = [](const std::string& why, std::string_view words) { EXPECT_NE(why.find(words), why.npos) << why; };
  says(why_apart("rms_norm(linear(x, w), g)", 2056), "the blocks of a cluster have no more than 2048");
  says(why_apart("rms_norm(linear(x, w), g)", 512, 80), "in the clusters of sm_90");
  says(why_apart("rms_norm(linear(x, w), g) + r", 512), "are both read beside reductions of whole rows");
  says(why_apart("y = linear(x, w); return rms_norm(y, g), y", 512), "2 results of the product's shape");
  says(why_apart("layer_norm(softmax(linear(x, w), axis=-1), g, h)", 512), "is a third reduction of whole rows");
  says(why_apart("y = linear(x, w); return y - mean(y, axis=0, keepdim=true)", 512), "other values than rows");
  says(why_apart("y = linear(x, w); return y * sum(g)", 512), "other values than rows");
  says(why_apart("y = linear(x, w); return y / prod(y, axis=-1, keepdim=true)", 512), "is none that the kernel");
}

// Rows end within the last block of four, bands within the last tile, and a cluster has several bands.
TEST(WholeRowsModel, FindsFaults) {
  // Elements beyond the last row and column are 40.
  static const HostedChain chain{"", {"layer_norm(linear(x, w) + 40 + r, g, h)"}, {DType::bf16}};
  HostedProblem problem(chain, {140}, 600, 200, 5);
  plan::Inside inside = problem.inside(plan::Machine(90, 4));
  ASSERT_EQ(inside.plan.gemm_class.row_blocks(), 4);
  ASSERT_EQ(inside.plan.blocks, 4);
  static const std::vector<Fault> faults = {
      // What other blocks give has not arrived.
      {"  wait_numbers(barrier, m.exchange.parity);\n", ""},
      {"wait_numbers(barrier, m.exchange.parity)", "wait_numbers(barrier, m.exchange.parity ^ 1u)"},
      // One place for all exchanges: the next one is written before all have read this one.
      {"m.group * 2 + m.exchange.at;", "m.group * 2;"},
      // A block writes where another one does, or misses one.
      {"m.rank, half), barrier, block", "0, half), barrier, block"},
      {"barrier, block, m.of_rows", "barrier, m.rank, m.of_rows"},
      {"block < kRowBlocks; block += 4", "block + 1 < kRowBlocks; block += 4", "deadlock"},
      {"expect_bytes(barrier, kRowBlocks *", "expect_bytes(barrier, (kRowBlocks - 1) *"},
      // Not all of a row, or more than it.
      {"unsigned block = 1; block < kRowBlocks", "unsigned block = 2; block < kRowBlocks"},
      {"value, 2)", "value, 0)"},
      {"if (column < m.p.n) value", "value"},
      // Operands of a sub-tile that others still read, or in the place of a result that is not yet stored.
      {"    meet(m.group);\n    if (m.thread == 0 && first", "    if (m.thread == 0 && first", "", When::early},
      {"      wait_stores_read<0>();\n#pragma unroll", "#pragma unroll", "", When::late},
      // The blocks of a cluster copy the left tile for each other.
      {"box % kRowBlocks != static_cast<int>(rank)", "box % kRowBlocks != 0"},
      {"if (lane < kRowBlocks) arrive_at(barriers.empty(stage), static_cast<unsigned>(lane))",
       "if (lane == 0) arrive_at(barriers.empty(stage), rank)", "deadlock"},
      {"static_cast<int>(rank) * kResultN, batch", "0, batch"},
      {"init_barrier(barriers.empty(stage), kRowBlocks * 4", "init_barrier(barriers.empty(stage), 4"},
  };
  expect_found(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both), faults,
               [&](const CompiledText& text, When when) { return problem.run(inside, text, when); });
}

}  // namespace
}  // namespace epifuse::test
