// The shim that runs emitted text on the CPU, by kernels written by hand: barriers, warp exchanges, shared memory,
// clusters; and what it must find: deadlocks, missing barriers, memory that was never written.
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <numeric>

#include "codegen/emit.hpp"
#include "emitted/workshop.hpp"

namespace epifuse::test {
namespace {

struct Params {
  const float* in;
  float* out;
  unsigned* counter;
  int columns;
};

// `shared`: the members of struct Shared; `body`: the kernel's.
std::string kernel(const std::string& shared, const std::string& body) {
  return "struct Params { const float* in; float* out; unsigned* counter; int columns; };\n"
         "struct Shared { " +
         shared + " };\n" + "extern \"C\" __global__ void __launch_bounds__(256) " + codegen::kKernelName +
         "(const __grid_constant__ Params p) {\n" + (shared.empty() ? "" : "  __shared__ Shared shared;\n") + body +
         "}\n";
}

std::optional<std::string> run(const std::string& text, unsigned blocks, unsigned threads, unsigned cluster,
                               const Params& params) {
  return run_text(text, blocks, threads, cluster, std::as_bytes(std::span(&params, 1)));
}

constexpr const char* kWarpSum =
    "  float sum = 0;\n"
    "  for (int i = threadIdx.x; i < p.columns; i += blockDim.x) sum += p.in[blockIdx.x * p.columns + i];\n"
    "  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);\n";

constexpr const char* kBlockSum =
    "  if (threadIdx.x % 32 == 0) shared.partial[threadIdx.x / 32] = sum;\n"
    "  __syncthreads();\n"
    "  sum = 0;\n"
    "  for (unsigned w = 0; w < blockDim.x / 32; ++w) sum += shared.partial[w];\n";

class Shim : public testing::Test {
 protected:
  static constexpr int kRows = 8, kColumns = 1000;
  Shim() : in_(kRows * kColumns), out_(kRows, -1) { std::iota(in_.begin(), in_.end(), 0.0f); }

  Params params() { return {in_.data(), out_.data(), &counter_, kColumns}; }
  float row_sum(int row) const {
    const auto first = in_.begin() + row * kColumns;
    return static_cast<float>(std::accumulate(first, first + kColumns, 0.0));
  }
  void expect_row_sums() const {
    for (int row = 0; row < kRows; ++row)
      EXPECT_NEAR(out_[static_cast<std::size_t>(row)], row_sum(row), 1e-6 * row_sum(row)) << row;
  }

  std::vector<float> in_, out_;
  unsigned counter_ = 0;
};

TEST_F(Shim, BlocksReduceThroughShufflesAndSharedMemory) {
  const std::string text = kernel(
      "float partial[8];", std::string(kWarpSum) + kBlockSum + "  if (threadIdx.x == 0) p.out[blockIdx.x] = sum;\n");
  EXPECT_EQ(run(text, kRows, 256, 1, params()), std::nullopt);
  expect_row_sums();
}

TEST_F(Shim, AWarpReducesAlone) {
  const std::string text = kernel("", std::string(kWarpSum) +
                                          "  sum = __shfl_sync(0xffffffffu, sum, 5);\n  __syncwarp();\n"
                                          "  if (threadIdx.x == 31) p.out[blockIdx.x] = sum;\n");
  EXPECT_EQ(run(text, kRows, 32, 1, params()), std::nullopt);
  expect_row_sums();
}

TEST_F(Shim, ExchangesOfAllTypes) {
  const std::string text = kernel("",
                                  "  double d = __shfl_xor_sync(0xffffffffu, 0.5 + threadIdx.x, 1);\n"
                                  "  int i = __shfl_xor_sync(0xffffffffu, -int(threadIdx.x), 2);\n"
                                  "  unsigned u = __shfl_sync(0xffffffffu, threadIdx.x + 7u, 3);\n"
                                  "  if (threadIdx.x == 40) { p.out[0] = d; p.out[1] = i; p.out[2] = u; }\n");
  EXPECT_EQ(run(text, 1, 64, 1, params()), std::nullopt);
  EXPECT_EQ(out_[0], 41.5f);
  EXPECT_EQ(out_[1], -42.0f);
  EXPECT_EQ(out_[2], 42.0f);
}

// A row over a cluster of four blocks: each adds what the others left in their shared memory.
TEST_F(Shim, ClustersExchangeThroughSharedMemory) {
  const std::string text =
      kernel("float partial[8]; float total;",
             "  float sum = 0;\n"
             "  const unsigned row = blockIdx.x / 4, range = cluster_rank();\n"
             "  for (int i = range * blockDim.x + threadIdx.x; i < p.columns; i += 4 * blockDim.x) sum += p.in[row * "
             "p.columns + i];\n"
             "  for (int mask = 16; mask > 0; mask /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, mask);\n" +
                 std::string(kBlockSum) +
                 "  if (threadIdx.x == 0) shared.total = sum;\n"
                 "  cluster_sync();\n"
                 "  sum = 0;\n"
                 "  for (unsigned r = 0; r < 4; ++r) sum += *cluster_map(&shared.total, r);\n"
                 "  cluster_sync();\n"
                 "  if (range == 3 && threadIdx.x == 0) p.out[row] = sum;\n");
  EXPECT_EQ(run(text, 4 * kRows, 64, 4, params()), std::nullopt);
  expect_row_sums();
}

// Arrive early, work, wait late; a barrier of the block in between is another one.
TEST_F(Shim, ClustersArriveAndWait) {
  const std::string text = kernel("float x; float y;",
                                  "  shared.x = 10 + cluster_rank();\n  cluster_arrive();\n  __syncthreads();\n"
                                  "  shared.y = 1;\n  cluster_wait();\n"
                                  "  const float other = *cluster_map(&shared.x, 1 - cluster_rank());\n"
                                  "  cluster_arrive();\n  cluster_wait();\n"
                                  "  if (threadIdx.x == 17) p.out[blockIdx.x] = other + shared.y;\n");
  EXPECT_EQ(run(text, 4, 64, 2, params()), std::nullopt);
  EXPECT_EQ(std::vector(out_.begin(), out_.begin() + 4), (std::vector<float>{12, 11, 12, 11}));
  const std::string never = kernel("", "  if (threadIdx.x == 0) return;\n  cluster_arrive();\n  cluster_wait();\n");
  EXPECT_NE(run(never, 2, 32, 2, params()).value_or("").find("deadlock"), std::string::npos);
  const std::string half = kernel("", "  cluster_wait();\n");
  EXPECT_NE(run(half, 2, 32, 2, params()).value_or("").find("without"), std::string::npos);
}

// The last block to come adds up, as rows that are split over blocks do.
TEST_F(Shim, TheLastBlockFinishes) {
  const std::string text = kernel("float partial[8]; unsigned turn;",
                                  std::string(kWarpSum) + kBlockSum +
                                      "  if (threadIdx.x == 0) {\n    p.out[blockIdx.x] = sum;\n    __threadfence();\n"
                                      "    shared.turn = atomicAdd(p.counter, 1u);\n  }\n  __syncthreads();\n"
                                      "  if (shared.turn == gridDim.x - 1 && threadIdx.x == 0)\n"
                                      "    for (unsigned b = 1; b < gridDim.x; ++b) p.out[0] += p.out[b];\n");
  EXPECT_EQ(run(text, kRows, 128, 1, params()), std::nullopt);
  EXPECT_EQ(counter_, static_cast<unsigned>(kRows));
  const double all = std::accumulate(in_.begin(), in_.end(), 0.0);
  EXPECT_NEAR(out_[0], all, 1e-5 * all);
}

TEST_F(Shim, ReportsABarrierThatNotAllReach) {
  const std::string ended = kernel("", "  if (threadIdx.x < 40) return;\n  __syncthreads();\n");
  EXPECT_NE(run(ended, 1, 64, 1, params()).value_or("").find("deadlock"), std::string::npos);
  const std::string tiled =
      kernel("", "  if (threadIdx.x < 32) __syncthreads();\n  if (blockIdx.x == 0) cluster_sync();\n");
  EXPECT_NE(run(tiled, 2, 64, 2, params()).value_or("").find("deadlock"), std::string::npos);
  const std::string mixed = kernel("",
                                   "  if (threadIdx.x == 3) __syncwarp();\n"
                                   "  else p.out[0] = __shfl_sync(0xffffffffu, 1.0f, 0);\n");
  EXPECT_NE(run(mixed, 1, 32, 1, params()).value_or("").find("different places"), std::string::npos);
  // After all that a correct kernel still runs.
  const std::string good = kernel("", std::string(kWarpSum) + "  if (threadIdx.x == 0) p.out[blockIdx.x] = sum;\n");
  EXPECT_EQ(run(good, kRows, 32, 1, params()), std::nullopt);
  expect_row_sums();
}

TEST_F(Shim, ReportsWhatDoesNotFit) {
  const std::string lane = kernel("", "  p.out[0] = __shfl_sync(0xffffffffu, 1.0f, 20);\n");
  EXPECT_NE(run(lane, 1, 16, 1, params()).value_or("").find("lane 20"), std::string::npos);
  const std::string mask = kernel("", "  p.out[0] = __shfl_sync(0xffffu, 1.0f, 2);\n");
  EXPECT_NE(run(mask, 1, 32, 1, params()).value_or("").find("mask"), std::string::npos);
  const std::string rank = kernel("float x;", "  p.out[0] = *cluster_map(&shared.x, 2);\n  cluster_sync();\n");
  EXPECT_NE(run(rank, 2, 32, 2, params()).value_or("").find("block 2"), std::string::npos);
  const std::string elsewhere =
      kernel("float x;", "  float y = 0;\n  shared.x = *cluster_map(&y, 0);\n  cluster_sync();\n");
  EXPECT_NE(run(elsewhere, 2, 32, 2, params()).value_or("").find("not in this block's"), std::string::npos);
  EXPECT_NE(run(lane, 3, 32, 2, params()).value_or("").find("multiple"), std::string::npos);
  const std::byte few[8] = {};
  EXPECT_NE(run_text(lane, 1, 32, 1, few).value_or("").find("another size"), std::string::npos);
}

TEST_F(Shim, MissingBarriersGiveNaN) {
  // Thread 0 reads what thread 63 has not written yet; in odd blocks the other way round.
  const std::string text = kernel("float value[64];",
                                  "  shared.value[threadIdx.x] = 1;\n"
                                  "  float other = shared.value[63 - threadIdx.x];\n"
                                  "  __syncthreads();\n"
                                  "  if (threadIdx.x == 0) p.out[2 * blockIdx.x] = other;\n"
                                  "  if (threadIdx.x == 63) p.out[2 * blockIdx.x + 1] = other;\n");
  EXPECT_EQ(run(text, 2, 64, 1, params()), std::nullopt);
  EXPECT_TRUE(std::isnan(out_[0]));
  EXPECT_EQ(out_[1], 1);
  EXPECT_EQ(out_[2], 1);
  EXPECT_TRUE(std::isnan(out_[3]));
}

TEST_F(Shim, SharedMemoryDoesNotOutliveItsBlock) {
  const std::string next = kernel("float x;",
                                  "  if (threadIdx.x == 0) p.out[blockIdx.x] = shared.x;\n  __syncthreads();\n"
                                  "  shared.x = 5;\n");
  EXPECT_EQ(run(next, 2, 32, 1, params()), std::nullopt);
  EXPECT_TRUE(std::isnan(out_[0]));
  EXPECT_TRUE(std::isnan(out_[1]));
  // Without the last cluster_sync() the other block may have ended.
  const std::string late = kernel("float x;",
                                  "  shared.x = 5;\n  cluster_sync();\n"
                                  "  __syncthreads();\n"
                                  "  if (cluster_rank() == 0) return;\n"
                                  "  for (int i = 0; i < 3; ++i) __syncthreads();\n"
                                  "  p.out[4] = *cluster_map(&shared.x, 0);\n");
  EXPECT_EQ(run(late, 2, 32, 2, params()), std::nullopt);
  EXPECT_TRUE(std::isnan(out_[4]));
}

TEST_F(Shim, LargeClusters) {
  const std::string text =
      kernel("float x[1024];",
             "  shared.x[threadIdx.x] = cluster_rank() * 1024 + threadIdx.x;\n  cluster_sync();\n"
             "  float y = *cluster_map(&shared.x[threadIdx.x], 15 - cluster_rank());\n"
             "  cluster_sync();\n  if (threadIdx.x == 1023 && cluster_rank() == 15) p.out[0] = y;\n");
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run(text, 32, 1024, 16, params()), std::nullopt);
  std::printf("%.2f s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  EXPECT_EQ(out_[0], 1023);
}

}  // namespace
}  // namespace epifuse::test
